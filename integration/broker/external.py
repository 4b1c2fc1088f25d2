"""A broker that somebody else runs."""

from __future__ import annotations

from ..errors import NotSupported
from . import Broker
from .ready import await_ready


class ExternalBroker(Broker):
    """The broker, or the cluster, at the named addresses; this harness starts and ends nothing.

    Raises:
        ConfigError: `bootstrap` is not ``host:port``, or a list of them with commas.
        BrokerUnreachable: None answers within `timeout_s` seconds.
    """

    def __init__(self, bootstrap: str, timeout_s: float = 5) -> None:
        super().__init__(bootstrap, "external", "unknown")
        await_ready(bootstrap, timeout_s)

    def pids(self) -> list[int]:
        """None: it is not this harness's."""
        return []

    def log_tail(self, lines: int = 40) -> str:  # noqa: ARG002 - it has none
        """Say that there is none."""
        return f"(the log of the external broker at {self.bootstrap} is not at hand)"

    def kill(self) -> None:
        """Refused."""
        raise self._not_ours("kill")

    def restart(self) -> None:
        """Refused."""
        raise self._not_ours("restart")

    def close(self) -> None:
        """End nothing."""

    def _not_ours(self, what: str) -> NotSupported:
        return NotSupported(
            f"{what} is not supported by an external broker ({self.bootstrap}): this harness did not start it; "
            "use the backend jvm or docker for that"
        )
