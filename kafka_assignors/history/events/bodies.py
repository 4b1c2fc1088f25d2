"""What an event tells beside the fields that all events have: one class per kind, listed in `KINDS`. Pure.

A missing field is None, if it may be missing. Readers ignore fields that a class does not have: a later version may add
some. ``history.schema.json`` of the harness has the same fields, and a test compares the two.

Source: the fields follow Kafka's VerifiableConsumer events (apache/kafka tests/kafkatest) where they overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from operator import itemgetter
from types import UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from ...core.group import TopicPartition


class TopicOffset(NamedTuple):
    """A position in a topic-partition."""

    topic: str
    partition: int
    offset: int

    @property
    def tp(self) -> TopicPartition:
        """The topic-partition."""
        return TopicPartition(self.topic, self.partition)


class OffsetRun(NamedTuple):
    """Contiguous records of a topic-partition; both offsets are included."""

    topic: str
    partition: int
    first: int
    last: int
    count: int  # type: ignore[assignment]  # in place of the tuple's method, which nobody calls
    bytes: int

    @property
    def tp(self) -> TopicPartition:
        """The topic-partition."""
        return TopicPartition(self.topic, self.partition)


class OffsetRange(NamedTuple):
    """The offsets of a topic-partition from `offset` up to, without, `end`."""

    topic: str
    partition: int
    offset: int
    end: int

    @property
    def tp(self) -> TopicPartition:
        """The topic-partition."""
        return TopicPartition(self.topic, self.partition)


class MemberRow(NamedTuple):
    """One member of a committed generation. `subscription` and `assignment` are its raw bytes as hex."""

    member_id: str
    client_id: str
    subscription: str
    assignment: str
    assigned: tuple[TopicPartition, ...]
    owned: tuple[TopicPartition, ...]
    instance_id: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None


class OutputAuthor(NamedTuple):
    """The member that produced an output, and the number of its transaction."""

    group: str
    member: str
    incarnation: int
    transaction: int


class NetworkParams(NamedTuple):
    """Which requests or responses a proxy's fault hits, as far as a law reads it; it may have more settings."""

    api: str | None = None
    side: str | None = None


class NewSubscription(NamedTuple):
    """To what a member subscribes from now on: topics by name, or a pattern."""

    topics: tuple[str, ...] | None = None
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class StartConfig:
    """A member's configuration, as far as somebody reads it. It may have more, such as further settings of its client.

    Args:
        assignors: The assignors given for the names that it offers, such as ``kafka-python:range``.
        pattern: Regular expression to which it subscribes.
        protocol: ``consumer`` under KIP-848.
        output: It transforms: the topic of its outputs.
        at_least_once: Of its outputs, it promises no more than that.
        early_heartbeats: Its assignors or the guard promise them.
        finishes: It reports the records that its application has processed.
        auto_commit: Its client commits by itself in a thread of its own, and tells of it as the application polls.
    """

    assignors: tuple[str, ...] | None = None
    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None
    max_poll_interval_ms: int | None = None
    metadata_max_age_ms: int | None = None
    pattern: str | None = None
    protocol: str | None = None
    output: str | None = None
    at_least_once: bool | None = None
    early_heartbeats: bool | None = None
    finishes: bool | None = None
    auto_commit: bool | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """The fields of one kind of event."""


@dataclass(frozen=True, slots=True)
class StartBody(Body):
    """A member starts, and offers these assignors (protocol names) for a subscription to these topics."""

    assignors: tuple[str, ...]
    topics: tuple[str, ...]
    config: StartConfig


@dataclass(frozen=True, slots=True)
class StopBody(Body):
    """A member has left the group."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ExitBody(Body):
    """A process has ended; the harness writes it.

    Args:
        asked: The harness stopped it, or expected its end.
        begun_ns, asked_ns: When its process began, and when it was told to end.
        grace_s: How long it then had before it was killed.
    """

    code: int
    signal: str | None = None
    asked: bool | None = None
    begun_ns: int | None = None
    asked_ns: int | None = None
    grace_s: float | None = None


@dataclass(frozen=True, slots=True)
class AssignBeginBody(Body):
    """A leader assigns: member ids, partition counts, and the racks of each partition's replicas and leader it sees."""

    generation: int
    protocol: str
    members: tuple[str, ...]
    topics: Mapping[str, int]
    racks: Mapping[str, Sequence[Sequence[str]]]
    leaders: Mapping[str, Sequence[str | None]] | None = None


