"""O1, O4, R1, R2, R6, R7: who owned a topic-partition when: two owners, gaps without one, hand-overs. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, pairwise

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import WireError
from kafka_assignors.history.events import Event
from kafka_assignors.history.events.bodies import (
    AssignedBeginBody,
    CommitBeginBody,
    GenerationBody,
    LostBeginBody,
    PartitionsBody,
    RevokeBeginBody,
    StepBody,
)
from kafka_assignors.history.timeline import Span
from kafka_assignors.history.zombies import MemberKey

from ..ledger import Generation, GroupRecord, Process
from ..planned import WORKING, Limit, Planned
from ..rebalance_costs import named_steps
from ..reconciliation import Current
from ..slack import SLACK_NS, surely_before
from .excuses import excuses, zombie_of
from .findings import MS, ON_WIRE, Findings, all_named, named

TELL_LOSSES = ("confluent-consumer", "confluent-kafka")
"""Clients of KIP-848 groups that report a loss as a loss. Java's tool calls the revoke callback for both."""
_TELL_THEIR_IDS = (None, "kafka-python", "confluent-kafka")
"""Clients whose member ids do not come from the coordinator log, and that report losses."""


def one_owner_in_time(record: GroupRecord, findings: Findings) -> None:
    """O1 and R1: intervals of one topic-partition at different processes do not overlap; a revoke precedes the assign.

    Each interval is compared with all that are open when it begins, except where a member could not know (`excuses`).
    Of a process that is seen on its connections alone, an interval has the longest time for which it may have owned the
    partition. If it overlaps another, only a commit shows that the process still had the partition.
    """
    excused = excuses(record)
    commits = _commits_begun(record)
    for _, rows in groupby(record.spans, key=lambda span: span.tp):
        open_: list[Span] = []
        before: Span | None = None  # the interval that ended last
        for span in rows:
            open_ = [open_span for open_span in open_ if open_span.interval.end_ns > span.interval.start_ns]
            double = [other for other in open_ if other.owner != span.owner and zombie_of(other, span, excused) is None]
            unproven = [other for other in double if _unproven(record, other, span, commits)]
            if unproven:
                findings.not_judged("O1", ON_WIRE + "when it stopped to read a partition that it had lost")
            elif before is not None and before.owner != span.owner:
                findings.judged("O1")
                if before.interval.end_kind == "revoked":
                    findings.judged("R1")
            for other in double:
                if other not in unproven:
                    _double(other, span, findings)
            open_.append(span)
            if before is None or span.interval.end_ns >= before.interval.end_ns:
                before = span


def _commits_begun(record: GroupRecord) -> dict[tuple[Process, TopicPartition], list[int]]:
    """When the processes that are seen on their connections alone began to commit for a partition, monotonic ns."""
    times: dict[tuple[Process, TopicPartition], list[int]] = defaultdict(list)
    for event in record.events.of(CommitBeginBody):
        if (process := (event.member, event.incarnation)) in record.on_wire:
            for row in event.body.offsets:
                times[process, row.tp].append(event.mono_ns)
    return times


def _unproven(
    record: GroupRecord, one: Span, other: Span, commits: Mapping[tuple[Process, TopicPartition], list[int]]
) -> bool:
    """Whether nothing shows that the owner of `one`, seen on its connections alone, still had it in `other`'s time."""
    process = one.owner[1:]
    from_ns, to_ns = other.interval.start_ns, min(one.interval.end_ns, other.interval.end_ns)
    return process in record.on_wire and not any(from_ns <= ns <= to_ns for ns in commits.get((process, one.tp), ()))


def _double(one: Span, other: Span, findings: Findings) -> None:
    findings.broken("O1", _overlap(one, other), one.start, other.start, one.end)
    if one.interval.end_kind == "revoked":
        message = (
            f"{named(other.tp)} was assigned to {other.interval.member} "
            f"{(one.interval.end_ns - other.interval.start_ns) / MS:.1f} ms before "
            f"{one.interval.member} had revoked it"
        )
        findings.broken("R1", message, other.start, one.end)


