"""What all brokers share: one node or several, started by the harness or by somebody else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from kafka_assignors.connection import Connection

from .node import Node
from .settings import Route

if TYPE_CHECKING:
    from .secured import Secured

Started = TypeVar("Started", bound="Broker")


class Broker(ABC):
    """Kafka nodes that serve clients. `backend` is in `BACKENDS`; an external broker's version is ``unknown``."""

    def __init__(self, backend: str, version: str, bootstrap: str = "") -> None:
        self.bootstrap = bootstrap
        """``host:port`` of every node, separated by commas: clients find the brokers while any node serves."""
        self.backend = backend
        self.version = version
        self.nodes: list[Node] = []
        """The nodes that the harness started. Empty for an external broker."""
        self.secured: Secured | None = None
        """The listeners for users with passwords and rights. None unless the broker was started with certificates."""

    @property
    def connection(self) -> Connection:
        """How the harness reaches the broker."""
        return Connection(self.bootstrap)

    @property
    @abstractmethod
    def routes(self) -> tuple[Route, ...]:
        """The listeners of all nodes in front of which a `FaultProxy` can stand.

        Raises:
            NotSupported: The broker is external.
        """

    @abstractmethod
    def pids(self) -> list[int]:
        """Ids of this machine's processes that the broker runs in now. None may be left after `close`."""

    @abstractmethod
    def log_tail(self, lines: int = 40) -> str:
        """The last lines of its log, also after `kill` and until `close`. Of several nodes: of each log, with names."""

    @abstractmethod
    def kill(self) -> None:
        """End all nodes like a crash (SIGKILL), and wait until they are gone. Their data stay.

        Raises:
            NotSupported: The broker is external, or a server within a JVM (``shared``).
        """

    @abstractmethod
    def restart(self) -> None:
        """Start all nodes on their ports with their data, and wait until they serve. Running ones are stopped first.

        Raises:
            NotSupported: The broker is external.
            BrokerNotReady: A node does not come up.
        """

    @abstractmethod
    def close(self) -> None:
        """End the broker and remove what its start made. An external broker continues. Safe to call twice."""

    def __enter__(self: Started) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        what = f"cluster of {len(self.nodes)} brokers" if len(self.nodes) > 1 else "broker"
        return f"<{self.backend} {what} {self.version} at {self.bootstrap}>"