@dataclass(frozen=True, slots=True)
class AssignEndBody(Body):
    """A leader has assigned, or failed to.

    Args:
        members: What all members sent and were assigned. Only in recordings of a service (`kafka_assignors.record`),
            where the event is written once the coordinator has accepted the assignment.
    """

    generation: int
    protocol: str
    duration_us: int
    error: str | None = None
    members: tuple[MemberRow, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartitionsBody(Body):
    """What a member is told of partitions, and in which generation."""

    generation: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GenerationBody(PartitionsBody):
    """A member adopts an assignment, even one without a change. Recordings of a service tell more.

    Args:
        joined_ms: Wall clock of the member at which its join was answered.
        leader: Member id of the generation's leader, as the coordinator told it.
        host: The member's host, as its machine calls itself.
        sent: What the member sent to join and was assigned.
    """

    protocol: str
    joined_ms: int | None = None
    leader: str | None = None
    host: str | None = None
    sent: MemberRow | None = None


@dataclass(frozen=True, slots=True)
class CallbackBody(PartitionsBody):
    """A callback of a member's client begins or ends."""


@dataclass(frozen=True, slots=True)
class AssignedBeginBody(CallbackBody):
    """A member gets partitions."""


@dataclass(frozen=True, slots=True)
class AssignedEndBody(CallbackBody):
    """A member has taken partitions over."""


@dataclass(frozen=True, slots=True)
class RevokeBeginBody(CallbackBody):
    """A member gives partitions up."""


@dataclass(frozen=True, slots=True)
class RevokeEndBody(CallbackBody):
    """A member has given partitions up."""


@dataclass(frozen=True, slots=True)
class LostBeginBody(CallbackBody):
    """A member learns that it lost partitions."""


@dataclass(frozen=True, slots=True)
class LostEndBody(CallbackBody):
    """A member has dealt with a loss of partitions."""


@dataclass(frozen=True, slots=True)
class RebalanceRequestBody(Body):
    """A member's assignor requests a rebalance, and its client joins again."""

    why: str


@dataclass(frozen=True, slots=True)
class ConsumeBody(Body):
    """A member has consumed records."""

    offsets: tuple[OffsetRun, ...]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SentBody(Body):
    """A process of which only connections are seen was sent records below these offsets, or told to begin at them."""

    offsets: tuple[TopicOffset, ...]


@dataclass(frozen=True, slots=True)
class FinishedBody(Body):
    """A member's application has processed records; its `StartConfig` has `finishes`."""

    offsets: tuple[OffsetRun, ...]


@dataclass(frozen=True, slots=True)
class CommitBody(Body):
    """A commit of a member; `transaction` is its number, if the member transforms."""

    offsets: tuple[TopicOffset, ...]
    error: str | None = None
    transaction: int | None = None


@dataclass(frozen=True, slots=True)
class CommitBeginBody(CommitBody):
    """A member begins to commit.

    Args:
        by_client: What is committed was not named. The client chose it, and did so before this was told, or did so
            later, and may have chosen more.
    """

    by_client: bool | None = None


@dataclass(frozen=True, slots=True)
class CommitOkBody(CommitBody):
    """The commit was accepted."""


@dataclass(frozen=True, slots=True)
class CommitFailBody(CommitBody):
    """The commit was refused, or its answer never came."""

    error: str


@dataclass(frozen=True, slots=True)
class RewoundBody(Body):
    """After an aborted transaction: the positions to which a member went back."""

    offsets: tuple[TopicOffset, ...]


@dataclass(frozen=True, slots=True)
class ErrorBody(Body):
    """A failure. Of the harness: why it gave up, or `INCOMPLETE`."""

    error: str
    message: str
    fatal: bool | None = None


@dataclass(frozen=True, slots=True)
class FaultBody(Body):
    """A fault. The event's member and incarnation are the target's, if it is one member.

    Args:
        fault: Of a member: kill, pause, interrupt, stall (between two of its polls) or assign_stall. Of a broker:
            broker_kill, broker_stop, broker_pause or broker_restart. Of a proxy: cut, delay, drop or reset.
        target: The member's name, ``node N`` of a broker, or a client id.
        params: Of a proxy's fault.
    """

    fault: str
    target: str
    params: NetworkParams | None = None


@dataclass(frozen=True, slots=True)
class FaultBeginBody(FaultBody):
    """A fault begins. `coordinator`: whether the broker that it hits coordinates the group."""

    coordinator: bool | None = None


@dataclass(frozen=True, slots=True)
class FaultEndBody(FaultBody):
    """A fault is over. `hits`: how often a proxy's fault hit this member."""

    hits: int | None = None


@dataclass(frozen=True, slots=True)
class AdminBody(Body):
    """The harness changes the topics (create_topic, add_partitions, delete_topic, …), or what a member subscribes to.

    Args:
        target: The topic, or the member's name.
        topics: Topic -> its partition count after the change.
    """

    change: str
    target: str | None = None
    topics: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class AdminChangeBody(AdminBody):
    """A change is requested. `subscription`: what the member subscribes to from now on (subscribe)."""

    subscription: NewSubscription | None = None


@dataclass(frozen=True, slots=True)
class AdminChangedBody(AdminBody):
    """The brokers have made a change."""


@dataclass(frozen=True, slots=True)
class StepBody(Body):
    """A named step of a scenario begins, or the group is in a state.

    Args:
        gap_ms: How long a topic-partition may be without an owner during the step.
        beside_work: Whether time in which a service may have worked on records, and so did not join, is left out of
            that: the limit is the harness's own, not one that the user asked for.
        generation, topics, adopted_ns: Of the state ``stable``: the generation, partition counts, and the time of the
            last member's adoption.
        offsets, asked_ns: End offsets, of the states ``drained`` and ``read_back``, and when the harness asked.
        isolation: Of a ``read_back``: ``read_committed``, if it is without outputs of open or aborted transactions.
    """

    name: str
    gap_ms: int | None = None
    beside_work: bool | None = None
    generation: int | None = None
    topics: Mapping[str, int] | None = None
    adopted_ns: int | None = None
    offsets: tuple[TopicOffset, ...] | None = None
    asked_ns: int | None = None
    isolation: str | None = None


@dataclass(frozen=True, slots=True)
class TopicsBody(Body):
    """Partition counts of a member's subscription, from the brokers at its start."""

    topics: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NotStableBody(Body):
    """The group was not stable by the deadline: its expected members, and the unmet conditions."""

    waited_s: float
    members: tuple[str, ...]
    due: tuple[str, ...]
    generation: int | None = None
    topics: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class NotDrainedBody(Body):
    """At the deadline, the group had consumed up to `offset`, below `end`, of these topic-partitions."""

    waited_s: float
    left: tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True)
