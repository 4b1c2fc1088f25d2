"""C7: what members say of their commits, and what the coordinator's log has, are the same. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event, is_of
from kafka_assignors.history.events.bodies import (
    CommitBeginBody,
    CommitBody,
    CommitFailBody,
    CommitOkBody,
    ConsumeBody,
    FaultBeginBody,
    OffsetCommittedBody,
    RewoundBody,
)

from ...ledger import GroupRecord, Process, is_by_client
from ...slack import around, surely_before
from ..findings import Findings, named

_NEVER = 1 << 63
_REFUSALS = (
    "CommitFailed", "IllegalGeneration", "UnknownMemberId", "FencedInstanceId", "RebalanceInProgress",
    "FencedMemberEpoch", "StaleMemberEpoch", "ProducerFenced", "InvalidProducerEpoch", "ILLEGAL_GENERATION",
    "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "REBALANCE_IN_PROGRESS", "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH",
    "is undergoing a rebalance", "stale member epoch",
)  # fmt: skip
"""In the error of a commit that the coordinator refused. What failed otherwise, e.g. timed out, may be in the log."""
_UNTOLD = "a member of the group does not report its commits"
_TWICE = "a fault of the network or of a broker may have made a client send a commit twice"


@dataclass(eq=False)
class _ReportedCommit:
    """A member's commit of one topic-partition, as it tells it."""

    process: Process
    offset: int
    from_ns: int  # when the log may have taken it at the earliest
    until_ns: int  # and at the latest
    begin: Event[CommitBody]
    end: Event[CommitBody] | None  # its answer; None if there was none

    @property
    def accepted(self) -> bool:
        return self.end is not None and is_of(self.end, CommitOkBody)

    @property
    def refused(self) -> bool:
        if self.end is None or not is_of(self.end, CommitFailBody):
            return False
        error = self.end.body.error
        return any(refusal in error for refusal in _REFUSALS)


def each_answered(record: GroupRecord, findings: Findings) -> None:
    """C7: each answer to a commit is to one that its member began, and none is left out before a later answer.

    Judged of the harness's members: a service may commit without waiting for the answers.
    """
    under_way: dict[Process, list[Event[CommitBody]]] = defaultdict(list)
    reporting = {(e.member, e.incarnation) for e in record.events.of(CommitBeginBody)}
    for event in sorted(record.events.of(CommitBody), key=lambda e: (e.mono_ns, e.seq)):
        process = event.member, event.incarnation
        if is_of(event, CommitBeginBody):
            under_way[process].append(event)
            continue
        start = record.starts.get(process)
        if process not in reporting or start is None or start.log_bytes is not None or process in record.on_wire:
            continue
        findings.judged("C7")
        begin = _begin_of(event, under_way[process])
        if begin is None:
            findings.broken("C7", f"a commit of {event.member} was answered that it had not begun", event)
            continue
        for earlier in under_way[process][: under_way[process].index(begin)]:
            message = f"a commit of {event.member} was never answered, and a later one was"
            findings.broken("C7", message, earlier, begin, event)
        del under_way[process][: under_way[process].index(begin) + 1]


