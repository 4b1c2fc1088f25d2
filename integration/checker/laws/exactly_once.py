"""Laws of members that consume, transform and produce in transactions, judged by ``read_committed`` output. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event

from ..ledger import Generation, GroupRecord, Process, RunRecord
from .findings import MS, SHOWN, SLACK_MS, Findings, named
from .records import due_records

READ_COMMITTED = "read_committed"


def one_output_each(record: GroupRecord, run: RunRecord, found: Findings) -> None:
    """X1: each input record of a drained group has exactly one output that `read_committed` shows.

    Judged in groups with a member that reports its output topic (``output`` in the ``config`` of its ``start``), by the
    last ``read_committed`` read-back of that topic after the group was drained. An output has the same record value as
    its input.

    Cost: O(n log n) for n records.
    """
    topics = _output_topics(record)
    if not topics:
        return
    due, ends = due_records(record, run.acks)
    if not ends:
        found.not_judged("X1", "the group was never drained")
        return
    drained_ns = max(step.mono_ns for _, step in ends.values())
    passes = [(step, seen) for step, seen in _committed_passes(run, topics) if step.mono_ns >= drained_ns]
    if not passes:
        found.not_judged("X1", "its output was not read back with read_committed after the group was drained")
        return
    step, seen = passes[-1]
    outputs: dict[str | None, list[Event]] = defaultdict(list)
    for (topic, _, _), output in sorted(seen.items()):
        if topic in topics:
            outputs[output.data.get("value_id")].append(output)
    for tp, inputs in sorted(due.items()):
        found.judged("X1", len(inputs))
        without = [ack for ack in inputs if not outputs.get(ack.data["value_id"])]
        if without:
            message = f"{len(without)} record(s) of {named(tp)} have no committed output: offset {_offsets(without)}"
            found.broken("X1", message, *without[:SHOWN], step)
        several = [ack for ack in inputs if len(outputs.get(ack.data["value_id"], ())) > 1]
        if several:
            message = (
                f"{len(several)} record(s) of {named(tp)} have more than one committed output: "
                f"offset {_offsets(several)}"
            )
            shown = several[:SHOWN]
            found.broken("X1", message, *(w for ack in shown for w in (ack, *outputs[ack.data["value_id"]])))


def no_zombies(record: GroupRecord, run: RunRecord, found: Findings) -> None:
    """X2: `read_committed` shows no output of a zombie.

    A zombie began to commit its transaction when the last committed generation excluded it, or assigned the input's
    partition to another member, and it had adopted no later generation.

    Cost: O(n + t m) for n outputs in t transactions, and m adoptions.
    """
    topics = _output_topics(record)
    if not topics:
        return
    passes = _committed_passes(run, topics)
    if not passes:
        found.not_judged("X2", "its output was not read back with read_committed")
        return
    inputs = {ack.data["value_id"]: ack for ack in run.acks}
    begun, done = (_by_transaction(record, kind) for kind in ("commit_begin", "commit_ok"))
    stood: dict[tuple[Process, int], Generation | None] = {}
    zombies: dict[tuple[Process, int], list[Event]] = defaultdict(list)
    for place, output in sorted(passes[-1][1].items()):
        author = output.data.get("author")
        if place[0] not in topics or author is None or author["group"] != record.group:
            continue
        found.judged("X2")
        process, number = (author["member"], author["incarnation"]), author["transaction"]
        begin = begun.get((process, number))
        if begin is None:
            where = f"offset {place[2]} of {place[0]}-{place[1]}"
            message = f"{where} is read with read_committed, though {process[0]} never committed transaction {number}"
            found.broken("X2", message, output)
            continue
        source = inputs.get(output.data.get("value_id"))
        tp = None if source is None else TopicPartition(source.data["topic"], source.data["partition"])
        if (process, number) not in stood:
            stood[process, number] = _standing(record, process, begin)
        generation = stood[process, number]
        if generation is not None and not _may_commit(record, process, tp, generation):
            zombies[process, number].append(output)
    for (process, number), shown in zombies.items():
        begin, generation = begun[process, number], stood[process, number]
        assert generation is not None
        message = (
            f"{process[0]} began to commit transaction {number} "
            f"{(begin.mono_ns - generation.event.mono_ns) / MS:.0f} ms after generation {generation.number} had "
            f"assigned its input to another member, yet {len(shown)} output(s) of it are read with read_committed"
        )
        found.broken("X2", message, generation.event, begin, done.get((process, number)), *shown[:SHOWN])


def _output_topics(record: GroupRecord) -> frozenset[str]:
    told = (start.data.get("config", {}).get("output") for start in record.starts.values())
    return frozenset(topic for topic in told if topic)


def _committed_passes(
    run: RunRecord, topics: frozenset[str]
) -> Sequence[tuple[Event, Mapping[tuple[str, int, int], Event]]]:
    """The `read_committed` read-backs that include all these topics."""
    return [
        (step, seen)
        for step, seen in run.passes
        if step.data.get("isolation") == READ_COMMITTED and topics <= {row["topic"] for row in step.data["offsets"]}
    ]


def _by_transaction(record: GroupRecord, kind: str) -> dict[tuple[Process, int], Event]:
    return {
        ((event.member, event.incarnation), event.data["transaction"]): event
        for event in record.events[kind]
        if "transaction" in event.data
    }


def _standing(record: GroupRecord, process: Process, begin: Event) -> Generation | None:
    """The newest generation when a process began to commit: the last that was committed, or that it had adopted.

    The adoption decides if the clocks of broker and member are too close for that.
    """
    generations = record.generations
    at = bisect_left(generations, begin.mono_ns - SLACK_MS * MS, key=lambda g: g.event.mono_ns)
    last = generations[at - 1] if at else None
    for event in reversed(record.events["generation"]):
        if (event.member, event.incarnation) == process and event.mono_ns <= begin.mono_ns:
            adopted = record.generation_of(event.data["generation"], event.member_id)
            newer = adopted is not None and (last is None or adopted.event.mono_ns > last.event.mono_ns)
            return adopted if newer else last
    return last


def _may_commit(record: GroupRecord, process: Process, tp: TopicPartition | None, generation: Generation) -> bool:
    """Whether a process is in a generation that assigns the partition to no other member.

    A partition that moves has no owner for one generation: its old owner commits what it consumed before it revokes.
    """
    owners = {p for m, p in record.members_of(generation).items() if tp in generation.assigned[m]}
    return process in record.present(generation) and owners <= {process}


def _offsets(acks: Sequence[Event]) -> str:
    more = ", …" if len(acks) > SHOWN else ""
    return ", ".join(str(ack.data["offset"]) for ack in acks[:SHOWN]) + more
