"""What one node runs in: a JVM of its own, one that several share, or a container; and a broker that is such a node."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from ...errors import BrokerNotReady, BrokerUnreachable
from ..broker import Broker
from ..ports import hold
from ..ready import await_ready
from ..settings import Route

_STOP_TIMEOUT_S = 15


class Place(Protocol):
    """A node's folder and what runs on it, whatever that is; it ends with this process."""

    @property
    def host(self) -> str:
        """Where the other nodes find its controller."""

    @property
    def data(self) -> Path:
        """Kafka's ``log.dirs``, as the node sees them."""

    @property
    def runs(self) -> bool:
        """Whether it was started and has not ended, paused or not."""

    def pids(self) -> list[int]:
        """Processes of this machine that it runs in now."""

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of its log, until `close`."""

    def format(self, node_id: int = 1, cluster_id: str | None = None) -> None:
        """Give the node an empty, formatted data folder unless it has one; a new cluster id by default."""

    def listeners(self, port: int, controller_port: int, route: Route) -> dict[str, str]:
        """What is special about its listeners: settings instead of those of `broker_settings`."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Set what the next `launch` reads."""

    def launch(self, address: str) -> None:
        """Start the node and return at once; `address` is for messages."""

    def check_alive(self) -> None:
        """Raise BrokerNotReady if it has ended."""

    def stop(self, timeout_s: float) -> bool:
        """Let it end in order; False: it had not after `timeout_s` seconds, and was killed."""

    def kill(self) -> None:
        """End it as a crash does; NotSupported where it cannot crash alone."""

    def pause(self) -> None:
        """Freeze it; NotSupported where it cannot freeze alone."""

    def resume(self) -> None:
        """Let a paused one go on; nothing happens to one that runs."""

    def disconnect(self) -> None:
        """Cut it off from all others; NotSupported where there is no network to cut."""

    def connect(self) -> None:
        """Undo `disconnect`."""

    def close(self) -> None:
        """End it and remove its data; may be called twice."""


class PlacedBroker(Broker):
    """A broker that is one node in a `Place`. A subclass sets `_node`, `_timeout_s` and a route before `_start`."""

    _node: Place
    _route: Route
    _timeout_s: float
    _held: ExitStack | None = None  # the port that a proxy may listen on

    @property
    def routes(self) -> tuple[Route, ...]:
        """As every broker's."""
        return (self._route,)

    def pids(self) -> list[int]:
        """The processes of its place."""
        return self._node.pids()

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of its log."""
        return self._node.log_tail(lines)

    def kill(self) -> None:
        """SIGKILL to the JVM; refused where it is shared."""
        self._node.kill()

    def restart(self) -> None:
        """A clean stop if it runs, then a new JVM. After `kill` it waits for its old session to end first (3 s)."""
        self._node.stop(_STOP_TIMEOUT_S)
        self._start()

    def close(self) -> None:
        """SIGKILL to the JVM: nothing needs a clean end, as Kafka recovers its log."""
        self._node.close()
        self._release()

    def _take(self, route: Route) -> None:
        """Let this be its route, and keep its advertised port for a proxy."""
        self._release()
        self._route, self._held = route, hold([route.advertised])

    def _release(self) -> None:
        if self._held is not None:
            self._held.close()

    def _start(self) -> None:
        self._node.launch(self.bootstrap)
        try:
            await_ready(self.bootstrap, self._timeout_s, self._node.check_alive)
        except BrokerUnreachable as error:
            raise self._silent(error) from error

    @abstractmethod
    def _silent(self, error: BrokerUnreachable) -> BrokerNotReady:
        """It runs and does not answer in time: say where to look."""
