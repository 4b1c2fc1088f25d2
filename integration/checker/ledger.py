"""A history indexed for the laws: generations, processes and intervals per group, and the records of the run."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from kafka_assignors.core.declaration import is_ours
from kafka_assignors.core.group import TopicPartition, identity_of
from kafka_assignors.core.strategies import STRATEGIES
from kafka_assignors.core.wire.protocol import Subscription, decode_assignment, decode_subscription
from kafka_assignors.errors import WireError
from kafka_assignors.history.events import WIRE, Event, EventsByKind, generation_in, is_of
from kafka_assignors.history.events.bodies import (
    AckBody,
    AdminChangeBody,
    AssignBeginBody,
    BrokerAssignedBody,
    CommitBeginBody,
    CommitBody,
    ExitBody,
    FaultBeginBody,
    GenerationBody,
    GenerationCommittedBody,
    MemberRow,
    NackBody,
    NotStableBody,
    ReadBackBody,
    StartBody,
    StepBody,
    StopBody,
    TopicsBody,
    TruncatedBody,
)
from kafka_assignors.history.timeline import Span, spans

from ..history import History
from ..names import COOPERATIVE, EITHER
from .busy import Busy
from .reconciliation import Reconciliation
from .slack import around

Process = tuple[str | None, int]
"""Member name, incarnation."""


@dataclass(frozen=True, eq=False)
class Truncation:
    """A partition's log ended at `end`, and at `offset` under its next leader: the offsets in between are lost.

    The event that records it is written before anything is sent to the new leader.
    """

    tp: TopicPartition
    offset: int
    end: int
    event: Event[TruncatedBody]

    def covers(self, offset: int) -> bool:
        """Whether an offset was lost."""
        return self.offset <= offset < self.end

    def between(self, one: Event, other: Event) -> bool:
        """Whether it lies between two events, which therefore describe different logs."""
        first, last = sorted((one.mono_ns, other.mono_ns))
        return first < self.event.mono_ns <= last


Truncations = Mapping[TopicPartition, Sequence[Truncation]]
"""Topic-partition -> its truncations, by time."""


@dataclass(frozen=True)
class Generation:
    """A committed generation with at least one member, decoded, by member id; a member's name is its client id."""

    event: Event
    body: GenerationCommittedBody
    number: int
    protocol: str
    leader: str
    assigned: Mapping[str, frozenset[TopicPartition]]
    names: Mapping[str, str]

    @classmethod
    def of(
        cls, event: Event, body: GenerationCommittedBody, names: Mapping[str, str | None] | None = None
    ) -> Generation:
        """Index the generation of an event. `names`, member id -> name, override the event's client ids.

        The client id is outdated for a static member whose instance id another process took.
        """
        return cls(
            event,
            body,
            body.generation,
            body.protocol or "",
            body.leader or "",
            {m.member_id: frozenset(m.assigned) for m in body.members},
            {m.member_id: (names or {}).get(m.member_id) or m.client_id for m in body.members},
        )

    @property
    def by_broker(self) -> bool:
        """Whether it is a target assignment of the consumer protocol (KIP-848)."""
        return self.event.kind == "broker_assigned"

    @property
    def completed_ns(self) -> int:
        """When its join completed, on the coordinator's clock. Its record is written after the leader has assigned.

        Without that time (a target assignment, a very old broker), it is the record's own.
        """
        joined_ms = self.body.ts_ms
        late_ns = self.event.ts_ns - joined_ms * 1_000_000 if joined_ms > 0 else 0
        return self.event.mono_ns - max(0, late_ns)

    def converts(self, before: Generation) -> bool:
        """Whether it is `before` in the records of the other protocol: the coordinator converted the running group.

        Members whose join was pending are converted with the others, and have no partitions.
        """
        if self.by_broker == before.by_broker:
            return False
        news = self.assigned.keys() - before.assigned.keys()
        return not news or (self.number == before.number and not any(self.assigned[member] for member in news))

    def topics_of(self, member_id: str) -> frozenset[str]:
        """A member's subscribed topics. Raises `WireError` if its bytes are not a subscription."""
        return frozenset(self.subscription_of(member_id).topics)

    def subscription_of(self, member_id: str) -> Subscription:
        """A member's subscription when it joined. Raises `WireError` if its bytes are not a subscription."""
        row = next(m for m in self.body.members if m.member_id == member_id)
        return decode_subscription(bytes.fromhex(row.subscription))

    @property
    def contradicts_itself(self) -> bool:
        """Whether a member's raw assignment differs from its decoded row; unreadable bytes count as no partitions."""
        for row in self.body.members:
            raw: frozenset[TopicPartition] = frozenset()
            with suppress(WireError, ValueError):
                decoded = decode_assignment(bytes.fromhex(row.assignment)).partitions
                raw = frozenset(TopicPartition(t, p) for t, ps in decoded.items() for p in ps)
            if raw != self.assigned[row.member_id]:
                return True
        return False

    def rewrites(self, before: Generation) -> bool:
        """Whether it is `before` written again because static members returned under new ids to the same assignment."""
        news = set(self.assigned) - set(before.assigned)
        return (
            self.number == before.number
            and self.protocol == before.protocol
            and bool(news)
            and all(self.identities[m] != m for m in news)
            and sorted(self.identities.values()) == sorted(before.identities.values())
            and {self.identities[m]: tps for m, tps in self.assigned.items()}
            == {before.identities[m]: tps for m, tps in before.assigned.items()}
        )

    @cached_property
    def identities(self) -> Mapping[str, str]:
        """Member id -> the instance id of a static member, else the member id."""
        return {m.member_id: identity_of(m.member_id, m.instance_id) for m in self.body.members}

    @cached_property
    def owners(self) -> dict[TopicPartition, str]:
        """Topic-partition -> identity of the member to which it is assigned."""
        return {tp: self.identities[m] for m, tps in self.assigned.items() for tp in tps}


