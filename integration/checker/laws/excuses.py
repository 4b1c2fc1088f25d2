"""Excuses: times in which a member could not know that it had lost a partition. Pure.

An excuse begins with a committed generation that excludes a member while something keeps it from learning
of that, and ends when it learns of it. A fault alone excuses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from kafka_assignors.history.events import Event
from kafka_assignors.history.timeline import Span
from kafka_assignors.history.zombies import FENCED_MS, ZOMBIE_MS

from ..ledger import Generation, GroupRecord, Process
from .findings import MS

_CALLBACKS = ("revoke_end", "lost_begin", "assigned_begin")
"""Callbacks from which a process learns its assignment."""
_NEVER = 1 << 63


class Excuse(NamedTuple):
    """A time (monotonic ns) in which a process could not know what a committed generation (`evidence`) took from it."""

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
            before = span.interval.start_ns <= excuse.begin_ns or _is_old_news(span.start, excuse.evidence)
            if before and excuse.begin_ns <= from_ns and to_ns <= excuse.end_ns:
                return span
    return None


class Fencing(NamedTuple):
    """A static member (`old`, its ``start``) whose instance id another process (`new`) took.

    It is taken `at` the first committed generation with the newer process, or at its first adoption if that is earlier.
    """

    old: Event
    new: Event
    at: Event

    @property
    def heard_by_ns(self) -> int:
        """When the older process must have learned of it: after two of its heartbeats and `FENCED_MS`."""
        heartbeat_ms: int = self.old.data.get("config", {}).get("heartbeat_interval_ms", 0)
        return self.at.mono_ns + (2 * heartbeat_ms + FENCED_MS) * MS


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
    hit by a proxy          during a fault or before its next callback   the end of the last fault; ``assigned_begin``
                                                                         of an earlier generation tells it nothing
    fenced                  the first generation with the newer process  its next callback, at most two heartbeats and
                            or that process's first adoption             `FENCED_MS` later
    died unseen             the first generation without it after its    the ``exit`` that the harness wrote
                            last event
    ======================= ============================================ ==============================================

    Cost: O(n) for n events; each generation also costs the number of members under a fault at that time.
    """
    by_process: dict[Process, list[Excuse]] = {}
    for process, excuse in (*_of_faults(record), *_of_fencing(record), *_of_deaths(record)):
        by_process.setdefault(process, []).append(excuse)
    return by_process


def fencings(record: GroupRecord) -> Iterator[Fencing]:
    """Static members whose instance id another process took, by the coordinator log or that process's own events."""
    by_instance: dict[str, list[Event]] = {}
    for start in record.events["start"]:
        if start.instance_id is not None:
            by_instance.setdefault(start.instance_id, []).append(start)
    for starts in by_instance.values():
        for old, new in pairwise(starts):
            process = new.member, new.incarnation
            committed = (g.event for g in record.generations if process in record.present(g))
            adopted = (e for e in record.events["generation"] if (e.member, e.incarnation) == process)
            first = min(filter(None, (next(committed, None), next(adopted, None))), key=_at, default=None)
            if first is not None:
                yield Fencing(old, new, first)


def _is_old_news(callback: Event, evicted: Event | None) -> bool:
    """Whether a callback is of an earlier generation than the eviction: an answer that came late through the fault."""
    if evicted is None or callback.kind != "assigned_begin":
        return False
    generation: int = callback.data["generation"]
    later: int = evicted.data["generation"]
    return generation < later


def _of_faults(record: GroupRecord) -> Iterator[tuple[Process, Excuse]]:
    faults = [e for kind in ("fault_begin", "fault_end") for e in record.events[kind] if e.member is not None]
    if not faults:
        return
    members = {e.member for e in faults}
    callbacks = (e for kind in _CALLBACKS for e in record.events[kind] if e.member in members)
    moments: list[tuple[Event, Generation | None]] = [(e, None) for e in (*faults, *callbacks)]
    moments += ((g.event, g) for g in record.generations)
    moments.sort(key=lambda moment: (moment[0].mono_ns, moment[0].src, moment[0].seq))
    hits: dict[Process, _Hit] = {}
    before: frozenset[Process] = frozenset()
    for event, generation in moments:
        if generation is not None:
            there = record.present(generation)
            for process, hit in hits.items():
                if hit.evicted is None and process in before and process not in there and event.mono_ns <= hit.by_ns:
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
                open_hit.by_ns = _NEVER if open_hit.faults else event.mono_ns + ZOMBIE_MS * MS
        elif (open_hit := hits.get(process)) and not _is_old_news(event, open_hit.evicted):
            if open_hit.evicted is not None:
                yield process, Excuse(open_hit.evicted.mono_ns, min(open_hit.by_ns, event.mono_ns), open_hit.evicted)
            open_hit.evicted = None
            if not open_hit.faults:
                del hits[process]
    for process, hit in hits.items():
        if hit.evicted is not None:
            yield process, Excuse(hit.evicted.mono_ns, hit.by_ns, hit.evicted)


def _of_fencing(record: GroupRecord) -> Iterator[tuple[Process, Excuse]]:
    for fencing in fencings(record):
        process = fencing.old.member, fencing.old.incarnation
        callbacks = (e for kind in _CALLBACKS for e in record.events[kind] if (e.member, e.incarnation) == process)
        heard_ns = min((e.mono_ns for e in callbacks if e.mono_ns > fencing.at.mono_ns), default=_NEVER)
        yield process, Excuse(fencing.at.mono_ns, min(heard_ns, fencing.heard_by_ns), fencing.at)


def _of_deaths(record: GroupRecord) -> Iterator[tuple[Process, Excuse]]:
    killed = {(e.member, e.incarnation) for e in record.events["fault_begin"] if e.data.get("fault") == "kill"}
    for exit_ in record.events["exit"]:
        process = exit_.member, exit_.incarnation
        if not exit_.data["code"] or process in killed:  # a kill by the harness has its own event
            continue
        last_ns = record.last_told.get(process, 0)
        before: frozenset[Process] = frozenset()
        for generation in record.generations:
            there = record.present(generation)
            at = generation.event
            if process in before and process not in there and last_ns < at.mono_ns < exit_.mono_ns:
                yield process, Excuse(at.mono_ns, exit_.mono_ns, at)
                break
            before = there


def _at(event: Event) -> int:
    return event.mono_ns
