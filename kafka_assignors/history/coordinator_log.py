"""Decode the coordinator's log, ``__consumer_offsets``, into its decisions. Bytes in, values out.

It has a record of every completed generation of a group: the elected assignor, the leader, and each member's
subscription and assignment bytes. The server writes it before any member learns its assignment, so it is authoritative
for members of any client.

Source: apache/kafka ``group-coordinator/src/main/resources/common/message/``: OffsetCommitKey/Value (key versions 0-1,
value 0-4), GroupMetadataKey/Value (key version 2, value 0-4), ConsumerGroup*Key/Value (key versions 3-8 and 16, value
0, KIP-848). Records of share groups (KIP-932) and of streams groups (KIP-1071) are recognized by name only.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.group import TopicPartition
from ..core.group.order import hash_code
from ..core.wire.primitives import FlexibleReader
from ..core.wire.protocol import decode_assignment
from ..errors import WireError

COORDINATOR_TOPIC = "__consumer_offsets"
_OFFSET_KEYS = (0, 1)
_GROUP_KEY = 2
_NEWEST_VALUE = 4
_WHAT = "record"


@dataclass(frozen=True)
class CommittedMember:
    """One member of a committed generation. `subscription` and `assignment` are the raw protocol bytes."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True)
class GroupCommitted:
    """A group's state as stored by the coordinator.

    Args:
        protocol: The elected assignor; None for an empty group.
        leader: Member id; None for an empty group.
        ts_ms: Wall clock at which the group entered this state; -1 if the record lacks it (value version below 2).
        members: Assignments are empty before the first SyncGroup of a rebalance.
    """

    group: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    ts_ms: int
    members: tuple[CommittedMember, ...]


@dataclass(frozen=True)
class OffsetCommitted:
    """A committed offset: the next record that the group will consume."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    ts_ms: int


@dataclass(frozen=True)
class Tombstone:
    """A group (without topic and partition) or a commit was deleted."""

    group: str
    topic: str | None = None
    partition: int | None = None


@dataclass(frozen=True)
class BrokerAssigned:
    """A record of a KIP-848 consumer group, whose assignments the broker computes.

    Args:
        record: Kafka's name of the record, e.g. ``ConsumerGroupMetadata``.
        member: Member id; None for a record of the whole group.
        fields: Its fields, named as in Kafka's schema, topic ids as Kafka prints them, bytes in base64. A tagged field
            that the broker left out is missing. None for a deletion.
        pattern: The regular expression of a ``ConsumerGroupRegularExpression``; None for other records.
    """

    record: str
    group: str
    member: str | None
    fields: Mapping[str, Any] | None
    pattern: str | None = None


@dataclass(frozen=True)
class Unknown:
    """A record that this decoder does not know: `reason` names the record, the version or the defect."""

    reason: str
    group: str | None = None


Decoded = GroupCommitted | OffsetCommitted | Tombstone | BrokerAssigned | Unknown


def decode(key: bytes | None, value: bytes | None) -> Decoded:
    """Decode one record of ``__consumer_offsets``. Never raises: anything unknown becomes `Unknown`. Cost: O(bytes)."""
    if key is None:
        return Unknown("record without a key")
    try:
        return _decode(_Reader(key, _WHAT), value)
    except WireError as error:
        return Unknown(f"a malformed record: {error}", group_of(key))


def group_of(key: bytes | None) -> str | None:
    """The group of a record, without decoding the record; None if it has none.

    A key is its version (2 bytes), the length of the group's name (2 bytes), the name and more.
    """
    if key is None or len(key) < 4:
        return None
    length = int.from_bytes(key[2:4], "big", signed=True)
    name = key[4 : 4 + length] if length >= 0 else None
    if name is None or len(name) < length:
        return None
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def assigned(member: CommittedMember) -> set[TopicPartition]:
    """The topic-partitions of a member; empty if its leader sent no bytes. Raises WireError if they can't be read."""
    if not member.assignment:
        return set()
    decoded = decode_assignment(member.assignment)
    return {TopicPartition(t, p) for t, partitions in decoded.partitions.items() for p in partitions}


def partition_of(group: str, partitions: int) -> int:
    """The partition of ``__consumer_offsets`` of a group, as in Java; ValueError if `partitions` is below 1."""
    if partitions < 1:
        raise ValueError(f"{COORDINATOR_TOPIC} has {partitions} partitions; at least 1 is needed")
    code = hash_code(group)
    if code >= 1 << 31:
        code -= 1 << 32
    # Utils.abs maps Integer.MIN_VALUE, which has no absolute value in 32 bits, to 0.
    return 0 if code == -(1 << 31) else abs(code) % partitions


class _Reader(FlexibleReader):
    def topic_partitions(self) -> list[dict[str, Any]]:
        return self.array(_Reader._topic_partition)

    def topics(self) -> list[dict[str, Any]]:
        return self.array(_Reader._topic)

    def classic_member(self) -> dict[str, Any] | None:
        if self.take(1)[0] != 1:  # a nullable struct: brokers write 0 for null, and the schema says -1
            return None
        return {"sessionTimeoutMs": self.int32(), "supportedProtocols": self.array(_Reader._protocol)} | self.tags()

    def _uuid(self) -> str:
        return base64.urlsafe_b64encode(self.take(16)).rstrip(b"=").decode()

    def _topic_partition(self) -> dict[str, Any]:
        fields = {"topicId": self._uuid(), "partitions": self.array(_Reader.int32)}
        return fields | self.tags({0: ("assignmentEpochs", lambda value: value.array(_Reader.int32))})

    def _topic(self) -> dict[str, Any]:
        return {
            "topicId": self._uuid(),
            "topicName": self.string_or_none(),
            "numPartitions": self.int32(),
            "partitionMetadata": self.array(_Reader._racks),
        } | self.tags()

    def _racks(self) -> dict[str, Any]:
        return {"partition": self.int32(), "racks": self.array(_Reader.string)} | self.tags()

    def _protocol(self) -> dict[str, Any]:
        return {"name": self.string_or_none(), "metadata": base64.b64encode(self.bytes()).decode()} | self.tags()


