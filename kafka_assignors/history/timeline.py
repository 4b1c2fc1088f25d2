"""Ownership intervals per topic-partition, taken from the members' own callbacks. Pure: events in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ..core.group import TopicPartition
from .events import Event, is_of
from .events.bodies import (
    AssignedBeginBody,
    CallbackBody,
    ExitBody,
    FaultBeginBody,
    LostBeginBody,
    RevokeEndBody,
    StopBody,
    kinds_of,
)
from .zombies import MemberKey, zombies

_BEGIN_OR_END = kinds_of(AssignedBeginBody, RevokeEndBody, LostBeginBody, FaultBeginBody, StopBody, ExitBody)


@dataclass(frozen=True)
class Interval:
    """One member owned one topic-partition from `start_ns` to `end_ns` (monotonic clock).

    Args:
        generation_start: Generation of the ``assigned_begin`` event.
        generation_end: Generation of the ending event; None if that has none (killed, stop, exit, open).
        start_kind: Always ``assigned``.
        end_kind: ``revoked``, ``lost``, ``killed``, ``stop``, ``exit``, or ``open``: still owned at the end.
        gap_before_ms: Time without an owner before; None for the first interval of the topic-partition.
        overlap_prev_ms: Time shared with earlier intervals; normally 0.
        moved: Whether the previous interval belongs to another process.
        zombie_ms: Part of the interval in which its process was paused, or had not yet noticed a change.
    """

    group: str
    topic: str
    partition: int
    member: str
    member_id: str | None
    incarnation: int
    generation_start: int
    generation_end: int | None
    start_ns: int
    end_ns: int
    start_kind: str
    end_kind: str
    gap_before_ms: float | None = None
    overlap_prev_ms: float = 0.0
    moved: bool = False
    zombie_ms: float = 0.0


@dataclass(frozen=True)
class Span:
    """An interval with the events that start and end it; `end` is None while it is open.

    Args:
        zombie: From when to when (monotonic ns) `zombie_ms` counts. The judge's laws decide what that excuses.
    """

    interval: Interval
    start: Event[AssignedBeginBody]
    end: Event | None
    zombie: tuple[int, int] | None = None

    @property
    def owner(self) -> MemberKey:
        """The process that owned the topic-partition."""
        return self.interval.group, self.interval.member, self.interval.incarnation

    @property
    def tp(self) -> TopicPartition:
        """The owned topic-partition."""
        return TopicPartition(self.interval.topic, self.interval.partition)


def intervals(events: Sequence[Event]) -> list[Interval]:
    """The ownership intervals of a run's events, by (group, topic, partition, start_ns, member, incarnation).

    These rules apply to each process (group, member, incarnation) and topic-partition, in order of (mono_ns, src, seq).

    1. An ``assigned_begin`` that lists the topic-partition opens an interval, unless one is open already.
    2. The interval ends at the first later event of these: ``revoke_end`` that lists the topic-partition (``revoked``);
       ``lost_begin`` that lists it (``lost``); ``fault_begin`` with ``fault`` = kill and the process's ``member`` and
       ``incarnation`` (``killed``); the process's ``stop`` (``stop``); its ``exit`` (``exit``).
    3. Without such an event it is ``open`` and ends at the greatest mono_ns of the group's events.
    4. Per (group, topic, partition), in order of (start_ns, member, incarnation), with E the greatest end_ns of the
       rows before: ``gap_before_ms`` = max(0, start_ns - E) / 10⁶, None in the first row; ``overlap_prev_ms`` =
       max(0, E - start_ns) / 10⁶, 0 in the first row; ``moved`` = (member, incarnation) differs from the row before.
    5. ``zombie_ms`` is the part of the interval in which its process is a zombie (`zombies.zombies`). If several zombie
       times begin in the interval, the last one counts.

    The pipeline's table `group_timeline` has the same.

    Cost: O(n log n) for n events and listed topic-partitions.
    """
    return [span.interval for span in spans(events)]


def spans(events: Sequence[Event]) -> list[Span]:
    """`intervals` with their events, in the same order."""
    all_spans: list[Span] = []
    open_: dict[MemberKey, dict[TopicPartition, Event[AssignedBeginBody]]] = {}
    last_ns: dict[str, int] = {}
    windows = zombies(events)
    for event in events:
        if event.group is None:
            continue
        last_ns[event.group] = event.mono_ns
        if event.member is None or event.kind not in _BEGIN_OR_END:
            continue
        key = event.group, event.member, event.incarnation
        starts = open_.setdefault(key, {})
        if is_of(event, AssignedBeginBody):
            for tp in event.body.partitions:
                starts.setdefault(tp, event)
        elif is_of(event, RevokeEndBody) or is_of(event, LostBeginBody):
            kind = "revoked" if event.kind == "revoke_end" else "lost"
            all_spans += (_span(tp, starts.pop(tp), event, kind) for tp in event.body.partitions if tp in starts)
        elif ending := _ends_all(event):
            all_spans += (_span(tp, start, event, ending) for tp, start in starts.items())
            starts.clear()
    for (group, _, _), starts in open_.items():
        all_spans += (_span(tp, start, None, "open", last_ns[group]) for tp, start in starts.items())
    if windows:
        all_spans = [_with_zombie(span, windows.get(span.owner, ())) for span in all_spans]
    all_spans.sort(key=lambda s: (*_place(s), s.interval.start_ns, s.interval.member, s.interval.incarnation))
    return [span for _, rows in groupby(all_spans, _place) for span in _with_neighbours(rows)]


def _with_zombie(span: Span, pauses: Iterable[tuple[int, int]]) -> Span:
    interval = span.interval
    for begin, end in sorted(pauses, reverse=True):  # a loss would have ended the interval, so the last one counts
        if interval.start_ns <= begin < interval.end_ns:
            zombie_ms = (min(end, interval.end_ns) - begin) / 1e6
            return replace(span, interval=replace(interval, zombie_ms=zombie_ms), zombie=(begin, end))
    return span


def _ends_all(event: Event) -> str | None:
    if is_of(event, FaultBeginBody):
        return "killed" if event.body.fault == "kill" else None
    return event.kind if event.kind in ("stop", "exit") else None


def _span(tp: TopicPartition, start: Event[AssignedBeginBody], end: Event | None, kind: str, end_ns: int = 0) -> Span:
    interval = Interval(
        group=start.group or "", topic=tp.topic, partition=tp.partition, member=start.member or "",
        member_id=start.member_id, incarnation=start.incarnation, generation_start=start.body.generation,
        generation_end=end.body.generation if end is not None and is_of(end, CallbackBody) else None,
        start_ns=start.mono_ns, end_ns=end_ns if end is None else end.mono_ns, start_kind="assigned", end_kind=kind,
    )  # fmt: skip
    return Span(interval, start, end)


def _place(span: Span) -> tuple[str, str, int]:
    return span.interval.group, span.interval.topic, span.interval.partition


def _with_neighbours(rows: Iterable[Span]) -> Iterator[Span]:
    before: Span | None = None
    latest_ns = 0
    for span in rows:
        interval = span.interval
        if before is not None:
            interval = replace(
                interval,
                gap_before_ms=max(0, interval.start_ns - latest_ns) / 1e6,
                overlap_prev_ms=max(0, latest_ns - interval.start_ns) / 1e6,
                moved=span.owner != before.owner,
            )
        yield replace(span, interval=interval)
        before, latest_ns = span, max(latest_ns, interval.end_ns)
