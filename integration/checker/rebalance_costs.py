"""Cost of a group's changes: rebalances, time without an owner, moves, needless revokes, duplicates. Pure.

Rebalances and moves are counted by `history.rebalances`, as in `why`, `exporter` and the pipeline. No law counts them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import WireError
from kafka_assignors.history.events import Event
from kafka_assignors.history.events.bodies import ConsumeBody, FaultBeginBody, GenerationCommittedBody, StepBody
from kafka_assignors.history.generations import from_events
from kafka_assignors.history.rebalances import Rebalance, of_generations

from .ledger import Generation, GroupRecord
from .transitions import Transition, transitions

STATES = ("stable", "drained", "read_back")
"""Steps that record a state; every other step starts a named step of a scenario."""


@dataclass(frozen=True)
class Gap:
    """A time in which a subscribed topic-partition had no owner; if not `ended`, until the harness stopped members."""

    tp: TopicPartition
    from_ns: int
    until_ns: int
    ended: bool

    @property
    def ms(self) -> float:
        """Duration in ms."""
        return (self.until_ns - self.from_ns) / 1e6


def gaps(record: GroupRecord) -> list[Gap]:
    """Every time without an owner, by topic-partition and start.

    A gap lies between two owners, or extends to the end if running members subscribe to a topic-partition that nobody
    owns then. The second kind starts when the last owner's interval ended; without one, with the first generation that
    had to assign the topic-partition.
    """
    all_gaps = [
        Gap(span.tp, span.interval.start_ns - round(ms * 1e6), span.interval.start_ns, True)
        for span in record.spans
        if (ms := span.interval.gap_before_ms)
    ]
    end_ns = _watched_until(record)
    last: dict[TopicPartition, int] = {}
    for span in record.spans:
        last[span.tp] = max(last.get(span.tp, 0), span.interval.end_ns)
    for tp in _due(record, end_ns):
        from_ns = last[tp] if tp in last else _due_since(record, tp)
        if from_ns < end_ns:
            all_gaps.append(Gap(tp, from_ns, end_ns, False))
    return sorted(all_gaps, key=lambda gap: (gap.tp, gap.from_ns))


def _watched_until(record: GroupRecord) -> int:
    """When the harness began to stop the members; without that event, the time of its last event other than an exit."""
    closing = record.events["closing"]
    if closing:
        return closing[0].mono_ns
    times = (
        e.mono_ns for kind, events in record.events.items() if kind != "exit" for e in events if e.src == "harness"
    )
    return max(times, default=0)


def _due(record: GroupRecord, at_ns: int) -> list[TopicPartition]:
    """The topic-partitions that must have an owner at a time."""
    committed = [e for e in record.events.of(GenerationCommittedBody) if e.mono_ns <= at_ns]
    generations = [g for g in record.generations if g.event.mono_ns <= at_ns]
    if not generations or (committed and not max(committed, key=lambda e: e.seq).body.members):
        return []
    ended = {(e.member, e.incarnation) for e in record.events["exit"] if e.mono_ns <= at_ns}
    running = [m for m in generations[-1].assigned if record.processes.get(m) not in ended]
    topics = {topic: record.count_of(topic, at_ns) or 0 for topic in _topics(generations[-1], running)}
    return [TopicPartition(topic, partition) for topic, count in topics.items() for partition in range(count)]


def _due_since(record: GroupRecord, tp: TopicPartition) -> int:
    """The first time at which a topic-partition existed and a generation could assign it."""
    there = next(ns for ns, topics in record.counts if topics.get(tp.topic, 0) > tp.partition)
    return max(there, next(g.event.mono_ns for g in record.generations if tp.topic in _topics(g, g.assigned)))


def _topics(generation: Generation, members: Iterable[str]) -> set[str]:
    topics: set[str] = set()
    for member in members:
        with suppress(WireError):  # the laws report it
            topics |= generation.topics_of(member)
    return topics


@dataclass(frozen=True)
class Cost:
    """Cost of one named step, until the group is stable again. Times come from the members' own callbacks.

    Args:
        ms: From the start of the step to the last member's adoption; None without a named step, or if the history
            does not have that time.
        stop_ms: Longest time that a subscribed topic-partition had no owner, without the time before its first owner.
        least, needless: Fewest moves needed, and needless moves; None if a rebalance doesn't tell (racks, an assignor
            by work).
        asked: Whether only scenario actions changed the membership: not, for example, a session missed on a busy
            machine.
        from_ns, until_ns: When the step began, and when the group was stable, monotonic ns.
    """

    group: str
    name: str  # empty if the group became stable without a named step
    generation: int  # generation in which the group became stable
    generations: int  # distinct generations committed since the previous stable state. Rebalances and moves are theirs.
    rebalances: int
    ms: float | None
    stop_ms: float
    downtime_ms: float  # sum of those times over all topic-partitions, in partition·ms
    moves: int
    least: int | None
    needless: int | None
    returned: int  # needless revokes
    duplicates: int | None  # records read again; None: of a process only its connections were seen
    asked: bool
    killed: bool  # whether a member was killed, so that the stop contains its session timeout
    first: bool  # whether the group was not stable before: its members start
    from_ns: int
    until_ns: int


def rebalances_of(record: GroupRecord) -> list[Rebalance]:
    """What happened in a group, by the coordinator's log in its history; targets of a KIP-848 group are generations."""
    kinds = "generation_committed", "offset_committed"
    log = [*(event for kind in kinds for event in record.events[kind]), *record.reconciliation.targets]
    return of_generations(from_events(sorted(log, key=lambda event: event.seq)))


