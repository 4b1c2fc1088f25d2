"""P1, G4, R8, E1, T1: members take part, adopt and hold what they are assigned, and end when asked to."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from signal import SIGKILL

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import WireError
from kafka_assignors.history.events import Event, is_of
from kafka_assignors.history.events.bodies import (
    AdminChangeBody,
    AssignedBeginBody,
    CallbackBody,
    ErrorBody,
    ExitBody,
    FaultBeginBody,
    FaultBody,
    GenerationBody,
    LostBeginBody,
    RevokeBeginBody,
    StartBody,
    StepBody,
)
from kafka_assignors.history.timeline import Span

from ..ledger import Generation, GroupRecord, Process
from ..slack import SLACK_MS, around, surely_before
from ..transitions import TRIGGERS
from .excuses import fencings
from .findings import MS, ON_WIRE, Findings, all_named

STANDSTILL_MS = 30_000
"""Time beyond the session that a group left alone may need to reach its next state."""
SESSION_MS, POLL_MS = 45_000, 300_000
"""Kafka's default session timeout and poll interval, for members that do not report theirs."""
METADATA_AGE_MS = 300_000
"""Every client's default age of metadata, likewise."""
_TRIGGERS = (*TRIGGERS, "closing")
_STALLS = ("stall", "assign_stall")
_ENDS = ("stop", "exit", "fault_begin")


Adopted = tuple[Event[GenerationBody], frozenset[TopicPartition]]
"""An adoption, and the partitions that it gave."""


@dataclass(frozen=True)
class Quiet:
    """A time in which nothing happened to a group, longer than any pending change may take."""

    begin_ns: int  # at a trigger
    end_ns: int  # at the next one, or at the group's last event
    bound_ms: int  # how long a pending change may take
    began: Event | None  # the trigger; None at the start of the history
    alive: Mapping[Process, Event[StartBody]]  # running processes that were not fenced -> their ``start``
    gone: Mapping[Process, Event]  # processes that ended, were killed or are paused -> the event that records it


def progress(record: GroupRecord, findings: Findings) -> None:
    """P1, T1 and G4 where a group is left alone for more than the bound of `quiet_times`.

    P1: no subscribed partition lacks a living owner for that long, and every running process is in the group.
    T1: a dead or paused process is not in it. G4: every process in it has adopted its last generation.
    """
    if not record.generations:
        return
    owned = _by_partition(record)
    adopted = _adoptions(record)
    for quiet in quiet_times(record):
        findings.judged("P1")
        _owners_live(record, quiet, owned, findings)
        last = bisect_right(record.generations, around(quiet.end_ns)[1], key=lambda g: g.event.mono_ns) - 1
        if last < 0 or quiet.end_ns - record.generations[last].event.mono_ns <= quiet.bound_ms * MS:
            continue  # a rebalance may be under way
        generation = record.generations[last]
        there = record.present(generation)
        for process, start in quiet.alive.items():
            if process not in there:
                ran_ms = (quiet.end_ns - start.mono_ns) / MS
                message = f"{process[0]} has run for {ran_ms:.0f} ms without being in a generation"
                findings.broken("P1", message, start, generation.event)
            elif process in record.processes.values() or start.client in (None, "kafka-python"):
                findings.judged("G4")
                if generation.number not in _adopted_by(record, generation, process, adopted[process], quiet.end_ns):
                    message = (
                        f"{process[0]} never adopted generation {generation.number}, "
                        f"{(quiet.end_ns - generation.event.mono_ns) / MS:.0f} ms after it was committed"
                    )
                    findings.broken("G4", message, start, generation.event)
        for process, end in quiet.gone.items():
            findings.judged("T1")
            if process in there:
                since_ms = (quiet.end_ns - end.mono_ns) / MS
                message = f"{process[0]} is still in the group {since_ms:.0f} ms after its {end.kind}"
                findings.broken("T1", message, end, generation.event)


