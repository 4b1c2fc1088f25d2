"""The interface of every broker, whatever it runs in."""

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
    """One Kafka node that serves clients. `backend` is in `BACKENDS`; an external broker's version is ``unknown``."""

    def __init__(self, bootstrap: str, backend: str, version: str) -> None:
        self.bootstrap = bootstrap
        self.backend = backend
        self.version = version
        self.secured: Secured | None = None
        """The listener for users with passwords and rights. None unless the broker was started with certificates."""

    @property
    def connection(self) -> Connection:
        """How the harness reaches the broker."""
        return Connection(self.bootstrap)

    @property
    def routes(self) -> tuple[Route, ...]:
        """The listener in front of which a `FaultProxy` can stand. NotSupported: an external broker has none."""
        raise NotSupported(
            f"the {self.backend} broker at {self.bootstrap} has no listener for a fault proxy, because the harness "
            "did not start it; use the backend jvm or docker, or a cluster, for faults of single members"
        )

    @abstractmethod
    def pids(self) -> list[int]:
        """Ids of this machine's processes that the broker runs in now. None may be left after `close`."""

    @abstractmethod
    def log_tail(self, lines: int = 40) -> str:
        """The last lines of its log, also after `kill` and until `close`."""

    @abstractmethod
    def kill(self) -> None:
        """End the broker like a crash (SIGKILL), and wait until it is gone. Its data stay.

        Raises:
            NotSupported: The broker is external, or a server within a JVM (``shared``).
        """

    @abstractmethod
    def restart(self) -> None:
        """Start the broker on the same port with its data, and wait until it serves. A running one is stopped first.

        Raises:
            NotSupported: The broker is external.
            BrokerNotReady: The broker does not come up.
        """

    @abstractmethod
    def close(self) -> None:
        """End the broker and remove what `start_broker` made. An external broker continues. Safe to call twice."""

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.backend} broker {self.version} at {self.bootstrap}>"
