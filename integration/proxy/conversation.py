"""What is said about a group on one connection: frames of a client and of its broker -> facts. Pure.

kafka-python's classes, which are generated from Kafka's message definitions, decode the bodies; `consumer_heartbeat`
decodes those of KIP-848 members. What they can't decode is told as `Unread` and never guessed.

Source: https://kafka.apache.org/protocol; apache/kafka ``clients/src/main/resources/common/message``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kafka.protocol import consumer, metadata, producer

from kafka_assignors.errors import KafkaAssignorsError

from .consumer_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, Partitions
from .frames import InFlight, Request, request_of

Offsets = Mapping[tuple[str, int], int]
"""(topic, partition) -> offset."""
Errors = Mapping[tuple[str, int], int]
"""(topic, partition) -> error code; 0: none."""


@dataclass(frozen=True)
class JoinCall:
    """A member asks to join. `member_id` is empty at first; `protocols` are name and subscription, best first."""

    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True)
class SyncCall:
    """A member asks for its assignment in a generation."""

    member_id: str
    generation: int


@dataclass(frozen=True)
class BeatCall:
    """A heartbeat."""

    member_id: str
    generation: int


@dataclass(frozen=True)
class LeaveCall:
    """Members are to leave: (member id, instance id)."""

    members: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class CommitCall:
    """Offsets are to be committed; if `transaction` is not None, with that transactional id's transaction."""

    member_id: str
    generation: int
    offsets: Offsets
    transaction: str | None = None


@dataclass(frozen=True)
class EndCall:
    """A transaction is to be committed or aborted."""

    transaction: str
    commits: bool


@dataclass(frozen=True)
class ConsumerBeatCall:
    """The heartbeat of a KIP-848 member, by which it joins, leaves, and tells what it owns. None: as before.

    `pattern` is the regular expression to which it subscribes, `assignor` the broker's that it wants.
    """

    member_id: str
    epoch: int
    instance_id: str | None
    rebalance_timeout_ms: int
    topics: tuple[str, ...] | None
    pattern: str | None
    assignor: str | None
    owned: frozenset[tuple[str, int]] | None


Call = JoinCall | SyncCall | BeatCall | LeaveCall | CommitCall | EndCall | ConsumerBeatCall


@dataclass(frozen=True)
class Reply:
    """A broker's answer to a call."""

    call: Call
    error: int  # its error code; 0: none
    member_id: str = ""  # of a join, or of a KIP-848 member's heartbeat
    generation: int = -1  # of a join; of a KIP-848 member's heartbeat: its epoch from now on
    protocol: str = ""  # of a join
    assignment: bytes = b""  # of a sync
    errors: Errors = field(default_factory=dict)  # of a commit, by topic-partition
    given: Partitions | None = None  # of a KIP-848 member's heartbeat: the partitions that it may have; None: as before


@dataclass(frozen=True)
class SentOffsets:
    """What an answer tells a client of: records below these offsets, or an offset to begin at."""

    offsets: Offsets


@dataclass(frozen=True)
class TopicNames:
    """Metadata have told names of topics that were not known before."""


@dataclass(frozen=True)
class Unread:
    """Something about groups was said that isn't understood."""

    reason: str


class UnknownTopicId(KafkaAssignorsError):
    """A topic id whose name no metadata on the process's connections had."""


Names = dict[UUID, str]
"""Topic id -> topic, of all metadata that a process was answered."""