def quiet_times(record: GroupRecord) -> Iterator[Quiet]:
    """The times without network or broker faults in which a group was left alone for more than a bound.

    The bound is the longest session plus `STANDSTILL_MS`; if a member does not poll, plus the longest poll interval.
    """
    triggers = sorted((e for kind in _TRIGGERS for e in record.events[kind]), key=lambda e: (e.mono_ns, e.src, e.seq))
    last_ns = record.last_ns
    configs = [start.body.config for start in record.events.of(StartBody)]
    if not configs:
        return  # no member reports what it owns
    session_ms = max(SESSION_MS if c.session_timeout_ms is None else c.session_timeout_ms for c in configs)
    poll_ms = max(POLL_MS if c.max_poll_interval_ms is None else c.max_poll_interval_ms for c in configs)
    taken = {(f.old.member, f.old.incarnation): f.at.mono_ns for f in fencings(record)}
    alive: dict[Process, Event[StartBody]] = {}
    gone: dict[Process, Event] = {}
    hits: dict[tuple[str, str | None], int] = defaultdict(int)  # fault, target -> how many are in force
    for event, after in pairwise([*triggers, None]):
        assert event is not None
        _take(event, alive, gone, hits)
        if event.kind == "closing":
            return
        stalls = any(count and fault in _STALLS for (fault, _), count in hits.items())
        bound_ms = session_ms + STANDSTILL_MS + (poll_ms if stalls else 0)
        end_ns = last_ns if after is None else after.mono_ns
        away = any(count and fault not in (*_STALLS, "pause") for (fault, _), count in hits.items())
        if away or end_ns - event.mono_ns <= bound_ms * MS:
            continue
        present = {p: start for p, start in alive.items() if p not in taken or surely_before(end_ns, taken[p])}
        yield Quiet(event.mono_ns, end_ns, bound_ms, event, present, dict(gone))


def adoption(record: GroupRecord, findings: Findings) -> None:
    """G4: a member never returns to an older generation, and adopts none before it is committed."""
    for rows in _adoptions(record).values():
        for before, event in pairwise([None, *rows]):
            assert event is not None
            findings.judged("G4")
            number = event.body.generation
            if before is not None and number < before.body.generation:
                message = f"{event.member} adopted generation {number} after generation {before.body.generation}"
                findings.broken("G4", message, before, event)
            generation = record.first_writing(number)
            if generation is not None and surely_before(event.mono_ns, generation.event.mono_ns):
                early_ms = (generation.event.mono_ns - event.mono_ns) / MS
                message = f"{event.member} adopted generation {number} {early_ms:.0f} ms before it was committed"
                findings.broken("G4", message, event, generation.event)
            later = record.joined_after(number, event.member_id) if event.instance_id is None else None
            if later is not None and surely_before(later.event.mono_ns, event.mono_ns):
                late_ms = (event.mono_ns - later.event.mono_ns) / MS
                message = (
                    f"{event.member} adopted generation {number} {late_ms:.0f} ms after generation {later.number} "
                    f"was committed, which it had joined"
                )
                findings.broken("G4", message, event, later.event)


def held_as_given(record: GroupRecord, findings: Findings) -> None:
    """R8 and P1: callbacks assign exactly the partitions that the generation assigns.

    A process's callbacks do not overlap: each ends with the partitions with which it began, before the next one begins.
    Completeness is judged at a member's next adoption, when the group is stable, and where it is left alone. P1: when
    the group is stable, the process to which a partition is assigned owns it by callback. A process that is seen on its
    connections alone has no callbacks there.
    """
    for _ in record.on_wire:
        for law in ("P1", "R8"):
            findings.not_judged(law, ON_WIRE + "its callbacks")
    events: list[Event] = [*record.events.of(GenerationBody), *record.events.of(CallbackBody)]
    events += [*record.events["stop"], *record.events["exit"], *record.kills, *record.rests]
    owned_partitions: dict[Process, set[TopicPartition]] = defaultdict(set)
    got: dict[Process, set[TopicPartition]] = defaultdict(set)  # since its last adoption
    adopted: dict[Process, Adopted] = {}
    killed: dict[Process, Adopted] = {}  # what they had adopted: they run on until the signal reaches them
    under_way: dict[Process, Event[CallbackBody]] = {}
    quiet = list(quiet_times(record))
    for event in sorted(events, key=lambda e: (e.mono_ns, e.src, e.seq)):
        process = event.member, event.incarnation
        if process in record.on_wire and is_of(event, CallbackBody):
            continue
        while quiet and event.mono_ns >= quiet[0].end_ns:
            _left_alone(record, quiet.pop(0), adopted, got, findings)
        if is_of(event, StepBody):
            _at_rest(record, event, owned_partitions, adopted, findings)
        elif event.kind in _ENDS:
            last = adopted.pop(process, None)
            if event.kind != "fault_begin":
                owned_partitions.pop(process, None)
            elif last is not None:
                killed[process] = last
        elif is_of(event, GenerationBody):
            before = None if process in record.on_wire else adopted.get(process)
            if before is not None and before[0].body.generation != event.body.generation:
                _all_got(*before, got[process], event, findings)
            adopted[process] = event, frozenset(event.body.partitions)
            got[process] = set(owned_partitions[process])
        elif is_of(event, CallbackBody):
            _one_by_one(under_way, event, findings)
            partitions = event.body.partitions
            if isinstance(event.body, AssignedBeginBody):
                _nothing_else(record, event, findings)
                _as_adopted(adopted.get(process) or killed.get(process), event, findings)
                owned_partitions[process].update(partitions)
                got[process].update(partitions)
            elif isinstance(event.body, RevokeBeginBody | LostBeginBody):
                if more := set(partitions) - owned_partitions[process]:
                    message = f"{event.member} was asked to revoke {all_named(sorted(more))}, which it did not own"
                    findings.broken("R8", message, event)
                owned_partitions[process].difference_update(partitions)
    for quiet_time in quiet:
        _left_alone(record, quiet_time, adopted, got, findings)


