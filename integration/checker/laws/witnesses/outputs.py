"""X2: transactions end one by one, and their outputs and the offsets that they commit belong together. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event, is_of
from kafka_assignors.history.events.bodies import (
    AckBody,
    CommitBeginBody,
    CommitBody,
    CommitFailBody,
    CommitOkBody,
    ReadBackBody,
    StopBody,
)

from ...busy import is_of_a_service
from ...ledger import GroupRecord, Process, RunRecord
from ..exactly_once import by_transaction, committed_passes, output_topics
from ..findings import SHOWN, Findings, named

_Transaction = tuple[Process, int]


def outputs_of_committed_inputs(record: GroupRecord, run: RunRecord, findings: Findings) -> None:
    """X2: what `read_committed` shows of a transaction are the outputs of the records whose offsets it commits.

    Such a record lies below the offset that the transaction commits, and not below one that an earlier transaction of
    the process committed. Each output of the harness's members names its transaction.

    Cost: O(n log n) for n outputs and committed offsets.
    """
    topics = output_topics(record)
    passes = committed_passes(run, topics) if topics else ()
    if not passes:
        return  # `no_zombies` says so
    unnamed = topics - {start.body.config.output for start in record.starts.values() if is_of_a_service(start)}
    inputs = {ack.body.value_id: ack for ack in run.acks}
    begun = by_transaction(record.events.of(CommitBeginBody))
    accepted = _accepted(record)
    strange: dict[_Transaction, list[Event[ReadBackBody]]] = defaultdict(list)
    for (topic, partition, offset), output in sorted(passes[-1][1].items()):
        author = output.body.author
        if topic not in topics:
            continue
        if author is None:
            if topic in unnamed:
                message = f"offset {offset} of {topic}-{partition} does not say which transaction produced it"
                findings.broken("X2", message, output)
            continue
        process: Process = author.member, author.incarnation
        begin, source = begun.get((process, author.transaction)), inputs.get(output.body.value_id or "")
        if author.group != record.group or begin is None or source is None or source.body.tp in run.truncated:
            continue  # `no_zombies` reports what nobody began to commit
        tp, ends = source.body.tp, {row.tp: row.offset for row in begin.body.offsets}
        before = accepted.get((process, tp), ())
        at = bisect_left(before, (author.transaction, 0))
        if not (before[at - 1][1] if at else 0) <= source.body.offset < ends.get(tp, 0):
            strange[process, author.transaction].append(output)
    for (process, number), outputs in strange.items():
        message = (
            f"{len(outputs)} output(s) name transaction {number} of {process[0]}, which does not commit the offsets of "
            f"their inputs: {_inputs(outputs, inputs)}"
        )
        findings.broken("X2", message, begun[process, number], *outputs[:SHOWN])


def one_transaction_at_a_time(record: GroupRecord, findings: Findings) -> None:
    """X2: a transforming member numbers its transactions upwards, and ends each one before the next, and its leave.

    Its end names the number and the offsets of its begin. Judged of the harness's members, which wait for each end; one
    may fail before the commit began.
    """
    members = {process for process, start in record.starts.items() if start.body.config.output}
    members -= {process for process in members if is_of_a_service(record.starts[process])}
    open_: dict[Process, Event[CommitBeginBody]] = {}
    last: dict[Process, int] = defaultdict(int)
    events: list[Event] = [*record.events.of(CommitBody), *record.events.of(StopBody)] if members else []
    for event in sorted(events, key=lambda e: (e.mono_ns, e.seq)):
        process = event.member, event.incarnation
        if process not in members:
            continue
        begin = open_.pop(process, None)
        if is_of(event, CommitOkBody) or is_of(event, CommitFailBody):
            if begin is not None and (begin.body.transaction, begin.body.offsets) != (
                event.body.transaction,
                event.body.offsets,
            ):
                message = f"{event.member} began to commit {_numbered(begin)}, and ended {_numbered(event)}"
                findings.broken("X2", message, begin, event)
            continue
        if begin is not None:
            findings.broken("X2", f"{event.member} never ended {_numbered(begin)}, and went on", begin, event)
        if is_of(event, CommitBeginBody):
            number = event.body.transaction or 0
            if number <= last[process]:
                message = f"{event.member} began to commit {_numbered(event)} after transaction {last[process]}"
                findings.broken("X2", message, event)
            last[process] = number
            open_[process] = event


def _numbered(commit: Event[CommitBody]) -> str:
    number = commit.body.transaction
    places = ", ".join(f"{named(row.tp)} at {row.offset}" for row in commit.body.offsets[:SHOWN])
    return f"{'a commit without a transaction' if number is None else f'transaction {number}'} ({places or 'nothing'})"


def _accepted(record: GroupRecord) -> Mapping[tuple[Process, TopicPartition], Sequence[tuple[int, int]]]:
    """(process, topic-partition) -> number and offset of its accepted transactions, by number."""
    accepted: dict[tuple[Process, TopicPartition], list[tuple[int, int]]] = defaultdict(list)
    for (process, number), commit in by_transaction(record.events.of(CommitOkBody)).items():
        for row in commit.body.offsets:
            accepted[process, row.tp].append((number, row.offset))
    return {key: sorted(rows) for key, rows in accepted.items()}


def _inputs(outputs: Sequence[Event[ReadBackBody]], inputs: Mapping[str, Event[AckBody]]) -> str:
    places = [inputs[output.body.value_id or ""].body for output in outputs[:SHOWN]]
    more = ", …" if len(outputs) > SHOWN else ""
    return ", ".join(f"{named(place.tp)} at {place.offset}" for place in places) + more
