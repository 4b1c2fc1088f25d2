"""Several nodes in one JVM: they start in half the time of a JVM each, and a node stops and restarts quickly.

We drive Kafka's own server class over py4j, like Kafka's tests do. These nodes can neither crash nor freeze alone,
share one log file, and all end with the JVM.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_assignors.jvm import Java, java, kafka_jars

from ...errors import BrokerNotReady, NotSupported
from ..diagnosis import not_ready
from ..settings import JVM_FLAGS, LOGGER_FLAGS
from .node import LocalNode, require_space
from .prepared import class_data, formatted_storage

_END_S = 2
_START_TIMEOUT_S = 60


class SharedJvm:
    """The JVM that the nodes share. It ends with this process, and the nodes' data with it. `version` must be pinned.

    Raises:
        HarnessError: py4j is missing, or the JVM does not start.
        MachineError: Java or jars are missing and cannot be fetched.
    """

    def __init__(self, version: str) -> None:
        from ..gateway import Gateway  # py4j is an optional dependency

        require_space(Path(tempfile.gettempdir()))
        jars = kafka_jars(version)
        self.java: Java = java()
        self.formatted = formatted_storage(self.java, jars, version)
        flags = (*class_data(self.java, jars, version), *JVM_FLAGS, *LOGGER_FLAGS)
        self.gateway = Gateway(version, flags, _START_TIMEOUT_S)
        self.lang: Any = self.gateway.classes.java.lang
        self.pool: Any = self.gateway.classes.java.util.concurrent.Executors.newCachedThreadPool()

    def call(self, target: Any, name: str) -> Any:
        """Call a method without arguments in a Java thread, and return its Future."""
        method = target.getClass().getMethod(name, self.gateway.array(self.lang.Class, []))
        handle = self.lang.invoke.MethodHandles.publicLookup().unreflect(method).bindTo(target)
        task = self.lang.invoke.MethodHandleProxies.asInterfaceInstance(
            self.lang.Class.forName("java.lang.Runnable"), handle
        )
        return self.gateway.classes.java.util.concurrent.CompletableFuture.runAsync(task, self.pool)


class SharedNode(LocalNode):
    """One node in a shared JVM; a `Place`. `name` is its folder's."""

    def __init__(self, jvm: SharedJvm, name: str) -> None:
        super().__init__(jvm.gateway.directory / name, jvm.gateway.log_path, jvm.formatted)
        self._jvm = jvm
        self.java = jvm.java
        self._settings: Mapping[str, str] = {}
        self._server: Any = None
        self._started: Any = None
        self._stopped_at = 0.0

    @property
    def runs(self) -> bool:
        """Whether the node was started and not stopped, and the JVM runs."""
        return self._server is not None and self._jvm.gateway.returncode is None

    def pids(self) -> list[int]:
        """Ids of the JVM and its watchdog, which all nodes share."""
        return self._jvm.gateway.pids()

    def configure(self, settings: Mapping[str, str]) -> None:
        """Write the properties that the next `launch` reads."""
        super().configure(settings)
        self._settings = settings

    def launch(self, address: str) -> None:
        """Start the node, return at once. BrokerNotReady: Kafka refuses settings or data, or the JVM has ended."""
        from py4j.protocol import Py4JError

        self._address = address
        self._require_jvm()
        classes = self._jvm.gateway.classes
        self._forget_session()
        try:
            properties = classes.org.apache.kafka.common.utils.Utils.loadProps(
                str(self.directory / "server.properties")
            )
            config = classes.kafka.server.KafkaConfig.fromProps(properties)
            self._server = classes.kafka.server.KafkaRaftServer(
                config, classes.org.apache.kafka.common.utils.Time.SYSTEM
            )
            self._started = self._jvm.call(self._server, "startup")
        except Py4JError as error:
            self._server = None
            self._require_jvm(error)
            raise self._failed(str(error)) from error

    def check_alive(self) -> None:
        """Raise BrokerNotReady, with the end of the log, if the node or the JVM has ended."""
        self._require_jvm()
        if self._started is not None and self._started.isDone():
            from py4j.protocol import Py4JError

            try:
                self._started.join()
            except Py4JError as error:
                self._server = self._started = None
                raise self._failed(str(error)) from error

    def stop(self, timeout_s: float) -> bool:
        """Stop the node in order: it hands its leaders over first.

        Raises:
            BrokerNotReady: The node did not end within `timeout_s` seconds, and it cannot be killed alone.
        """
        if not self.runs:
            return True
        from py4j.protocol import Py4JError

        try:
            seconds = self._jvm.gateway.classes.java.util.concurrent.TimeUnit.SECONDS
            self._jvm.call(self._server, "shutdown").get(int(timeout_s), seconds)
        except Py4JError as error:
            self._require_jvm(error)
            raise not_ready(
                f"the broker at {self._address} did not stop within {timeout_s:g} s, and what shares its JVM cannot be "
                f"killed alone ({_first(str(error))})",
                self.log_tail(),
            ) from error
        self._server = self._started = None
        self._stopped_at = time.monotonic()
        return True

    def kill(self) -> None:
        """Raise NotSupported."""
        raise self._not_alone("killed")

    def pause(self) -> None:
        """Raise NotSupported."""
        raise self._not_alone("paused")

    def resume(self) -> None:
        """Do nothing: the node is never paused."""

    def close(self) -> None:
        """End the JVM with all its nodes. Safe to call twice."""
        self._server = self._started = None
        self._jvm.gateway.close()

    def _forget_session(self) -> None:
        """Unregister the node at the controller, which otherwise refuses it until its old session expires.

        Uses KafkaAdminClient's ``unregisterBroker``, which keeps the data and the node's place among the replicas.
        """
        session_s = int(self._settings["broker.session.timeout.ms"]) / 1000
        own = f"{self._settings['node.id']}@"
        others = [v for v in self._settings["controller.quorum.voters"].split(",") if not v.startswith(own)]
        if not others or not self._stopped_at or time.monotonic() - self._stopped_at > session_s:
            return
        from py4j.protocol import Py4JError

        classes = self._jvm.gateway.classes
        settings = {"bootstrap.controllers": ",".join(voter.partition("@")[2] for voter in others)}
        with contextlib.suppress(Py4JError):  # if it fails, the node waits until its session ends
            admin = classes.org.apache.kafka.clients.admin.Admin.create(settings)
            try:
                seconds = classes.java.util.concurrent.TimeUnit.SECONDS
                admin.unregisterBroker(int(self._settings["node.id"])).all().get(int(session_s), seconds)
            finally:
                admin.close(classes.java.time.Duration.ZERO)

    def _require_jvm(self, error: Exception | None = None) -> None:
        from py4j.protocol import Py4JNetworkError

        if isinstance(error, Py4JNetworkError):  # its sockets close a moment before its exit code is known
            self._jvm.gateway.await_end(_END_S)
        if (code := self._jvm.gateway.returncode) is not None:
            raise not_ready(
                f"the JVM that the broker at {self._address} shares ended with exit code {code} ({self.java})",
                self.log_tail(),
            )

    def _failed(self, output: str) -> BrokerNotReady:
        return not_ready(f"the broker at {self._address} did not start: {_first(output)} ({self.java})", output[:2000])

    def _not_alone(self, what: str) -> NotSupported:
        return NotSupported(
            f"the broker at {self._address} shares its JVM and cannot be {what} alone; "
            "use the backend jvm, which gives each node a JVM of its own, or docker"
        )


def _first(output: str) -> str:
    """The line that names the exception."""
    lines = [line.strip().removeprefix(": ") for line in output.splitlines() if line.strip()]
    return next((line for line in lines if "Exception" in line or "Error" in line), lines[0] if lines else "no reason")
