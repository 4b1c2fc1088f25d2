"""What every broker can do, however it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING

from kafka_assignors.connection import Connection

from ..errors import NotSupported
from .settings import Route

if TYPE_CHECKING:
    from .secured import Secured


class Broker(ABC):
    """One Kafka node that serves clients.

    Args:
        bootstrap: ``host:port`` for clients.
        backend: One of `start.BACKENDS`.
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
