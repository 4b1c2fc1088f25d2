"""S1, S2: static members (KIP-345): an unnoticed restart, and a fenced member that stops. Pure."""

from __future__ import annotations

from itertools import pairwise

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event
from kafka_assignors.history.events.bodies import (
    AssignedBeginBody,
    Body,
    CallbackBody,
    CommitOkBody,
    ConsumeBody,
    GenerationBody,
    LostBeginBody,
    RevokeBeginBody,
    StartBody,
    StepBody,
)

from ..ledger import GroupRecord
from ..slack import surely_before
from ..transitions import TRIGGERS
from .excuses import fencings
from .findings import MS, Findings, all_named

MARGIN_MS = 300
"""A restart this close to the end of its session may be late: the session begins at the last heartbeat received."""
_CALLBACKS: tuple[type[CallbackBody], ...] = (AssignedBeginBody, RevokeBeginBody, LostBeginBody)


def unnoticed_restart(record: GroupRecord, findings: Findings) -> None:
    """S1: a static member that returns within its session keeps its partitions, and other members notice nothing.

    Judged if the group was stable before, and nothing else happened before the member returned.
    """
    for old, new in _successors(record):
        left, back = _end_of(record, old), _first_adoption(record, new)
        rest = _last_rest(record, left)
        if left is None or back is None or left.mono_ns > back.mono_ns:
            continue  # it never returned, or took the id of a running process
        if rest is None:
            findings.not_judged("S1", "the group was not stable before")
            continue
        if not _in_session(old, left, back):
            findings.not_judged(
                "S1", "it did not return within its session, or the history does not have the session timeout"
            )
            continue
        generation = record.generation_of(rest.body.generation, _id_of(record, old))
        processes = {_process(old), _process(new)}
        others = [e for kind in TRIGGERS for e in record.events[kind] if _process(e) not in processes]
        if generation is None or any(rest.mono_ns < e.mono_ns < back.mono_ns for e in others):
            findings.not_judged("S1", "another trigger overlaps")
            continue
        findings.judged("S1")
        if back.body.generation != generation.number:
            message = (
                f"{new.member} returned {(back.mono_ns - left.mono_ns) / MS:.0f} ms after it had left, within its "
                f"session, but the group rebalanced from generation {generation.number} to {back.body.generation}"
            )
            findings.broken("S1", message, left, back)
        for event in (e for e in record.events.of(*_CALLBACKS) if _process(e) not in processes):
            if left.mono_ns < event.mono_ns < back.mono_ns:
                findings.broken(
                    "S1", f"{event.member} had to rebalance because of the restart of {new.member}", left, event, back
                )
        had = {tp for m, tps in generation.assigned.items() if m == _id_of(record, old) for tp in tps}
        got = set(back.body.partitions)
        if had != got:
            message = f"{new.member} had {_list(had)} and returned to {_list(got)}"
            findings.broken("S1", message, generation.event, back)


def fenced(record: GroupRecord, findings: Findings) -> None:
    """S2: a static member whose instance id another process took consumes and commits nothing more.

    The id is taken once the coordinator has committed it, even if the newer process never learns of that. Under the
    consumer protocol (KIP-848) a running member keeps its id: the coordinator refuses the newer process.
    """
    for old, new in _successors(record):
        if record.speaks_consumer(_process(new)):
            _refused(record, old, new, findings)
    for fencing in fencings(record):
        if record.speaks_consumer(_process(fencing.new)):
            continue
        old, taken, ended = fencing.old, fencing.at, _end_of(record, fencing.old)
        if old.body.config.heartbeat_interval_ms is None:
            findings.not_judged("S2", "the history does not have the fenced member's heartbeat interval")
            continue
        if ended is not None and not surely_before(taken.mono_ns, ended.mono_ns):
            continue
        findings.judged("S2")
        kinds: tuple[tuple[type[Body], str], ...] = (ConsumeBody, "consumed"), (CommitOkBody, "committed")
        for kind, what in kinds:
            events = (e for e in record.events.of(kind) if _process(e) == _process(old))
            late = [e for e in events if e.mono_ns > fencing.heard_by_ns]
            if late:
                message = (
                    f"{old.member} still {what} {(late[-1].mono_ns - taken.mono_ns) / MS:.0f} ms after "
                    f"{fencing.new.member} had taken its instance id {old.instance_id!r}"
                )
                findings.broken("S2", message, taken, late[0], late[-1])


def _refused(record: GroupRecord, old: Event[StartBody], new: Event[StartBody], findings: Findings) -> None:
    ended = _end_of(record, old)
    if ended is not None and ended.mono_ns <= new.mono_ns:
        return
    findings.judged("S2")
    taken = next((fencing.at for fencing in fencings(record) if fencing.new is new), None)
    if taken is not None and (ended is None or surely_before(taken.mono_ns, ended.mono_ns)):
        message = (
            f"the coordinator let {new.member} join with the instance id {new.instance_id!r}, which the running member "
            f"{old.member} had"
        )
        findings.broken("S2", message, old, taken)


def _successors(record: GroupRecord) -> list[tuple[Event[StartBody], Event[StartBody]]]:
    """Pairs of ``start`` events of consecutive processes under one instance id."""
    by_instance: dict[str, list[Event[StartBody]]] = {}
    for event in record.events.of(StartBody):
        if event.instance_id is not None:
            by_instance.setdefault(event.instance_id, []).append(event)
    return [pair for starts in by_instance.values() for pair in pairwise(starts)]


def _in_session(old: Event[StartBody], left: Event, back: Event) -> bool:
    session, heartbeat = old.body.config.session_timeout_ms, old.body.config.heartbeat_interval_ms
    if session is None or heartbeat is None:
        return False
    return 0 < back.mono_ns - left.mono_ns < (session - heartbeat - MARGIN_MS) * MS


def _last_rest(record: GroupRecord, before: Event | None) -> Event[StepBody] | None:
    """The stable state just before an event; None if something else happened between them."""
    if before is None:
        return None
    rests = [rest for rest in record.rests if rest.mono_ns < before.mono_ns]
    if not rests:
        return None
    triggers = (e for kind in TRIGGERS for e in record.events[kind])
    return None if any(rests[-1].mono_ns < e.mono_ns < before.mono_ns for e in triggers) else rests[-1]


def _end_of(record: GroupRecord, start: Event) -> Event | None:
    """The first event that ended a process."""
    ends = (*record.events["stop"], *record.events["exit"], *record.kills)
    return min((e for e in ends if _process(e) == _process(start)), key=lambda e: e.mono_ns, default=None)


def _first_adoption(record: GroupRecord, start: Event) -> Event[GenerationBody] | None:
    return next((e for e in record.events.of(GenerationBody) if _process(e) == _process(start)), None)


def _id_of(record: GroupRecord, start: Event) -> str | None:
    """The last member id of a process."""
    ids = [e.member_id for e in record.events["generation"] if _process(e) == _process(start)]
    return ids[-1] if ids else None


def _process(event: Event) -> tuple[str | None, int]:
    return event.member, event.incarnation


def _list(tps: set[TopicPartition]) -> str:
    return all_named(sorted(tps))