def _one_by_one(under_way: dict[Process, Event[CallbackBody]], event: Event[CallbackBody], findings: Findings) -> None:
    process = event.member, event.incarnation
    before = under_way.pop(process, None)
    what, _, edge = event.kind.partition("_")
    if edge == "begin":
        under_way[process] = event
        if before is not None:
            findings.broken(
                "R8", f"{event.member}: {event.kind} began before its {before.kind} had ended", before, event
            )
    elif before is None:
        findings.broken("R8", f"{event.member}: {event.kind} has no begin", event)
    elif before.kind != f"{what}_begin" or set(before.body.partitions) != set(event.body.partitions):
        message = f"{event.member}: {before.kind} of {all_named(before.body.partitions)} was ended by {event.kind} of "
        findings.broken("R8", message + all_named(event.body.partitions), before, event)


def asked_to_end(record: GroupRecord, findings: Findings) -> None:
    """E1: a process ends because the harness asked it to, or expected its end; a fenced one may end at any time.

    ``asked`` records this. Without it, an exit code other than 0 needs a ``stop`` or a kill. A process reports nothing
    before its ``start``, after its ``stop``, or after its ``exit``; start and exit allow `SLACK_MS`.
    """
    for stop in record.events["stop"]:
        later_ms = (record.last_told[stop.member, stop.incarnation] - stop.mono_ns) / MS
        if later_ms > 0:
            findings.broken("E1", f"{stop.member} wrote an event {later_ms:.0f} ms after its stop", stop)
    for process, start in record.starts.items():
        first = record.first_told[process]
        if first.mono_ns < start.mono_ns - SLACK_MS * MS:
            early_ms = (start.mono_ns - first.mono_ns) / MS
            findings.broken("E1", f"{start.member} wrote {first.kind} {early_ms:.0f} ms before its start", first, start)
    leavers = {(e.member, e.incarnation) for e in record.events["stop"]}
    fenced = {(f.old.member, f.old.incarnation) for f in fencings(record)}
    for event in record.events.of(ExitBody):
        process, code = (event.member, event.incarnation), event.body.code
        findings.judged("E1")
        late_ms = (record.last_told.get(process, 0) - event.mono_ns) / MS
        if late_ms > SLACK_MS:
            findings.broken("E1", f"{event.member} wrote an event {late_ms:.0f} ms after its end", event)
        if process in record.killed | fenced:
            continue
        asked = (process in leavers or not code) if event.body.asked is None else event.body.asked
        if asked and code == -SIGKILL:
            told_ns = event.body.asked_ns
            late = "" if told_ns is None else f" {(event.mono_ns - told_ns) / MS / 1000:.0f} s after it was told to end"
            findings.unknown.append(
                f"E1: {event.member} did not end in time and was killed{late}, so its last events are missing"
            )
        elif not asked:
            errors = [e for e in record.events.of(ErrorBody) if (e.member, e.incarnation) == process]
            how = event.body.signal or f"exit code {code}"
            why = f": {errors[-1].body.message}" if errors else ""
            findings.broken("E1", f"{event.member} ended without a scenario action, by {how}{why}", event, *errors[-1:])


def _take(
    event: Event,
    alive: dict[Process, Event[StartBody]],
    gone: dict[Process, Event],
    hits: dict[tuple[str, str | None], int],
) -> None:
    process = event.member, event.incarnation
    if is_of(event, StartBody):
        alive[process] = event
        return
    body = event.body
    if event.kind in ("stop", "exit") or (isinstance(body, FaultBeginBody) and body.fault == "kill"):
        alive.pop(process, None)
        gone.setdefault(process, event)
    elif isinstance(body, FaultBody):
        key = body.fault, event.member or body.target
        if isinstance(body, FaultBeginBody):
            hits[key] += 1
            if body.fault == "pause" and process in alive:
                gone[process] = event
        elif body.fault != "kill":
            hits[key] = max(0, hits[key] - 1)
            if body.fault == "pause":
                gone.pop(process, None)


