"""G5: members, the leader and the coordinator tell the same of a generation. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_assignors.errors import WireError
from kafka_assignors.history.events import Event, is_of
from kafka_assignors.history.events.bodies import (
    AdminChangeBody,
    AssignBeginBody,
    AssignEndBody,
    ExitBody,
    GenerationBody,
    MemberRow,
    StartBody,
)

from ...busy import is_of_a_service
from ...ledger import GroupRecord, Process
from ...slack import SLACK_MS, surely_before
from ..findings import MS, Findings

_THEIR_POLL_INTERVAL = (None, "kafka-python", "confluent", "confluent-kafka", "java", "bridge")
"""Clients that join with their poll interval as the rebalance timeout."""
_OF_WHOLE_TOPICS = ("create_topic", "delete_topic")
"""Changes after which members may subscribe to a topic more, or no longer."""


def joined_as_configured(record: GroupRecord, findings: Findings) -> None:
    """G5: the coordinator has each member with the name, instance id, timeouts and topics with which it started."""
    changes = [e for e in record.events.of(AdminChangeBody) if e.body.subscription is not None]
    came_or_went = {e.body.target for e in record.events.of(AdminChangeBody) if e.body.change in _OF_WHOLE_TOPICS}
    ends = record.events.of(ExitBody)
    told_to_end = {(e.member, e.incarnation): e.body.asked_ns for e in ends if e.body.asked_ns is not None}
    for generation in record.generations:
        if generation.by_broker:
            continue  # `epochs`
        for row in generation.body.members:
            process = record.processes.get(row.member_id)
            start = None if process is None else record.starts.get(process)
            if process is None or start is None:
                continue
            findings.judged("G5")
            if surely_before(generation.event.mono_ns, start.mono_ns):
                early_ms = (start.mono_ns - generation.event.mono_ns) / MS
                message = f"{process[0]} started {early_ms:.0f} ms after generation {generation.number}, which has it"
                findings.broken("G5", message, generation.event, start)
            for what, of_member, of_coordinator in _differences(row, start):
                message = (
                    f"{process[0]} started with {what} {of_member!r}, and joined generation {generation.number} with "
                    f"{of_coordinator!r}"
                )
                findings.broken("G5", message, start, generation.event)
            mine = [e for e in changes if e.member == process[0] and e.mono_ns < generation.event.mono_ns]
            patterns = [start.body.config.pattern, *(e.body.subscription.pattern for e in mine if e.body.subscription)]
            if any(pattern is not None for pattern in patterns):
                continue  # it subscribes to whatever matches
            try:
                topics = generation.topics_of(row.member_id)
            except WireError:
                continue  # O3 reports it
            if not topics and told_to_end.get(process, generation.event.mono_ns) < generation.event.mono_ns:
                continue  # it hands its partitions over before it leaves (`kafka_assignors.leave`)
            chosen = [start.body.topics, *(e.body.subscription.topics for e in mine if e.body.subscription)]
            if topics - came_or_went not in [frozenset(these or ()) - came_or_went for these in chosen]:
                message = (
                    f"{process[0]} started with the topics {sorted(start.body.topics)}, and joined generation "
                    f"{generation.number} with {sorted(topics)}"
                )
                findings.broken("G5", message, start, *mine[-1:], generation.event)


def _differences(row: MemberRow, start: Event[StartBody]) -> Iterator[tuple[str, object, object]]:
    config = start.body.config
    pairs: list[tuple[str, object, object]] = [("the instance id", start.instance_id, row.instance_id)]
    if start.instance_id is None and not is_of_a_service(start):  # which chooses its client id
        pairs.append(("the name", start.member, row.client_id))
    if config.session_timeout_ms is not None and row.session_timeout_ms is not None:
        pairs.append(("session_timeout_ms", config.session_timeout_ms, row.session_timeout_ms))
    timeouts = config.max_poll_interval_ms, row.rebalance_timeout_ms
    if None not in timeouts and start.client in _THEIR_POLL_INTERVAL:
        pairs.append(("max_poll_interval_ms", *timeouts))
    for what, one, other in pairs:
        if one != other:
            yield what, one, other


def one_leader(record: GroupRecord, findings: Findings) -> None:
    """G5: the members' leader is the coordinator's, it is one of the generation's members, and assigned to all of them.

    Judged for generations that were committed: another leader may have assigned in vain before. A leader adopts no
    generation before its assignment has ended.
    """
    for generation in record.generations:
        if not generation.by_broker and generation.leader:
            findings.judged("G5")
            if generation.leader not in generation.assigned:
                message = f"the leader {generation.leader} of generation {generation.number} is not one of its members"
                findings.broken("G5", message, generation.event)
    begun: dict[Process, Event[AssignBeginBody]] = {}
    events: list[Event] = [
        *record.events.of(AssignBeginBody),
        *record.events.of(AssignEndBody),
        *record.events.of(GenerationBody),
    ]
    for event in sorted(events, key=lambda e: (e.mono_ns, e.seq)):
        process = event.member, event.incarnation
        if is_of(event, AssignBeginBody):
            if (other := begun.get(process)) is not None:
                findings.broken("G5", f"{event.member} began to assign before it had ended", other, event)
            begun[process] = event
            _began(record, event, findings)
        elif is_of(event, AssignEndBody):
            _ended(begun.pop(process, None), event, findings)
            committed = record.first_writing(event.body.generation)
            if event.body.error and committed is not None and event.member_id == committed.leader:
                message = f"{event.member} failed to assign generation {committed.number}, which was committed"
                findings.broken("G5", message, event, committed.event)
        elif is_of(event, GenerationBody) and (begin := begun.get(process)) is not None:
            message = f"{event.member} adopted generation {event.body.generation} before it had ended to assign"
            findings.broken("G5", message, begin, event)


def _began(record: GroupRecord, begin: Event[AssignBeginBody], findings: Findings) -> None:
    number = begin.body.generation
    generation = record.first_writing(number)
    if generation is None or generation.by_broker or not generation.leader:
        return
    findings.judged("G5")
    if begin.member_id != generation.leader:
        who = generation.names.get(generation.leader, generation.leader)
        message = f"{begin.member} assigned generation {number}, whose leader is {who}"
        findings.broken("G5", message, begin, generation.event)
    elif {*begin.body.members} != set(generation.assigned):
        message = f"{begin.member} assigned generation {number} to other members than those that it was committed with"
        findings.broken("G5", message, begin, generation.event)
    if begin.body.protocol != generation.protocol:
        message = (
            f"{begin.member} assigned generation {number} by {begin.body.protocol!r}, and it was committed with "
            f"{generation.protocol!r}"
        )
        findings.broken("G5", message, begin, generation.event)


def _ended(begin: Event[AssignBeginBody] | None, end: Event[AssignEndBody], findings: Findings) -> None:
    findings.judged("G5")
    if begin is None:
        findings.broken("G5", f"{end.member} ended an assignment that it had not begun", end)
        return
    if (begin.body.generation, begin.body.protocol) != (end.body.generation, end.body.protocol):
        message = (
            f"{end.member} began to assign generation {begin.body.generation} by {begin.body.protocol!r} and ended "
            f"with generation {end.body.generation} by {end.body.protocol!r}"
        )
        findings.broken("G5", message, begin, end)
    took_ms, told_ms = (end.mono_ns - begin.mono_ns) / MS, end.body.duration_us / 1000
    if told_ms > took_ms + SLACK_MS:  # less is no contradiction: a busy machine may stop a process between its events
        message = f"{end.member} says that it assigned for {told_ms:.0f} ms, and took {took_ms:.0f}"
        findings.broken("G5", message, begin, end)


def adopted_as_elected(record: GroupRecord, findings: Findings) -> None:
    """G5: a member adopts a generation under the assignor that the coordinator committed it with."""
    for event in record.events.of(GenerationBody):
        generation = record.generation_of(event.body.generation, event.member_id)
        if generation is None or generation.by_broker or not event.body.protocol:
            continue
        findings.judged("G5")
        if event.body.protocol != generation.protocol:
            message = (
                f"{event.member} adopted generation {generation.number} under {event.body.protocol!r}, and it was "
                f"committed with {generation.protocol!r}"
            )
            findings.broken("G5", message, event, generation.event)


def one_id_each(record: GroupRecord, findings: Findings) -> None:
    """G5: no two processes have one member id, and events of a process of the harness have one pid and one client."""
    processes: dict[str, tuple[Process, Event]] = {}
    pids: dict[Process, tuple[object, Event]] = {}
    for events in record.events.values():
        for event in events:
            if event.src != "member":
                continue
            process = event.member, event.incarnation
            if event.member_id is not None:
                owner, first = processes.setdefault(event.member_id, (process, event))
                if owner != process:
                    message = f"{process[0]} and {owner[0]} have the member id {event.member_id}"
                    findings.broken("G5", message, first, event)
            if event.log_bytes is not None:
                continue  # a service may have several processes
            mark = event.pid, event.client, event.instance_id
            if pids.setdefault(process, (mark, event))[0] != mark:
                message = f"events of {process[0]} are of different processes, clients or instance ids"
                findings.broken("G5", message, pids[process][1], event)
