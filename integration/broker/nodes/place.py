"""The environment of one node (its own JVM, a shared JVM, or a container), and a broker that is one node in it."""

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
    """A node's folder and the process that runs on it. The node ends with this process."""

    @property
    def host(self) -> str:
        """Host under which the other nodes find the controller."""

    @property
    def data(self) -> Path:
        """Kafka's ``log.dirs``, as the node sees them."""

    @property
    def runs(self) -> bool:
        """Whether the node has been started and has not ended. A paused node runs."""

    def pids(self) -> list[int]:
        """Ids of this machine's processes that the node runs in now."""

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the node's log, until `close`."""

    def format(self, node_id: int = 1, cluster_id: str | None = None) -> None:
        """Give the node an empty, formatted data folder unless it has one. By default the cluster id is new."""

    def listeners(self, port: int, controller_port: int, route: Route) -> dict[str, str]:
        """Listener settings of this place that replace those of `broker_settings`."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Set the properties that the next `launch` reads."""

    def launch(self, address: str) -> None:
        """Start the node and return at once. `address` is for messages."""

    def check_alive(self) -> None:
        """Raise BrokerNotReady if the node has ended."""

    def stop(self, timeout_s: float) -> bool:
        """Stop the node in order. False: it did not end within `timeout_s` seconds and was killed."""

    def kill(self) -> None:
        """End the node like a crash. NotSupported if it cannot crash alone."""

    def pause(self) -> None:
        """Freeze the node. NotSupported if it cannot freeze alone."""

    def resume(self) -> None:
        """Let a paused node continue. No effect on a running one."""

    def disconnect(self) -> None:
        """Cut the node off from all others. NotSupported if there is no network to cut."""

    def connect(self) -> None:
        """Undo `disconnect`."""

    def close(self) -> None:
        """End the node and remove its data. Safe to call twice."""


class PlacedBroker(Broker):
    """A broker that is one node in a `Place`. A subclass sets `_node`, `_timeout_s` and a route before `_start`."""

    _node: Place
    _route: Route
    _timeout_s: float
    _reservation: ExitStack | None = None  # the port where a proxy may listen

    @property
    def routes(self) -> tuple[Route, ...]:
        """The listener in front of which a `FaultProxy` can stand."""
        return (self._route,)

    def pids(self) -> list[int]:
        """Process ids of its place."""
        return self._node.pids()

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of its log."""
        return self._node.log_tail(lines)

    def kill(self) -> None:
        """Send SIGKILL to the JVM. NotSupported if the JVM is shared."""
        self._node.kill()

    def restart(self) -> None:
        """Stop the JVM if it runs and start a new one, which after `kill` waits until its old session ends (3 s)."""
        self._node.stop(_STOP_TIMEOUT_S)
        self._start()

    def close(self) -> None:
        """Send SIGKILL to the JVM. A clean end isn't necessary, because Kafka recovers its log."""
        self._node.close()
        self._release()

    def _take(self, route: Route) -> None:
        """Use this route, and reserve its advertised port for a proxy."""
        self._release()
        self._route, self._reservation = route, hold([route.advertised])

    def _release(self) -> None:
        if self._reservation is not None:
            self._reservation.close()

    def _start(self) -> None:
        self._node.launch(self.bootstrap)
        try:
            await_ready(self.bootstrap, self._timeout_s, self._node.check_alive)
        except BrokerUnreachable as error:
            raise self._silent(error) from error

    @abstractmethod
    def _silent(self, error: BrokerUnreachable) -> BrokerNotReady:
        """The error of a running broker that does not answer in time; its message says where to look."""