_CLASSES: Mapping[str, tuple[Any, Any]] = {
    **{
        api: (getattr(module, f"{api}Request"), getattr(module, f"{api}Response"))
        for module, apis in (
            (consumer, ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch")),
            (consumer, ("Fetch", "ListOffsets")),
            (producer, ("TxnOffsetCommit", "EndTxn")),
            (metadata, ("Metadata",)),
        )
        for api in apis
    },
    "ConsumerGroupHeartbeat": (ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
}
"""Kafka's name of an API -> classes of its requests and answers."""
_LAST_DELTA, _MAGIC, _BATCH = 23, 16, struct.Struct(">qi")
"""In a batch of records: where its last offset less its first one is, and its format; its first offset and its size."""
_WITHOUT_CLASSES = ("api-76", "api-78", "api-88")
"""Heartbeats of members of share and streams groups (KIP-932, KIP-1071), which are not read."""
_IDS_SINCE = 10
"""From this version on, metadata have topic ids."""


class Conversation:
    """One connection of a process, with which it shares `names`. Calls of other groups than `group` are ignored."""

    def __init__(self, group: str, names: Names) -> None:
        self.client_id: str | None = None
        self.answered_api = ""  # of the request that the last answer was for
        self._group, self._names = group, names
        self._flight = InFlight()
        self._calls: dict[Request, Call | None] = {}

    def asked(self, frame: bytes) -> Call | Unread | None:
        """What a client's frame asks; None if it isn't about the group.

        Raises:
            FrameError: It isn't a request of Kafka's protocol.
        """
        request = request_of(frame)
        self.client_id = request.client_id
        self._flight.sent(request)
        if request.api in _WITHOUT_CLASSES:
            return Unread(f"{request.api} v{request.version}: the member's kind of group is not read on the wire")
        if request.api in _TELLING or (request.api == "Metadata" and request.version >= _IDS_SINCE):
            self._calls[request] = None
        if request.api not in _CALLS:
            return None
        message = self._decoded(request, 0, frame)
        if isinstance(message, Unread):
            return message
        if getattr(message, "group_id", self._group) != self._group:  # the end of a transaction names none
            return None
        try:
            call = _CALLS[request.api][0](self, message)
        except UnknownTopicId as error:
            return Unread(f"{request.api} v{request.version} of topic id {error}, whose name was in no metadata")
        self._calls[request] = call
        return call

    def answered(self, frame: bytes) -> Reply | SentOffsets | TopicNames | Unread | None:
        """What a broker's frame answers to a call; None if it answers none.

        Raises:
            FrameError: It answers no request in flight.
        """
        request = self._flight.answered(frame)
        self.answered_api = request.api
        if request not in self._calls:
            return None
        call = self._calls.pop(request)
        message = self._decoded(request, 1, frame)
        if isinstance(message, Unread):
            return message
        if request.api == "Metadata":
            names = {topic.topic_id: topic.name for topic in message.topics if topic.name}
            news = not names.keys() <= self._names.keys()
            self._names |= names
            return TopicNames() if news else None
        try:
            if call is None:
                return SentOffsets(_highest(_TELLING[request.api](self, message)))
            return _CALLS[request.api][1](self, call, message)
        except UnknownTopicId as error:
            return Unread(f"{request.api} v{request.version} of topic id {error}, whose name was in no metadata")

    @staticmethod
    def _decoded(request: Request, side: int, frame: bytes) -> Any:
        decoder = _CLASSES[request.api][side]
        what = f"{'an answer to ' if side else ''}{request.api} v{request.version}"
        if not 0 <= request.version <= decoder.max_version:
            return Unread(f"{what}: versions up to {decoder.max_version} are read")
        try:
            return decoder.decode(frame, version=request.version, header=True, framed=True)
        except Exception as error:  # generated code meets bytes that it does not expect
            return Unread(f"{what} can't be decoded: {type(error).__name__}: {error}")

    def _join(self, message: Any) -> Call:
        session_ms, rebalance_ms = message.session_timeout_ms, message.rebalance_timeout_ms
        return JoinCall(
            message.member_id, message.group_instance_id, session_ms, rebalance_ms if rebalance_ms >= 0 else session_ms,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in message.protocols),
        )  # fmt: skip

    def _sync(self, message: Any) -> Call:
        return SyncCall(message.member_id, message.generation_id)

    def _beat(self, message: Any) -> Call:
        return BeatCall(message.member_id, message.generation_id)

    def _consumer_beat(self, message: ConsumerGroupHeartbeatRequest) -> Call:
        owned = None if message.owned is None else named(message.owned, self._names)
        return ConsumerBeatCall(
            message.member_id, message.epoch, message.instance_id, message.rebalance_timeout_ms, message.topics,
            message.pattern, message.assignor, owned,
        )  # fmt: skip

    def _leave(self, message: Any) -> Call:
        members = [(member.member_id, member.group_instance_id) for member in message.members or ()]
        return LeaveCall(tuple(members) or ((message.member_id, None),))

    def _commit(self, message: Any) -> Call:
        offsets = self._offsets(message.topics)
        return CommitCall(message.member_id, message.generation_id_or_member_epoch, offsets)

    def _commit_later(self, message: Any) -> Call:
        offsets = self._offsets(message.topics)
        return CommitCall(message.member_id, message.generation_id, offsets, message.transactional_id)

    def _end(self, message: Any) -> Call:
        return EndCall(message.transactional_id, bool(message.committed))

    def _offsets(self, topics: Iterable[Any]) -> Offsets:
        return {place: partition.committed_offset for place, partition in self._placed(topics)}

    def _placed(self, topics: Iterable[Any]) -> Iterator[tuple[tuple[str, int], Any]]:
        for topic in topics:
            for partition in topic.partitions:
                yield (self._name(topic), partition.partition_index), partition

    def _name(self, topic: Any) -> str:
        """The name of a topic in a message, which has it, or its id."""
        name = topic.topic if isinstance(topic, consumer.FetchResponse.FetchableTopicResponse) else topic.name
        if name:
            return str(name)
        if topic.topic_id not in self._names:
            raise UnknownTopicId(topic.topic_id)
        return self._names[topic.topic_id]

    def _joined(self, call: Call, message: Any) -> Reply:
        return Reply(call, message.error_code, message.member_id, message.generation_id, message.protocol_name or "")

    def _synced(self, call: Call, message: Any) -> Reply:
        return Reply(call, message.error_code, assignment=bytes(message.assignment or b""))

    def _plain(self, call: Call, message: Any) -> Reply:
        return Reply(call, message.error_code)

    def _consumer_beaten(self, call: Call, message: ConsumerGroupHeartbeatResponse) -> Reply:
        return Reply(call, message.error_code, message.member_id or "", message.epoch, given=message.assignment)

    def _committed(self, call: Call, message: Any) -> Reply:
        return Reply(call, 0, errors={place: its.error_code for place, its in self._placed(message.topics)})

    def _fetched(self, message: Any) -> Iterator[tuple[tuple[str, int], int]]:
        for topic in message.responses:
            for partition in topic.partitions:
                if partition.records:
                    yield (self._name(topic), partition.partition_index), _end_of(partition.records)

    def _listed(self, message: Any) -> Iterator[tuple[tuple[str, int], int]]:
        for place, partition in self._placed(message.topics):
            for offset in (partition.offset, *(partition.old_style_offsets or ())):
                yield place, offset

    def _kept(self, message: Any) -> Iterator[tuple[tuple[str, int], int]]:
        for topics in (message.topics, *(group.topics for group in message.groups or ())):
            for place, partition in self._placed(topics or ()):
                yield place, partition.committed_offset


def named(partitions: Partitions, names: Names) -> frozenset[tuple[str, int]]:
    """The same topic-partitions by name. UnknownTopicId: no metadata had the name of one."""
    for topic_id in partitions:
        if topic_id not in names:
            raise UnknownTopicId(topic_id)
    return frozenset((names[topic_id], number) for topic_id, numbers in partitions.items() for number in numbers)


def _highest(offsets: Iterable[tuple[tuple[str, int], int]]) -> Offsets:
    """The highest offset of each topic-partition; what is below 0 is none."""
    highest: dict[tuple[str, int], int] = {}
    for place, offset in offsets:
        if offset >= 0:
            highest[place] = max(highest.get(place, 0), offset)
    return highest


def _end_of(records: bytes) -> int:
    """The offset behind the last whole batch of a Fetch's records; -1: there is none.

    Before format 2 a message has its own offset there, and a compressed one that of the last message in it.
    """
    at, end = 0, -1
    while at + _BATCH.size <= len(records):
        first, size = _BATCH.unpack_from(records, at)
        if at + _BATCH.size + size > len(records):
            break  # old brokers cut the last one off
        delta = struct.unpack_from(">i", records, at + _LAST_DELTA)[0] if records[at + _MAGIC] >= 2 else 0
        end = first + delta + 1
        at += _BATCH.size + size
    return end


_CALLS: Mapping[str, tuple[Callable[[Conversation, Any], Call], Callable[[Conversation, Call, Any], Reply]]] = {
    "JoinGroup": (Conversation._join, Conversation._joined),
    "SyncGroup": (Conversation._sync, Conversation._synced),
    "Heartbeat": (Conversation._beat, Conversation._plain),
    "ConsumerGroupHeartbeat": (Conversation._consumer_beat, Conversation._consumer_beaten),
    "LeaveGroup": (Conversation._leave, Conversation._plain),
    "OffsetCommit": (Conversation._commit, Conversation._committed),
    "TxnOffsetCommit": (Conversation._commit_later, Conversation._committed),
    "EndTxn": (Conversation._end, Conversation._plain),
}
"""Kafka's name of an API -> what reads its requests, and its answers."""
_TELLING: Mapping[str, Callable[[Conversation, Any], Iterable[tuple[tuple[str, int], int]]]] = {
    "Fetch": Conversation._fetched,
    "ListOffsets": Conversation._listed,
    "OffsetFetch": Conversation._kept,
}
