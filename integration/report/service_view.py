"""What a service's run comes to, for a person: records sent, read, and their outputs; how its processes ended. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import WIRE, Event, bodies, is_of

from ..checker.laws.exactly_once import committed_first
from ..checker.laws.records import unwritten
from ..checker.ledger import RunRecord
from ..history import History
from .side_by_side import Row

_SHOWN = 5
_LONG_MS = 1000
"""Of a stop in a planned change; a shorter one is nothing to change a setting for."""


@dataclass(frozen=True)
class ServiceView:
    """The records of a run, and the processes of the service.

    Args:
        unread: Acknowledged records that no process got although the group had consumed all; None: it had not, or
            `read_twice` is None.
        unwritten: Such records that are not known to be unread: a client committed them by itself just before its
            process ended without closing it, so the process may have got them; None as `unread`.
        read_twice: Records that were handed out more than once; None: of a process only its connections were seen.
        furthest_back: How many records a process began before where the group had read a partition, at most; None as
            `read_twice`.
        committed_first: Records that were committed, not in a transaction, before the broker had their first output;
            None as above, or the broker's times are not known.
        overtaken: Records whose first output lies behind that of a later record of their key, in one partition; None as
            `without_output`.
    """

    sent: int  # records that the brokers acknowledged
    unread: int | None
    unwritten: int | None
    read_twice: int | None
    furthest_back: int | None
    refused_commits: int  # commits with an error
    unclosed: tuple[str, ...]  # processes that were asked to end and ended without closing their consumer
    without_output: int | None = None  # sent records that have no output; None: outputs were not read back
    several_outputs: int | None = None  # sent records that have more than one; None as above
    committed_first: int | None = None
    overtaken: int | None = None

    def figures(self) -> Iterator[tuple[str, str]]:
        """The name and value of each figure; those of outputs only if they were read back."""
        figures: dict[str, int | None] = {
            "records sent": self.sent,
            "read by nobody": self.unread,
            "read twice": self.read_twice,
            "records of the furthest step back": self.furthest_back,
            "refused commits": self.refused_commits,
        }
        outputs = {
            "without an output": self.without_output,
            "with several outputs": self.several_outputs,
            "committed before their output": self.committed_first,
            "output behind a later one of their key": self.overtaken,
        }
        figures |= {name: count for name, count in outputs.items() if count is not None}
        for name, count in figures.items():
            yield name, "unknown" if count is None else f"{count:,}"

    def lines(self) -> Iterator[str]:
        """Sentences: the figures, and what would change them."""
        yield from self._sentences()
        yield from self.advice()

    def _sentences(self) -> Iterator[str]:
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
        if self.without_output is not None:
            first = "" if self.committed_first is None else f"; committed before their output: {self.committed_first:,}"
            yield (
                f"records without an output: {self.without_output:,}; with several: {self.several_outputs:,}{first}; "
                f"output behind a later one of their key: {self.overtaken:,}"
            )

    def advice(self) -> Iterator[str]:
        """Sentences: what the figures come from, and what would change them."""
        if self.unwritten:
            yield (
                f"records that a client committed by itself just before its process ended: {self.unwritten:,}; whether "
                "the process got them was not seen, and nobody reads them again: commit what is done, by commit() say"
            )
        if self.committed_first or (self.without_output and self.committed_first is None):
            yield (
                "an output is lost if its record is committed before it is acknowledged, and the process ends in "
                "between: wait for the acknowledgement, by flush() say, then commit"
            )
        elif self.without_output:
            yield (
                "a record has no output if the service skips it, or goes on after an error in the work on it, and "
                "commits it nevertheless"
            )
        if self.several_outputs:
            yield (
                "a record has several outputs if it is read again: send them with the offsets in one transaction, or "
                "treat an output so that a second time does no harm"
            )
        if self.overtaken:
            yield (
                "outputs of a key come in another order if its records are worked on at the same time, or if a batch "
                "is read again: work on the records of a key in their order, and send them with the offsets in one "
                "transaction"
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


def stop_lines(row: Row) -> Iterator[str]:
    """Sentences: what would shorten the stops of a service's group, and what would spare it revokes."""
    if row.killed_ms:
        yield (
            f"after a kill a partition had no owner for up to {row.killed_ms / 1000:.1f} s: a group keeps the "
            "partitions of a killed process until its session ends (session.timeout.ms)"
        )
    if row.stop_ms >= _LONG_MS:
        yield (
            f"in a planned change a partition had no owner for up to {row.stop_ms / 1000:.1f} s: processes hear of a "
            "rebalance at their next heartbeat (heartbeat.interval.ms), or once they have worked on what they polled; "
            "a static member (group.instance.id) that is back within its session causes no rebalance"
        )
    if row.planned_duplicates:
        yield (
            f"{row.planned_duplicates:,} records were read again after a planned change, without a kill: commit what "
            "is done as partitions are revoked, and before the consumer is closed"
        )
    if row.returned and "cooperative" not in row.assignor:
        yield (
            f"{row.returned:,} times a process gave up a partition and got it back: with cooperative-sticky it gives "
            "up only what goes to another"
        )


def is_of_service(event: Event) -> bool:
    """Whether an event is of a process of a user's service: it has the length of its log, or is of its connections."""
    return event.log_bytes is not None or event.client == WIRE


