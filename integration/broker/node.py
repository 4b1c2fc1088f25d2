"""One node of the brokers that the harness starts. It can be stopped, killed, paused and cut off singly."""

from __future__ import annotations

from collections.abc import Callable

from .diagnosis import not_ready
from .nodes.place import Place
from .settings import Route

_STOP_TIMEOUT_S = 30


class Node:
    """One broker of a `Cluster`, which makes it. Ids begin at 1; `bootstrap` is this node's alone.

    `await_ready` waits until all running nodes serve.
    """

    def __init__(
        self, node_id: int, rack: str, bootstrap: str, route: Route, place: Place, await_ready: Callable[[], None]
    ) -> None:
        self.node_id, self.rack, self.bootstrap, self.route, self.place = node_id, rack, bootstrap, route, place
        self._await_ready = await_ready
        self.paused = self.cut_off = False

    @property
    def runs(self) -> bool:
        """Whether the node has been started and has not ended. A paused node runs."""
        return self.place.runs

    def pids(self) -> list[int]:
        """Ids of the processes that the node runs in now."""
        return self.place.pids()

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the node's log, also after `stop` and `kill`."""
        return self.place.log_tail(lines)

    def launch(self) -> None:
        """Start the node with its data, and return at once."""
        self.place.launch(self.bootstrap)

    def stop(self) -> None:
        """Stop the node by SIGTERM. It hands its leaders over first and keeps its data.

        Raises:
            BrokerNotReady: The node did not end within 30 s and was killed, e.g. because no majority is left.
        """
        self.paused = False
        if not self.place.stop(_STOP_TIMEOUT_S):
            raise not_ready(
                f"node {self.node_id} at {self.bootstrap} did not stop within {_STOP_TIMEOUT_S} s and was killed",
                self.log_tail(),
            )

    def kill(self) -> None:
        """Kill the node by SIGKILL, like a crash. The others miss it after ``broker.session.timeout.ms``, here 3 s."""
        self.place.kill()
        self.paused = False

    def pause(self) -> None:
        """Freeze the node by SIGSTOP: its connections stay open and nothing answers. The others miss it after 3 s."""
        self.place.pause()
        self.paused = True

    def resume(self) -> None:
        """Let a paused node continue. It catches up on its own."""
        self.place.resume()
        self.paused = False

    def disconnect(self) -> None:
        """Cut the node off from clients and other nodes, which miss it after 3 s. NotSupported without ``docker``."""
        self.place.disconnect()
        self.cut_off = True

    def connect(self) -> None:
        """Undo `disconnect`."""
        if self.cut_off:
            self.place.connect()
        self.cut_off = False

    def restart(self) -> None:
        """Start the node again with its data and wait until all running nodes serve. A running node is stopped first.

        Raises:
            BrokerNotReady: The node does not come up.
        """
        if self.runs:
            self.stop()
        self.launch()
        self._await_ready()

    def __repr__(self) -> str:
        return f"<node {self.node_id} in rack {self.rack!r} at {self.bootstrap}>"