def _learned_ns(record: GroupRecord, quiet: Quiet) -> dict[TopicPartition, int]:
    """Partitions that were added before a quiet time ended, and when each member's metadata must have them."""
    ages = (start.body.config.metadata_max_age_ms for start in quiet.alive.values())
    age_ms = max((METADATA_AGE_MS if age is None else age for age in ages), default=0)
    learned: dict[TopicPartition, int] = {}
    for change in record.events.of(AdminChangeBody):
        if change.mono_ns > quiet.end_ns:
            continue
        for topic, count in (change.body.topics or {}).items():
            created = change.body.change == "create_topic"
            before = 0 if created else record.count_of(topic, change.mono_ns - 1) or 0
            for number in range(before, count):
                learned[TopicPartition(topic, number)] = change.mono_ns + age_ms * MS
    return learned


def _owners_live(
    record: GroupRecord, quiet: Quiet, owned: Mapping[TopicPartition, Sequence[Span]], findings: Findings
) -> None:
    """P1: the longest time within a quiet time in which a partition has no living owner."""
    at = bisect_right(record.generations, around(quiet.end_ns)[0], key=lambda g: g.event.mono_ns) - 1
    if at < 0:
        return
    generation = record.generations[at]
    due: set[TopicPartition] = set(generation.owners)
    for member_id in generation.assigned:
        with suppress(WireError):  # O3 reports it
            for topic in generation.topics_of(member_id):
                due |= {TopicPartition(topic, p) for p in range(record.count_of(topic, quiet.end_ns) or 0)}
    if not all(member_id in record.processes for member_id in generation.assigned) and not quiet.alive:
        return
    untold = {tp for m, tps in generation.assigned.items() if record.start_of(m) is None for tp in tps}
    learned_ns = _learned_ns(record, quiet)
    orphans: list[tuple[TopicPartition, int]] = []
    for tp in sorted(due - untold):
        free_ns, longest = max(quiet.begin_ns, learned_ns.get(tp, 0)), 0
        for span in owned.get(tp, ()):
            begin, end = span.interval.start_ns, span.interval.end_ns
            if end <= free_ns or span.owner[1:] in quiet.gone:
                continue
            longest = max(longest, min(begin, quiet.end_ns) - free_ns)
            free_ns = max(free_ns, end)
        longest = max(longest, quiet.end_ns - free_ns)
        if longest > quiet.bound_ms * MS:
            orphans.append((tp, longest))
    if orphans:
        message = (
            f"no live member owned {all_named([tp for tp, _ in orphans])} for "
            f"{max(ns for _, ns in orphans) / MS:.0f} ms, although no trigger disturbed the group"
        )
        findings.broken("P1", message, quiet.began, generation.event)


def _at_rest(
    record: GroupRecord,
    rest: Event[StepBody],
    owned_partitions: Mapping[Process, set[TopicPartition]],
    adopted: Mapping[Process, Adopted],
    findings: Findings,
) -> None:
    """Of the versions of its generation that may stand when the group rests, the one that fits best is judged."""
    if rest.body.generation is None:
        return
    versions = record.written_between(rest.body.generation, *around(rest.mono_ns))
    if not versions:
        return  # O3 reports it
    trials = [Findings() for _ in versions]
    for generation, trial in zip(versions, trials, strict=True):
        _rests_in(record, rest, generation, owned_partitions, adopted, trial)
    best = min(trials, key=lambda trial: len(trial.violations))
    for law, times in best.checked.items():
        findings.judged(law, times)
    findings.violations += best.violations


