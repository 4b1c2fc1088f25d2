"""Extracts a group's ownership timeline from its history as values. Pure; `timeline_svg` draws it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import groupby

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event, is_of
from kafka_assignors.history.events.bodies import AckBody, FaultBody, StepBody
from kafka_assignors.history.timeline import Interval, Span

from ..checker.laws.excuses import Excuses, excuses, zombie_of
from ..checker.ledger import Generation, GroupRecord, RunRecord
from ..checker.rebalance_costs import STATES, gaps
from ..history import History

OWNED, ZOMBIE, GAP, OVERLAP, SHARED = "owned", "zombie", "gap", "overlap", "shared"
"""Kinds of bar: one owner; a zombie; no owner; two owners; an owner beside a zombie."""

_POINT_S = 0.05
"""Width of an instantaneous fault, such as a kill."""


@dataclass(frozen=True)
class Bar:
    """A time span in the row of one topic-partition."""

    row: int  # index into `TimelineView.rows`
    kind: str
    member: str  # the owner; for `SHARED` the owner that is not the zombie; empty for a gap or an overlap
    start_s: float  # since the timeline's start
    end_s: float
    title: str


@dataclass(frozen=True)
class Mark:
    """A step, generation or fault of the whole group: a moment, or a time span if it has an end."""

    at_s: float
    label: str
    title: str
    end_s: float | None = None


@dataclass(frozen=True)
class TimelineView:
    """The timeline of one group."""

    rows: tuple[TopicPartition, ...]  # topic-partitions, sorted; includes those that nobody ever owned
    seconds: float
    members: tuple[str, ...]
    bars: tuple[Bar, ...]  # in drawing order; later bars cover earlier ones
    steps: tuple[Mark, ...]  # starts of named steps; labels are their numbers, from 1
    generations: tuple[Mark, ...]  # committed generations, or targets of the broker (KIP-848); labels are their numbers
    faults: tuple[Mark, ...]  # each with its target and duration
    downtime_ms: tuple[float, ...]  # time without an owner per row (`costs.gaps`)
    records: tuple[int, ...]  # acknowledged records per row


def timeline_views(history: History) -> dict[str, TimelineView]:
    """Group -> its timeline, if its members ever owned a partition. O(n log n) for n events and topic-partitions."""
    groups = RunRecord.of(history).groups
    return {group: _timeline_view(history, record) for group, record in groups.items() if record.spans}


def _timeline_view(history: History, record: GroupRecord) -> TimelineView:
    group, its, without, excused = record.group, record.spans, gaps(record), excuses(record)
    events = [e for e in history.events if e.group == group]
    others = [e for e in history.events if e.group is None]
    steps = [e for e in events if is_of(e, StepBody) and e.body.name not in STATES]
    begin = min([s.interval.start_ns for s in its] + [e.mono_ns for e in steps])
    end = max([s.interval.end_ns for s in its] + [e.mono_ns for e in steps] + [gap.until_ns for gap in without])
    rows = tuple(sorted({s.tp for s in its} | {gap.tp for gap in without}))
    row_of = {tp: i for i, tp in enumerate(rows)}

    def s(ns: int) -> float:
        return (ns - begin) / 1e9

    bars: list[Bar] = []
    for tp, row in groupby(its, lambda span: span.tp):
        bars += [
            Bar(row_of[tp], kind, member, max(0.0, s(from_ns)), s(to_ns), title)
            for kind, member, from_ns, to_ns, title in _row(list(row), excused)
        ]
    order = (OWNED, GAP, ZOMBIE, SHARED, OVERLAP)
    downtime: Counter[TopicPartition] = Counter()
    for gap in without:
        # A gap that never ended extends to the edge.
        until_s = s(gap.until_ns) if gap.ended else s(end)
        more = "" if gap.ended else ", until the end"
        title = f"no member owns {_named(gap.tp)}: {gap.ms:.1f} ms{more}"
        bars.append(Bar(row_of[gap.tp], GAP, "", max(0.0, s(gap.from_ns)), until_s, title))
        downtime[gap.tp] += round(gap.ms * 1000)
    acked = Counter(e.body.tp for e in others if is_of(e, AckBody))
    return TimelineView(
        rows,
        (end - begin) / 1e9,
        tuple(sorted({span.interval.member for span in its})),
        tuple(sorted(bars, key=lambda bar: order.index(bar.kind))),
        tuple(Mark(s(e.mono_ns), str(i), e.body.name) for i, e in enumerate(steps, start=1)),
        tuple(
            Mark(max(0.0, s(generation.event.mono_ns)), str(generation.number), _of_generation(generation))
            for generation in record.generations
        ),
        tuple(
            Mark(s(from_ns), label, f"{label}: {s(from_ns):.2f} s to {s(to_ns):.2f} s", s(to_ns))
            for label, from_ns, to_ns in _faults([*events, *others], end)
        ),
        tuple(downtime[tp] / 1000 for tp in rows),
        tuple(acked[tp] for tp in rows),
    )


def _row(its: list[Span], excused: Excuses) -> list[tuple[str, str, int, int, str]]:
    """(kind, member, from, to, title) of one topic-partition's intervals, in order."""
    bars: list[tuple[str, str, int, int, str]] = []
    latest: Span | None = None
    for span in its:
        interval = span.interval
        bars.append((OWNED, interval.member, interval.start_ns, interval.end_ns, _description(interval)))
        if span.zombie is not None:
            from_ns, to_ns = max(span.zombie[0], interval.start_ns), min(span.zombie[1], interval.end_ns)
            lasts = f"{(to_ns - from_ns) / 1e6:.0f} ms"
            title = f"{interval.member} can't know whether it still owns {_named(span.tp)}: {lasts}"
            bars.append((ZOMBIE, interval.member, from_ns, to_ns, title))
        if latest is not None and interval.overlap_prev_ms:
            shared = interval.start_ns, min(interval.end_ns, latest.interval.end_ns)
            zombie = zombie_of(latest, span, excused)
            names = f"{latest.interval.member} and {interval.member}"
            title = f"{_named(span.tp)} is owned by {names}: {(shared[1] - shared[0]) / 1e6:.1f} ms"
            if zombie is None:
                bars.append((OVERLAP, "", *shared, title))
            else:
                bars.append((SHARED, (span if zombie is latest else latest).interval.member, *shared, title))
        if latest is None or interval.end_ns >= latest.interval.end_ns:
            latest = span
    return bars


