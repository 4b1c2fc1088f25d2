"""A live group as its coordinator describes it: state, elected assignor, owners, lag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka_assignors.connection import Connection
from kafka_assignors.errors import ClusterError
from kafka_assignors.live.cluster import LiveCluster


@dataclass(frozen=True)
class Ownership:
    """One owned topic-partition. `lag` is in records (end offset - committed offset); None: nothing committed yet."""

    member: str
    topic: str
    partition: int
    lag: int | None


@dataclass(frozen=True)
class GroupView:
    """A group at one moment. `members` has client ids (member ids if members share one) and includes idle members."""

    group: str
    state: str
    protocol: str
    members: tuple[str, ...]
    owned: tuple[Ownership, ...]

    def as_json(self) -> dict[str, Any]:
        """The view as plain values."""
        return {
            "group": self.group, "state": self.state, "protocol": self.protocol, "members": list(self.members),
            "owned": [vars(o) for o in self.owned],
        }  # fmt: skip


class GroupWatcher:
    """Asks the coordinator on each call; a context manager. kafka-python's errors pass through.

    Raises:
        ClusterError: No broker answers.
        AccessRefused: The cluster refuses the user.
    """

    def __init__(self, bootstrap: str | Connection, group: str) -> None:
        self.group = group
        self._cluster = LiveCluster(bootstrap)

    def view(self) -> GroupView:
        """The group now.

        Raises:
            ClusterError: No classic group has this name.
            AccessRefused: The user may not see the group, or one of its topics.
        """
        live = self._cluster.group(self.group)
        if live.kind != "classic":
            raise ClusterError(
                f"group {self.group!r} uses the consumer protocol (KIP-848); classic groups can be watched"
            )
        names = live.names
        owner = {tp: names[member.member_id] for member in live.members for tp in member.assigned}
        lag = self._cluster.lag(self.group, owner)
        return GroupView(
            self.group, live.state, live.protocol, tuple(sorted(names.values())),
            tuple(Ownership(owner[tp], tp.topic, tp.partition, lag.get(tp)) for tp in sorted(owner)),
        )  # fmt: skip

    def __enter__(self) -> GroupWatcher:
        return self

    def __exit__(self, *error: object) -> None:
        self._cluster.__exit__(*error)
