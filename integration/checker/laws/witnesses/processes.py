"""E2: the harness's record of processes and faults is whole, and agrees with itself. Pure."""

from __future__ import annotations

from collections import defaultdict
from signal import SIGKILL, Signals

from kafka_assignors.history.events import Event, is_of
from kafka_assignors.history.events.bodies import (
    AdminBody,
    AdminChangeBody,
    AdminChangedBody,
    AssignBeginBody,
    AssignedBeginBody,
    ClosingBody,
    CommitBeginBody,
    ConsumeBody,
    ErrorBody,
    ExitBody,
    FaultBeginBody,
    FaultBody,
    GenerationBody,
    NotStableBody,
    StartBody,
    StepBody,
    StopBody,
    TopicsBody,
)

from ...ledger import GroupRecord, Process, RunRecord
from ..findings import Findings

_ONE_AT_A_TIME = ("pause", "kill")
"""Faults of a process that the harness does not begin while they are in force."""


def every_start_has_its_end(record: GroupRecord, findings: Findings) -> None:
    """E2: each process has one start and one end, by its own account and by the harness's.

    Once the harness closes the group (``closing``), every process that started has an ``exit``, and none starts. A
    process that ended by itself wrote ``stop``; one that was killed ended by SIGKILL.
    """
    starts: dict[Process, list[Event[StartBody]]] = defaultdict(list)
    exits: dict[Process, list[Event[ExitBody]]] = defaultdict(list)
    for start in record.events.of(StartBody):
        starts[start.member, start.incarnation].append(start)
    for end in record.events.of(ExitBody):
        exits[end.member, end.incarnation].append(end)
    for word, by_process in (("started", starts), ("ended", exits)):
        for process, events in by_process.items():
            findings.judged("E2")
            if len(events) > 1:
                findings.broken("E2", f"{process[0]} {word} {len(events)} times as one process", *events)
    closing = record.events.of(ClosingBody)
    if len(closing) > 1:
        findings.broken("E2", "the harness closed the group twice", *closing)
    kills = {(e.member, e.incarnation): e for e in record.events.of(FaultBeginBody) if e.body.fault == "kill"}
    stops: dict[Process, Event[StopBody]] = {}
    for stop in record.events.of(StopBody):
        other = stops.setdefault((stop.member, stop.incarnation), stop)
        if other is not stop:
            findings.broken("E2", f"{stop.member} stopped twice", other, stop)
    last = {(start.member, start.pid): process for process, (start, *_) in sorted(starts.items(), key=_incarnation)}
    for process, (start, *_) in starts.items():
        # A service may close its consumer and make another one: the process ends once, with its last consumer.
        if closing and process not in exits and last[start.member, start.pid] == process:
            findings.broken("E2", f"the harness closed the group, and {process[0]} never ended", start, closing[0])
        if closing and start.mono_ns > closing[0].mono_ns:
            findings.broken("E2", f"{process[0]} started after the harness closed the group", closing[0], start)
    for process, (event, *_) in exits.items():
        code, signal = event.body.code, event.body.signal
        name = None if code >= 0 else _name(-code)
        if signal != name:
            findings.broken("E2", f"{process[0]} ended with code {code}, and by the signal {signal}", event)
        kill = kills.get(process)
        # A kill may come as a process ends by itself: it had been told to, or had stopped.
        asked = event.body.asked_ns is not None and kill is not None and event.body.asked_ns < kill.mono_ns
        if kill is not None and code != -SIGKILL and not asked and process not in stops:
            findings.broken("E2", f"{process[0]} was killed, and ended with code {code}", kill, event)
        if kill is not None and event.mono_ns < kill.mono_ns:
            findings.broken("E2", f"{process[0]} ended before it was killed", event, kill)
        member_of_ours = process in starts and starts[process][0].log_bytes is None  # a service may leave it out
        if code == 0 and member_of_ours and process not in stops and process not in record.on_wire:
            findings.broken("E2", f"{process[0]} ended with code 0, and never stopped", starts[process][0], event)
        if process not in starts and kill is None and code == 0:
            findings.broken("E2", f"{process[0]} ended with code 0, and never started", event)