class TruncatedBody(Body):
    """Records were lost with a new leader: the log ended at `end`, and then at `offset`, before new ones were sent."""

    offsets: tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True)
class NotOverBody(Body):
    """Another condition was not met by its deadline."""

    waited_s: float
    awaited: str


@dataclass(frozen=True, slots=True)
class ClosingBody(Body):
    """From here on the harness stops members, so that revoked partitions need no owner."""


@dataclass(frozen=True, slots=True)
class GenerationCommittedBody(Body):
    """A record of the coordinator's log. `ts_ms`: when the join completed; 0 or less if the record lacks it."""

    generation: int
    ts_ms: int
    members: tuple[MemberRow, ...]
    protocol: str | None = None
    leader: str | None = None


@dataclass(frozen=True, slots=True)
class PositionBody(Body):
    """What is at an offset of a topic-partition."""

    topic: str
    partition: int
    offset: int

    @property
    def tp(self) -> TopicPartition:
        """The topic-partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class OffsetCommittedBody(PositionBody):
    """A committed offset in the coordinator's log."""


@dataclass(frozen=True, slots=True)
class BrokerAssignedBody(Body):
    """A record of a KIP-848 group in the coordinator's log.

    Args:
        record: Its type, by Kafka's name.
        fields: Its fields as in Kafka's JSON; None: deleted.
        pattern: Of a ``ConsumerGroupRegularExpression``.
        names: Topic id -> topic, of the topic ids in it that exist.
    """

    record: str
    fields: Mapping[str, Any] | None = None
    pattern: str | None = None
    names: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class UnreadBody(Body):
    """A record of this group in the coordinator's log that the reader does not know."""

    reason: str