def kept_service_view(history: History) -> ServiceView | None:
    """The view of a kept run; None if it is none of a service's, or of several groups, which read the same records."""
    groups = {event.group for event in history.events if event.group is not None}
    return service_view(history) if len(groups) == 1 and any(map(is_of_service, history.events)) else None


def service_view(history: History) -> ServiceView:
    """The view of a run whose members are processes of one service."""
    events = history.events
    sent: dict[TopicPartition, set[int]] = defaultdict(set)
    run_record = RunRecord.of(history)
    outputs = _outputs_of_inputs(events)
    reads: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)  # from an offset, up to another
    reached: dict[TopicPartition, int] = {}
    furthest_back = 0
    for event in events:
        if is_of(event, bodies.AckBody):
            sent[event.body.tp].add(event.body.offset)
        elif is_of(event, bodies.ConsumeBody):
            for run in event.body.offsets:
                furthest_back = max(furthest_back, reached.get(run.tp, 0) - run.first)
                reached[run.tp] = max(reached.get(run.tp, 0), run.last + 1)
                reads[run.tp].append((run.first, run.last + 1))
    seen = all(event.client != WIRE for event in events if is_of(event, bodies.StartBody))
    drained = any(is_of(event, bodies.StepBody) and event.body.name == "drained" for event in events)
    untold: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    for record in run_record.groups.values():
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
        **({} if outputs is None else _figures_of(outputs, run_record)),
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


def _outputs_of_inputs(
    events: Sequence[Event],
) -> list[tuple[Event[bodies.AckBody], list[Event[bodies.ReadBackBody]]]] | None:
    """Each sent record with its outputs; None if the service has no output topic, or it was not read back."""
    output = next((event.body.config.output for event in events if is_of(event, bodies.StartBody)), None)
    steps = (event.body for event in events if is_of(event, bodies.StepBody) and event.body.name == "read_back")
    if output is None or not any(row.topic == output for step in steps for row in step.offsets or ()):
        return None
    outputs: dict[str | None, list[Event[bodies.ReadBackBody]]] = defaultdict(list)
    for event in events:
        if is_of(event, bodies.ReadBackBody) and event.body.topic == output:
            outputs[event.body.value_id].append(event)
    return [(event, outputs.get(event.body.value_id, [])) for event in events if is_of(event, bodies.AckBody)]


def _figures_of(
    outputs: Sequence[tuple[Event[bodies.AckBody], Sequence[Event[bodies.ReadBackBody]]]], run: RunRecord
) -> dict[str, int]:
    """The figures of outputs, by their names in `ServiceView`."""
    firsts = [(sent.body, min((e.body for e in theirs), key=_place)) for sent, theirs in outputs if _has_first(theirs)]
    figures = {
        "without_output": sum(not theirs for _, theirs in outputs),
        "several_outputs": sum(len(theirs) > 1 for _, theirs in outputs),
        "overtaken": _overtaken(firsts),
    }
    inputs, theirs = [sent for sent, _ in outputs], [output for _, theirs in outputs for output in theirs]
    if all(output.body.appended_ms is not None for output in theirs):
        early = [committed_first(inputs, theirs, record.events)[1] for record in run.groups.values()]
        figures["committed_first"] = sum(map(len, early))
    return figures


def _has_first(outputs: Sequence[Event[bodies.ReadBackBody]]) -> bool:
    """Whether it is known which output came first: the broker dated them, or they are in one partition."""
    if any(output.body.appended_ms is None for output in outputs):
        return len({output.body.tp for output in outputs}) == 1
    return bool(outputs)


def _place(output: bodies.ReadBackBody) -> tuple[int, int]:
    """When an output came, as far as that is known."""
    return output.appended_ms or 0, output.offset


def _overtaken(firsts: Iterable[tuple[bodies.AckBody, bodies.ReadBackBody]]) -> int:
    """How many records have a first output behind that of a later record of their key, in one partition.

    Outputs in different partitions have no order that a reader sees.
    """
    of_keys: dict[tuple[TopicPartition, str, TopicPartition], list[tuple[int, int]]] = defaultdict(list)
    for sent, output in firsts:
        if sent.key_hash is not None:
            of_keys[sent.tp, sent.key_hash, output.tp].append((sent.offset, output.offset))
    count = 0
    for places in of_keys.values():
        soonest: int | None = None  # of later records
        for _, offset in sorted(places, reverse=True):
            count += soonest is not None and soonest < offset
            soonest = offset if soonest is None else min(soonest, offset)
    return count


def _unclosed(events: Sequence[Event]) -> Iterator[str]:
    """Processes that ended when the scenario asked them to, and never told that they closed their consumer.

    Those that end with the run don't count, nor those that are killed, also because they did not end in time, nor those
    whose record isn't whole: nobody saw whether they closed it. A static member sends nothing when it closes its
    consumer, so its connections don't show it.
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
        if is_of(event, bodies.FaultBeginBody) and event.body.fault == "kill"
    }
    for event in events:
        if event.kind == "closing":
            return
        process = (event.member, event.incarnation)
        by_itself = is_of(event, bodies.ExitBody) and event.body.asked and event.body.signal != "SIGKILL"
        if by_itself and process in started - closed - killed - unseen:
            yield event.member or ""
