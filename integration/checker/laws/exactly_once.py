"""X1, X2, X3, K2: members consume, transform and produce, judged by the output that ``read_committed`` shows. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event, EventsByKind, is_of
from kafka_assignors.history.events.bodies import (
    AckBody,
    CommitBeginBody,
    CommitBody,
    CommitFailBody,
    CommitOkBody,
    GenerationBody,
    OffsetCommittedBody,
    ReadBackBody,
    RewoundBody,
    StepBody,
)

from ..busy import is_of_a_service
from ..ledger import Generation, GroupRecord, Process, RecordPlace, RunRecord
from ..reconciliation import Current
from ..slack import SLACK_MS, surely_before
from .findings import MS, SHOWN, Findings, named
from .records import due_records

READ_COMMITTED = "read_committed"


class _Exclusion(NamedTuple):
    """Why a member may no longer commit for a partition: the coordinator's record that excludes it, and its reason."""

    event: Event
    reason: str


def one_output_each(record: GroupRecord, run: RunRecord, findings: Findings) -> None:
    """X1: each input record of a drained group has exactly one output that `read_committed` shows.

    Judged in groups with a member that reports its output topic (``output`` in the ``config`` of its ``start``), by the
    last ``read_committed`` read-back of that topic after the group was drained. An output has its input's id. Of
    members that promise no more than ``at_least_once`` there (a service), several outputs are accepted.

    Cost: O(n log n) for n records.
    """
    topics = output_topics(record)
    if not topics:
        return
    at_least_once = any(start.body.config.at_least_once for start in record.starts.values())
    due, ends = due_records(record, run.acked)
    if not ends:
        findings.not_judged("X1", "the group was never drained")
        return
    drained_ns = max(step.mono_ns for _, step in ends.values())
    passes = [(step, seen) for step, seen in committed_passes(run, topics) if step.mono_ns >= drained_ns]
    if not passes:
        findings.not_judged("X1", "its output was not read back with read_committed after the group was drained")
        return
    step, seen = passes[-1]
    outputs: dict[str | None, list[Event[ReadBackBody]]] = defaultdict(list)
    for (topic, _, _), output in sorted(seen.items()):
        if topic in topics:
            outputs[output.body.value_id].append(output)
    for tp, inputs in sorted(due.items()):
        findings.judged("X1", len(inputs))
        without = [ack for ack in inputs if not outputs.get(ack.body.value_id)]
        if without:
            message = f"{len(without)} record(s) of {named(tp)} have no committed output: offset {_offsets(without)}"
            findings.broken("X1", message, *without[:SHOWN], step)
        if at_least_once:
            continue
        several = [ack for ack in inputs if len(outputs.get(ack.body.value_id, ())) > 1]
        if several:
            message = (
                f"{len(several)} record(s) of {named(tp)} have more than one committed output: "
                f"offset {_offsets(several)}"
            )
            shown = several[:SHOWN]
            findings.broken("X1", message, *(w for ack in shown for w in (ack, *outputs[ack.body.value_id])))


