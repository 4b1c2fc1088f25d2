"""C6, the law of members that report finished records: nothing unfinished is committed. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event, is_of
from kafka_assignors.history.events.bodies import ConsumeBody, FinishedBody, OffsetCommittedBody

from ..ledger import GroupRecord, RunRecord
from ..slack import surely_before
from .findings import Findings, named

MOST_RECORDS = 1_000_000
"""Records that a group's members may have read, and finished: the law looks at each, and a run may have any number."""


def commits_what_is_finished(record: GroupRecord, run: RunRecord, findings: Findings) -> None:
    """C6: an application finished every record below a committed offset.

    Judged in groups with a member that reports what it finished (`finishes` in the ``config`` of its ``start``). A
    record that another member consumed counts as finished at once. Records are those that were acknowledged or
    consumed; an offset without a record, e.g. after compaction, is ignored. A process finishes what it consumed before,
    at least once.

    Cost: O(n log n) for n records.
    """
    tellers = {process for process, start in record.starts.items() if start.body.config.finishes}
    if not tellers:
        return
    events: list[Event[ConsumeBody | FinishedBody]] = [*record.events.of(ConsumeBody), *record.events.of(FinishedBody)]
    runs = (run for event in events for run in event.body.offsets)
    if (records := sum(run.last - run.first + 1 for run in runs)) > MOST_RECORDS:
        findings.unknown.append(
            f"C6: group {record.group!r} read {records:,} records; at most {MOST_RECORDS:,} are judged"
        )
        return
    _finished_after_consumed(events, findings)
    finished: dict[TopicPartition, dict[int, Event]] = defaultdict(dict)  # offset -> the event that finished it first
    there: dict[TopicPartition, dict[int, Event]] = defaultdict(dict)  # offset -> the event that shows the record
    for ack in run.acks:
        there[ack.body.tp].setdefault(ack.body.offset, ack)
    for event in record.events.of(ConsumeBody):
        _note(event, there)
        if (event.member, event.incarnation) not in tellers:
            _note(event, finished)
    for processed in record.events.of(FinishedBody):
        _note(processed, finished)
    offsets = {tp: sorted(records) for tp, records in there.items()}
    reached: dict[TopicPartition, int] = defaultdict(int)  # number of them already checked
    for commit in sorted(record.events.of(OffsetCommittedBody), key=lambda e: e.seq):
        tp = commit.body.tp
        if any(not surely_before(commit.mono_ns, t.event.mono_ns) for t in record.truncated.get(tp, ())):
            findings.not_judged("C6", "its brokers lost records, so an offset may refer to two records")
            continue
        findings.judged("C6")
        record_offsets = offsets.get(tp, [])
        while reached[tp] < len(record_offsets) and record_offsets[reached[tp]] < commit.body.offset:
            offset = record_offsets[reached[tp]]
            reached[tp] += 1
            end = finished[tp].get(offset)
            if end is None or surely_before(commit.mono_ns, end.mono_ns):
                message = (
                    f"offset {commit.body.offset} of {named(tp)} was committed before any member had finished the "
                    f"record at offset {offset}"
                )
                findings.broken("C6", message, commit, there[tp][offset], end)


def _finished_after_consumed(events: Sequence[Event[ConsumeBody | FinishedBody]], findings: Findings) -> None:
    consumed: set[tuple[str | None, int, TopicPartition, int]] = set()
    for event in sorted(events, key=lambda e: (e.mono_ns, e.seq)):
        for row in event.body.offsets:
            places = ((event.member, event.incarnation, row.tp, at) for at in range(row.first, row.last + 1))
            if is_of(event, ConsumeBody):
                consumed.update(places)
            elif (strange := next((place for place in places if place not in consumed), None)) is not None:
                message = (
                    f"{event.member} finished offset {strange[-1]} of {named(row.tp)}, and had not consumed it before"
                )
                findings.broken("C6", message, event)


def _note(event: Event[ConsumeBody | FinishedBody], into: dict[TopicPartition, dict[int, Event]]) -> None:
    for row in event.body.offsets:
        events = into[row.tp]
        for offset in range(row.first, row.last + 1):
            if offset not in events or event.mono_ns < events[offset].mono_ns:
                events[offset] = event