def gap(record: GroupRecord, findings: Findings) -> None:
    """O4: no topic-partition is without an owner for longer than the named step in which the gap ends allows.

    In a planned change also for no longer than its members need to hear of a rebalance (`Planned`).
    """
    steps = named_steps(record)
    begins = [step.mono_ns for step in steps]
    planned = Planned(record)
    for before, span in _successive(record.spans):
        gap_ms = span.interval.gap_before_ms or 0.0
        at = bisect_right(begins, span.interval.start_ns) - 1
        step = steps[at] if at >= 0 else None
        most_ms = None if step is None else step.body.gap_ms
        limit = planned.limit(before, span)
        if most_ms is None and not isinstance(limit, Limit):
            findings.not_judged("O4", f"no step limits the time without an owner (gap_ms), and {limit}")
            continue
        over = None if step is None or most_ms is None or gap_ms <= most_ms else step
        if over is not None and _may_have_worked(record, span, over):
            findings.not_judged("O4", WORKING)
            if not isinstance(limit, Limit):
                continue
            over = None
        findings.judged("O4")
        if over is not None:
            message = (
                f"no member owned {named(span.tp)} for {gap_ms:.0f} ms before {span.interval.member} got it; "
                f"the step {over.body.name!r} allows {most_ms} ms"
            )
            findings.broken("O4", message, over, span.start)
        if isinstance(limit, Limit) and limit.waited_ms > limit.ms:
            message = (
                f"no member owned {named(span.tp)} for {limit.waited_ms:.0f} ms, from the end of "
                f"{before.interval.member}'s ownership to the end of the join that gave it to {span.interval.member}; "
                f"this planned change allows {limit.ms:.0f} ms: {limit.why}"
            )
            findings.broken("O4", message, before.end, span.start)


def _may_have_worked(record: GroupRecord, after: Span, step: Event[StepBody]) -> bool:
    """Whether a partition may have had no owner for longer than a step allows only because a service worked.

    Each join waits until all its members poll.
    """
    gap_ms, until_ns = after.interval.gap_before_ms or 0.0, after.interval.start_ns
    begin_ns = until_ns - round(gap_ms * MS)
    joins = sum(begin_ns < generation.event.mono_ns <= until_ns for generation in record.generations)
    worked_ms = record.busy.may_delay_ms(begin_ns, until_ns, max(1, joins))
    return bool(step.body.beside_work) and gap_ms - worked_ms <= (step.body.gap_ms or 0)


def _successive(spans: Iterable[Span]) -> Iterator[tuple[Span, Span]]:
    """Each interval of a topic-partition but the first, after the one that had ended last when it began."""
    last: Span | None = None
    for span in spans:
        if last is not None and last.tp == span.tp:
            yield last, span
        if last is None or last.tp != span.tp or span.interval.end_ns >= last.interval.end_ns:
            last = span


def handed_over(record: GroupRecord, findings: Findings) -> None:
    """R2: a partition that a cooperative member claims and owns is assigned to no other member in that generation.

    A claim is ignored if it is false (the member lost the partition) or if the member left the topic. In a KIP-848
    group, the coordinator gives a member no partition that another one has or must still revoke.
    """
    _released_first(record, findings)
    spans: dict[TopicPartition, list[Span]] = defaultdict(list)
    for span in record.spans:
        spans[span.tp].append(span)
    for generation in record.generations:
        if generation.by_broker or generation.protocol not in record.cooperative_protocols:
            continue
        owners = {tp: m for m, tps in generation.assigned.items() for tp in tps}
        for member_id, tp in _claims(generation, findings):
            process = record.processes.get(member_id)
            true = next((s for s in spans[tp] if s.owner[1:] == process and _has_at(s, generation)), None)
            if true is None:
                continue
            findings.judged("R2")
            other = owners.get(tp, member_id)
            if other != member_id:
                message = (
                    f"generation {generation.number} assigns {named(tp)} to {generation.names[other]}, "
                    f"although {generation.names[member_id]} claims and owns it"
                )
                findings.broken("R2", message, generation.event, true.start)


