"""K1, K2, C1 to C5: records: placement, order, consumption and committed offsets. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event
from kafka_assignors.history.events.bodies import (
    AckBody,
    CommitBeginBody,
    CommitBody,
    CommitFailBody,
    CommitOkBody,
    ConsumeBody,
    FaultBeginBody,
    FaultEndBody,
    OffsetCommittedBody,
    RewoundBody,
    SentBody,
    StepBody,
    TopicOffset,
)
from kafka_assignors.history.timeline import Span
from kafka_assignors.history.zombies import MemberKey

from ..ledger import Acked, Generation, GroupRecord, Process, RunRecord, Truncation, is_by_client, lost_with
from ..slack import SLACK_NS, surely_before
from .findings import MS, ON_WIRE, SHOWN, Findings, named
from .ownership import own_intervals

_DIGITS = 18
"""Of a record's number, at most: Python converts no more than some thousand."""
_UNSEEN_READS = ON_WIRE + "which records it reads"
_CUT_OFF = "its process ended without closing its consumer, just after the client had committed by itself"
_WRITTEN_NS = 20 * MS
"""Within this time a recorder writes what a process is handed out: what came later may lack if it ends by a kill."""


class _Run(NamedTuple):
    """Contiguous offsets that one process consumed at once."""

    first: int
    last: int
    event: Event


RunsOfSpans = Mapping[tuple[MemberKey, TopicPartition, int], Sequence[_Run]]
"""(process, topic-partition, start of its interval) -> runs that it consumed in that interval, in order."""


class _Reread(NamedTuple):
    """A group's first read (``consume``) after a partition's log was truncated that begins where the log then ended."""

    truncation: Truncation
    event: Event

    def excuses(self, run: _Run, behind: int) -> bool:
        """Whether `run` is that read, and everything that it rereads, up to `behind`, was lost."""
        truncation = self.truncation
        return (
            run.event is self.event and run.first == truncation.offset and truncation.offset < behind <= truncation.end
        )


class _Commit(NamedTuple):
    """A committed offset in the coordinator log."""

    mono_ns: int
    offset: int
    event: Event


class _Delay(NamedTuple):
    """A proxy's delay of one process's requests, and its commits that were unanswered then, or begun since."""

    end_ns: int
    begun: Sequence[Event[CommitBeginBody]]

    def brings(self, tp: TopicPartition, before: _Commit, commit: _Commit) -> bool:
        """Whether a commit in the log is a delayed copy: the process did not begin it again after `before`."""
        if surely_before(self.end_ns, commit.mono_ns):
            return False
        row = TopicOffset(tp.topic, tp.partition, commit.offset)
        begins = [begin.mono_ns for begin in self.begun if row in begin.body.offsets]
        return bool(begins) and max(begins) < before.mono_ns


def consumed_by_owner(record: GroupRecord, findings: Findings) -> None:
    """C1: a member consumes only partitions that it owns. What it reads must have been seen, as for C2, C3 and C4.

    It may report records for `SLACK_MS` after its interval ended, unless another member has the partition by then.
    """
    for _ in record.on_wire:
        for law in ("C1", "C2", "C4"):
            findings.not_judged(law, _UNSEEN_READS)
    own = own_intervals(record)
    starts: dict[TopicPartition, list[Span]] = defaultdict(list)
    for owned_span in record.spans:
        starts[owned_span.tp].append(owned_span)
    for owner, tp, run in _consumed(record):
        findings.judged("C1")
        at_ns = run.event.mono_ns
        span = _own_at(own[owner, tp], at_ns)
        if span is not None:
            if at_ns <= span.interval.end_ns:
                continue
            taken = any(span.interval.end_ns <= other.interval.start_ns <= at_ns for other in starts[tp])
            if at_ns <= span.interval.end_ns + SLACK_NS and not taken:
                continue
        message = (
            f"{run.event.member} consumed offsets {run.first}-{run.last} of {named(tp)}, which it does not own"
            + ("" if span is None else f" since {(at_ns - span.interval.end_ns) / MS:.0f} ms")
        )
        findings.broken("C1", message, run.event, None if span is None else span.end)


