"""Brokers in containers, by Testcontainers' `DockerContainer`.

We don't use its `KafkaContainer`: that class fits other images, has one fixed configuration, and its port changes when
the container restarts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kafka_assignors.connection.properties import render

from ...errors import DockerUnavailable, NotSupported
from ..diagnosis import not_ready
from ..settings import JVM_FLAGS, LOGGER_FLAGS, Route, uuid_base64
from .docker import docker_problem, image_name, require_image

_LABEL = "kafka-assignors.run"
_INTERNAL_PORT = 9092  # inside a container, where nothing else listens
_KILLED = 137  # exit code after SIGKILL
FREEZES = 3
"""How often we ask an engine to freeze a container."""

# `exec` makes the JVM the container's only process, so that signals reach it. A second start of the same container
# finds its data formatted. The official image's logger needs its configuration named.
_SCRIPT = """
set -e
mkdir -p /tmp/broker
printf '%s' "$BROKER_PROPERTIES" > /tmp/broker/server.properties
set -- $BROKER_JVM_FLAGS -Dkafka.logs.dir=/tmp/broker/logs
if [ -f /opt/kafka/config/log4j2.yaml ]; then set -- "$@" -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.yaml; fi
set -- "$@" -cp '/opt/kafka/libs/*'
if [ ! -f /tmp/broker/data/meta.properties ]; then
    java "$@" kafka.tools.StorageTool format -t "$BROKER_CLUSTER_ID" -c /tmp/broker/server.properties
fi
exec java "$@" kafka.Kafka /tmp/broker/server.properties
"""


class Containers:
    """The containers of one broker or cluster, and their network. They are removed when this process ends.

    Args:
        version: Kafka's version, the image's tag unless `KAFKA_ASSIGNORS_IMAGE` names another image.
        network: Whether they get a network of their own, in which nodes find each other and can be cut off.

    Raises:
        DockerUnavailable: No engine answers, or no image.
    """

    def __init__(self, version: str, *, network: bool) -> None:
        if problem := docker_problem():
            raise DockerUnavailable(f"{problem}; start an engine, or use the backend 'jvm', which needs none")
        import docker

        self.image = image_name(version)
        self.run = uuid.uuid4().hex
        self.network: Any = None
        self._client = docker.from_env()
        try:
            require_image(self._client, self.image)
            # start the reaper first, or a failure before it starts would leave containers behind
            self._reaper = _start_reaper(self.run)
        except BaseException:
            self._client.close()
            raise
        try:
            if network:
                self.network = self._client.networks.create(f"kafka-{self.run}", labels={_LABEL: self.run})
        except docker.errors.DockerException as error:
            self.close()
            raise DockerUnavailable(f"the engine cannot make a network: {error}") from error

    def pids(self) -> list[int]:
        """Process id of the reaper, if it runs."""
        return [self._reaper.pid] if self._reaper.poll() is None else []

    def close(self) -> None:
        """Remove all containers and the network. Safe to call twice."""
        assert self._reaper.stdin is not None
        self._reaper.stdin.close()
        self._reaper.wait()
        self._client.close()


class ContainerNode:
    """One node in a container; a `Place`. `name` is its name in the network of `containers`."""

    data = Path("/tmp/broker/data")

    def __init__(self, containers: Containers, name: str) -> None:
        self._containers = containers
        self.host = name if containers.network else "127.0.0.1"
        self._container: Any = None
        self._cluster_id = ""
        self._settings: Mapping[str, str] = {}
        self._ports: tuple[int, ...] = ()
        self._address = ""

    @property
    def id(self) -> str:
        """The container's id."""
        return str(self._container.id)

    @property
    def traces(self) -> str:
        """The container's name at the engine."""
        return f"container {self.id[:12]}"

    @property
    def runs(self) -> bool:
        """Whether the container runs. A paused one runs."""
        return bool(self._state().get("Running"))

    def pids(self) -> list[int]:
        """The JVM's id on this machine, and the reaper's, which all nodes share."""
        state = self._state()
        return [*self._containers.pids(), *([state["Pid"]] if state.get("Running") else [])]

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the container's output."""
        if self._container is None:
            return ""
        return str(self._container.logs(tail=lines).decode(errors="replace")).rstrip("\n")

    def format(self, node_id: int = 1, cluster_id: str | None = None) -> None:  # noqa: ARG002 - the settings have it
        """Choose the cluster id. The container formats its data when it first starts."""
        self._cluster_id = cluster_id or uuid_base64()

    def listeners(self, port: int, controller_port: int, route: Route) -> dict[str, str]:
        """Listeners on all addresses of the container. Nodes of a network get another listener for each other."""
        # the same number inside and outside, because both clients and the node itself connect to the advertised address
        self._ports = (port, route.behind)
        own = {"listeners": f"PLAINTEXT://0.0.0.0:{port},PROXIED://0.0.0.0:{route.behind}"}
        controller = f"CONTROLLER://0.0.0.0:{controller_port}"
        if self._containers.network is None:
            return {"listeners": f"{own['listeners']},{controller}"}
        advertised = f"PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{route.advertised}"
        return {
            "listeners": f"{own['listeners']},INTERNAL://0.0.0.0:{_INTERNAL_PORT},{controller}",
            "advertised.listeners": f"{advertised},INTERNAL://{self.host}:{_INTERNAL_PORT}",
            "listener.security.protocol.map": ",".join(
                f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "PROXIED", "INTERNAL", "CONTROLLER")
            ),
            "inter.broker.listener.name": "INTERNAL",
        }

    def configure(self, settings: Mapping[str, str]) -> None:
        """Set the properties that the first `launch` reads."""
        self._settings = settings

    def launch(self, address: str) -> None:
        """Start the container and return at once. DockerUnavailable if the engine cannot start it."""
        from docker.errors import DockerException

        self._address = address
        try:
            if self._container is not None:
                self._container.start()
                return
            made = _container(self._containers, self.host, self._ports, render(self._settings), self._cluster_id)
            self._container = made.start().get_wrapped_container()
        except DockerException as error:
            raise DockerUnavailable(
                f"the engine cannot run a container of {self._containers.image}: {error}"
            ) from error

    def check_alive(self) -> None:
        """Raise BrokerNotReady, with the end of the log, if the container has ended."""
        state = self._state()
        if state.get("Status") in ("exited", "dead", None):
            raise not_ready(
                f"the container of the broker at {self._address} ended with exit code {state.get('ExitCode')}",
                self.log_tail() if state else "",
            )

    def stop(self, timeout_s: float) -> bool:
        """Send SIGTERM. False: the container did not end within `timeout_s` seconds and got SIGKILL."""
        if self.runs:
            self.resume()
            self._container.stop(timeout=int(timeout_s))
        return self._state().get("ExitCode") != _KILLED

    def kill(self) -> None:
        """Send SIGKILL to the container's JVM."""
        if self.runs:
            self.resume()  # the engine does not kill a paused container
            self._container.kill("SIGKILL")
            self._container.wait(timeout=30)

    def pause(self) -> None:
        """Freeze the container: its connections stay open and nothing answers.

        On a busy machine an engine may not freeze all threads within its own time limit, so we ask again.
        """
        from docker.errors import APIError

        for attempt in range(1, FREEZES + 1):
            if self._state().get("Paused"):
                return
            try:
                self._container.pause()
            except APIError as error:
                if attempt == FREEZES or "unable to freeze" not in str(error):
                    raise

    def resume(self) -> None:
        """Let a paused container continue. No effect on a running one."""
        if self._state().get("Paused"):
            self._container.unpause()

    def disconnect(self) -> None:
        """Cut the node off: packets to and from it are dropped, and nobody is notified."""
        if self._containers.network is None:
            raise NotSupported(f"the broker at {self._address} is alone: there is no network to cut it off from")
        self._containers.network.disconnect(self._container, force=True)

    def connect(self) -> None:
        """Reconnect the node to the network."""
        self._containers.network.connect(self._container, aliases=[self.host])

    def close(self) -> None:
        """Remove all containers of the cluster and their data. Safe to call twice."""
        self._containers.close()

    def _state(self) -> dict[str, Any]:
        from docker.errors import NotFound

        try:
            if self._container is None:
                return {}
            self._container.reload()
        except NotFound:
            return {}
        return dict(self._container.attrs["State"])