class GroupRecord:
    """The events of one group, indexed for the laws."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.events = EventsByKind()
        self.spans: list[Span] = []
        self.counts: list[tuple[int, Mapping[str, int]]] = []  # mono_ns, topic -> partition count
        self.truncated: Truncations = {}
        self._members: dict[int, Mapping[str, Process]] = {}  # by the generation's identity
        self._present: dict[int, frozenset[Process]] = {}

    @cached_property
    def generations(self) -> list[Generation]:
        """Committed generations with members, in log order, without `conversions`."""
        converted = {id(after) for _, after in self.conversions}
        return [generation for generation in self._committed if id(generation) not in converted]

    @cached_property
    def conversions(self) -> list[tuple[Generation, Generation]]:
        """A generation, and the same in the records of the other protocol, to which the coordinator converted it."""
        return [(before, after) for before, after in pairwise(self._committed) if after.converts(before)]

    @cached_property
    def _committed(self) -> list[Generation]:
        committed = sorted([*self.events["generation_committed"], *self.reconciliation.targets], key=lambda e: e.seq)
        names = {member_id: name for member_id, (name, _) in self.processes.items()}
        bodies = ((event, generation_in(event)) for event in committed)
        return [Generation.of(event, body, names) for event, body in bodies if body is not None and body.members]

    @cached_property
    def reconciliation(self) -> Reconciliation:
        """The records of a KIP-848 group, replayed; empty for a classic group."""
        classic = {m.member_id: e.seq for e in self.events.of(GenerationCommittedBody) for m in e.body.members}
        return Reconciliation.of(self.group, sorted(self.events.of(BrokerAssignedBody), key=lambda e: e.seq), classic)

    @property
    def broker_assigned(self) -> bool:
        """Whether it is a KIP-848 group, at least for a time: a group may change its protocol while it runs."""
        return bool(self.events["broker_assigned"])

    def speaks_consumer(self, process: Process) -> bool:
        """Whether a process speaks the consumer protocol (KIP-848)."""
        start = self.starts.get(process)
        return start is not None and start.body.config.protocol == "consumer"

    @cached_property
    def adopted(self) -> set[tuple[str | None, int]]:
        """(member id, generation) of every adoption.

        A member of a KIP-848 group reports changes only, so its epochs in the coordinator's log count.
        """
        adoptions = {(e.member_id, e.body.generation) for e in self.events.of(GenerationBody)}
        epochs = {g.number for g in self.generations if g.by_broker}
        return {adoption for adoption in adoptions if adoption[1] not in epochs} | self.reconciliation.reached

    @cached_property
    def by_number(self) -> dict[int, Generation]:
        """Committed generations by number; if one was written again (a static member returned), its last version."""
        return {g.number: g for g in self.generations}

    def generation_of(self, number: int | None, member_id: str | None) -> Generation | None:
        """A generation by number; if a static member returned under a new id, the last version with `member_id`."""
        if number is None:
            return None
        written = [g for g in self._writings.get(number, ()) if member_id in g.assigned]
        return written[-1] if written else self.by_number.get(number)

    def first_writing(self, number: int) -> Generation | None:
        """The first version of the committed generation with a number."""
        return self._writings[number][0] if number in self._writings else None

    def joined_after(self, number: int, member_id: str | None) -> Generation | None:
        """The first committed generation of a greater number that a member has joined; None: it joined no later one.

        The broker of a KIP-848 group does not wait for its members.
        """
        later = (g for g in self.generations if g.number > number and member_id in g.assigned)
        return next((g for g in later if not g.by_broker), None)

    def written_between(self, number: int, from_ns: int, until_ns: int) -> Sequence[Generation]:
        """The versions of a committed generation that stood from one time to another; otherwise its first version."""
        writings = self._writings.get(number, ())
        before = [g for g in writings if g.event.mono_ns <= from_ns][-1:]
        return [*before, *(g for g in writings if from_ns < g.event.mono_ns <= until_ns)] or writings[:1]

    @cached_property
    def _writings(self) -> dict[int, list[Generation]]:
        writings: dict[int, list[Generation]] = defaultdict(list)
        for generation in self.generations:
            writings[generation.number].append(generation)
        return dict(writings)

    @cached_property
    def processes(self) -> dict[str, Process]:
        """Member id -> (member name, incarnation), as the members report it."""
        return {e.member_id: (e.member, e.incarnation) for e in self.events["generation"] if e.member_id}

    def members_of(self, generation: Generation) -> Mapping[str, Process]:
        """Member id -> process, for every member of a generation.

        A member id that no process has reported belongs to the last process started by then under the member's instance
        id, or, if the member is dynamic, under its name.
        """
        members = self._members.get(id(generation))
        if members is None:
            rows = generation.body.members
            members = {m.member_id: self.processes.get(m.member_id) or self._latest(generation, m) for m in rows}
            self._members[id(generation)] = members
        return members

    def present(self, generation: Generation) -> frozenset[Process]:
        """The processes in a generation."""
        processes = self._present.get(id(generation))
        if processes is None:
            processes = self._present[id(generation)] = frozenset(self.members_of(generation).values())
        return processes

    def _latest(self, generation: Generation, row: MemberRow) -> Process:
        instance, name = row.instance_id, row.client_id
        started = [
            start
            for start in self.events["start"]
            if start.mono_ns <= generation.event.mono_ns
            and (start.member == name if instance is None else start.instance_id == instance)
        ]
        return (started[-1].member, started[-1].incarnation) if started else (name, 0)

    @cached_property
    def last_ns(self) -> int:
        """Time of the group's last event, monotonic ns; 0 without events."""
        return max((e.mono_ns for events in self.events.values() for e in events), default=0)

    @cached_property
    def first_told(self) -> dict[Process, Event]:
        """Process -> the earliest event that it wrote."""
        first_events: dict[Process, Event] = {}
        for events in self.events.values():
            for event in events:
                if event.src == "member":
                    process = event.member, event.incarnation
                    if process not in first_events or event.mono_ns < first_events[process].mono_ns:
                        first_events[process] = event
        return first_events

    @cached_property
    def event_times(self) -> Mapping[Process, Sequence[int]]:
        """Process -> times of the events that it wrote, monotonic ns, in order."""
        times: dict[Process, list[int]] = defaultdict(list)
        for events in self.events.values():
            for event in events:
                if event.src == "member":
                    times[event.member, event.incarnation].append(event.mono_ns)
        return {process: sorted(mine) for process, mine in times.items()}

    @cached_property
    def last_told(self) -> Mapping[Process, int]:
        """Process -> time of the last event that it wrote, monotonic ns."""
        return {process: times[-1] for process, times in self.event_times.items()}

    @cached_property
    def starts(self) -> dict[Process, Event[StartBody]]:
        """(member name, incarnation) -> its ``start`` event."""
        return {(e.member, e.incarnation): e for e in self.events.of(StartBody)}

    @cached_property
    def on_wire(self) -> frozenset[Process]:
        """The processes that are seen on their connections alone (`WIRE`)."""
        return frozenset(process for process, start in self.starts.items() if start.client == WIRE)

    def cooperative(self, process: Process) -> bool:
        """Whether a process rebalances incrementally: it offers only cooperative assignors, or joins with claims.

        A process with one eager assignor in its list revokes everything (KIP-429).
        """
        if self.speaks_consumer(process):
            return True
        start = self.starts.get(process)
        return process in self._kept or (start is not None and set(start.body.assignors) == {COOPERATIVE})

    @cached_property
    def cooperative_protocols(self) -> frozenset[str]:
        """The assignors under which members keep their partitions during a rebalance.

        An assignor of any name is one if a member claimed partitions when it joined under it.
        """
        by_broker = (generation.protocol for generation in self.generations if generation.by_broker)
        return frozenset({COOPERATIVE, *self._kept.values(), *by_broker})

    @cached_property
    def _kept(self) -> dict[Process | None, str]:
        """Process that claimed partitions when it joined -> its assignor, unless the name tells the protocol."""
        assignors: dict[Process | None, str] = {}
        for generation in self.generations:
            if generation.by_broker or (generation.protocol in STRATEGIES and generation.protocol not in EITHER):
                continue
            for member_id in generation.assigned:
                with suppress(WireError):  # the laws report it
                    if generation.subscription_of(member_id).owned:
                        assignors[self.processes.get(member_id)] = generation.protocol
        return assignors

    def start_of(self, member_id: str) -> Event[StartBody] | None:
        """The ``start`` event of the process with a member id; None for members that report nothing."""
        process = self.processes.get(member_id)
        return None if process is None else self.starts.get(process)

    def strategy_of_leader(self, generation: Generation) -> str:
        """The harness's name of the strategy that a generation's leader ran; ``an assignor:?`` if unknown."""
        return self.strategy_of(generation.leader, generation.protocol)

    def strategy_of(self, member_id: str, protocol: str) -> str:
        """The harness's name of the strategy that a member has for a protocol; ``an assignor:?`` if unknown."""
        start = self.start_of(member_id)
        if start is None:
            return "an assignor:?"
        offered = dict(zip(start.body.assignors, start.body.config.assignors or (), strict=False))
        return str(offered.get(protocol, "an assignor:?"))

    def led_by_ours(self, generation: Generation) -> bool:
        """Whether the leader of a generation ran this distribution's strategy of the elected name."""
        return is_ours(self.strategy_of_leader(generation))

    @cached_property
    def rests(self) -> list[Event[StepBody]]:
        """The steps ``stable``: each has its generation."""
        steps = self.events.of(StepBody)
        return [step for step in steps if step.body.name == "stable" and step.body.generation is not None]

    @cached_property
    def kills(self) -> list[Event[FaultBeginBody]]:
        """The harness's kills."""
        return [fault for fault in self.events.of(FaultBeginBody) if fault.body.fault == "kill"]

    @cached_property
    def killed(self) -> frozenset[Process]:
        """The processes that the harness killed."""
        return frozenset((kill.member, kill.incarnation) for kill in self.kills)

    @cached_property
    def busy(self) -> Busy:
        """When its members could not join."""
        return Busy(event for events in self.events.values() for event in events if event.src == "member")

    @cached_property
    def cut_off(self) -> Mapping[Process, tuple[int, int]]:
        """Process of `tell_late` that ended without ``stop`` -> its kill, and its end, ns.

        Its last commits are never told. A process that was not killed has its end for both; the harness may see an end
        late.
        """
        stopped = {(e.member, e.incarnation) for e in self.events.of(StopBody)}
        exits = {(e.member, e.incarnation): e.mono_ns for e in self.events.of(ExitBody)}
        kills = {(e.member, e.incarnation): e.mono_ns for e in self.kills}
        return {p: (kills.get(p, exits[p]), exits[p]) for p in self.tell_late & exits.keys() - stopped}

    @cached_property
    def tell_late(self) -> frozenset[Process]:
        """The processes whose client chooses what it commits, and tells of it as the application polls again."""
        by_itself = {process for process, start in self.starts.items() if start.body.config.auto_commit}
        asked = {(e.member, e.incarnation) for e in self.events.of(CommitBeginBody) if is_by_client(e)}
        return frozenset(by_itself | asked)

    @cached_property
    def views(self) -> dict[tuple[str | None, int], Event[AssignBeginBody]]:
        """(leader's member id, generation) -> its ``assign_begin`` event."""
        return {(e.member_id, e.body.generation): e for e in self.events.of(AssignBeginBody)}

    def count_of(self, topic: str, at_ns: int) -> int | None:
        """Partition count of a topic at a time: the last count known by then, otherwise the first known later."""
        counts = self._counts_of.get(topic)
        if counts is None:
            return None
        return counts[max(0, bisect_right(counts, at_ns, key=lambda row: row[0]) - 1)][1]

    @cached_property
    def _counts_of(self) -> dict[str, list[tuple[int, int]]]:
        """Topic -> (time, partition count), by time."""
        counts: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for ns, topics in self.counts:
            for topic, count in topics.items():
                counts[topic].append((ns, count))
        return dict(counts)

    def cut_off_at(self, tp: TopicPartition, at_ns: int) -> Sequence[Process]:
        """Those of `cut_off` that may have committed for a topic-partition of theirs at a broker's time."""
        earliest_ns, latest_ns = around(at_ns)
        return [
            process
            for process, (_, end_ns) in self.cut_off.items()
            if earliest_ns <= end_ns
            and any(
                (span.tp, span.owner[1:]) == (tp, process)
                and span.interval.start_ns <= latest_ns
                and (earliest_ns <= span.interval.end_ns or span.interval.end_kind == "killed")  # ends as it is begun
                for span in self.spans
            )
        ]

    def ended(self, from_ns: int, until_ns: int) -> list[Span]:
        """The intervals that an event ended between two times (inclusive), by end time."""
        begin = bisect_left(self._by_end, from_ns, key=lambda span: span.interval.end_ns)
        return self._by_end[begin : bisect_right(self._by_end, until_ns, key=lambda span: span.interval.end_ns)]

    @cached_property
    def _by_end(self) -> list[Span]:
        return sorted((s for s in self.spans if s.end is not None), key=lambda span: span.interval.end_ns)