def contiguous(
    record: GroupRecord, runs: RunsOfSpans, acked: Mapping[TopicPartition, Acked], findings: Findings
) -> None:
    """C2: an owner begins at the committed offset, never goes back and skips no record.

    One that gets a partition back, which nobody else owned meanwhile, may go on where it had stopped: kafka-python
    keeps the position of a partition that an eager rebalance gives back.

    C4: when a topic-partition changes hands, only consumed records that were not yet committed are consumed again.

    After a truncation (``truncated``), the first read from the log's new end may go back behind lost offsets that were
    consumed or committed. If nothing had been committed, the reset policy decides the start, which is not judged. An
    offset without an acknowledged record may be skipped: control records and compaction leave such offsets. A member
    whose transaction was aborted goes back to the committed offset and reports it (``rewound``).
    """
    rewound = _rewound(record)
    commits, rereads = _commits(record), _rereads(record)
    read: dict[TopicPartition, int] = {}  # highest offset consumed by earlier intervals
    left: dict[TopicPartition, tuple[MemberKey, int]] = {}  # who owned it last, and the next offset that it would read
    for span in sorted(record.spans, key=lambda s: s.interval.start_ns):
        mine = runs.get((span.owner, span.tp, span.interval.start_ns))
        last = left.pop(span.tp, None)
        stopped_at = last[1] if last is not None and last[0] == span.owner else None
        if not mine:
            if stopped_at is not None:
                left[span.tp] = span.owner, stopped_at
            continue
        left[span.tp] = span.owner, mine[-1].last + 1
        findings.judged("C2")
        lost = rereads.get(span.tp, ())
        allowed = _committed(commits[span.tp], span.interval.start_ns, mine[0].event.mono_ns)
        if allowed:
            starts = {stopped_at, *(c.offset for c in allowed)}
            if mine[0].first not in starts and not _excused(lost, mine[0], allowed[-1].offset):
                message = (
                    f"{span.interval.member} began to consume {named(span.tp)} at offset {mine[0].first}, "
                    f"but {allowed[-1].offset} was committed"
                )
                findings.broken("C2", message, mine[0].event, allowed[-1].event)
            if span.tp in read and mine[0].first <= read[span.tp]:
                findings.judged("C4")
                floor = min(allowed, key=lambda c: c.offset)
                if mine[0].first < floor.offset and not _excused(lost, mine[0], floor.offset):
                    message = (
                        f"{span.interval.member} consumed {named(span.tp)} again from offset {mine[0].first}, "
                        f"although offsets below {floor.offset} were committed"
                    )
                    findings.broken("C4", message, mine[0].event, floor.event)
        for before, after in pairwise(mine):
            back = rewound.get((span.owner, span.tp, after.first), ())
            if any(before.event.mono_ns <= ns <= after.event.mono_ns for ns in back):
                continue
            if _excused(lost, after, before.last + 1):
                continue
            if after.first <= before.last:
                how = f"went back in {named(span.tp)} from offset {before.last} to {after.first}"
                if after.first == before.last:
                    how = f"read offset {after.first} of {named(span.tp)} again"
                message = f"{span.interval.member} {how} while it owned it"
                findings.broken("C2", message, before.event, after.event)
            elif (
                after.first > before.last + 1
                and span.tp in acked
                and (between := acked[span.tp].between(before.last + 1, after.first))
            ):
                message = (
                    f"{span.interval.member} left out offset {between[0].body.offset} of {named(span.tp)} between "
                    f"{before.last} and {after.first}"
                )
                findings.broken("C2", message, before.event, after.event, between[0])
        read[span.tp] = max(read.get(span.tp, -1), *(run.last for run in mine))


