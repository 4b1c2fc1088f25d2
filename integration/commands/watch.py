"""A live group as its coordinator describes it: state, elected assignor, owners, lag."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from kafka_assignors.connection import Connection
from kafka_assignors.history.broker_group import BROKER_S, BrokerGroup
from kafka_assignors.history.coordinator_log import BrokerAssigned
from kafka_assignors.live.cluster import LiveCluster
from kafka_assignors.live.group import LiveGroup, from_broker_group
from kafka_assignors.live.tail import LogTail


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
        self._tail: LogTail | None = None
        self._state = BrokerGroup(group)

    def view(self) -> GroupView:
        """The group now.

        Raises:
            ClusterError: No group has this name.
            AccessRefused: The user may not see the group, or one of its topics; or may not read the coordinator's log,
                which alone has the members of a KIP-848 group.
        """
        live = self._cluster.group(self.group)
        if live.kind != "classic":
            live = self._by_broker()
        names = live.names
        owner = {tp: names[member.member_id] for member in live.members for tp in member.assigned}
        lag = self._cluster.lag(self.group, owner)
        protocol = live.protocol or (BROKER_S if live.kind != "classic" else "")
        return GroupView(
            self.group, live.state, protocol, tuple(sorted(names.values())),
            tuple(Ownership(owner[tp], tp.topic, tp.partition, lag.get(tp)) for tp in sorted(owner)),
        )  # fmt: skip

    def _by_broker(self) -> LiveGroup:
        if self._tail is None:
            self._tail = LogTail(self._cluster, [self.group], most=sys.maxsize)
            records = self._tail.history[self.group].records
        else:
            records = tuple(self._tail.read(0.0)[self.group])
        for record in records:
            if isinstance(record.value, BrokerAssigned):
                self._state.take(record.value)
        return from_broker_group(self._state, self._cluster.topic_names())

    def __enter__(self) -> GroupWatcher:
        return self

    def __exit__(self, *error: object) -> None:
        if self._tail is not None:
            self._tail.close()
        self._cluster.__exit__(*error)