def costs(record: GroupRecord, rebalances: Sequence[Rebalance]) -> list[Cost]:
    """The cost of each change between two stable states of a group, in order.

    A rebalance (of `rebalances_of`) counts for the change that has its last generation; a gap or a duplicate for the
    last named step before it, because some appear only after the group is stable.

    Cost: O(n log n) for n intervals and consumed runs, plus `transitions`.
    """
    changes = list(transitions(record))
    named = [_named(record, transition) for transition in changes]
    begins = [
        (0 if transition.rest is None else transition.rest.mono_ns) if step is None else step.mono_ns
        for transition, step in zip(changes, named, strict=True)
    ]
    # Also steps that never became stable: their gaps do not count for the step before.
    edges = sorted({*begins, *(step.mono_ns for step in named_steps(record))})

    def begin_of(at_ns: int) -> int:
        return edges[max(0, bisect_right(edges, at_ns) - 1)] if edges else 0

    stops: dict[int, list[float]] = defaultdict(list)
    for gap in gaps(record):
        stops[begin_of(gap.until_ns)].append(gap.ms)
    again: dict[int, int] = defaultdict(int)
    for at_ns, records in _read_again(record):
        again[begin_of(at_ns)] += records
    return [
        Cost(
            group=record.group,
            name="" if step is None else step.body.name,
            generation=transition.after.number,
            generations=len({g.number for g in transition.generations}),
            rebalances=len(mine),
            ms=_adopted_ms(step, transition.end),
            stop_ms=max(stops[begin], default=0.0),
            downtime_ms=sum(stops[begin]),
            moves=sum(rebalance.moved for rebalance in mine),
            least=_sum(rebalance.fewest for rebalance in mine),
            needless=_sum(rebalance.needless for rebalance in mine),
            returned=sum(rebalance.returned for rebalance in mine),
            duplicates=None if record.on_wire else again[begin],
            asked=transition.asked,
            killed=any(isinstance(e.body, FaultBeginBody) and e.body.fault == "kill" for e in transition.triggers),
            first=transition.before is None,
            from_ns=begin,
            until_ns=transition.end.mono_ns,
        )
        for transition, step, begin in zip(changes, named, begins, strict=True)
        for mine in [_in(transition, rebalances)]
    ]


def named_steps(record: GroupRecord) -> list[Event[StepBody]]:
    """The steps that do not record a state."""
    return [step for step in record.events.of(StepBody) if step.body.name not in STATES]


def _in(transition: Transition, rebalances: Iterable[Rebalance]) -> list[Rebalance]:
    numbers = {generation.number for generation in transition.generations}
    return [rebalance for rebalance in rebalances if rebalance.counted and rebalance.generations[-1] in numbers]


def _sum(values: Iterable[int | None]) -> int | None:
    numbers = list(values)
    return None if None in numbers else sum(value or 0 for value in numbers)


def _named(record: GroupRecord, transition: Transition) -> Event[StepBody] | None:
    since = 0 if transition.rest is None else transition.rest.mono_ns
    steps = [step for step in named_steps(record) if since < step.mono_ns < transition.end.mono_ns]
    return steps[-1] if steps else None


def _adopted_ms(step: Event[StepBody] | None, rest: Event[StepBody]) -> float | None:
    if step is None or rest.body.adopted_ns is None:
        return None
    return max(0.0, (rest.body.adopted_ns - step.mono_ns) / 1e6)


def _read_again(record: GroupRecord) -> Iterator[tuple[int, int]]:
    """(when, how many): records that a member of the group had already consumed."""
    reached: dict[TopicPartition, int] = {}
    for event in record.events.of(ConsumeBody):
        for run in event.body.offsets:
            if (last_offset := reached.get(run.tp, -1)) >= run.first:
                yield event.mono_ns, min(last_offset, run.last) - run.first + 1
            reached[run.tp] = max(last_offset, run.last)
