"""The environment of one node: its own JVM, a shared JVM, or a container."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from ..settings import Route


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

    @property
    def traces(self) -> str:
        """Where a person finds what the node did, for messages."""

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