def is_by_client(commit: Event[CommitBody]) -> bool:
    """Whether it begins a commit of what the client chose, and when."""
    return is_of(commit, CommitBeginBody) and bool(commit.body.by_client)


RecordPlace = tuple[str, int, int]
"""Topic, partition, offset."""


class Acked(NamedTuple):
    """The acknowledged records of a topic-partition, by offset; those of one offset as they were acknowledged."""

    offsets: Sequence[int]
    acks: Sequence[Event[AckBody]]

    def between(self, first: int, end: int) -> Sequence[Event[AckBody]]:
        """Those with an offset in [first, end)."""
        return self.acks[bisect_left(self.offsets, first) : bisect_left(self.offsets, end)]


@dataclass
class RunRecord:
    """A whole run, indexed for the laws."""

    groups: dict[str, GroupRecord]
    acks: list[Event[AckBody]]
    passes: list[tuple[Event[StepBody], dict[RecordPlace, Event[ReadBackBody]]]]  # read_back step, place -> event
    nacks: list[Event[NackBody]]
    truncated: Truncations
    read_backs: list[Event[ReadBackBody]]  # also of a reading that did not reach its end

    @classmethod
    def of(cls, history: History) -> RunRecord:
        """Index a history's events."""
        groups: dict[str, GroupRecord] = {}
        by_kind = EventsByKind()
        for event in history.events:
            if event.group is not None:
                if event.group not in groups:
                    groups[event.group] = GroupRecord(event.group)
                groups[event.group].events[event.kind].append(event)
            by_kind[event.kind].append(event)
        truncated: dict[TopicPartition, list[Truncation]] = defaultdict(list)
        for truncation in by_kind.of(TruncatedBody):
            for row in truncation.body.offsets:
                truncated[row.tp].append(Truncation(row.tp, row.offset, row.end, truncation))
        for span in spans(history.events):
            groups[span.interval.group].spans.append(span)
        counts = _counts(by_kind)
        for record in groups.values():
            record.counts = counts
            record.truncated = dict(truncated)
        return cls(
            groups, by_kind.of(AckBody), _passes(by_kind), by_kind.of(NackBody), dict(truncated),
            by_kind.of(ReadBackBody),
        )  # fmt: skip

    @cached_property
    def acked(self) -> Mapping[TopicPartition, Acked]:
        """The acknowledged records of each topic-partition that has some."""
        by_place: dict[tuple[str, int], list[Event[AckBody]]] = defaultdict(list)
        for ack in self.acks:
            by_place[ack.body.topic, ack.body.partition].append(ack)
        rows = {place: sorted(acks, key=_offset_of) for place, acks in by_place.items()}
        return {TopicPartition(*place): Acked([*map(_offset_of, acks)], acks) for place, acks in rows.items()}


