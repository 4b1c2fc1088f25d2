"""A real broker, four ways: a child JVM, a server within one, a container, or one that runs already; all `Broker`.

>>> with start_broker() as broker:                                          # doctest: +SKIP
...     KafkaConsumer(bootstrap_servers=broker.bootstrap)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from kafka_assignors.connection import Connection
from kafka_assignors.errors import ConfigError, UnknownName

from ..errors import NotSupported
from .settings import Route

if TYPE_CHECKING:
    from .secured import Certificates, Secured

BACKENDS = ("jvm", "shared", "docker", "external")
KAFKA_VERSION = "4.3.0"


class Broker(ABC):
    """One Kafka node that serves clients.

    Args:
        bootstrap: ``host:port`` for clients.
        backend: One of `BACKENDS`.
        version: Kafka's version, or ``unknown`` for an external broker.
    """

    def __init__(self, bootstrap: str, backend: str, version: str) -> None:
        self.bootstrap = bootstrap
        self.backend = backend
        self.version = version
        self.secured: Secured | None = None
        """Its listener for users with passwords and rights; None unless it was started with one."""

    @property
    def connection(self) -> Connection:
        """How the harness reaches it."""
        return Connection(self.bootstrap)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Its listener behind which a `FaultProxy` can stand.

        Raises:
            NotSupported: It has none: an external broker.
        """
        raise NotSupported(
            f"the {self.backend} broker at {self.bootstrap} has no listener for a fault proxy: its addresses are its "
            "own; use the backend jvm or docker, or a cluster, for faults of single members"
        )

    @abstractmethod
    def pids(self) -> list[int]:
        """Processes that this broker runs in now, on this machine; none may be left after `close`."""

    @abstractmethod
    def log_tail(self, lines: int = 40) -> str:
        """The last lines of its log, also after `kill` and until `close`."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once, as a crash does (SIGKILL), and wait until it is gone. Its data stays.

        Raises:
            NotSupported: An external broker, or one that is a server within a JVM (``shared``).
        """

    @abstractmethod
    def restart(self) -> None:
        """Start it again on the same port with the same data, and wait until it serves; a running one is stopped first.

        Raises:
            NotSupported: An external broker.
            BrokerNotReady: It does not come up.
        """

    @abstractmethod
    def close(self) -> None:
        """End it and remove what `start_broker` made; may be called twice. An external broker goes on."""

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.backend} broker {self.version} at {self.bootstrap}>"


def start_broker(
    backend: str = "jvm",
    *,
    bootstrap: str | Connection | None = None,
    port: int | None = None,
    rack: str = "a",
    directory: Path | None = None,
    version: str = KAFKA_VERSION,
    timeout_s: float = 60,
    settings: Mapping[str, str] | None = None,
    certificates: Certificates | None = None,
) -> Broker:
    """Start a broker, or find the named one, and wait until it answers a Metadata request with a broker in it.

    However this process ends (also by SIGKILL), the broker ends with it, unless it is an external one.

    Args:
        backend: ``jvm`` (a child process; needs pip's packages only), ``shared`` (a server within a child process, as
            in a cluster of that backend: restarts in half a second, cannot be killed), ``docker`` (a container of
            `KAFKA_ASSIGNORS_IMAGE`, default ``apache/kafka:<version>``) or ``external``.
        bootstrap: ``host:port`` of the external broker, or a connection to it; only with that backend.
        port: Client port on 127.0.0.1; a free one by default.
        rack: Its ``broker.rack``.
        directory: Where data and log go (``jvm`` only). A temporary folder by default, removed by `close`; a named
            one is kept, and what it holds is served again.
        version: Kafka's version; it must be pinned (``jvm``, ``shared``) or be the image's tag (``docker``).
        timeout_s: Seconds until it must be ready.
        settings: Broker settings beside or instead of the harness's own.
        certificates: Start a second listener for users, with TLS by these, SCRAM-SHA-512 and ACLs: `Broker.secured`
            (``jvm`` and ``shared`` only).

    Raises:
        UnknownName: No such backend or version.
        ConfigError: Arguments that do not go together.
        PortTaken: `port` is in use; said before anything starts.
        BrokerNotReady: It died or was too slow; the end of its log is in the message.
        BrokerUnreachable: Nothing answers at `bootstrap`.
        DockerUnavailable: No Docker engine, or no image.
        MachineError: Java or jars are missing and cannot be fetched.
    """
    if backend not in BACKENDS:
        raise UnknownName("broker backend", backend, BACKENDS)
    if (backend == "external") != (bootstrap is not None):
        named = None if bootstrap is None else str(bootstrap)
        raise ConfigError(
            f"backend {backend!r} and bootstrap {named!r} do not go together: name the address of an external "
            "broker, and of no other (backend='external', bootstrap='host:port')"
        )
    if directory is not None and backend != "jvm":
        raise ConfigError(f"directory={str(directory)!r} is for backend 'jvm'; {backend!r} keeps its own data")
    if certificates is not None and backend not in ("jvm", "shared"):
        raise ConfigError(f"a secured listener is for the backends 'jvm' and 'shared', not {backend!r}")
    if backend == "external":
        from .external import ExternalBroker

        assert bootstrap is not None
        return ExternalBroker(bootstrap, timeout_s=min(timeout_s, 5))
    if backend == "docker":
        from .nodes.containers import DockerBroker

        return DockerBroker(port=port, rack=rack, version=version, timeout_s=timeout_s, settings=settings or {})
    from .jvm import JvmBroker

    return JvmBroker(
        shared=backend == "shared", port=port, rack=rack, directory=directory, version=version, timeout_s=timeout_s,
        settings=settings or {}, certificates=certificates,
    )  # fmt: skip
