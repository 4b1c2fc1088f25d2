"""A KIP-848 group as its records in the coordinator's log leave it: epochs, targets, and what each member has. Pure.

The broker computes a *target* assignment per group epoch. Each member then reconciles alone: the coordinator takes
partitions from it (state `UNREVOKED`), waits for other members to release partitions (`UNRELEASED`), and gives the
rest. A partition is given to a member only after the member that had it acknowledged its revocation.

Source: KIP-848; apache/kafka ``CurrentAssignmentBuilder.java`` and ``MemberState.java`` in ``group-coordinator``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.group import TopicPartition
from ..core.wire.protocol import AssignedPartitions, Subscription, by_topic, encode_assignment, encode_subscription
from .coordinator_log import BrokerAssigned, CommittedMember, GroupCommitted

STABLE, UNREVOKED, UNRELEASED = 0, 1, 2
"""States of a member: it has its target; it must revoke partitions first; it waits for other members' partitions."""
AWAY_EPOCH = -2
"""Epoch of a static member that left and may return within its session."""

GROUP, MEMBER = "ConsumerGroupMetadata", "ConsumerGroupMemberMetadata"
TARGET_EPOCH, TARGET = "ConsumerGroupTargetAssignmentMetadata", "ConsumerGroupTargetAssignmentMember"
CURRENT = "ConsumerGroupCurrentMemberAssignment"
PATTERN, PARTITIONS = "ConsumerGroupRegularExpression", "ConsumerGroupPartitionMetadata"

BROKER_S = "the broker's default"
"""In place of an assignor's name, where no member asks for one."""

Ids = frozenset[TopicPartition]
"""Topic-partitions with the topic's id, as Kafka prints it, in place of its name."""


@dataclass(frozen=True)
class BrokerMember:
    """One member of a KIP-848 group.

    Args:
        client_id, instance_id, rack: As the member gave them.
        host: Its address, as its broker saw it.
        topics: The topics that it subscribes to by name.
        pattern: The regular expression that it subscribes to; None without one.
        assignor: The broker's assignor that it asks for; None: the group's default.
        rebalance_timeout_ms: How long it may take to revoke partitions.
        classic: Whether it speaks the classic protocol, as a group in migration has such members.
        target: Its partitions in the target assignment; None before its first.
        listed: The same in the order of their record. The broker's maps keep this order within a bucket, and it can
            decide which partitions ``uniform`` takes from the member.
        epoch: Its epoch; -1 before its first, `AWAY_EPOCH` for a static member that is away.
        state: `STABLE`, `UNREVOKED` or `UNRELEASED`; another number if a newer broker wrote it.
        assigned: Its current assignment.
        revoking: Partitions that it must revoke, and may still consume.
    """

    member_id: str
    client_id: str = ""
    host: str = ""
    instance_id: str | None = None
    rack: str | None = None
    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    assignor: str | None = None
    rebalance_timeout_ms: int = -1
    classic: bool = False
    target: Ids | None = None
    listed: tuple[TopicPartition, ...] = ()
    epoch: int = -1
    state: int = STABLE
    assigned: Ids = frozenset()
    revoking: Ids = frozenset()