def _container(containers: Containers, name: str, ports: Iterable[int], properties: str, cluster_id: str) -> Any:
    # Ryuk, Testcontainers' own reaper, would be one more image to pull; `_start_reaper` needs no image
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    from docker.types import EndpointConfig
    from docker.version import __version__ as api
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer

    testcontainers_config.ryuk_disabled = True
    options: dict[str, Any] = {"entrypoint": ["sh"], "labels": {_LABEL: containers.run}}
    if containers.network is not None:
        network = containers.network.name
        options |= {"network": network, "networking_config": {network: EndpointConfig(api, aliases=[name])}}
    container = DockerContainer(containers.image, command=["-c", _SCRIPT]).with_kwargs(**options)
    container.with_envs(
        BROKER_PROPERTIES=properties,
        BROKER_CLUSTER_ID=cluster_id,
        BROKER_JVM_FLAGS=" ".join((*JVM_FLAGS, *LOGGER_FLAGS)),
    )
    for port in ports:
        container.ports[f"{port}/tcp"] = ("127.0.0.1", port)
    return container


def _start_reaper(run: str) -> subprocess.Popen[bytes]:
    """Start a process that removes everything with this label when this process ends. `watchdog` explains why."""
    return subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.containers", run], stdin=subprocess.PIPE, start_new_session=True
    )


def _reap(run: str) -> None:
    import docker

    sys.stdin.buffer.read()  # until the writer ends
    client = docker.from_env()
    mine = {"label": f"{_LABEL}={run}"}
    for container in client.containers.list(all=True, filters=mine):
        with contextlib.suppress(docker.errors.NotFound):
            container.remove(force=True, v=True)
    for network in client.networks.list(filters=mine):
        network.remove()


if __name__ == "__main__":
    # the terminal's Ctrl-C is for the parent, which decides what to stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _reap(sys.argv[1])