def commits_agree(record: GroupRecord, findings: Findings) -> None:
    """C7: an accepted commit is in the coordinator's log, which has none that no member began or that was refused.

    A commit is in the log between its begin and its answer. One that failed otherwise than by a refusal, or that was
    never answered, may be in the log at any later time, or not. A client may send it again until it is answered.
    Offsets of a transaction are written before it ends. Where the client chose what to commit (``by_client``), only its
    answer's time is known, and without one it may have committed more; C5 says that it had read that.
    Where a fault may have made a client send a commit twice, a second copy in the log is not judged. A client that
    commits by itself never tells the last commits of a process that ended without closing it (`GroupRecord.cut_off`).

    Cost: O(n log n) for n commits.
    """
    logged: dict[TopicPartition, list[Event[OffsetCommittedBody]]] = defaultdict(list)
    for event in sorted(record.events.of(OffsetCommittedBody), key=lambda e: (e.mono_ns, e.seq)):
        logged[event.body.tp].append(event)
    reported: dict[TopicPartition, list[_ReportedCommit]] = defaultdict(list)
    for tp, commit in _commits(record):
        reported[tp].append(commit)
    first_read: dict[TopicPartition, int] = {}
    for read in record.events.of(ConsumeBody):
        for run in read.body.offsets:
            first_read[run.tp] = min(run.first, first_read.get(run.tp, run.first))
    whole = _all_report(record)
    faulty = any(fault.body.fault not in ("kill", "stall", "pause") for fault in record.events.of(FaultBeginBody))
    for tp in sorted({*logged, *reported}):
        strangers = _matched(tp, logged[tp], reported[tp], findings)
        repeated = {id(b) for a, b in pairwise(logged[tp]) if a.body.offset == b.body.offset}
        if logged[tp] and logged[tp][0].body.offset <= first_read.get(tp, logged[tp][0].body.offset):
            repeated.add(id(logged[tp][0]))  # where it began, before any record
        choosing = [commit for commit in reported[tp] if commit.end is None and is_by_client(commit.begin)]
        for event in strangers:
            same = [commit for commit in reported[tp] if commit.offset == event.body.offset]
            if any(not c.refused and c.from_ns <= event.mono_ns <= c.until_ns for c in same):
                continue  # sent again before it was answered, as Java's client does when it is woken up
            if id(event) in repeated:
                continue  # a client may commit its position at any time, e.g. before it leaves, if it changes nothing
            untold = {*record.cut_off_at(tp, event.mono_ns), *_may_be(event, choosing)}
            if any(not _told_later(process, event, reported[tp]) for process in untold):
                continue  # its client chose what to commit, and has not told of it
            if not whole:
                findings.not_judged("C7", _UNTOLD)
            elif same and faulty:
                findings.not_judged("C7", _TWICE)
            else:
                _from_nowhere(tp, event, same, findings)


def _may_be(commit: Event[OffsetCommittedBody], choosing: Iterable[_ReportedCommit]) -> Iterator[Process]:
    """The processes whose client chooses what to commit, and has no answer yet: it may be this commit."""
    for begun in choosing:
        if begun.offset <= commit.body.offset and not surely_before(commit.mono_ns, begun.begin.mono_ns):
            yield begun.process


def _told_later(process: Process, commit: Event, reported: Sequence[_ReportedCommit]) -> bool:
    """Whether a process told a later commit of a topic-partition: then it had told the one before."""
    return any(surely_before(commit.mono_ns, (c.end or c.begin).mono_ns) for c in reported if c.process == process)


def _matched(
    tp: TopicPartition,
    logged: Sequence[Event[OffsetCommittedBody]],
    reported: Sequence[_ReportedCommit],
    findings: Findings,
) -> list[Event[OffsetCommittedBody]]:
    """Match commits of the log with the members'; reports accepted ones that lack, and returns those of nobody."""
    by_offset: dict[int, list[_ReportedCommit]] = defaultdict(list)
    for commit in sorted(reported, key=lambda commit: commit.from_ns):
        by_offset[commit.offset].append(commit)
    matched: set[_ReportedCommit] = set()
    strangers = []
    for event in logged:
        there = [
            commit
            for commit in by_offset[event.body.offset]
            if commit not in matched and not commit.refused and commit.from_ns <= event.mono_ns <= commit.until_ns
        ]
        if there:  # the accepted one whose time ends first, so that none lacks for another's sake
            matched.add(min(there, key=lambda commit: commit.until_ns))
            findings.judged("C7")
        else:
            strangers.append(event)
    for commit in reported:
        if commit.accepted and commit not in matched:
            findings.judged("C7")
            message = (
                f"a commit of {commit.process[0]} for {named(tp)} at offset {commit.offset} was accepted, and is not "
                "in the coordinator log"
            )
            findings.broken("C7", message, commit.begin, commit.end)
    return strangers


def _from_nowhere(
    tp: TopicPartition, event: Event[OffsetCommittedBody], same: Sequence[_ReportedCommit], findings: Findings
) -> None:
    findings.judged("C7")
    offset = event.body.offset
    refused = [commit for commit in same if commit.refused]
    if refused:
        last = refused[-1]
        message = f"a commit of {last.process[0]} for {named(tp)} at offset {offset} was refused, and is in the log"
        findings.broken("C7", message, last.begin, last.end, event)
    else:
        again = "again " if same else ""
        message = f"offset {offset} of {named(tp)} was committed {again}although no member began that commit then"
        findings.broken("C7", message, event, *(commit.begin for commit in same[:1]))