def nothing_after_fatal(record: GroupRecord, findings: Findings) -> None:
    """E2: a process that reported a fatal error takes part no more: it consumes, commits, adopts and gets nothing."""
    fatal = {(e.member, e.incarnation): e for e in record.events.of(ErrorBody) if e.src == "member" and e.body.fatal}
    if not fatal:
        return
    work: list[Event] = [
        *record.events.of(ConsumeBody),
        *record.events.of(CommitBeginBody),
        *record.events.of(GenerationBody),
        *record.events.of(AssignedBeginBody),
        *record.events.of(AssignBeginBody),
    ]
    for event in work:
        error = fatal.get((event.member, event.incarnation))
        if error is not None and event.mono_ns > error.mono_ns:
            message = f"{event.member} reported a fatal error, and went on: {event.kind}"
            findings.broken("E2", message, error, event)


def faults_end(record: GroupRecord, findings: Findings) -> None:
    """E2: what ends, a fault or a change of topics, had begun, and a kill ends before the group is closed.

    Other faults may last: a broker may stay away, and a process may end while it stands still. A process is not paused
    again while it is, nor killed twice.
    """
    open_: dict[object, list[Event]] = defaultdict(list)
    events: list[Event] = [*record.events.of(FaultBody), *record.events.of(AdminBody)]
    for event in sorted(events, key=lambda e: (e.mono_ns, e.seq)):
        if is_of(event, FaultBeginBody) or is_of(event, AdminChangeBody):
            if is_of(event, FaultBeginBody) and event.body.fault in _ONE_AT_A_TIME and open_[_what(event)]:
                findings.broken("E2", f"{_words(event)} began while it was in force", open_[_what(event)][-1], event)
            open_[_what(event)].append(event)
        else:
            findings.judged("E2")
            if not open_[_what(event)]:
                findings.broken("E2", f"{_words(event)} ended, and had not begun", event)
            else:
                open_[_what(event)].pop()
    for event in (event for those in open_.values() for event in those):
        if is_of(event, FaultBeginBody) and event.body.fault == "kill" and record.events.of(ClosingBody):
            findings.broken("E2", f"{_words(event)} never ended", event)


def topics_change_when_asked(run: RunRecord, findings: Findings) -> None:
    """E2: the partition count of a topic changes only by a change that the harness made (``admin_change``).

    From its begin until the brokers have made it (``admin_changed``), the old count and the new one may be seen.
    """
    events: list[Event[TopicsBody | StepBody | NotStableBody | AdminBody]] = []
    for record in run.groups.values():
        events += [*record.events.of(TopicsBody), *record.events.of(StepBody), *record.events.of(NotStableBody)]
        events += record.events.of(AdminBody)
    counts: dict[str, dict[int, Event]] = {}  # topic -> counts that may be seen -> the event that tells it
    for event in sorted(events, key=lambda e: (e.mono_ns, e.seq)):
        for topic, count in (event.body.topics or {}).items():
            seen = counts.setdefault(topic, {count: event})
            if is_of(event, AdminChangedBody):
                counts[topic] = {count: event}
            elif is_of(event, AdminChangeBody):
                seen[count] = event
            else:
                findings.judged("E2")
                if count not in seen:
                    before, witness = next(iter(seen.items()))
                    message = f"{topic} had {before} partitions, and then {count}, though the harness changed nothing"
                    findings.broken("E2", message, witness, event)


def _incarnation(started: tuple[Process, list[Event[StartBody]]]) -> int:
    (_, incarnation), _ = started
    return incarnation


def _what(event: Event) -> object:
    if is_of(event, AdminBody):
        return event.body.change, event.body.target, str(event.body.topics)
    if is_of(event, FaultBody):
        return event.src, event.body.fault, event.body.target, event.member, event.incarnation
    return event


def _words(event: Event) -> str:
    if is_of(event, AdminBody):
        return f"{event.body.change.replace('_', ' ')} of {event.body.target}"
    return f"{event.body.fault.replace('_', ' ')} of {event.body.target}" if is_of(event, FaultBody) else event.kind


def _name(number: int) -> str | None:
    try:
        return Signals(number).name
    except ValueError:
        return None
