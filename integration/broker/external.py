"""A broker that the harness did not start."""

from __future__ import annotations

from kafka_assignors.connection import Connection

from ..errors import NotSupported
from .broker import Broker
from .ready import await_ready
from .settings import Route


class ExternalBroker(Broker):
    """The broker or cluster at the given addresses. The harness neither starts nor ends it.

    Raises:
        ConfigError: `bootstrap` is not ``host:port``, or a list of them with commas.
        AccessRefused: The broker doesn't let this user in.
        BrokerUnreachable: No address answers within `timeout_s` seconds.
    """

    def __init__(self, bootstrap: str | Connection, timeout_s: float = 5) -> None:
        self._connection = Connection.of(bootstrap)
        super().__init__("external", "unknown", self._connection.bootstrap)
        await_ready(self._connection, timeout_s)

    @property
    def connection(self) -> Connection:
        """The given connection."""
        return self._connection

    @property
    def routes(self) -> tuple[Route, ...]:
        """Raise NotSupported: it has no listener for a fault proxy."""
        raise NotSupported(
            f"the external broker at {self.bootstrap} has no listener for a fault proxy, because the harness did not "
            "start it; use the backend jvm or docker, or a cluster, for faults of single members"
        )

    def pids(self) -> list[int]:
        """Empty: its processes aren't ours."""
        return []

    def log_tail(self, lines: int = 40) -> str:  # noqa: ARG002 - it has none
        """A note that the log is not available."""
        return f"(the log of the external broker at {self.bootstrap} is not available)"

    def kill(self) -> None:
        """Raise NotSupported."""
        raise self._not_ours("kill")

    def restart(self) -> None:
        """Raise NotSupported."""
        raise self._not_ours("restart")

    def close(self) -> None:
        """Do nothing."""

    def _not_ours(self, what: str) -> NotSupported:
        return NotSupported(
            f"{what} is not supported by an external broker ({self.bootstrap}): the harness did not start it; "
            "use the backend jvm or docker"
        )
