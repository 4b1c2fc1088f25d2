"""R7 and R8: what a member's callbacks tell of generations, of losses and of its leave, joined with the rest. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event, is_of
from kafka_assignors.history.events.bodies import (
    AdminBody,
    AssignedBeginBody,
    AssignedEndBody,
    CallbackBody,
    ExitBody,
    FaultBeginBody,
    GenerationBody,
    LostBeginBody,
    LostEndBody,
    RebalanceRequestBody,
    RevokeBeginBody,
    RevokeEndBody,
    StopBody,
)

from ...ledger import GroupRecord, Process
from ...slack import around, surely_before
from ..findings import MS, Findings, all_named

_TELL_THEIR_GENERATION = (None, "kafka-python", "confluent-kafka")
"""Clients whose generations do not come from the coordinator log."""
_REVOKES_FIRST = "confluent-kafka"
"""The client that, in a cooperative rebalance, revokes in the generation that it adopts next."""
_LEAVE_SILENTLY = ("aiokafka",)
"""Clients that call no callback when they leave."""
_NEVER_COMPLETED = "a generation may have begun that no leader completed"
"""Such a generation is not in the log."""


def of_their_generation(record: GroupRecord, findings: Findings) -> None:
    """R8: a callback ends in the generation in which it began, and gives partitions up in one that was adopted.

    A member of the harness that leaves has given up all its partitions before its ``stop``. Not judged of librdkafka's
    members that may have left between their join and the leader's assignment: they revoke in that generation.
    """
    adopted: dict[Process, dict[int, Event[GenerationBody]]] = defaultdict(dict)
    begun: dict[Process, Event[CallbackBody]] = {}
    owned: dict[Process, set[TopicPartition]] = defaultdict(set)
    events: list[Event] = [
        *record.events.of(CallbackBody), *record.events.of(GenerationBody), *record.events.of(StopBody),
    ]  # fmt: skip
    for event in sorted(events, key=lambda e: (e.mono_ns, e.seq)):
        process = event.member, event.incarnation
        if process in record.on_wire:
            continue  # its callbacks are not seen
        if is_of(event, GenerationBody):
            adopted[process][event.body.generation] = event
        elif is_of(event, StopBody):
            findings.judged("R8")
            silent = event.client in _LEAVE_SILENTLY or event.log_bytes is not None
            if (left := owned[process]) and not silent:
                message = f"{event.member} left the group with {all_named(sorted(left))}, which it had not given up"
                findings.broken("R8", message, event)
        elif is_of(event, AssignedBeginBody):
            begun[process] = event
            owned[process].update(event.body.partitions)
        elif is_of(event, RevokeBeginBody) or is_of(event, LostBeginBody):
            begun[process] = event
            owned[process].difference_update(event.body.partitions)
            findings.judged("R8")
            number = event.body.generation
            was_adopted = number in adopted[process] or _follows(record, number, adopted[process].keys(), event)
            if is_of(event, RevokeBeginBody) and event.body.partitions and not was_adopted:
                if event.client == _REVOKES_FIRST and _is_begun(record, number, adopted[process], event):
                    findings.not_judged("R8", _NEVER_COMPLETED)
                    continue
                message = f"{event.member} gave partitions up in generation {number}, which it had not adopted"
                findings.broken("R8", message, event)
        elif is_of(event, AssignedEndBody) or is_of(event, RevokeEndBody) or is_of(event, LostEndBody):
            if (begin := begun.pop(process, None)) is None:
                continue  # `progress` reports it
            findings.judged("R8")
            if begin.body.generation != event.body.generation:
                message = (
                    f"{event.member}: {begin.kind} was of generation {begin.body.generation}, and its {event.kind} of "
                    f"generation {event.body.generation}"
                )
                findings.broken("R8", message, begin, event)


def _follows(record: GroupRecord, number: int, adopted: Set[int], event: Event) -> bool:
    """Whether the log has the generation, of a client that tells a revocation before the adoption."""
    if event.client == _REVOKES_FIRST:
        committed = record.by_number.get(number)
        is_next = number > max(adopted, default=-1)
        return is_next and committed is not None and not surely_before(event.mono_ns, committed.event.mono_ns)
    if event.client in _TELL_THEIR_GENERATION:
        return False
    return number in record.by_number or any(epoch == number for _, epoch in record.reconciliation.reached)


def _is_begun(record: GroupRecord, number: int, adopted: Mapping[int, Event[GenerationBody]], event: Event) -> bool:
    """Whether a generation that the log never has may have begun: the one after the last that it has by then."""
    latest_ns = around(event.mono_ns)[1]
    last = max((g.number for g in record.generations if g.event.mono_ns <= latest_ns), default=-1)
    if number in record.by_number or number != last + 1 or max(adopted, default=number) >= number:
        return False
    return _may_have_begun(record, adopted[max(adopted)], event)


def lost_for_a_reason(record: GroupRecord, findings: Findings) -> None:
    """R7: a member loses partitions only if the group went on: a generation was committed that it had not adopted.

    A generation is in the log once its leader has assigned, and the coordinator refuses the one before as soon as all
    have joined. So a loss is not judged without the next one if `_may_have_begun` another, nor where a fault may have
    kept the member from the coordinator, of clients that tell losses as revocations, and in a KIP-848 group, where
    members reach a generation one by one.
    """
    hit = {(e.member, e.incarnation) for e in record.events.of(FaultBeginBody)}
    adopted: dict[Process, Event[GenerationBody]] = {}
    events: list[Event] = [*record.events.of(GenerationBody), *record.events.of(LostBeginBody)]
    for event in sorted(events, key=lambda e: (e.mono_ns, e.seq)):
        process = event.member, event.incarnation
        if process in record.on_wire:
            continue  # it may have lost them by its own clock
        if is_of(event, GenerationBody):
            adopted[process] = event
            continue
        adoption = adopted.get(process)
        if not is_of(event, LostBeginBody) or adoption is None or record.speaks_consumer(process):
            continue
        if not event.body.partitions or event.client not in _TELL_THEIR_GENERATION:
            continue
        if process in hit or (None, 0) in hit:
            findings.not_judged("R7", "a fault may have kept the member from its coordinator")
            continue
        findings.judged("R7")
        number = adoption.body.generation
        by_then = bisect_right(record.generations, around(event.mono_ns)[1], key=lambda g: g.event.mono_ns)
        if not any(
            g.number > number or (g.number == number and adoption.member_id not in g.assigned)
            for g in record.generations[:by_then]
        ):
            if _may_have_begun(record, adoption, event):
                findings.not_judged("R7", _NEVER_COMPLETED)
                continue
            message = (
                f"{event.member} lost {all_named(event.body.partitions)}, though no generation followed {number}, "
                "which it had adopted"
            )
            findings.broken("R7", message, adoption, event)


def _may_have_begun(record: GroupRecord, adoption: Event[GenerationBody], event: Event) -> bool:
    """Whether the group may have left a generation that a process adopted, by the time of a callback of that process.

    Somebody that was not in it may have joined; one of its members may have left or died, given partitions up or asked
    for a rebalance, or been silent for its session; or topics have changed.
    """
    generation = record.by_number.get(adoption.body.generation)
    if generation is None:
        return True
    from_ns = around(generation.completed_ns)[0]
    number = generation.number
    revoked = [revoke for revoke in record.events.of(RevokeBeginBody) if revoke.body.generation == number]
    asked: list[Event] = [*record.events.of(RebalanceRequestBody), *record.events.of(AdminBody), *revoked]
    if any(from_ns <= other.mono_ns <= event.mono_ns and other is not event for other in asked):
        return True
    members = record.present(generation)
    if members - record.starts.keys():
        return True  # nobody tells of their leave
    stops = {(e.member, e.incarnation): e.mono_ns for e in record.events.of(StopBody)}
    ends = {(e.member, e.incarnation): e.mono_ns for e in record.events.of(ExitBody)} | stops
    for process, start in record.starts.items():
        end_ns = ends.get(process)
        if process == (event.member, event.incarnation):
            continue
        if process in members:
            if end_ns is not None and around(end_ns)[0] <= event.mono_ns:  # told once it has left
                return True
        elif start.mono_ns <= event.mono_ns and (end_ns is None or end_ns >= from_ns):
            return True
    return any(
        _silence_ns(record.event_times.get(process, ()), from_ns, event.mono_ns) > min(timeouts) * MS
        for row in generation.body.members
        if (timeouts := [ms for ms in (row.session_timeout_ms, row.rebalance_timeout_ms) if ms is not None and ms > 0])
        and (process := record.members_of(generation)[row.member_id])
    )


def _silence_ns(event_times: Sequence[int], from_ns: int, until_ns: int) -> int:
    """The longest time without an event of a process that began by `until_ns` and ended after `from_ns`."""
    first, last = bisect_left(event_times, from_ns), bisect_right(event_times, until_ns)
    times = [*event_times[max(0, first - 1) : last], until_ns]
    return max((after - before for before, after in pairwise(times)), default=0)
