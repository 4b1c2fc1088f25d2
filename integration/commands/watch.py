"""A live group as its coordinator describes it: state, elected assignor, owners, lag."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import KafkaError

from kafka_assignors.connection import Connection, Right, denied, needing
from kafka_assignors.core.group import Group, Member

from ..errors import HarnessError
from ..topics import Topics


class GroupUnknown(HarnessError):
    """The coordinator knows no group of that name with the classic protocol."""


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
    """Asks the coordinator on each call; a context manager. kafka-python's errors pass through."""

    def __init__(self, bootstrap: str | Connection, group: str) -> None:
        self.group, self._connection = group, Connection.of(bootstrap)
        self._admin = KafkaAdminClient(**self._connection.kafka_python(), client_id="kafka-assignors-watch")

    def view(self) -> GroupView:
        """The group now.

        Raises:
            GroupUnknown: No classic group has this name.
        """
        described = self._described()
        clients = [m["client_id"] for m in described["members"]]
        names = {
            m["member_id"]: m["client_id"] if clients.count(m["client_id"]) == 1 else m["member_id"]
            for m in described["members"]
        }
        owner = {
            TopicPartition(t["topic"], p): names[m["member_id"]]
            for m in described["members"]
            for t in (m["member_assignment"] or {}).get("assigned_partitions") or []
            for p in t["partitions"]
        }
        with needing(self._connection, *(Right("Describe", "Topic", tp.topic) for tp in owner)):
            lag = self._lag(list(owner))
        return GroupView(
            self.group, described["group_state"], described["protocol_data"], tuple(sorted(names.values())),
            tuple(Ownership(owner[tp], tp.topic, tp.partition, lag.get(tp)) for tp in sorted(owner)),
        )  # fmt: skip

    def joined(self) -> Group:
        """The group as `kafka_assignors.plan` takes it: subscriptions and owned partitions, without racks.

        Raises:
            GroupUnknown: No classic group has this name, or the group is in a rebalance and has no owners.
            AccessRefused: The user may not see the group, or one of its topics.
        """
        described = self._described()
        if described["group_state"] not in ("Stable", "Empty"):
            raise GroupUnknown(f"group {self.group!r} is in a rebalance ({described['group_state']}); try again")
        members = [
            Member(
                m["member_id"],
                m["member_metadata"]["topics"],
                m["group_instance_id"],
                owned=[
                    (t["topic"], p)
                    for t in (m["member_assignment"] or {}).get("assigned_partitions") or []
                    for p in t["partitions"]
                ],
            )
            for m in described["members"]
        ]
        with closing(Topics(self._connection)) as topics:
            return Group(members, topics.counts({topic for member in members for topic in member.topics}))

    def _described(self) -> Mapping[str, Any]:
        try:
            described: Mapping[str, Any] = self._admin.describe_groups([self.group])[self.group]
        except KafkaError as error:
            if (refused := denied(self._connection, error, Right("Describe", "Group", self.group))) is not None:
                raise refused from error
            raise GroupUnknown(f"group {self.group!r}: {error}") from error
        if described["group_state"] == "Dead":
            raise GroupUnknown(
                f"group {self.group!r} has no members and no offsets here (state Dead); is the name right, "
                "and is it a classic group (group.protocol=classic)?"
            )
        return described

    def _lag(self, owned: list[TopicPartition]) -> dict[TopicPartition, int]:
        committed = self._admin.list_group_offsets({self.group: owned})[self.group] if owned else {}
        known = {tp: om.offset for tp, om in committed.items() if om.offset >= 0}
        ends = self._admin.list_partition_offsets(dict.fromkeys(known, OffsetSpec.LATEST)) if known else {}
        return {tp: max(0, ends[tp].offset - offset) for tp, offset in known.items()}

    def __enter__(self) -> GroupWatcher:
        return self

    def __exit__(self, *_: object) -> None:
        with closing(self._admin):
            pass
