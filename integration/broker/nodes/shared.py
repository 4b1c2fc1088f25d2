"""Several nodes in one JVM: they start in half the time of a JVM each, and one of them stops and comes back at once.

Kafka's own server class, driven over py4j as Kafka's tests drive it. Such a node can neither crash nor freeze alone,
all write one log, and what ends the JVM ends them all.
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
    """The JVM; it ends with this process, and its nodes' data with it.

    Args:
        version: Kafka's version; it must be pinned.

    Raises:
        HarnessError: py4j is missing, or the JVM does not start.
        MachineError: Java or jars are missing and cannot be fetched.
    """

    def __init__(self, version: str) -> None:
        from ..gateway import Gateway  # py4j is not everybody's

        require_space(Path(tempfile.gettempdir()))
        jars = kafka_jars(version)
        self.java: Java = java()
        self.checkpoint = formatted_storage(self.java, jars, version)
        flags = (*class_data(self.java, jars, version), *JVM_FLAGS, *LOGGER_FLAGS)
        self.gateway = Gateway(version, flags, _START_TIMEOUT_S)
        self.lang: Any = self.gateway.classes.java.lang
        self.pool: Any = self.gateway.classes.java.util.concurrent.Executors.newCachedThreadPool()

    def call(self, target: Any, name: str) -> Any:
        """Call a method without arguments in a thread of Java; its Future."""
        method = target.getClass().getMethod(name, self.gateway.array(self.lang.Class, []))
        handle = self.lang.invoke.MethodHandles.publicLookup().unreflect(method).bindTo(target)
        task = self.lang.invoke.MethodHandleProxies.asInterfaceInstance(
            self.lang.Class.forName("java.lang.Runnable"), handle
        )
        return self.gateway.classes.java.util.concurrent.CompletableFuture.runAsync(task, self.pool)


class SharedNode(LocalNode):
    """One node in it; a `Place`.

    Args:
        jvm: Where it runs.
        name: Of its folder.
    """

    def __init__(self, jvm: SharedJvm, name: str) -> None:
        super().__init__(jvm.gateway.directory / name, jvm.gateway.log_path, jvm.checkpoint)
        self._jvm = jvm
        self.java = jvm.java
        self._settings: Mapping[str, str] = {}
        self._server: Any = None
        self._started: Any = None
        self._stopped_at = 0.0

    @property
    def runs(self) -> bool:
        """Whether it was started and not stopped, and the JVM is there."""
        return self._server is not None and self._jvm.gateway.returncode is None

    def pids(self) -> list[int]:
        """The JVM and its watchdog, which are all nodes'."""
        return self._jvm.gateway.pids()

    def configure(self, settings: Mapping[str, str]) -> None:
        """Write the properties that the next `launch` reads."""
        super().configure(settings)
        self._settings = settings

    def launch(self, address: str) -> None:
        """Start the node and return at once.

        Raises:
            BrokerNotReady: Kafka refuses its settings or its data, or the JVM has ended.
        """
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
        """Say that it ended.

        Raises:
            BrokerNotReady: It did, or the JVM; the end of the log is in the message.
        """
        self._require_jvm()
        if self._started is not None and self._started.isDone():
            from py4j.protocol import Py4JError

            try:
                self._started.join()
            except Py4JError as error:
                self._server = self._started = None
                raise self._failed(str(error)) from error

    def stop(self, timeout_s: float) -> bool:
        """Let it end in order: it hands its leaders over first.

        Raises:
            BrokerNotReady: It had not ended after `timeout_s` seconds, and nothing else ends it alone.
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
        """Refused."""
        raise self._not_alone("killed")

    def pause(self) -> None:
        """Refused."""
        raise self._not_alone("paused")

    def resume(self) -> None:
        """Nothing: it is never paused."""

    def close(self) -> None:
        """End the JVM with all its nodes; may be called twice."""
        self._server = self._started = None
        self._jvm.gateway.close()

    def _forget_session(self) -> None:
        """Let the controller take the node again at once: it keeps the session of one that stopped until it expires.

        KafkaAdminClient's ``unregisterBroker``: the data stay, and so does the node's place among the replicas.
        """
        session_s = int(self._settings["broker.session.timeout.ms"]) / 1000
        own = f"{self._settings['node.id']}@"
        others = [v for v in self._settings["controller.quorum.voters"].split(",") if not v.startswith(own)]
        if not others or not self._stopped_at or time.monotonic() - self._stopped_at > session_s:
            return
        from py4j.protocol import Py4JError

        classes = self._jvm.gateway.classes
        settings = {"bootstrap.controllers": ",".join(voter.partition("@")[2] for voter in others)}
        with contextlib.suppress(Py4JError):  # then it waits for the session's end, as without this
            admin = classes.org.apache.kafka.clients.admin.Admin.create(settings)
            try:
                seconds = classes.java.util.concurrent.TimeUnit.SECONDS
                admin.unregisterBroker(int(self._settings["node.id"])).all().get(int(session_s), seconds)
            finally:
                admin.close(classes.java.time.Duration.ZERO)

    def _require_jvm(self, error: Exception | None = None) -> None:
        from py4j.protocol import Py4JNetworkError

        if isinstance(error, Py4JNetworkError):  # its sockets close a moment before its end is known
            self._jvm.gateway.await_end(_END_S)
        if (code := self._jvm.gateway.returncode) is not None:
            raise not_ready(
                f"the JVM that the broker at {self._address} shares ended with exit code {code} ({self.java})",
                self.log_tail(),
            )

    def _failed(self, said: str) -> BrokerNotReady:
        return not_ready(f"the broker at {self._address} did not start: {_first(said)} ({self.java})", said[:2000])

    def _not_alone(self, what: str) -> NotSupported:
        return NotSupported(
            f"the broker at {self._address} shares its JVM and cannot be {what} alone; "
            "use the backend jvm, which gives each node a JVM of its own, or docker"
        )


def _first(said: str) -> str:
    """The line that says what was thrown."""
    lines = [line.strip().removeprefix(": ") for line in said.splitlines() if line.strip()]
    return next((line for line in lines if "Exception" in line or "Error" in line), lines[0] if lines else "no reason")