def _faults(events: list[Event], last_ns: int) -> list[tuple[str, int, int]]:
    """(fault and target, from, to); a fault without an end lasts until the last moment."""
    open_: dict[tuple[str, str], list[int]] = defaultdict(list)
    intervals = []
    for event in sorted(events, key=lambda e: e.mono_ns):
        if not is_of(event, FaultBody):
            continue
        key = event.body.fault.replace("_", " "), event.body.target
        if event.kind == "fault_begin":
            open_[key].append(event.mono_ns)
        elif open_[key]:
            intervals.append((" ".join(key), open_[key].pop(0), event.mono_ns))
    intervals += [(" ".join(key), begin, last_ns) for key, begins in open_.items() for begin in begins]
    wide = round(_POINT_S * 1e9)
    return sorted((label, begin, max(end, begin + wide)) for label, begin, end in intervals)


def _of_generation(generation: Generation) -> str:
    members = ", ".join(sorted(generation.names.values()))
    return f"generation {generation.number}: {generation.protocol}, members {members}"


def _description(interval: Interval) -> str:
    length = (interval.end_ns - interval.start_ns) / 1e9
    what = f"{interval.topic}-{interval.partition} at {interval.member} for {length:.3f} s"
    return f"{what}, from generation {interval.generation_start}, {interval.end_kind}"


def _named(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"
