"""R7 and R8: what a member's callbacks tell of generations, of losses and of its leave, joined with the rest. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Set

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event, is_of
from kafka_assignors.history.events.bodies import (
    AssignedBeginBody,
    AssignedEndBody,
    CallbackBody,
    FaultBeginBody,
    GenerationBody,
    LostBeginBody,
    LostEndBody,
    RevokeBeginBody,
    RevokeEndBody,
    StopBody,
)

from ...ledger import GroupRecord, Process
from ...slack import around, surely_before
from ..findings import Findings, all_named

_TELL_THEIR_GENERATION = (None, "kafka-python", "confluent-kafka")
"""Clients whose generations do not come from the coordinator log."""
_REVOKES_FIRST = "confluent-kafka"
"""The client that, in a cooperative rebalance, revokes in the generation that it adopts next."""
_LEAVE_SILENTLY = ("aiokafka",)
"""Clients that call no callback when they leave."""


def of_their_generation(record: GroupRecord, findings: Findings) -> None:
    """R8: a callback ends in the generation in which it began, and gives partitions up in one that was adopted.

    A member of the harness that leaves has given up all its partitions before its ``stop``.
    """
    adopted: dict[Process, set[int]] = defaultdict(set)
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
            adopted[process].add(event.body.generation)
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
            was_adopted = number in adopted[process] or _follows(record, number, adopted[process], event)
            if is_of(event, RevokeBeginBody) and event.body.partitions and not was_adopted:
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


def lost_for_a_reason(record: GroupRecord, findings: Findings) -> None:
    """R7: a member loses partitions only if the group went on: a generation was committed that it had not adopted.

    Not judged where a fault may have kept the member from the coordinator, of clients that tell losses as revocations,
    and in a KIP-848 group, where members reach a generation one by one.
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
            message = (
                f"{event.member} lost {all_named(event.body.partitions)}, though no generation followed {number}, "
                "which it had adopted"
            )
            findings.broken("R7", message, adoption, event)