def commits(record: GroupRecord, findings: Findings) -> None:
    """C5: committed offsets never fall, are not ahead of consumption, and are accepted from owners only.

    If a member of a generation reports nothing, consumption is unknown, and positions are not judged. Of a process that
    is seen on its connections alone, what it was sent counts as consumed. After a
    truncation (``truncated``) and the first read from the new end of the log, the next commit may be below the lost
    committed offsets, and consumption counts from that read. What a process was handed out just before it was cut off
    may not be on record, although its client committed it by itself.
    """
    rereads, delays = _rereads(record), _delays(record)
    all_told = all(m in record.processes for g in record.generations for m in g.assigned)
    reached = _positions(record, rereads)
    for tp, rows in sorted(_commits(record).items()):
        for before, after in pairwise([None, *rows]):
            assert after is not None
            findings.judged("C5")
            if (
                before is not None
                and after.offset < before.offset
                and not _may_fall(rereads.get(tp, ()), before, after)
                and not any(delay.brings(tp, before, after) for delay in delays)
            ):
                message = f"the committed offset of {named(tp)} fell from {before.offset} to {after.offset}"
                findings.broken("C5", message, before.event, after.event)
            position = _reached(reached[tp], after.mono_ns, tp in rereads)
            if not all_told:
                findings.not_judged("C5", "a member of the group writes no events, so its positions are unknown")
            elif after.offset > position and _is_of_cut_off(record, tp, after):
                findings.not_judged("C5", _CUT_OFF)
            elif after.offset > position:
                what = "sent to processes of the group" if record.on_wire else "consumed"
                message = f"offset {after.offset} of {named(tp)} was committed, but only {position} had been {what}"
                findings.broken("C5", message, after.event)
    _accepted_from_owners(record, findings)


def _is_of_cut_off(record: GroupRecord, tp: TopicPartition, commit: _Commit) -> bool:
    """Whether a client made a commit by itself just before its process was cut off, so that its records may lack."""
    processes = record.cut_off_at(tp, commit.mono_ns)
    return any(not surely_before(commit.mono_ns, record.cut_off[p][0] - _WRITTEN_NS) for p in processes)


def unwritten(record: GroupRecord) -> Mapping[TopicPartition, Sequence[range]]:
    """The offsets that clients committed by themselves just before their process was cut off, and nobody reported.

    Whether they were handed out is not known.
    """
    untold: dict[TopicPartition, list[range]] = defaultdict(list)
    if not record.cut_off:
        return untold
    rereads = _rereads(record)
    reached = _positions(record, rereads)
    for tp, rows in _commits(record).items():
        before = 0
        for commit in rows:
            position = _reached(reached[tp], commit.mono_ns, tp in rereads)
            if commit.offset > position and _is_of_cut_off(record, tp, commit):
                untold[tp].append(range(max(position, before), commit.offset))
            before = commit.offset
    return untold


def _positions(
    record: GroupRecord, rereads: Mapping[TopicPartition, Sequence[_Reread]]
) -> dict[TopicPartition, list[tuple[int, int]]]:
    """What the group had consumed of each topic-partition, by time."""
    reached: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)  # mono_ns, highest offset so far + 1
    for _, tp, run in _consumed(record):
        so_far = reached[tp][-1][1] if reached[tp] else 0
        if any(reread.excuses(run, so_far) for reread in rereads.get(tp, ())):
            so_far = 0
        reached[tp].append((run.event.mono_ns, max(so_far, run.last + 1)))
    for tp, sent in _sent(record).items():
        by_time = sorted([*reached[tp], *sent])
        highest = accumulate((offset for _, offset in by_time), max)
        reached[tp] = [(at_ns, offset) for (at_ns, _), offset in zip(by_time, highest, strict=True)]
    return reached


def _sent(record: GroupRecord) -> dict[TopicPartition, list[tuple[int, int]]]:
    """When processes that are seen on their connections alone were sent records, and up to which offset."""
    sent: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for event in record.events.of(SentBody):
        for row in event.body.offsets:
            sent[row.tp].append((event.mono_ns, row.offset))
    return sent


