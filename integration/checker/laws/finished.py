"""The law of members that report finished records: nothing unfinished is committed. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event

from ..ledger import GroupRecord, RunRecord
from ..slack import surely_before
from .findings import Findings, named

MOST_RECORDS = 1_000_000
"""Records that a group's members may have read, and finished: the law looks at each, and a run may have any number."""


def commits_what_is_finished(record: GroupRecord, run: RunRecord, findings: Findings) -> None:
    """C6: an application finished every record below a committed offset.

    Judged in groups with a member that reports what it finished (`finishes` in the ``config`` of its ``start``). A
    record that another member consumed counts as finished at once. Records are those that were acknowledged or
    consumed; an offset without a record, e.g. after compaction, is ignored.

    Cost: O(n log n) for n records.
    """
    tellers = {process for process, start in record.starts.items() if start.data.get("config", {}).get("finishes")}
    if not tellers:
        return
    runs = (run for kind in ("consume", "finished") for event in record.events[kind] for run in event.data["offsets"])
    if (records := sum(run["last"] - run["first"] + 1 for run in runs)) > MOST_RECORDS:
        findings.unknown.append(
            f"C6: group {record.group!r} read {records:,} records; at most {MOST_RECORDS:,} are judged"
        )
        return
    finished: dict[TopicPartition, dict[int, Event]] = defaultdict(dict)  # offset -> the event that finished it first
    there: dict[TopicPartition, dict[int, Event]] = defaultdict(dict)  # offset -> the event that shows the record
    for ack in run.acks:
        there[TopicPartition(ack.data["topic"], ack.data["partition"])].setdefault(ack.data["offset"], ack)
    for event in record.events["consume"]:
        _note(event, there)
        if (event.member, event.incarnation) not in tellers:
            _note(event, finished)
    for event in record.events["finished"]:
        _note(event, finished)
    offsets = {tp: sorted(records) for tp, records in there.items()}
    reached: dict[TopicPartition, int] = defaultdict(int)  # number of them already checked
    for commit in sorted(record.events["offset_committed"], key=lambda e: e.seq):
        tp = TopicPartition(commit.data["topic"], commit.data["partition"])
        if any(not surely_before(commit.mono_ns, t.event.mono_ns) for t in record.truncated.get(tp, ())):
            findings.not_judged("C6", "its brokers lost records, so an offset may refer to two records")
            continue
        findings.judged("C6")
        record_offsets = offsets.get(tp, [])
        while reached[tp] < len(record_offsets) and record_offsets[reached[tp]] < commit.data["offset"]:
            offset = record_offsets[reached[tp]]
            reached[tp] += 1
            end = finished[tp].get(offset)
            if end is None or surely_before(commit.mono_ns, end.mono_ns):
                message = (
                    f"offset {commit.data['offset']} of {named(tp)} was committed before any member had finished the "
                    f"record at offset {offset}"
                )
                findings.broken("C6", message, commit, there[tp][offset], end)


def _note(event: Event, into: dict[TopicPartition, dict[int, Event]]) -> None:
    for row in event.data["offsets"]:
        offsets: Iterable[int] = range(row["first"], row["last"] + 1)
        events = into[TopicPartition(row["topic"], row["partition"])]
        for offset in offsets:
            if offset not in events or event.mono_ns < events[offset].mono_ns:
                events[offset] = event