def no_zombies(record: GroupRecord, run: RunRecord, findings: Findings) -> None:
    """X2: `read_committed` shows no output of an aborted transaction, nor of a zombie.

    A member aborted a transaction whose commit failed if it then went back (``rewound``).
    A zombie began to commit its transaction when the last committed generation excluded it, or assigned the input's
    partition to another member, and it had adopted no later generation. Under KIP-848 a target alone excludes nobody:
    there, a zombie began after the coordinator had removed it, or recorded that it had given the partition up.

    Cost: O(n + t m) for n outputs in t transactions, and m adoptions.
    """
    topics = output_topics(record)
    if not topics:
        return
    passes = committed_passes(run, topics)
    if not passes:
        findings.not_judged("X2", "its output was not read back with read_committed")
        return
    inputs = {ack.body.value_id: ack.body for ack in run.acks}
    begun, done = (by_transaction(record.events.of(kind)) for kind in (CommitBeginBody, CommitOkBody))
    aborted = _aborted(record)
    stood: dict[tuple[Process, int], Generation | None] = {}
    excluded: dict[tuple[Process, int, TopicPartition | None], _Exclusion | None] = {}
    zombies: dict[tuple[Process, int], list[tuple[_Exclusion, Event]]] = defaultdict(list)
    shown_though_aborted: dict[tuple[Process, int], list[Event]] = defaultdict(list)
    for place, output in sorted(passes[-1][1].items()):
        author = output.body.author
        if place[0] not in topics or author is None or author.group != record.group:
            continue
        findings.judged("X2")
        process: Process = author.member, author.incarnation
        number = author.transaction
        begin = begun.get((process, number))
        if begin is None:
            where = f"offset {place[2]} of {place[0]}-{place[1]}"
            message = f"{where} is read with read_committed, though {process[0]} never committed transaction {number}"
            findings.broken("X2", message, output)
            continue
        if surely_before(output.mono_ns, begin.mono_ns):
            where = f"offset {place[2]} of {place[0]}-{place[1]}"
            message = f"{where} was read with read_committed before {process[0]} began to commit transaction {number}"
            findings.broken("X2", message, output, begin)
        if (process, number) in aborted:
            shown_though_aborted[process, number].append(output)
            continue
        source = inputs.get(output.body.value_id or "")
        tp = None if source is None else source.tp
        if (process, number) not in stood:
            stood[process, number] = _standing(record, process, begin)
        generation = stood[process, number]
        if generation is None:
            continue
        if (process, number, tp) not in excluded:
            excluded[process, number, tp] = _excluded(record, process, tp, generation, begin)
        if (by := excluded[process, number, tp]) is not None:
            zombies[process, number].append((by, output))
    for (process, number), outputs in shown_though_aborted.items():
        message = (
            f"{process[0]} aborted transaction {number}, yet {len(outputs)} output(s) of it are read with "
            "read_committed"
        )
        findings.broken("X2", message, *aborted[process, number], *outputs[:SHOWN])
    for (process, number), late in zombies.items():
        begin, (by, _) = begun[process, number], min(late, key=lambda pair: pair[0].event.mono_ns)
        message = (
            f"{process[0]} began to commit transaction {number} {(begin.mono_ns - by.event.mono_ns) / MS:.0f} ms after "
            f"{by.reason}, yet {len(late)} output(s) of it are read with read_committed"
        )
        shown = [output for _, output in late[:SHOWN]]
        findings.broken("X2", message, by.event, begin, done.get((process, number)), *shown)


class Early(NamedTuple):
    """A record, the first commit beyond it that the log has, without a transaction, and its first output.

    `early_ms` is how long the commit came before the output, by the brokers' clock, less what outputs show that it
    fell.
    """

    sent: Event[AckBody]
    committed: Event[OffsetCommittedBody]
    output: Event[ReadBackBody]
    early_ms: int


def outputs_before_commits(record: GroupRecord, run: RunRecord, findings: Findings) -> None:
    """X3: an offset is committed, without a transaction, once the broker has the first output of each record before it.

    Judged of services, by the brokers' clock, which dates commits and outputs. The offsets of a transaction take effect
    with its outputs.

    Cost: O(n log n) for n records, outputs and commits.
    """
    topics = output_topics(record)
    if not any(is_of_a_service(start) for start in record.starts.values()) or not topics:
        return
    passes = committed_passes(run, topics)
    if not passes:
        findings.not_judged("X3", "its output was not read back with read_committed")
        return
    outputs = [output for (topic, _, _), output in passes[-1][1].items() if topic in topics]
    if any(output.body.appended_ms is None for output in outputs):
        findings.not_judged("X3", "its brokers did not date its outputs")
        return
    inputs = [ack for ack in run.acks if ack.body.tp not in run.truncated] if run.truncated else run.acks
    compared, early = committed_first(inputs, outputs, record.events)
    if compared:
        findings.judged("X3", compared)
    of_partitions: dict[TopicPartition, list[Early]] = defaultdict(list)
    for one in early:
        of_partitions[one.sent.body.tp].append(one)
    for tp, those in sorted(of_partitions.items()):
        worst = max(those, key=lambda one: one.early_ms)
        message = (
            f"{len(those)} record(s) of {named(tp)} were committed before the broker had their output: offset "
            f"{_offsets([one.sent for one in those])}; by up to {worst.early_ms} ms "
            f"(offset {worst.sent.body.offset})"
        )
        findings.broken("X3", message, worst.committed, worst.output)


