"""Excuses: times in which a member could not know that it had lost a partition. Pure.

An excuse begins with a committed generation that excludes a member while something keeps it from learning
of that, and ends when it learns of it. A fault alone excuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from kafka_assignors.history.events import Event, generation_in, is_of
from kafka_assignors.history.events.bodies import (
    AssignedBeginBody,
    CallbackBody,
    ExitBody,
    FaultBody,
    GenerationBody,
    LostBeginBody,
    RevokeEndBody,
    StartBody,
)
from kafka_assignors.history.timeline import Span
from kafka_assignors.history.zombies import FENCED_MS, ZOMBIE_MS

from ..ledger import Generation, GroupRecord, Process
from ..slack import around, surely_before
from .findings import MS

_CALLBACKS: tuple[type[CallbackBody], ...] = (RevokeEndBody, LostBeginBody, AssignedBeginBody)
"""Callbacks from which a process learns its assignment."""
_NEVER = 1 << 63


class Excuse(NamedTuple):
    """A time (monotonic ns) in which a process could not know what a committed generation (`evidence`) took from it.

    It begins `SLACK_MS` before the evidence, which has the broker's time.
    """

    begin_ns: int
    end_ns: int
    evidence: Event


Excuses = Mapping[Process, Sequence[Excuse]]


def zombie_of(one: Span, other: Span, excused: Excuses) -> Span | None:
    """Of two overlapping intervals of one topic-partition, the one whose process is excused; None if neither is.

    The excuse must cover the whole overlap, and its process must have owned the topic-partition before, or have been
    assigned it before: its client may call ``assigned`` for that only when it goes on, just before ``lost``.
    """
    from_ns, to_ns = other.interval.start_ns, min(one.interval.end_ns, other.interval.end_ns)
    for span in (one, other):
        for excuse in excused.get(span.owner[1:], ()):
            late = surely_before(excuse.evidence.mono_ns, span.interval.start_ns)
            before = not late or _is_old_news(span.start, excuse.evidence)
            if before and excuse.begin_ns <= from_ns and to_ns <= excuse.end_ns:
                return span
    return None


class Fencing(NamedTuple):
    """A static member (`old`, its ``start``) whose instance id another process (`new`) took.

    It is taken `at` the first committed generation with the newer process, or at its first adoption if that is earlier.
    """

    old: Event[StartBody]
    new: Event[StartBody]
    at: Event

    @property
    def heard_by_ns(self) -> int:
        """When the older process must have learned of it: after two of its heartbeats, `FENCED_MS` and the slack."""
        heartbeat_ms = self.old.body.config.heartbeat_interval_ms or 0
        return self.at.mono_ns + around((2 * heartbeat_ms + FENCED_MS) * MS)[1]


@dataclass
class _Hit:
    """A process under faults (their number), or one that has had no callback since.

    It must have learned its losses `by_ns`, after the last fault; `evicted` is the first generation without it.
    """

    faults: int = 0
    by_ns: int = _NEVER
    evicted: Event | None = None


def excuses(record: GroupRecord) -> Excuses:
    """The excuses of each process (member, incarnation):

    ======================= ============================================ ==============================================
    reason                  begins                                       ends
    ======================= ============================================ ==============================================
    paused, stalled, or     the first generation without it, committed   its next callback, at most `ZOMBIE_MS` after
    hit by a proxy          during a fault or before its next callback   the end of the last fault, or of the work that
                                                                         a service may still do then;
                                                                         ``assigned_begin`` of an earlier generation
                                                                         tells it nothing
    fenced                  the first generation with the newer process  its next callback, at most two heartbeats and
                            or that process's first adoption             `FENCED_MS` later
    died unseen             the first generation without it after its    the ``exit`` that the harness wrote
                            last event
    ======================= ============================================ ==============================================

    A generation has the broker's time: if that is ahead, it may have been committed before a callback that lies before
    it here.

    Cost: O(n) for n events; each generation also costs the number of members under a fault at that time.
    """
    by_process: dict[Process, list[Excuse]] = {}
    of_faults = (pair for shift_ns in (0, around(0)[0]) for pair in _of_faults(record, shift_ns))
    for process, excuse in (*of_faults, *_of_fencing(record), *_of_deaths(record)):
        mine = by_process.setdefault(process, [])
        if excuse not in mine:
            mine.append(excuse)
    return by_process


def fencings(record: GroupRecord) -> Iterator[Fencing]:
    """Static members whose instance id another process took, by the coordinator log or that process's own events."""
    by_instance: dict[str, list[Event[StartBody]]] = {}
    for start in record.events.of(StartBody):
        if start.instance_id is not None:
            by_instance.setdefault(start.instance_id, []).append(start)
    for starts in by_instance.values():
        for old, new in pairwise(starts):
            process = new.member, new.incarnation
            committed = (g.event for g in record.generations if process in record.present(g))
            adopted = (e for e in record.events.of(GenerationBody) if (e.member, e.incarnation) == process)
            first = min(filter(None, (next(committed, None), next(adopted, None))), key=_at, default=None)
            if first is not None:
                yield Fencing(old, new, first)


