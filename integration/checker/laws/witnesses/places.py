"""K3: a record has one place, a place has one record, and nobody reads what nobody sent. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event
from kafka_assignors.history.events.bodies import ConsumeBody, ReadBackBody, StepBody

from ...ledger import RunRecord
from ...slack import SLACK_MS
from ..findings import SHOWN, Findings, named

_DIGITS = 18
"""Of a sender's number; a longer one is none of ours."""
_LOST = "its brokers lost records, so two of them may have had one offset"


def one_place_each(run: RunRecord, findings: Findings) -> None:
    """K3: each number of a sender was acknowledged or refused, once, and no place was acknowledged twice.

    Records of users have no numbers.
    """
    for tp, acked in run.acked.items():
        findings.judged("K3", len(acked.acks))
        if tp in run.truncated:
            findings.not_judged("K3", _LOST, len(acked.acks))
        elif len(set(acked.offsets)) < len(acked.offsets):
            for one, same in pairwise(acked.acks):
                if one.body.offset == same.body.offset:
                    message = f"two records were acknowledged at offset {same.body.offset} of {named(tp)}"
                    findings.broken("K3", message, one, same)
    by_id: dict[str, Event] = {}
    for ack in run.acks:
        if (other := by_id.setdefault(ack.body.value_id, ack)) is not ack:
            findings.broken("K3", f"record {ack.body.value_id} was acknowledged twice", other, ack)
    for nack in run.nacks:
        if (other := by_id.setdefault(nack.body.value_id, nack)) is not nack:
            findings.broken("K3", f"record {nack.body.value_id} was refused, and answered otherwise", other, nack)
    numbers: dict[str, set[int]] = defaultdict(set)
    last: dict[str, Event] = {}
    for value_id, event in by_id.items():
        sender, _, number = value_id.rpartition("-")
        if number.isdecimal() and len(number) <= _DIGITS:
            numbers[sender].add(int(number))
            last[sender] = event
    for sender, those in sorted(numbers.items()):
        if missing := max(those) + 1 - len(those):
            gaps = (number for number in those if number and number - 1 not in those)
            message = (
                f"{missing} record(s) of sender {sender} were neither acknowledged nor refused, the last of them "
                f"number {max(gaps) - 1}"
            )
            findings.broken("K3", message, last[sender])


def nothing_from_nowhere(run: RunRecord, findings: Findings) -> None:
    """K3: what members consumed, and what was read back, was sent: it lies at offsets that were acknowledged.

    A refused record may have been written, so as many others are granted. A topic's records before the first
    acknowledged one are not of this run.
    """
    topics = {tp.topic for tp in run.acked}
    sent = {tp: frozenset(acked.offsets) for tp, acked in run.acked.items()}
    granted: dict[str, int] = defaultdict(int)
    for nack in run.nacks:
        granted[nack.body.topic] += 1
    strange: dict[TopicPartition, list[tuple[int, int, Event]]] = defaultdict(list)  # first, last, event
    for record in run.groups.values():
        for event in record.events.of(ConsumeBody):
            for row in event.body.offsets:
                if row.topic not in topics:
                    continue
                findings.judged("K3")
                tp = row.tp
                offsets = run.acked[tp].offsets if tp in run.acked else ()
                _outside(tp, row.first, row.last, offsets, event, strange)
    for _, seen in run.passes:
        for (topic, partition, offset), there in seen.items():
            tp = TopicPartition(topic, partition)
            if tp in sent:
                findings.judged("K3")
                if offset not in sent[tp]:
                    _outside(tp, offset, offset, run.acked[tp].offsets, there, strange)
    counts = {tp: _covered(gaps) for tp, gaps in strange.items()}
    for tp, gaps in sorted(strange.items()):
        if tp in run.truncated:
            findings.not_judged("K3", _LOST)
        elif sum(count for other, count in counts.items() if other.topic == tp.topic) > granted[tp.topic]:
            offsets_named = ", ".join(
                f"{first}-{last}" if last > first else str(first) for first, last, _ in gaps[:SHOWN]
            )
            message = f"{counts[tp]} record(s) of {named(tp)} were read that nobody sent: offset {offsets_named}"
            findings.broken("K3", message, *(event for _, _, event in gaps[:SHOWN]))


def _covered(gaps: Sequence[tuple[int, int, Event]]) -> int:
    """How many offsets lie in at least one of these ranges."""
    count, reached = 0, -1
    for first, last, _ in sorted(gaps, key=lambda gap: gap[:2]):
        count += max(0, last - max(first, reached + 1) + 1)
        reached = max(reached, last)
    return count