def _reached(rows: Sequence[tuple[int, int]], at_ns: int, falls: bool) -> int:
    """The position reached at a time, ± the slack; if positions may fall, the highest within that slack."""
    end = bisect_right(rows, at_ns + SLACK_NS, key=lambda row: row[0])
    if not falls:
        return rows[end - 1][1] if end else 0
    begin = bisect_left(rows, at_ns - SLACK_NS, key=lambda row: row[0])
    return max((offset for _, offset in rows[max(0, begin - 1) : end]), default=0)


def _rereads(record: GroupRecord) -> dict[TopicPartition, list[_Reread]]:
    """The group's first read, at each truncation or later, that begins where the log then ended."""
    left = {tp: list(truncations) for tp, truncations in record.truncated.items()}
    rereads: dict[TopicPartition, list[_Reread]] = {}
    if not left:
        return rereads
    for _, tp, run in _consumed(record):
        for truncation in tuple(left.get(tp, ())):
            if run.first == truncation.offset and run.event.mono_ns >= truncation.event.mono_ns:
                rereads.setdefault(tp, []).append(_Reread(truncation, run.event))
                left[tp].remove(truncation)
    return rereads


def _excused(rereads: Sequence[_Reread], run: _Run, behind: int) -> bool:
    return any(reread.excuses(run, behind) for reread in rereads)


def _delays(record: GroupRecord) -> list[_Delay]:
    """The delays of requests. A client that waits too long for a response sends the commit again on a new connection.

    The delayed copy still arrives, and the coordinator accepts it: Kafka does not order the commits of a member.
    """
    delays = []
    ends = [e for e in record.events.of(FaultEndBody) if e.body.fault == "delay"]
    for begin in record.events.of(FaultBeginBody):
        if begin.body.fault != "delay" or begin.body.params is None or begin.body.params.side != "request":
            continue
        process = begin.member, begin.incarnation
        mine = (e.mono_ns for e in ends if (e.member, e.incarnation) == process and e.mono_ns >= begin.mono_ns)
        end_ns = min(mine, default=record.last_ns)
        delays.append(_Delay(end_ns, list(_commits_after(record, process, begin.mono_ns))))
    return delays


def _commits_after(record: GroupRecord, process: Process, since_ns: int) -> Iterator[Event[CommitBeginBody]]:
    """The process's commits that it began after that time, and those whose answer came after it, or never.

    A proxy tells a fault after it has begun, so a request that it already delays was sent a little earlier.
    """
    answers = record.events.of(CommitOkBody, CommitFailBody)
    answered = sorted(e.mono_ns for e in answers if (e.member, e.incarnation) == process)
    for begin in record.events.of(CommitBeginBody):
        if (begin.member, begin.incarnation) != process:
            continue
        at = bisect_left(answered, begin.mono_ns)
        if at == len(answered) or answered[at] >= since_ns:
            yield begin


def _may_fall(rereads: Sequence[_Reread], before: _Commit, after: _Commit) -> bool:
    """Whether a truncation explains the fall: `before` committed lost offsets, `after` what was read again."""
    return any(
        truncation.offset < before.offset <= truncation.end
        and truncation.offset <= after.offset
        and not surely_before(after.mono_ns, truncation.event.mono_ns)
        and not surely_before(event.mono_ns, before.mono_ns)
        for truncation, event in rereads
    )