def committed_first(
    inputs: Iterable[Event[AckBody]], outputs: Iterable[Event[ReadBackBody]], events: EventsByKind
) -> tuple[int, list[Early]]:
    """How many of these records have an output and a commit without a transaction, and those whose commit came first.

    Each output is dated by its broker.
    """
    in_transaction = {
        (row.topic, row.partition, row.offset)
        for event in events.of(CommitBeginBody)
        if event.body.transaction is not None
        for row in event.body.offsets
    }
    ends: dict[tuple[str, int], list[int]] = defaultdict(list)  # offsets, each further than the one before
    steps: dict[tuple[str, int], list[Event[OffsetCommittedBody]]] = defaultdict(list)  # their commits
    for committed in sorted(events.of(OffsetCommittedBody), key=lambda e: e.seq):
        commit = committed.body
        place, offset = (commit.topic, commit.partition), commit.offset
        if (*place, offset) not in in_transaction and (not ends[place] or offset > ends[place][-1]):
            ends[place].append(offset)
            steps[place].append(committed)
    firsts: dict[str | None, tuple[int, int, Event[ReadBackBody]]] = {}
    places: list[tuple[str, int, int, int]] = []
    for output in outputs:
        seen = output.body
        ms, offset = seen.appended_ms or 0, seen.offset
        places.append((seen.topic, seen.partition, offset, ms))
        kept = firsts.get(seen.value_id)
        if kept is None or (ms, offset) < kept[:2]:
            firsts[seen.value_id] = ms, offset, output
    fell_ms = _fall_ms(places)
    compared, early = 0, []
    for sent in inputs:
        ack = sent.body
        first = firsts.get(ack.value_id)
        further = ends.get((ack.topic, ack.partition), ())
        if first is not None and (at := bisect_right(further, ack.offset)) < len(further):
            compared += 1
            committed = steps[ack.topic, ack.partition][at]
            if (early_ms := first[0] - committed.ts_ns // MS - fell_ms) > 0:
                early.append(Early(sent, committed, first[2], early_ms))
    return compared, early


def _fall_ms(places: Iterable[tuple[str, int, int, int]]) -> int:
    """By how much the brokers' clock fell at most, by outputs (topic, partition, offset, ms) that follow each other."""
    latest_ms = fall_ms = 0
    last: tuple[str, int] | None = None
    for topic, partition, _, ms in sorted(places):
        latest_ms = max(latest_ms, ms) if last == (topic, partition) else ms
        last = topic, partition
        fall_ms = max(fall_ms, latest_ms - ms)
    return fall_ms


def outputs_in_order(record: GroupRecord, run: RunRecord, findings: Findings) -> None:
    """K2 of outputs: in each partition, those of one process lie in the order of its transactions."""
    topics = output_topics(record)
    if not topics or not (passes := committed_passes(run, topics)):
        return
    begun = by_transaction(record.events.of(CommitBeginBody))
    last: dict[tuple[str, int, Process], tuple[int, Event]] = {}
    for (topic, partition, _), output in sorted(passes[-1][1].items()):
        author = output.body.author
        if topic not in topics or author is None or author.group != record.group:
            continue
        process: Process = author.member, author.incarnation
        if (process, author.transaction) not in begun:
            continue  # X2 reports it
        key = topic, partition, process
        if key in last:
            findings.judged("K2")
            if author.transaction < last[key][0]:
                message = (
                    f"outputs of {author.member} in {topic}-{partition} are in the wrong order: transaction "
                    f"{author.transaction} after {last[key][0]}"
                )
                findings.broken("K2", message, last[key][1], output)
        last[key] = author.transaction, output


def output_topics(record: GroupRecord) -> frozenset[str]:
    """The topics to which a group's members produce."""
    outputs = (start.body.config.output for start in record.starts.values())
    return frozenset(topic for topic in outputs if topic)


def committed_passes(
    run: RunRecord, topics: frozenset[str]
) -> Sequence[tuple[Event[StepBody], Mapping[RecordPlace, Event[ReadBackBody]]]]:
    """The `read_committed` read-backs that include all these topics."""
    return [
        (step, seen)
        for step, seen in run.passes
        if step.body.isolation == READ_COMMITTED and topics <= {row.topic for row in step.body.offsets or ()}
    ]


def by_transaction(commits: Iterable[Event[CommitBody]]) -> dict[tuple[Process, int], Event[CommitBody]]:
    """(process, transaction) -> its event among these."""
    return {
        ((commit.member, commit.incarnation), commit.body.transaction): commit
        for commit in commits
        if commit.body.transaction is not None
    }


def _aborted(record: GroupRecord) -> dict[tuple[Process, int], tuple[Event, Event]]:
    """(process, transaction) -> the failure of its commit, and the event that shows that the member went back."""
    aborted: dict[tuple[Process, int], tuple[Event, Event]] = {}
    failed: dict[Process, Event[CommitFailBody]] = {}
    events: list[Event] = [*record.events.of(CommitBeginBody, CommitFailBody), *record.events.of(RewoundBody)]
    for event in sorted(events, key=lambda e: (e.mono_ns, e.seq)):
        process = event.member, event.incarnation
        if is_of(event, CommitFailBody):
            failed[process] = event
            continue
        failure = failed.pop(process, None)
        if failure is not None and failure.body.transaction is not None and is_of(event, RewoundBody):
            aborted[process, failure.body.transaction] = failure, event
    return aborted


def _standing(record: GroupRecord, process: Process, begin: Event) -> Generation | None:
    """The newest generation when a process began to commit: the last that was committed, or that it had adopted.

    If the two are closer than the clocks of broker and member can tell, the adoption decides.
    """
    generations = record.generations
    at = bisect_left(generations, begin.mono_ns - SLACK_MS * MS, key=lambda g: g.event.mono_ns)
    last = generations[at - 1] if at else None
    for event in reversed(record.events.of(GenerationBody)):
        if (event.member, event.incarnation) == process and event.mono_ns <= begin.mono_ns:
            adopted = record.generation_of(event.body.generation, event.member_id)
            newer = adopted is not None and (last is None or adopted.event.mono_ns > last.event.mono_ns)
            return adopted if newer else last
    return last


def _excluded(
    record: GroupRecord, process: Process, tp: TopicPartition | None, generation: Generation, begin: Event
) -> _Exclusion | None:
    """What excludes a process from committing for a partition when a commit begins; None if it may commit.

    A partition that moves has no owner for one generation: its old owner commits what it consumed before it revokes.
    """
    if generation.by_broker:
        return _taken(record, process, tp, generation, begin)
    owners = {p for m, p in record.members_of(generation).items() if tp in generation.assigned[m]}
    if process in record.present(generation) and owners <= {process}:
        return None
    return _Exclusion(generation.event, f"generation {generation.number} had assigned its input to another member")


def _taken(
    record: GroupRecord, process: Process, tp: TopicPartition | None, target: Generation, begin: Event
) -> _Exclusion | None:
    """The record that removed a member of a KIP-848 group, or says that it gave a partition up, before a commit began.

    A member may commit until it acknowledges the revocation. A record within the clocks' slack decides in its favour.
    """
    ids = [member_id for member_id, candidate in record.processes.items() if candidate == process]
    rows = [row for member_id in ids for row in record.reconciliation.of_member(member_id)]
    rows.sort(key=lambda row: row.event.mono_ns)
    slack_ns = SLACK_MS * MS
    before = bisect_left(rows, begin.mono_ns - slack_ns, key=lambda row: row.event.mono_ns)
    after = bisect_right(rows, begin.mono_ns + slack_ns, key=lambda row: row.event.mono_ns)
    lacking = list(takewhile(lambda row: not _has(row, tp), reversed(rows[:after])))
    if len(lacking) < after - max(0, before - 1):
        return None
    if not lacking:
        return _Exclusion(target.event, f"generation {target.number} was committed without it")
    by = lacking[-1]
    reason = "the coordinator removed it" if by.removed else "it had given up its input"
    return _Exclusion(by.event, reason if len(lacking) < after else "it joined, without its input ever since")


def _has(row: Current, tp: TopicPartition | None) -> bool:
    """Whether a member has `tp` (None: is in the group); a converted member is judged by its next generation."""
    return row.converted or (not row.removed and (tp is None or tp in row.assigned | row.revoking))


def _offsets(acks: Sequence[Event[AckBody]]) -> str:
    more = ", …" if len(acks) > SHOWN else ""
    return ", ".join(str(ack.body.offset) for ack in acks[:SHOWN]) + more