def _commits(record: GroupRecord) -> Iterator[tuple[TopicPartition, _ReportedCommit]]:
    """Each topic-partition of each member's commit."""
    under_way: dict[Process, list[Event[CommitBody]]] = defaultdict(list)
    for event in sorted(record.events.of(CommitBody), key=lambda e: (e.mono_ns, e.seq)):
        process = event.member, event.incarnation
        if is_of(event, CommitBeginBody):
            under_way[process].append(event)
            continue
        begin = _begin_of(event, under_way[process])
        if begin is not None:
            under_way[process].remove(begin)
        yield from _of_partitions(process, begin or event, event)
    for process, begins in under_way.items():
        for begin in begins:
            yield from _of_partitions(process, begin, None)


def _begin_of(answer: Event[CommitBody], begins: Sequence[Event[CommitBody]]) -> Event[CommitBody] | None:
    """The commit that an answer is to. Some clients answer for a part of it, or in another order."""
    offsets = answer.body.offsets
    begin = next((begin for begin in begins if begin.body.offsets == offsets), None)
    if begin is None and offsets:
        begin = next((begin for begin in begins if {*offsets} <= {*begin.body.offsets}), None)
    return begin


def _of_partitions(
    process: Process, begin: Event[CommitBody], end: Event[CommitBody] | None
) -> Iterator[tuple[TopicPartition, _ReportedCommit]]:
    in_transaction = begin.body.transaction is not None or begin is end
    from_ns = -_NEVER if in_transaction or is_by_client(begin) else around(begin.mono_ns)[0]
    until_ns = around(end.mono_ns)[1] if end is not None and is_of(end, CommitOkBody) else _NEVER
    for row in (end or begin).body.offsets or begin.body.offsets:
        yield row.tp, _ReportedCommit(process, row.offset, from_ns, until_ns, begin, end)


def _all_report(record: GroupRecord) -> bool:
    """Whether every process that joined or consumed reports its commits."""
    reporting = {(e.member, e.incarnation) for e in record.events.of(CommitBeginBody)}
    working = {(e.member, e.incarnation) for e in record.events.of(ConsumeBody)}
    foreign = any(process not in record.starts for g in record.generations for process in record.present(g))
    return working <= reporting and not foreign


def own_reading(record: GroupRecord, findings: Findings) -> None:
    """C5: a member commits no offset beyond its own reading, and beyond what was committed before.

    A member that goes back (``rewound``) has to read again. Judged of members that report what they consume.
    """
    reached: dict[tuple[Process, TopicPartition], list[tuple[int, int]]] = defaultdict(list)  # ns, highest so far + 1
    reading: list[Event] = [*record.events.of(ConsumeBody), *record.events.of(RewoundBody)]
    for event in sorted(reading, key=lambda e: (e.mono_ns, e.seq)):
        process = event.member, event.incarnation
        if is_of(event, ConsumeBody):
            for run in event.body.offsets:
                rows = reached[process, run.tp]
                rows.append((event.mono_ns, max(run.last + 1, rows[-1][1] if rows else 0)))
        elif is_of(event, RewoundBody):
            for row in event.body.offsets:
                reached[process, row.tp].append((event.mono_ns, row.offset))
    committed: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for logged in sorted(record.events.of(OffsetCommittedBody), key=lambda e: (e.mono_ns, e.seq)):
        rows = committed[logged.body.tp]
        rows.append((logged.mono_ns, max(logged.body.offset, rows[-1][1] if rows else 0)))
    telling = {process for process, _ in reached}
    for begin in record.events.of(CommitBeginBody):
        process = begin.member, begin.incarnation
        if process not in telling:
            continue
        for row in begin.body.offsets:
            findings.judged("C5")
            own = _highest(reached.get((process, row.tp), ()), begin.mono_ns, around(begin.mono_ns)[1])
            before = _by(committed.get(row.tp, ()), begin.mono_ns - 1)
            if row.offset > max(own, before):
                message = (
                    f"{begin.member} committed {named(row.tp)} at offset {row.offset}, although it had read only up to "
                    f"{max(own, before)}"
                )
                findings.broken("C5", message, begin)


def _highest(rows: Sequence[tuple[int, int]], from_ns: int, until_ns: int) -> int:
    """The highest of the value at one time and those that follow until another."""
    first, end = (bisect_right(rows, at_ns, key=lambda row: row[0]) for at_ns in (from_ns, until_ns))
    return max((value for _, value in rows[max(0, first - 1) : end]), default=0)


def _by(rows: Sequence[tuple[int, int]], at_ns: int) -> int:
    at = bisect_right(rows, at_ns, key=lambda row: row[0])
    return rows[at - 1][1] if at else 0