def _accepted_from_owners(record: GroupRecord, findings: Findings) -> None:
    own = own_intervals(record)
    begun: dict[Process, Event[CommitBody]] = {}
    for event in sorted(record.events.of(CommitBeginBody, CommitOkBody), key=lambda e: (e.mono_ns, e.seq)):
        process = event.member, event.incarnation
        if event.kind == "commit_begin":
            begun[process] = event
            continue
        begin = begun.get(process, event)
        if not is_by_client(begin) and (without := _out_of(record, process, begin, event)) is not None:
            findings.judged("C5")
            message = (
                f"{event.member} began a commit {(begin.mono_ns - without.event.mono_ns) / MS:.0f} ms after generation "
                f"{without.number} was committed without it, and the commit was accepted"
            )
            findings.broken("C5", message, without.event, begin, event)
        for tp in (row.tp for row in event.body.offsets):
            findings.judged("C5")
            spans = own[(record.group, event.member or "", event.incarnation), tp]
            span = _own_at(spans, event.mono_ns)
            if span is None or (not is_by_client(begin) and surely_before(span.interval.end_ns, begin.mono_ns)):
                message = (
                    f"a commit of {event.member} for {named(tp)} was accepted, although it does not own the partition"
                )
                findings.broken("C5", message, begin, event, None if span is None else span.end)


def _out_of(record: GroupRecord, process: Process, begin: Event, accepted: Event) -> Generation | None:
    """The generation that stood before a commit began, if none has the process until the commit was accepted."""
    generations = record.generations
    at = bisect_left(generations, begin.mono_ns - SLACK_NS, key=lambda g: g.event.mono_ns) - 1
    end = bisect_right(generations, accepted.mono_ns + SLACK_NS, key=lambda g: g.event.mono_ns)
    if at < 0 or any(process in record.present(g) for g in generations[at:end]):
        return None
    return generations[at]


def in_order(run: RunRecord, findings: Findings) -> None:
    """K2: records of one key from one producer lie in each partition in the order in which they were sent.

    Records lost in the same truncation (``truncated``) belong to a separate log.
    """
    last: dict[tuple[str, str, int, str | None, Truncation | None], tuple[int, Event[AckBody]]] = {}
    for ack in (ack for acked in run.acked.values() for ack in acked.acks if ack.body.key_hash is not None):
        body = ack.body
        producer, _, number = body.value_id.rpartition("-")
        if not number.isdecimal() or len(number) > _DIGITS:
            findings.not_judged("K2", "its producer did not number its records")
            continue
        lost = lost_with(ack, run.truncated) if run.truncated else None
        place = producer, body.topic, body.partition, body.key_hash, lost
        before = last.get(place)
        last[place] = int(number), ack
        if before is None:
            continue
        findings.judged("K2")
        if int(number) < before[0]:
            message = (
                f"two records of one key are in {place[1]}-{place[2]} in the wrong order: number {number} at offset "
                f"{body.offset}, after number {before[0]} at offset {before[1].body.offset}"
            )
            findings.broken("K2", message, before[1], ack)


def nothing_lost(
    record: GroupRecord, runs: RunsOfSpans, acked: Mapping[TopicPartition, Acked], findings: Findings
) -> None:
    """C3: once the group is drained, an owner has consumed every acknowledged record below its end offsets.

    Records lost in a truncation (``truncated``) are exempt. Records sent in their place must be consumed after it.
    Nor is it judged of what a process may have been handed out just before it was cut off (C5).
    """
    due, ends = due_records(record, acked)
    if not ends:
        findings.not_judged("C3", "the group was never drained")
        return
    if record.on_wire:
        findings.not_judged("C3", _UNSEEN_READS)
        return
    gone = sum(1 for tp in record.truncated if tp in acked for a in acked[tp].acks if lost_with(a, record.truncated))
    if gone:
        findings.not_judged("C3", "its brokers lost the record", gone)
    consumed: dict[TopicPartition, list[_Run]] = defaultdict(list)
    for (_, tp, _), mine in runs.items():
        consumed[tp].extend(mine)
    untold = unwritten(record)
    for place, waiting in sorted(due.items()):
        missing = list(_not_consumed(waiting, consumed[place], record.truncated.get(place, ())))
        lost = [ack for ack in missing if not any(ack.body.offset in offsets for offsets in untold.get(place, ()))]
        findings.judged("C3", len(waiting) - len(missing) + len(lost))
        if len(lost) < len(missing):
            findings.not_judged("C3", _CUT_OFF, len(missing) - len(lost))
        if lost:
            first = ", ".join(str(a.body.offset) for a in lost[:SHOWN])
            message = (
                f"{len(lost)} acknowledged record(s) of {place[0]}-{place[1]} never reached group {record.group!r}: "
                f"offset {first}{', …' if len(lost) > SHOWN else ''}"
            )
            findings.broken("C3", message, *lost[:SHOWN], ends[place][1])