@dataclass
class BrokerGroup:
    """The state of a KIP-848 group after the records that `take` got, in the order of the log.

    Args:
        epoch: The group's epoch; -1 before its first record. It grows when a member or a topic changes.
        target_epoch: The epoch of the newest target assignment; it may be behind `epoch` until the broker has computed.
        members: Member id -> member. One that left is missing.
        patterns: Regular expression -> the topics that the broker found for it.
        names: Topic id -> name, as far as records tell it (brokers before 4.1).
    """

    group: str
    epoch: int = -1
    target_epoch: int = -1
    members: dict[str, BrokerMember] = field(default_factory=dict)
    patterns: dict[str, frozenset[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def take(self, entry: BrokerAssigned) -> None:
        """Apply one record of this group. In a history that was cut, a record may lack fields other than its epoch."""
        fields = entry.fields
        if entry.record == GROUP:
            self.epoch = -1 if fields is None else fields["epoch"]
        elif entry.record == TARGET_EPOCH:
            self.target_epoch = -1 if fields is None else fields["assignmentEpoch"]
        elif entry.record == PARTITIONS:
            self.names |= told_names(entry)
        elif entry.record == PATTERN and entry.pattern is not None:
            self.patterns.pop(entry.pattern, None)
            if fields is not None:
                self.patterns[entry.pattern] = frozenset(fields["topics"])
        elif entry.member is not None:
            self._take_of_member(entry.record, entry.member, fields)

    def subscribed(self, member_id: str) -> frozenset[str]:
        """The topics that a member subscribes to, those that match its pattern included."""
        member = self.members[member_id]
        return member.topics | self.patterns.get(member.pattern or "", frozenset())

    @property
    def settled(self) -> bool:
        """Whether every member has the newest target assignment, and nothing is being computed."""
        return self.epoch == self.target_epoch and all(
            member.epoch == self.target_epoch and member.state == STABLE and member.assigned == member.target
            for member in self.members.values()
        )

    @property
    def at_rest(self) -> bool:
        """Whether it is `settled` but for static members that are away."""
        present = {name: member for name, member in self.members.items() if member.epoch != AWAY_EPOCH}
        return replace(self, members=present).settled

    def _take_of_member(self, record: str, member_id: str, fields: Mapping[str, Any] | None) -> None:
        member = self.members.get(member_id)
        if fields is None:
            if record == MEMBER:
                self.members.pop(member_id, None)
            elif member is not None and record == TARGET:
                self.members[member_id] = replace(member, target=None, listed=())
            elif member is not None and record == CURRENT:
                self.members[member_id] = replace(
                    member, epoch=-1, state=STABLE, assigned=frozenset(), revoking=frozenset()
                )
            return
        member = member or BrokerMember(member_id)
        if record == MEMBER:
            member = replace(
                member, client_id=fields["clientId"], host=fields["clientHost"].removeprefix("/"),
                instance_id=fields["instanceId"], rack=fields["rackId"],
                topics=frozenset(fields["subscribedTopicNames"]), pattern=fields["subscribedTopicRegex"] or None,
                assignor=fields["serverAssignor"], rebalance_timeout_ms=fields["rebalanceTimeoutMs"],
                classic=fields.get("classicMemberMetadata") is not None,
            )  # fmt: skip
        elif record == TARGET:
            listed = _listed(fields.get("topicPartitions", ()))
            member = replace(member, target=frozenset(listed), listed=listed)
        elif record == CURRENT:
            member = replace(
                member, epoch=fields["memberEpoch"], state=fields.get("state", STABLE),
                assigned=ids(fields.get("assignedPartitions", ())),
                revoking=ids(fields.get("partitionsPendingRevocation", ())),
            )  # fmt: skip
        self.members[member_id] = member


def as_generation(group: BrokerGroup, names: Mapping[str, str]) -> GroupCommitted:
    """The newest target assignment as a generation of a classic group: its number is the target's epoch.

    Members claim what the coordinator knows them to have: their current assignment and what they still must revoke. The
    group is as just after the record with its target's epoch. Partitions of topics that `names` lacks are left out.
    """
    in_order = sorted(group.members.values(), key=lambda member: member.member_id)
    members = tuple(_committed(group, member, names) for member in in_order if member.target is not None)
    asked = sorted({member.assignor for member in group.members.values() if member.assignor})
    protocol = ",".join(asked) or BROKER_S
    return GroupCommitted(group.group, "consumer", group.target_epoch, protocol, None, -1, members)


def _committed(group: BrokerGroup, member: BrokerMember, names: Mapping[str, str]) -> CommittedMember:
    owned = sorted(named(member.assigned | member.revoking, names))
    topics = tuple(sorted(group.subscribed(member.member_id)))
    subscription = Subscription(topics, owned=owned, generation=member.epoch, rack=member.rack)
    target = AssignedPartitions(by_topic(named(member.target or (), names)))
    return CommittedMember(
        member.member_id, member.instance_id, member.client_id, member.host, member.rebalance_timeout_ms, -1,
        encode_subscription(subscription), encode_assignment(target),
    )  # fmt: skip


def named(places: Iterable[TopicPartition], names: Mapping[str, str]) -> frozenset[TopicPartition]:
    """Topic-partitions by name; those of topics without a known name are left out."""
    return frozenset(TopicPartition(names[topic], p) for topic, p in places if topic in names)


def ids(rows: Iterable[Mapping[str, Any]]) -> Ids:
    """The topic-partitions of a record's field, by topic id."""
    return frozenset(_listed(rows))


def _listed(rows: Iterable[Mapping[str, Any]]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(row["topicId"], p) for row in rows for p in row["partitions"])


def told_names(entry: BrokerAssigned) -> dict[str, str]:
    """Topic id -> name, as a record tells it; only those of brokers before 4.1 do."""
    if entry.record != PARTITIONS or entry.fields is None:
        return {}
    return {row["topicId"]: row["topicName"] for row in entry.fields["topics"]}


def topic_ids(fields: Mapping[str, Any] | None) -> frozenset[str]:
    """The topic ids that a record's fields name."""
    places = ("topicPartitions", "assignedPartitions", "partitionsPendingRevocation")
    return frozenset(row["topicId"] for place in places for row in (fields or {}).get(place, ()))