def true_claims(record: GroupRecord, findings: Findings) -> None:
    """R6: a joining member claims exactly the partitions that it owns, and none after it was fenced or if it is eager.

    A false claim keeps a partition from every other member. A member's first event in a generation shows what it owned
    when it joined, because nothing has changed since. In a KIP-848 group a member acknowledges a revocation, by which
    the coordinator may give the partition on, only after it revoked. A process that is seen on its connections alone is
    judged by what it claims and was never given or had lost: what it claims no longer, it may still own.
    """
    _true_acknowledgements(record, findings)
    events = record.events.of(GenerationBody, AssignedBeginBody, RevokeBeginBody, LostBeginBody)
    owned_partitions: dict[tuple[str | None, int], set[TopicPartition]] = defaultdict(set)
    heard: dict[tuple[str | None, int], int] = {}
    for event in sorted(events, key=lambda e: (e.mono_ns, e.src, e.seq)):
        process, number = (event.member, event.incarnation), event.body.generation
        if heard.get(process) != number:
            heard[process] = number
            _compare_claims(record, event, owned_partitions[process], findings)
        if event.kind == "assigned_begin":
            owned_partitions[process].update(event.body.partitions)
        elif event.kind != "generation":
            owned_partitions[process].difference_update(event.body.partitions)


def _compare_claims(
    record: GroupRecord, event: Event[PartitionsBody], owned_partitions: set[TopicPartition], findings: Findings
) -> None:
    generation = record.generation_of(event.body.generation, event.member_id)
    if generation is None or generation.by_broker or event.member_id not in generation.assigned:
        return  # a violation of G2, or a target assignment, for which nobody joins with claims
    try:
        claims = set(generation.subscription_of(event.member_id or "").owned)
    except WireError as error:
        findings.unknown.append(f"R6: a subscription of generation {generation.number} can't be read: {error}")
        return
    if (event.member, event.incarnation) in record.on_wire:
        if not claims:
            findings.not_judged("R6", ON_WIRE + "what it owns and does not claim")
            return
        owned_partitions = owned_partitions & claims
    findings.judged("R6")
    if claims != owned_partitions:
        message = (
            f"{event.member} joined generation {generation.number} claiming {all_named(sorted(claims))}, "
            f"but owned {all_named(sorted(owned_partitions))}"
        )
        findings.broken("R6", message, generation.event, event)


def told_as_lost(record: GroupRecord, findings: Findings) -> None:
    """R7: losses are reported as lost: a member that was evicted and joined again has nothing to revoke.

    It has another member id then. By that time its partitions may have other owners, and a commit in the revoke
    callback is refused or, worse, accepted. Judged for members that report their own ids; in a KIP-848 group, where a
    member keeps its id, for members that report losses as such, by the record that removed them.
    """
    _removed_is_lost(record, findings)
    for span in record.spans:
        if span.end is None or span.interval.end_kind not in ("revoked", "lost"):
            continue
        if record.speaks_consumer(span.owner[1:]):
            continue
        if span.start.client not in _TELL_THEIR_IDS:
            findings.not_judged("R7", "its client does not tell its member id, or has no callback for losses")
            continue
        if span.start.instance_id is not None:
            continue
        findings.judged("R7")
        if span.interval.end_kind == "revoked" and span.end.member_id != span.start.member_id:
            message = (
                f"{span.interval.member} revoked {named(span.tp)}, which it had lost: it got the partition as "
                f"{span.start.member_id} and rejoined as {span.end.member_id}"
            )
            findings.broken("R7", message, span.start, span.end)


def _released_first(record: GroupRecord, findings: Findings) -> None:
    has: dict[str, Current] = {}
    for current in record.reconciliation.currents:
        before = has.get(current.member_id)
        gained = current.assigned - (frozenset() if before is None else before.assigned)
        for other in has.values():
            if other.member_id == current.member_id or not gained:
                continue
            findings.judged("R2")
            if taken := sorted(gained & (other.assigned | other.revoking)):
                message = (
                    f"the coordinator gave {all_named(taken)} to {current.client_id} in epoch {current.epoch}, "
                    f"although {other.client_id} had not released it"
                )
                findings.broken("R2", message, other.event, current.event)
        has[current.member_id] = current
        if current.removed:
            del has[current.member_id]