def _offset_of(ack: Event[AckBody]) -> int:
    return ack.body.offset


def _counts(by_kind: EventsByKind) -> list[tuple[int, Mapping[str, int]]]:
    """(mono_ns, topic -> partition count) of the events that have partition counts, in order."""
    counting: list[Event[AdminChangeBody | StepBody | TopicsBody | NotStableBody]] = [
        *by_kind.of(AdminChangeBody),
        *by_kind.of(StepBody),
        *by_kind.of(TopicsBody),
        *by_kind.of(NotStableBody),
    ]
    counting.sort(key=_in_history)
    return [(event.mono_ns, event.body.topics) for event in counting if event.body.topics is not None]


def _passes(by_kind: EventsByKind) -> list[tuple[Event[StepBody], dict[RecordPlace, Event[ReadBackBody]]]]:
    """The steps ``read_back``, with the records that were read since the one before."""
    records, begin = by_kind.of(ReadBackBody), 0
    passes = []
    for step in by_kind.of(StepBody):
        if step.body.name == "read_back":
            end = bisect_left(records, _in_history(step), key=_in_history)
            rows = ((event.body, event) for event in records[begin:end])
            passes.append((step, {(row.topic, row.partition, row.offset): event for row, event in rows}))
            begin = end
    return passes


def _in_history(event: Event) -> tuple[int, str, int]:
    """The place of an event in the order of a `History`."""
    return event.mono_ns, event.src, event.seq


def lost_with(ack: Event[AckBody], truncated: Truncations) -> Truncation | None:
    """The truncation that lost an acknowledged record; None if it was not lost."""
    record = ack.body
    for truncation in truncated.get(record.tp, ()):
        if ack.mono_ns < truncation.event.mono_ns and truncation.covers(record.offset):
            return truncation
    return None