def _rests_in(
    record: GroupRecord,
    rest: Event[StepBody],
    generation: Generation,
    owned_partitions: Mapping[Process, set[TopicPartition]],
    adopted: Mapping[Process, Adopted],
    findings: Findings,
) -> None:
    for member_id, process in sorted(record.members_of(generation).items()):
        if process not in record.starts:
            continue  # not started by the harness
        given = generation.assigned[member_id]
        ended = (*record.events["stop"], *record.events["exit"], *record.kills)
        dead = [e for e in ended if (e.member, e.incarnation) == process and e.mono_ns < rest.mono_ns]
        if dead:
            findings.judged("P1")
            message = f"the group was stable in generation {generation.number}, but its member {process[0]} had ended"
            findings.broken("P1", message, dead[0], rest)
            continue
        findings.judged("G4")
        if generation.by_broker:
            rows = record.reconciliation.between(member_id, *around(rest.mono_ns))
            there = any(not row.removed and row.epoch == generation.number for row in rows)
        else:
            there = process in adopted and adopted[process][0].body.generation == generation.number
        if not there:
            message = f"the group was stable in generation {generation.number}, which {process[0]} had not adopted"
            findings.broken("G4", message, generation.event, rest)
        if process in record.on_wire:
            continue
        for law in ("P1", "R8"):
            findings.judged(law)
        if missing := given - owned_partitions.get(process, set()):
            parts = all_named(sorted(missing))
            message = f"the group was stable in generation {generation.number}, but {process[0]} never got {parts}"
            findings.broken("R8", message, generation.event, rest)
            findings.broken("P1", f"the group was stable while no member owned {parts}", generation.event, rest)
        if more := owned_partitions.get(process, set()) - given:
            message = (
                f"the group was stable in generation {generation.number}, but {process[0]} still owned "
                f"{all_named(sorted(more))}, which this generation assigns to another member"
            )
            findings.broken("R8", message, generation.event, rest)


def _as_adopted(adopted: Adopted | None, event: Event[CallbackBody], findings: Findings) -> None:
    number = event.body.generation
    if number >= 0 and (adopted is None or adopted[0].body.generation != number):
        findings.judged("G4")
        message = f"{event.member} was assigned partitions in generation {number}, which it had not adopted"
        findings.broken("G4", message, event, None if adopted is None else adopted[0])


def _left_alone(
    record: GroupRecord,
    quiet: Quiet,
    adopted: Mapping[Process, Adopted],
    got: Mapping[Process, set[TopicPartition]],
    findings: Findings,
) -> None:
    for process in quiet.alive.keys() - record.on_wire:
        if process in adopted and quiet.end_ns - adopted[process][0].mono_ns > quiet.bound_ms * MS:
            _all_got(*adopted[process], got[process], quiet.began, findings)


def _all_got(
    adopted: Event[GenerationBody],
    given: frozenset[TopicPartition],
    got: set[TopicPartition],
    heard: Event | None,
    findings: Findings,
) -> None:
    findings.judged("R8")
    if missing := given - got:
        message = (
            f"{adopted.member} adopted generation {adopted.body.generation}, but never got its partitions "
            f"{all_named(sorted(missing))}"
        )
        findings.broken("R8", message, adopted, heard)


def _nothing_else(record: GroupRecord, event: Event[CallbackBody], findings: Findings) -> None:
    generation = record.generation_of(event.body.generation, event.member_id)
    given = None if generation is None else generation.assigned.get(event.member_id or "")
    if generation is None or given is None:
        return  # G2 reports it
    findings.judged("R8")
    if more := set(event.body.partitions) - given:
        message = (
            f"{event.member} got {all_named(sorted(more))} in generation {generation.number}, "
            "which does not assign these partitions to it"
        )
        findings.broken("R8", message, generation.event, event)


def _adoptions(record: GroupRecord) -> dict[Process, list[Event[GenerationBody]]]:
    adoptions: dict[Process, list[Event[GenerationBody]]] = defaultdict(list)
    for event in record.events.of(GenerationBody):
        adoptions[event.member, event.incarnation].append(event)
    return adoptions


def _adopted_by(
    record: GroupRecord, last: Generation, process: Process, rows: Sequence[Event[GenerationBody]], at_ns: int
) -> Collection[int]:
    """The generation that a process has adopted; of a KIP-848 group, the epochs that it may have by the log's times."""
    if last.by_broker:
        return _epochs(record, process, at_ns)
    return [e.body.generation for e in rows if e.mono_ns <= at_ns][-1:]


def _epochs(record: GroupRecord, process: Process, at_ns: int) -> Collection[int]:
    """By the coordinator's log: the member reports changes only."""
    ids = [member_id for member_id, candidate in record.processes.items() if candidate == process]
    rows = (row for name in ids for row in record.reconciliation.between(name, *around(at_ns)))
    return {row.epoch for row in rows if not row.removed}


def _by_partition(record: GroupRecord) -> dict[TopicPartition, list[Span]]:
    spans: dict[TopicPartition, list[Span]] = defaultdict(list)
    for span in record.spans:
        spans[span.tp].append(span)
    return spans