def _is_old_news(callback: Event, evicted: Event | None) -> bool:
    """Whether a callback is of an earlier generation than the eviction: an answer that came late through the fault."""
    if evicted is None or not is_of(callback, AssignedBeginBody):
        return False
    later = evicted.body if is_of(evicted, GenerationBody) else generation_in(evicted)
    return later is not None and callback.body.generation < later.generation


def _of_faults(record: GroupRecord, shift_ns: int) -> Iterator[tuple[Process, Excuse]]:
    """The excuses if generations were committed so much later than the broker's clock says."""
    faults = [e for e in record.events.of(FaultBody) if e.member is not None]
    if not faults:
        return
    members = {e.member for e in faults}
    callbacks = (e for e in record.events.of(*_CALLBACKS) if e.member in members)
    moments: list[tuple[int, Event, Generation | None]] = [(e.mono_ns, e, None) for e in (*faults, *callbacks)]
    moments += ((g.event.mono_ns + shift_ns, g.event, g) for g in record.generations)
    moments.sort(key=lambda moment: (moment[0], moment[1].src, moment[1].seq))
    hits: dict[Process, _Hit] = {}
    before: frozenset[Process] = frozenset()
    for at_ns, event, generation in moments:
        if generation is not None:
            there = record.present(generation)
            for process, hit in hits.items():
                if hit.evicted is None and process in before and process not in there and at_ns <= hit.by_ns:
                    hit.evicted = event
            before = there
            continue
        process = event.member, event.incarnation
        if event.kind == "fault_begin":
            hit = hits.setdefault(process, _Hit())
            hit.faults, hit.by_ns = hit.faults + 1, _NEVER
        elif event.kind == "fault_end":
            if open_hit := hits.get(process):
                open_hit.faults = max(0, open_hit.faults - 1)
                granted_ns = ZOMBIE_MS * MS
                by_ns = event.mono_ns + granted_ns
                polls_ns = record.busy.perhaps_until_ns(process, by_ns)
                by_ns = polls_ns + granted_ns if polls_ns > by_ns else by_ns
                open_hit.by_ns = _NEVER if open_hit.faults else by_ns
        elif (open_hit := hits.get(process)) and not _is_old_news(event, open_hit.evicted):
            if open_hit.evicted is not None:
                yield process, _excuse(open_hit.evicted, min(open_hit.by_ns, event.mono_ns))
            open_hit.evicted = None
            if not open_hit.faults:
                del hits[process]
    for process, hit in hits.items():
        if hit.evicted is not None:
            yield process, _excuse(hit.evicted, hit.by_ns)


def _of_fencing(record: GroupRecord) -> Iterator[tuple[Process, Excuse]]:
    for fencing in fencings(record):
        process = fencing.old.member, fencing.old.incarnation
        callbacks = (e for e in record.events.of(*_CALLBACKS) if (e.member, e.incarnation) == process)
        heard_ns = min((e.mono_ns for e in callbacks if surely_before(fencing.at.mono_ns, e.mono_ns)), default=_NEVER)
        yield process, _excuse(fencing.at, min(heard_ns, fencing.heard_by_ns))


def _of_deaths(record: GroupRecord) -> Iterator[tuple[Process, Excuse]]:
    for exit_ in record.events.of(ExitBody):
        process = exit_.member, exit_.incarnation
        if not exit_.body.code or process in record.killed:  # a kill by the harness has its own event
            continue
        last_ns = record.last_told.get(process, 0)
        before: frozenset[Process] = frozenset()
        for generation in record.generations:
            there = record.present(generation)
            at = generation.event
            earliest_ns, latest_ns = around(at.mono_ns)
            unseen = last_ns <= latest_ns and earliest_ns <= exit_.mono_ns
            if process in before and process not in there and unseen:
                yield process, _excuse(at, exit_.mono_ns)
                break
            before = there


def _excuse(evidence: Event, end_ns: int) -> Excuse:
    return Excuse(around(evidence.mono_ns)[0], end_ns, evidence)


def _at(event: Event) -> int:
    return event.mono_ns