@dataclass(frozen=True, slots=True)
class AckBody(Body):
    """A sent record was acknowledged.

    Args:
        predicted: The partitioner's choice.
        expected: The partition of the partitioner's rule, computed independently.
    """

    partitioner: str
    topic: str
    partition: int
    offset: int
    value_id: str
    key_hash: str | None = None
    predicted: int | None = None
    expected: int | None = None

    @property
    def tp(self) -> TopicPartition:
        """The topic-partition."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class NackBody(Body):
    """A sent record was refused."""

    partitioner: str
    topic: str
    value_id: str
    error: str
    key_hash: str | None = None
    predicted: int | None = None
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class ReadBackBody(PositionBody):
    """A record as the harness read it back.

    Args:
        author: Of an output, the member that produced it.
        appended_ms: When the broker appended it, by its clock; None if its time is its producer's.
    """

    partitioner: str
    value_id: str | None = None
    author: OutputAuthor | None = None
    appended_ms: int | None = None


@dataclass(frozen=True, slots=True)
class EndBody(Body):
    """The file is complete. `sha256` is of all lines before it; a killed process writes none."""

    sha256: str


KINDS: Mapping[str, type[Body]] = {
    # by a member
    "start": StartBody,
    "stop": StopBody,
    "assign_begin": AssignBeginBody,
    "assign_end": AssignEndBody,
    "generation": GenerationBody,
    "assigned_begin": AssignedBeginBody,
    "assigned_end": AssignedEndBody,
    "revoke_begin": RevokeBeginBody,
    "revoke_end": RevokeEndBody,
    "lost_begin": LostBeginBody,
    "lost_end": LostEndBody,
    "rebalance_request": RebalanceRequestBody,
    "consume": ConsumeBody,
    "finished": FinishedBody,
    "commit_begin": CommitBeginBody,
    "commit_ok": CommitOkBody,
    "commit_fail": CommitFailBody,
    "rewound": RewoundBody,
    "sent": SentBody,
    # by the harness; a fault also by its proxy, or by the member that stands still
    "exit": ExitBody,
    "fault_begin": FaultBeginBody,
    "fault_end": FaultEndBody,
    "admin_change": AdminChangeBody,
    "admin_changed": AdminChangedBody,
    "step": StepBody,
    "topics": TopicsBody,
    "not_stable": NotStableBody,
    "not_drained": NotDrainedBody,
    "not_over": NotOverBody,
    "truncated": TruncatedBody,
    "closing": ClosingBody,
    "read_back": ReadBackBody,
    # from the coordinator's log
    "generation_committed": GenerationCommittedBody,
    "offset_committed": OffsetCommittedBody,
    "broker_assigned": BrokerAssignedBody,
    "unread": UnreadBody,
    # by a producer
    "ack": AckBody,
    "nack": NackBody,
    # by any
    "error": ErrorBody,
    "end": EndBody,
}
"""Kind of event -> its class."""


KINDS_OF: Mapping[type[Body], tuple[str, ...]] = {
    base: tuple(kind for kind, of_kind in KINDS.items() if issubclass(of_kind, base))
    for body in KINDS.values()
    for base in body.__mro__
    if issubclass(base, Body)
}
"""Class -> the kinds whose class it is, or is derived from it."""


def kinds_of(*bodies: type[Body]) -> tuple[str, ...]:
    """The kinds whose class is one of these, or is derived from one; class by class.

    >>> kinds_of(FaultBody, AckBody)
    ('fault_begin', 'fault_end', 'ack')
    """
    return tuple(kind for body in bodies for kind in KINDS_OF[body])


T = TypeVar("T")


def decoded(cls: type[T], row: Mapping[str, Any]) -> T:
    """A body, or a part of one, from an object of JSON. Fields that the class does not have are ignored.

    Raises:
        KeyError: A field is missing that must be there. A line that fits the schema has all of them.

    >>> decoded(TopicOffset, {"topic": "t", "partition": 0, "offset": 7, "metadata": ""})
    TopicOffset(topic='t', partition=0, offset=7)
    """
    decode = _DECODERS.get(cls)
    if decode is None:
        decode = _DECODERS[cls] = _decoder(cls)
    return decode(row)  # type: ignore[no-any-return]


Decode = Callable[[Any], Any]
_DECODERS: dict[type[Any], Decode] = {}
"""Class -> how it is decoded. Each is made once: a long history has a million events of one class."""


def _decoder(cls: Any) -> Decode:
    names: tuple[str, ...]
    defaults: Mapping[str, Any]
    if hasattr(cls, "_fields"):
        names, defaults = cls._fields, cls._field_defaults
    else:
        names = tuple(field.name for field in fields(cls))
        defaults = {field.name: field.default for field in fields(cls) if field.default is not MISSING}
    hints = get_type_hints(cls)
    converters = [(at, convert) for at, name in enumerate(names) if (convert := _converter(hints[name])) is not None]
    required, optional = names[: len(names) - len(defaults)], names[len(names) - len(defaults) :]
    required_of: Decode = itemgetter(*required) if len(required) > 1 else lambda row: [row[name] for name in required]
    if not converters:  # acknowledgements, and the rows of what was consumed and committed: most of a history
        if not optional:
            return lambda row: cls(*required_of(row))
        return lambda row: cls(*required_of(row), *map(row.get, optional))

    def decode(row: Mapping[str, Any]) -> Any:
        values = [*required_of(row), *map(row.get, optional)]
        for at, convert in converters:
            if values[at] is not None:
                values[at] = convert(values[at])
        return cls(*values)

    return decode


def _converter(hint: Any) -> Decode | None:
    """How a field's value is made from JSON's; None: it is taken as it is."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (one for one in get_args(hint) if one is not type(None))
    if get_origin(hint) is tuple:
        convert = _converter(get_args(hint)[0])
        return tuple if convert is None else lambda values: tuple(map(convert, values))
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return _decoder(hint)
    return None