def _decode(key: _Reader, value: bytes | None) -> Decoded:
    version = key.int16()
    if version in _OFFSET_KEYS:
        group, topic, partition = key.string(), key.string(), key.int32()
        if value is None:
            return Tombstone(group, topic, partition)
        return _offset(group, topic, partition, _Reader(value, _WHAT))
    if version == _GROUP_KEY:
        group = key.string()
        if value is None:
            return Tombstone(group)
        return _group(group, _Reader(value, _WHAT))
    if version in _BROKER_ASSIGNED:
        return _broker_assigned(version, key, value)
    if version in _BY_NAME:
        return Unknown(f"a {_BY_NAME[version]} record (key version {version}), which isn't read", key.string())
    return Unknown(f"key version {version}")


_BROKER_ASSIGNED: Mapping[int, tuple[str, Mapping[str, Callable[[_Reader], Any]]]] = {
    3: ("ConsumerGroupMetadata", {"epoch": _Reader.int32}),
    4: ("ConsumerGroupPartitionMetadata", {"topics": _Reader.topics}),
    5: (
        "ConsumerGroupMemberMetadata",
        {
            "instanceId": _Reader.string_or_none,
            "rackId": _Reader.string_or_none,
            "clientId": _Reader.string,
            "clientHost": _Reader.string,
            "subscribedTopicNames": lambda value: value.array(_Reader.string),
            "subscribedTopicRegex": _Reader.string_or_none,
            "rebalanceTimeoutMs": _Reader.int32,
            "serverAssignor": _Reader.string_or_none,
        },
    ),
    6: ("ConsumerGroupTargetAssignmentMetadata", {"assignmentEpoch": _Reader.int32}),
    7: ("ConsumerGroupTargetAssignmentMember", {"topicPartitions": _Reader.topic_partitions}),
    8: (
        "ConsumerGroupCurrentMemberAssignment",
        {
            "memberEpoch": _Reader.int32,
            "previousMemberEpoch": _Reader.int32,
            "state": _Reader.int8,
            "assignedPartitions": _Reader.topic_partitions,
            "partitionsPendingRevocation": _Reader.topic_partitions,
        },
    ),
    16: (
        "ConsumerGroupRegularExpression",
        {"topics": lambda value: value.array(_Reader.string), "version": _Reader.int64, "timestamp": _Reader.int64},
    ),
}
"""Key version -> Kafka's name, and the value's fields in their order."""
_TAGGED: Mapping[int, Mapping[int, tuple[str, Callable[[_Reader], Any]]]] = {
    3: {0: ("metadataHash", _Reader.int64)},
    5: {0: ("classicMemberMetadata", _Reader.classic_member)},
    6: {0: ("assignmentTimestamp", _Reader.int64)},
}
"""Key version -> tag -> the tagged field."""
_OF_MEMBERS = (5, 7, 8)
_OF_PATTERNS = (16,)
_BY_NAME = {
    9: "ShareGroupPartitionMetadata",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    17: "StreamsGroupMetadata",
    18: "StreamsGroupPartitionMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}


def _broker_assigned(version: int, key: _Reader, value: bytes | None) -> Decoded:
    record, fields = _BROKER_ASSIGNED[version]
    group = key.string()
    member = key.string() if version in _OF_MEMBERS else None
    pattern = key.string() if version in _OF_PATTERNS else None
    if value is None:
        return BrokerAssigned(record, group, member, None, pattern)
    read = _Reader(value, _WHAT)
    if newer := read.int16():
        return Unknown(f"{record} value version {newer}", group)
    read.flexible = True
    values = {name: take(read) for name, take in fields.items()}
    return BrokerAssigned(record, group, member, values | read.tags(_TAGGED.get(version, {})), pattern)


def _offset(group: str, topic: str, partition: int, value: _Reader) -> Decoded:
    version = value.int16()
    if not 0 <= version <= _NEWEST_VALUE:
        return Unknown(f"offset commit value version {version}", group)
    value.flexible = version >= 4
    offset = value.int64()
    leader_epoch = value.int32() if version >= 3 else -1
    value.string()  # metadata
    ts_ms = value.int64()
    return OffsetCommitted(group, topic, partition, offset, leader_epoch, ts_ms)


def _group(group: str, value: _Reader) -> Decoded:
    version = value.int16()
    if not 0 <= version <= _NEWEST_VALUE:
        return Unknown(f"group metadata value version {version}", group)
    value.flexible = version >= 4
    protocol_type, generation = value.string(), value.int32()
    protocol, leader = value.string_or_none(), value.string_or_none()
    ts_ms = value.int64() if version >= 2 else -1
    members = tuple(value.array(lambda row: _member(row, version)))
    return GroupCommitted(group, protocol_type, generation, protocol, leader, ts_ms, members)


def _member(value: _Reader, version: int) -> CommittedMember:
    member_id = value.string()
    instance_id = value.string_or_none() if version >= 3 else None
    client_id, client_host = value.string(), value.string()
    rebalance_ms = value.int32() if version >= 1 else -1
    session_ms = value.int32()
    subscription, assignment = value.bytes(), value.bytes()
    value.tags()
    return CommittedMember(
        member_id, instance_id, client_id, client_host, rebalance_ms, session_ms, subscription, assignment
    )