def ends_are_ends(run: RunRecord, findings: Findings) -> None:
    """K3: the end of a partition (``drained``, ``read_back``) is no further than the records that were sent reach.

    And no record lies behind the end that was acknowledged before the harness asked for it (``asked_ns``).
    """
    refused = {nack.body.topic for nack in run.nacks}
    steps: list[Event[StepBody]] = [step for step, _ in run.passes]
    steps += [s for record in run.groups.values() for s in record.events.of(StepBody) if s.body.name == "drained"]
    for step in steps:
        asked_ns = step.body.asked_ns
        _require_whole(run, step, findings)
        for row in step.body.offsets or ():
            tp, end = row.tp, row.offset
            if tp not in run.acked or tp in run.truncated:
                continue
            findings.judged("K3")
            acked = run.acked[tp]
            last = acked.offsets[-1]
            if end > last + 1 and tp.topic not in refused:
                message = f"{named(tp)} ended at {end}, and its last acknowledged record is at {last}"
                findings.broken("K3", message, step, acked.acks[-1])
            for ack in acked.between(end, last + 1):
                if asked_ns is not None and ack.mono_ns < asked_ns:
                    message = f"{named(tp)} ended at {end}, and offset {ack.body.offset} had been acknowledged before"
                    findings.broken("K3", message, ack, step)
                    break


def read_in_order(run: RunRecord, findings: Findings) -> None:
    """K3: a partition is read back from its first record to the end that is told of it, each offset once.

    What its broker appended later has a later time, if it tells one, but for `SLACK_MS`.

    Not judged of partitions of which the brokers lost records.
    """
    ends = [{row.tp: row.offset for row in step.body.offsets or ()} for step, _ in run.passes]
    steps = [step for step, _ in run.passes]
    times = [step.mono_ns for step in steps]
    last: dict[tuple[int, TopicPartition], Event[ReadBackBody]] = {}
    for event in run.read_backs:
        number, (tp, offset) = bisect_left(times, event.mono_ns), (event.body.tp, event.body.offset)
        if tp in run.truncated:
            continue
        before = last.get((number, tp))
        if before is not None and offset <= before.body.offset:
            message = f"offset {offset} of {named(tp)} was read back after offset {before.body.offset}"
            findings.broken("K3", message, before, event)
        if before is not None and _went_back(before.body.appended_ms, event.body.appended_ms):
            message = f"offset {offset} of {named(tp)} was appended before offset {before.body.offset}"
            findings.broken("K3", message, before, event)
        last[number, tp] = event
        if number < len(steps) and ends[number] and offset >= ends[number].get(tp, 0):
            told_end = f"ended at {ends[number][tp]}" if tp in ends[number] else "has no end"
            findings.broken(
                "K3", f"offset {offset} of {named(tp)} was read back, which {told_end}", event, steps[number]
            )


def _went_back(before_ms: int | None, then_ms: int | None) -> bool:
    return before_ms is not None and then_ms is not None and then_ms + SLACK_MS < before_ms


def _require_whole(run: RunRecord, step: Event[StepBody], findings: Findings) -> None:
    """The ends of a topic are those of all its partitions, as far as the history has their number."""
    partitions: dict[str, set[int]] = defaultdict(set)
    for row in step.body.offsets or ():
        partitions[row.topic].add(row.partition)
    for topic, listed in sorted(partitions.items()):
        counts = {count for record in run.groups.values() if (count := record.count_of(topic, step.mono_ns))}
        if counts and not any(listed == set(range(count)) for count in counts):
            other = len(listed) if len(listed) not in counts else f"partition {max(listed)}"
            message = f"{topic} has {max(counts)} partitions, and the ends of {other} were told"
            findings.broken("K3", message, step)


def _outside(  # a run of offsets, where it lies, and where what is outside goes
    tp: TopicPartition,
    first: int,
    last: int,
    offsets: Sequence[int],
    event: Event,
    strange: dict[TopicPartition, list[tuple[int, int, Event]]],
) -> None:
    """Note the offsets of a run at which nothing was acknowledged."""
    first = max(first, offsets[0]) if offsets else first
    if last < first:
        return
    between = offsets[bisect_left(offsets, first) : bisect_right(offsets, last)]
    if len(between) == last - first + 1:
        return
    expected = first
    for offset in [*between, last + 1]:
        if offset > expected:
            strange[tp].append((expected, offset - 1, event))
        expected = offset + 1