def due_records(
    record: GroupRecord, acked: Mapping[TopicPartition, Acked]
) -> tuple[dict[TopicPartition, Sequence[Event[AckBody]]], dict[TopicPartition, tuple[int, Event]]]:
    """Per topic-partition: acknowledged records that a drained group must have consumed; their end, and its step.

    The records lie below that end offset, and their brokers did not lose them. Both are empty if the group was never
    drained.
    """
    ends: dict[TopicPartition, tuple[int, Event]] = {}
    for step in record.events.of(StepBody):
        if step.body.name == "drained":
            ends.update({row.tp: (row.offset, step) for row in step.body.offsets or ()})
    due: dict[TopicPartition, Sequence[Event[AckBody]]] = {}
    for tp, (end, _) in ends.items():
        below = acked[tp].between(0, end) if tp in acked else ()
        if tp in record.truncated:
            below = [ack for ack in below if lost_with(ack, record.truncated) is None]
        if below:
            due[tp] = below
    return due, ends


def placement(run: RunRecord, findings: Findings) -> None:
    """K1: the partition required = chosen = acknowledged = read back, and no read-back lacks an acknowledged record.

    A truncation (``truncated``) breaks the law. A read-back is compared only with records sent on the same side of it.
    """
    lost: dict[Truncation, list[Event[AckBody]]] = {loss: [] for rows in run.truncated.values() for loss in rows}
    wrong: dict[tuple[str, str, str], list[tuple[Event | None, ...]]] = defaultdict(list)
    ends = [
        (step, seen, {(row.topic, row.partition): row.offset for row in step.body.offsets or ()})
        for step, seen in run.passes
    ]
    for ack in run.acks:
        body = ack.body
        partitioner, topic, partition, offset = body.partitioner, body.topic, body.partition, body.offset
        judged = body.predicted is not None or body.expected is not None
        truncations: Sequence[Truncation] = ()
        if run.truncated:
            truncations = run.truncated.get(TopicPartition(topic, partition), ())
            if (truncation := lost_with(ack, run.truncated)) is not None:
                lost[truncation].append(ack)
                judged = True
        if body.predicted not in (None, partition):
            wrong["are on another partition than the partitioner chose", partitioner, topic].append((ack,))
        if body.expected not in (None, partition):
            wrong["are on another partition than the partitioner's rule requires", partitioner, topic].append((ack,))
        for step, seen, end in ends:
            if offset >= end.get((topic, partition), 0):
                continue
            if truncations and any(loss.covers(offset) and loss.between(ack, step) for loss in truncations):
                continue
            judged = True
            there = seen.get((topic, partition, offset))
            if there is None:
                wrong["were acknowledged but not read back", partitioner, topic].append((ack, step))
            elif there.body.value_id != body.value_id:
                wrong["were acknowledged at an offset where another record was read back", partitioner, topic].append(
                    (ack, there)
                )
        if judged:
            findings.judged("K1")
        else:
            findings.not_judged("K1", "neither predicted nor read back")
    for loss, acks in lost.items():
        message = (
            f"the brokers lost offsets {loss.offset}-{loss.end - 1} of {named(loss.tp)}, {len(acks)} of which were "
            f"acknowledged: its log ended at {loss.end}, and at {loss.offset} under the next leader"
        )
        findings.broken("K1", message, loss.event, *acks[:SHOWN])
    for (what, partitioner, topic), cases in wrong.items():
        message = f"{len(cases)} record(s) of {topic} sent through {partitioner!r} {what}"
        findings.broken("K1", message, *(w for case in cases[:SHOWN] for w in case))