def _true_acknowledgements(record: GroupRecord, findings: Findings) -> None:
    own = own_intervals(record)
    for member_id, process in sorted(record.processes.items()):
        for before, after in pairwise(record.reconciliation.of_member(member_id)):
            if after.removed:
                continue  # it left, or its session ended: nothing was acknowledged
            for tp in sorted(before.revoking - after.revoking - after.assigned):
                findings.judged("R6")
                at_ns = after.event.mono_ns + SLACK_NS
                spans = own.get(((record.group, process[0] or "", process[1]), tp), ())
                if still := next(
                    (s for s in spans if s.interval.start_ns < before.event.mono_ns and _covers(s, at_ns)), None
                ):
                    message = (
                        f"{process[0]} acknowledged the revocation of {named(tp)} "
                        f"{(still.interval.end_ns - after.event.mono_ns) / MS:.0f} ms before it gave it up"
                    )
                    findings.broken("R6", message, before.event, after.event, still.end)


def _removed_is_lost(record: GroupRecord, findings: Findings) -> None:
    removals: dict[tuple[str | None, int], list[Current]] = defaultdict(list)
    for current in record.reconciliation.currents:
        if current.removed and not current.converted and (process := record.processes.get(current.member_id)):
            removals[process].append(current)
    for span in record.spans:
        if span.end is None or span.interval.end_kind not in ("revoked", "lost"):
            continue
        if not record.speaks_consumer(span.owner[1:]):
            continue
        if span.start.client not in TELL_LOSSES:
            findings.not_judged("R7", "its client reports losses as revocations; the log tells them apart")
            continue
        findings.judged("R7")
        latest_ns = span.interval.end_ns - SLACK_NS
        out = [e for e in removals[span.owner[1:]] if span.interval.start_ns < e.event.mono_ns < latest_ns]
        if span.interval.end_kind == "revoked" and out:
            message = (
                f"{span.interval.member} revoked {named(span.tp)}, which it had lost: the coordinator had removed it "
                f"{(span.interval.end_ns - out[-1].event.mono_ns) / MS:.0f} ms before"
            )
            findings.broken("R7", message, out[-1].event, span.end)


def own_intervals(record: GroupRecord) -> dict[tuple[MemberKey, TopicPartition], list[Span]]:
    """(process, topic-partition) -> its intervals, in order."""
    intervals: dict[tuple[MemberKey, TopicPartition], list[Span]] = defaultdict(list)
    for span in record.spans:
        intervals[span.owner, span.tp].append(span)
    return intervals


def _claims(generation: Generation, findings: Findings) -> list[tuple[str, TopicPartition]]:
    claims = []
    for member_id in generation.assigned:
        try:
            subscription = generation.subscription_of(member_id)
        except WireError as error:
            findings.unknown.append(f"R2: a subscription of generation {generation.number} can't be read: {error}")
            continue
        claims += [(member_id, tp) for tp in subscription.owned if tp.topic in subscription.topics]
    return claims


def _has_at(span: Span, generation: Generation) -> bool:
    """Whether a process surely owned a topic-partition when a generation was committed.

    It gave it up after that, by its own generation as well, unless so much later that the clocks' slack doesn't matter.
    """
    interval, at_ns = span.interval, generation.event.mono_ns
    knew = span.end is None or (interval.generation_end is not None and interval.generation_end >= generation.number)
    return _covers(span, at_ns) and (knew or surely_before(at_ns, interval.end_ns))


def _covers(span: Span, at_ns: int) -> bool:
    return span.interval.start_ns < at_ns < span.interval.end_ns


def _overlap(one: Span, other: Span) -> str:
    shared = min(one.interval.end_ns, other.interval.end_ns) - other.interval.start_ns
    return f"{named(one.tp)} was owned by {one.interval.member} and {other.interval.member} for {shared / MS:.1f} ms"
