"""A broker in a container, by Testcontainers' `DockerContainer`.

Not by its `KafkaContainer`: that one fits other images, starts one fixed configuration, and its port changes when the
container starts again.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import BrokerNotReady, BrokerUnreachable, DockerUnavailable
from . import KAFKA_VERSION, Broker
from .ports import free_ports, require_free
from .ready import await_ready
from .settings import JVM_FLAGS, LOGGER_FLAGS, Route, broker_settings, render, uuid_base64

IMAGE_ENV = "KAFKA_ASSIGNORS_IMAGE"
"""Any image with ``java`` and ``sh`` on its path and Kafka's jars in ``/opt/kafka/libs``."""

_CONTROLLER_PORT = 9093  # inside the container, where nothing else listens
_STOP_TIMEOUT_S = 15

# The container's only process is the JVM in the end (exec), so that signals reach it. A second start of the same
# container finds its data formatted. The official image binds a logger that wants its configuration named.
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


def docker_problem() -> str | None:
    """Why no container can be started on this machine, or None when an engine answers."""
    try:
        import docker
    except ImportError:
        return "the docker package is not installed (pip install 'kafka-assignors[docker]')"
    try:
        client = docker.from_env(timeout=10)
        try:
            client.ping()
        finally:
            client.close()
    except Exception as error:  # the client raises its own, requests' and urllib3's errors
        return f"no Docker engine answers at {os.environ.get('DOCKER_HOST', 'the default socket')} ({error})"
    return None


def backend_problem(version: str = KAFKA_VERSION) -> str | None:
    """Why this backend cannot be used on this machine, or None: `docker_problem`, or no image to be had.

    Cost: an image that is not here yet is pulled.
    """
    if problem := docker_problem():
        return problem
    import docker

    client = docker.from_env()
    try:
        _require_image(client, image_name(version))
    except DockerUnavailable as error:
        return str(error)
    finally:
        client.close()
    return None


def image_name(version: str = KAFKA_VERSION) -> str:
    """The image that is used: `KAFKA_ASSIGNORS_IMAGE`, else the official one."""
    return os.environ.get(IMAGE_ENV) or f"apache/kafka:{version}"


class DockerBroker(Broker):
    """One KRaft node in a container, which is removed with this process; see `start_broker` for the arguments."""

    def __init__(
        self, *, port: int | None, rack: str, version: str, timeout_s: float, settings: Mapping[str, str]
    ) -> None:
        if problem := docker_problem():
            raise DockerUnavailable(f"{problem}; start an engine, or use the backend 'jvm', which needs none")
        if port is not None:
            require_free(port)
        *behind, chosen = (*free_ports(2), port) if port is not None else free_ports(3)
        self._route = Route(*behind)
        super().__init__(f"127.0.0.1:{chosen}", "docker", version)
        self._timeout_s = timeout_s
        image = image_name(version)
        ours = broker_settings(
            port=chosen, controller_port=_CONTROLLER_PORT, data="/tmp/broker/data", rack=rack, bind="0.0.0.0",
            route=self._route,
        )  # fmt: skip
        self._reaper: subprocess.Popen[bytes] | None = None
        self._testcontainer = _container(image, (chosen, self._route.behind), render({**ours, **settings}))
        try:
            self._testcontainer.start()
            self._container: Any = self._testcontainer.get_wrapped_container()
            self._reaper = _start_reaper(self._container.id)
            self._await_ready()
        except BaseException as error:
            self.close()
            if isinstance(error, Exception) and type(error).__module__.startswith("docker."):
                raise DockerUnavailable(f"the engine cannot run a container of {image}: {error}") from error
            raise

    @property
    def routes(self) -> tuple[Route, ...]:
        """As every broker's."""
        return (self._route,)

    def pids(self) -> list[int]:
        """The container's JVM, as the host sees it, and the reaper."""
        found = [self._reaper.pid] if self._reaper and self._reaper.poll() is None else []
        state = self._state()
        return [*found, state["Pid"]] if state.get("Running") else found

    def log_tail(self, lines: int = 40) -> str:
        """The last lines that the container wrote."""
        return str(self._container.logs(tail=lines).decode(errors="replace")).rstrip("\n")

    def kill(self) -> None:
        """SIGKILL to the container's JVM."""
        if self._state().get("Running"):
            self._container.kill("SIGKILL")
            self._container.wait(timeout=30)

    def restart(self) -> None:
        """A clean stop if it runs, then the same container again."""
        if self._state().get("Running"):
            self._container.stop(timeout=_STOP_TIMEOUT_S)
        self._container.start()
        self._await_ready()

    def close(self) -> None:
        """Remove the container with its data."""
        self._testcontainer.stop()
        self._testcontainer._container = None  # its stop() removes again when called again
        if self._reaper is not None:
            assert self._reaper.stdin is not None
            self._reaper.stdin.close()
            self._reaper.wait()

    def _state(self) -> dict[str, Any]:
        from docker.errors import NotFound

        try:
            self._container.reload()
        except NotFound:
            return {}
        return dict(self._container.attrs["State"])

    def _await_ready(self) -> None:
        try:
            await_ready(self.bootstrap, self._timeout_s, self._check_alive)
        except BrokerUnreachable as error:
            raise BrokerNotReady(f"{error} (container {self._container.short_id})", self.log_tail()) from error

    def _check_alive(self) -> None:
        state = self._state()
        if state.get("Status") in ("exited", "dead", None):
            raise BrokerNotReady(
                f"the container of the broker at {self.bootstrap} ended with exit code {state.get('ExitCode')}",
                self.log_tail() if state else "",
            )


def _container(image: str, ports: Iterable[int], properties: str) -> Any:
    # Ryuk, Testcontainers' own reaper, is one more image to pull; `_start_reaper` needs none
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer

    testcontainers_config.ryuk_disabled = True
    container = DockerContainer(image, command=["-c", _SCRIPT]).with_kwargs(entrypoint=["sh"])
    _require_image(container.get_docker_client().client, image)
    container.with_envs(
        BROKER_PROPERTIES=properties,
        BROKER_CLUSTER_ID=uuid_base64(),
        BROKER_JVM_FLAGS=" ".join((*JVM_FLAGS, *LOGGER_FLAGS)),
    )
    # the same number inside and outside: the node reaches itself at its advertised address too
    for port in ports:
        container.ports[f"{port}/tcp"] = ("127.0.0.1", port)
    return container


def _require_image(client: Any, image: str) -> None:
    from docker.errors import DockerException, ImageNotFound

    try:
        client.images.get(image)
        return
    except ImageNotFound:
        print(f"pulling {image}", file=sys.stderr)
    try:
        client.images.pull(image)
    except (DockerException, OSError) as error:
        raise DockerUnavailable(
            f"image {image} is not on this machine and cannot be pulled ({error}); build one by "
            f"'python -m integration.broker.image NAME' and name it by {IMAGE_ENV}"
        ) from error


def _start_reaper(container: str) -> subprocess.Popen[bytes]:
    """A process that removes the container when this process is gone, however it went; see `watchdog` for why."""
    return subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.docker", container], stdin=subprocess.PIPE, start_new_session=True
    )


def _reap(container: str) -> None:
    sys.stdin.buffer.read()  # until its writer is gone
    import docker

    client = docker.from_env()
    with contextlib.suppress(docker.errors.NotFound):
        client.containers.get(container).remove(force=True, v=True)


if __name__ == "__main__":
    _reap(sys.argv[1])