def _not_consumed(
    acks: Iterable[Event[AckBody]], runs: Sequence[_Run], truncations: Sequence[Truncation]
) -> Iterator[Event[AckBody]]:
    """Acknowledged records that nobody consumed; reads of lost records at the same offsets do not count."""
    if not truncations:
        yield from _outside(acks, [(run.first, run.last) for run in runs])
        return
    by_log: dict[int, list[Event[AckBody]]] = defaultdict(list)  # time of the last truncation before -> records
    for ack in acks:
        before = (t.event.mono_ns for t in truncations if t.covers(ack.body.offset) and t.event.mono_ns <= ack.mono_ns)
        by_log[max(before, default=0)].append(ack)
    for since_ns, mine in sorted(by_log.items()):
        yield from _outside(mine, [(run.first, run.last) for run in runs if run.event.mono_ns >= since_ns])


def _outside(acks: Iterable[Event[AckBody]], ranges: Sequence[tuple[int, int]]) -> Iterator[Event[AckBody]]:
    """Records, by offset, that are outside all offset ranges."""
    ranges = sorted(ranges)
    at, reached = 0, -1  # no range before `at` ends above `reached`
    for ack in acks:
        offset = ack.body.offset
        while at < len(ranges) and ranges[at][0] <= offset:
            reached = max(reached, ranges[at][1])
            at += 1
        if offset > reached:
            yield ack


def _consumed(record: GroupRecord) -> Iterator[tuple[MemberKey, TopicPartition, _Run]]:
    for event in record.events.of(ConsumeBody):
        owner = record.group, event.member or "", event.incarnation
        for row in event.body.offsets:
            yield owner, row.tp, _Run(row.first, row.last, event)


def _rewound(record: GroupRecord) -> dict[tuple[MemberKey, TopicPartition, int], list[int]]:
    """(process, topic-partition, offset) -> times at which it went back to that offset, monotonic ns."""
    times: dict[tuple[MemberKey, TopicPartition, int], list[int]] = defaultdict(list)
    for event in record.events.of(RewoundBody):
        owner = record.group, event.member or "", event.incarnation
        for row in event.body.offsets:
            times[owner, row.tp, row.offset].append(event.mono_ns)
    return times


def runs_of_spans(record: GroupRecord) -> RunsOfSpans:
    """The runs that each interval's process consumed in it, in order."""
    own = own_intervals(record)
    runs: dict[tuple[MemberKey, TopicPartition, int], list[_Run]] = defaultdict(list)
    for owner, tp, run in _consumed(record):
        span = _own_at(own[owner, tp], run.event.mono_ns)
        if span is not None and run.event.mono_ns <= span.interval.end_ns + SLACK_NS:
            runs[owner, tp, span.interval.start_ns].append(run)
    return runs


def _own_at(spans: Sequence[Span], at_ns: int) -> Span | None:
    """The interval that began last before a time; None if there is none."""
    at = bisect_right(spans, at_ns, key=lambda s: s.interval.start_ns) - 1
    return spans[at] if at >= 0 else None


def _commits(record: GroupRecord) -> dict[TopicPartition, list[_Commit]]:
    commits: dict[TopicPartition, list[_Commit]] = defaultdict(list)
    for event in sorted(record.events.of(OffsetCommittedBody), key=lambda e: e.seq):
        commits[event.body.tp].append(_Commit(event.mono_ns, event.body.offset, event))
    return commits


def _committed(rows: Sequence[_Commit], start_ns: int, read_ns: int) -> list[_Commit]:
    """Commits that an owner may have found: the last before its interval and all until its first read, ± the slack.

    Empty if no commit was known before.
    """
    count = bisect_left(rows, start_ns - SLACK_NS, key=lambda c: c.mono_ns)
    return [] if count == 0 else list(rows[count - 1 : bisect_right(rows, read_ns + SLACK_NS, key=lambda c: c.mono_ns)])
