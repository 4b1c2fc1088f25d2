"""What a service's run comes to, for a person: records sent, read, and their outputs; how its processes ended. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import WIRE, Event, is_of
from kafka_assignors.history.events.bodies import (
    AckBody,
    ConsumeBody,
    ExitBody,
    FaultBeginBody,
    ReadBackBody,
    StartBody,
    StepBody,
)

from ..checker.laws.records import unwritten
from ..checker.ledger import RunRecord
from ..history import History

_SHOWN = 5


@dataclass(frozen=True)
class ServiceView:
    """The records of a run, and the processes of the service.

    Args:
        sent: Records that the brokers acknowledged.
        unread: Acknowledged records that no process got although the group had consumed all; None: it had not, or
            `read_twice` is None.
        unwritten: Such records that are not known to be unread: a client committed them by itself just before its
            process ended without closing it, so the process may have got them; None as `unread`.
        read_twice: Records that were handed out more than once; None: of a process only its connections were seen.
        furthest_back: How many records a process began before where the group had read a partition, at most; None as
            `read_twice`.
        refused_commits: Commits with an error.
        unclosed: Processes that were asked to end and ended without closing their consumer.
        without_output: Sent records that have no output; None: outputs were not read back.
        several_outputs: Sent records that have more than one; None as above.
    """

    sent: int
    unread: int | None
    unwritten: int | None
    read_twice: int | None
    furthest_back: int | None
    refused_commits: int
    unclosed: tuple[str, ...]
    without_output: int | None = None
    several_outputs: int | None = None

    def lines(self) -> Iterator[str]:
        """Sentences: the figures, and what would change them."""
        unread = "unknown: the group didn't come to its end" if self.unread is None else f"{self.unread:,}"
        if self.read_twice is None:
            hint = "" if self.without_output is not None else " (--output TOPIC shows what became of them)"
            yield (
                f"{self.sent:,} records sent; which of them were read was not seen: no recorder was loaded, and the "
                f"connections don't show it{hint}; refused commits: {self.refused_commits:,}"
            )
        else:
            yield (
                f"{self.sent:,} records sent; read by nobody: {unread}; read twice: {self.read_twice:,}; "
                f"furthest step back: {self.furthest_back:,} records; refused commits: {self.refused_commits:,}"
            )
        if self.unwritten:
            yield (
                f"records that a client committed by itself just before its process ended: {self.unwritten:,}; whether "
                "the process got them was not seen, and nobody reads them again: commit what is done, by commit() say"
            )
        if self.without_output is not None:
            yield f"records without an output: {self.without_output:,}; with several: {self.several_outputs:,}"
        if self.without_output:
            yield (
                "a record has no output if its offset is committed before its output is acknowledged, and the process "
                "ends in between: wait for the acknowledgement, by flush() say, then commit"
            )
        if self.several_outputs:
            yield (
                "a record has several outputs if it is read again: send them with the offsets in one transaction, or "
                "treat an output so that a second time does no harm"
            )
        if self.unclosed:
            names = ", ".join(self.unclosed[:_SHOWN]) + (", …" if len(self.unclosed) > _SHOWN else "")
            yield (
                f"{names} ended on SIGTERM without closing the consumer: a group keeps the partitions of a member that "
                "doesn't leave until its session ends; close the consumer on SIGTERM, or read on with "
                "kafka_assignors.leave first"
            )
        if self.read_twice:
            yield (
                "a record is read twice if its partition goes to another process before it is committed, or if a "
                "process seeks back: commit after each batch, and treat a record so that a second time does no harm"
            )
        if self.refused_commits:
            yield (
                "a commit is refused if its partition has gone: go on polling; its new owner reads these records again"
            )


def service_view(history: History) -> ServiceView:
    """The view of a run whose members are processes of one service."""
    events = history.events
    sent: dict[TopicPartition, set[int]] = defaultdict(set)
    counts = _outputs_of_inputs(events)
    reads: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)  # from an offset, up to another
    reached: dict[TopicPartition, int] = {}
    furthest_back = 0
    for event in events:
        if is_of(event, AckBody):
            sent[event.body.tp].add(event.body.offset)
        elif is_of(event, ConsumeBody):
            for run in event.body.offsets:
                furthest_back = max(furthest_back, reached.get(run.tp, 0) - run.first)
                reached[run.tp] = max(reached.get(run.tp, 0), run.last + 1)
                reads[run.tp].append((run.first, run.last + 1))
    seen = all(event.client != WIRE for event in events if is_of(event, StartBody))
    drained = any(is_of(event, StepBody) and event.body.name == "drained" for event in events)
    untold: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for record in RunRecord.of(history).groups.values():
        for tp, ranges in unwritten(record).items():
            untold[tp] += [(offsets.start, offsets.stop) for offsets in ranges]
    complete = drained and seen
    unread = sum(_outside(offsets, [*reads[tp], *untold[tp]]) for tp, offsets in sent.items())
    unreported = sum(_outside(offsets, reads[tp]) for tp, offsets in sent.items())
    return ServiceView(
        sent=sum(map(len, sent.values())),
        unread=unread if complete else None,
        unwritten=unreported - unread if complete else None,
        read_twice=sum(map(_twice, reads.values())) if seen else None,
        furthest_back=furthest_back if seen else None,
        refused_commits=sum(event.kind == "commit_fail" for event in events),
        unclosed=tuple(_unclosed(events)),
        without_output=None if counts is None else counts.count(0),
        several_outputs=None if counts is None else sum(count > 1 for count in counts),
    )


def _outside(offsets: Iterable[int], ranges: Sequence[tuple[int, int]]) -> int:
    """How many offsets are in no range."""
    ranges = sorted(ranges)
    at, reached, count = 0, 0, 0
    for offset in sorted(offsets):
        while at < len(ranges) and ranges[at][0] <= offset:
            reached = max(reached, ranges[at][1])
            at += 1
        count += offset >= reached
    return count


def _twice(ranges: Iterable[tuple[int, int]]) -> int:
    """How many offsets are in more than one range."""
    edges = sorted(edge for begin, end in ranges for edge in ((begin, 1), (end, -1)))
    depth = count = 0
    for (at, by), (then, _) in pairwise(edges):
        depth += by
        count += then - at if depth > 1 else 0
    return count


def _outputs_of_inputs(events: Sequence[Event]) -> list[int] | None:
    """How many outputs each sent record has; None if the service has no output topic, or it was not read back."""
    output = next((event.body.config.output for event in events if is_of(event, StartBody)), None)
    steps = (event.body for event in events if is_of(event, StepBody) and event.body.name == "read_back")
    if output is None or not any(row.topic == output for step in steps for row in step.offsets or ()):
        return None
    records = (event.body for event in events if is_of(event, ReadBackBody))
    outputs = Counter(record.value_id for record in records if record.topic == output)
    return [outputs[event.body.value_id] for event in events if is_of(event, AckBody)]


def _unclosed(events: Sequence[Event]) -> Iterator[str]:
    """Processes that ended when the scenario asked them to, and never told that they closed their consumer.

    Those that end with the run don't count, nor those that are killed, nor those whose record isn't whole: nobody saw
    whether they closed it. A static member sends nothing when it closes its consumer, so its connections don't show it.
    """
    started = {
        (event.member, event.incarnation)
        for event in events
        if event.kind == "start" and not (event.client == WIRE and event.instance_id is not None)
    }
    unseen = {(event.member, event.incarnation) for event in events if event.kind == "error" and event.src == "member"}
    closed = {(event.member, event.incarnation) for event in events if event.kind == "stop"}
    killed = {
        (event.member, event.incarnation)
        for event in events
        if is_of(event, FaultBeginBody) and event.body.fault == "kill"
    }
    for event in events:
        if event.kind == "closing":
            return
        process = (event.member, event.incarnation)
        if is_of(event, ExitBody) and event.body.asked and process in started - closed - killed - unseen:
            yield event.member or ""
