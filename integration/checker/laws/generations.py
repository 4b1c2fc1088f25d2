"""G1 to G3, O2, O3, A1: one generation after another, by the coordinator's log, members and the leader. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from kafka_assignors.core import reading
from kafka_assignors.core.declaration import options_of
from kafka_assignors.core.group import Group, Member, TopicPartition, invariants
from kafka_assignors.core.wire.protocol import by_topic
from kafka_assignors.errors import ElectionError, KafkaAssignorsError, WireError
from kafka_assignors.history.events import WIRE, Event
from kafka_assignors.history.events.bodies import BrokerAssignedBody, GenerationBody, StartBody
from kafka_assignors.operator import election

from ..ledger import Generation, GroupRecord
from ..planned import WORKING
from ..slack import surely_before
from .findings import BEAT_MS, MS, SHOWN, Findings, all_named, named

SETTLED_MS = 5000
"""A generation that stood this long, or that the harness found stable, must cover every partition, with heartbeats of
up to `BEAT_MS`. Longer ones count twice: a partition that a member gives up late is withheld again, and each time the
others hear of the next generation by their heartbeats."""
EPOCHS = {
    "ConsumerGroupMetadata": "epoch",
    "ConsumerGroupTargetAssignmentMetadata": "assignmentEpoch",
    "ConsumerGroupCurrentMemberAssignment": "memberEpoch",
}
"""Records of KIP-848 -> their field that never falls."""


def one_owner_per_generation(record: GroupRecord, findings: Findings) -> None:
    """O2: no committed generation assigns a topic-partition to two members."""
    for generation in record.generations:
        findings.judged("O2")
        for _, texts in _breaches(generation, {}, {}, ("single-owner",)):
            findings.broken("O2", f"generation {generation.number}: {texts}", generation.event)


def coverage(record: GroupRecord, findings: Findings) -> None:
    """O3: a generation that stays assigns every partition of the subscribed topics to a subscriber.

    Successive generations never leave a partition out for as long in total as one may stand.
    """
    standing = _standing(record)
    settled = _settled(record, standing)
    for one, until in zip(record.generations, standing, strict=True):
        if one.number not in settled and until - one.event.mono_ns >= settled_ms(record, one) * MS:
            findings.not_judged("O3", WORKING)
    for number, (at_ns, witness) in sorted(settled.items()):
        generation = record.by_number.get(number)
        if generation is None:
            findings.unknown.append(
                f"O3: group {record.group!r} settled in generation {number}, which was not committed"
            )
            continue
        topics = _subscribed(generation, findings)
        if topics is None:
            continue
        counts = {t: record.count_of(t, at_ns) for t in sorted(frozenset().union(*topics.values()))}
        if missing := [t for t, count in counts.items() if count is None]:
            findings.unknown.append(
                f"O3: the history has no partition counts of {', '.join(missing)}; does the topic exist?"
            )
            continue
        findings.judged("O3")
        partitions = {t: count or 0 for t, count in counts.items()}
        for _, texts in _breaches(generation, topics, partitions, ("covered", "subscribed", "exists")):
            findings.broken("O3", f"generation {number}{_led_by(generation)}: {texts}", generation.event, witness)
    _left_out_again(record, standing, findings)


def _left_out_again(record: GroupRecord, standing: Sequence[int], findings: Findings) -> None:
    """O3 for successive generations of which none stays, while the topics do not change."""
    changed = [e.mono_ns for e in record.events["admin_change"]]
    left_out: dict[TopicPartition, tuple[int, Generation]] = {}  # (ns left out, first generation)
    orphans: set[TopicPartition] = set()
    for at, (generation, until) in enumerate(zip(record.generations, standing, strict=True)):
        begun = generation.event.mono_ns
        stood_ns = _stood_ns(record, generation, until)
        if at and any(record.generations[at - 1].event.mono_ns < ns <= begun for ns in changed):
            left_out = {}
        topics = _subscribed(generation, findings)
        missing: set[TopicPartition] = set()
        for topic in sorted(frozenset().union(*(topics or {}).values())):
            count = record.count_of(topic, until) or 0
            missing.update(tp for p in range(count) if (tp := TopicPartition(topic, p)) not in generation.owners)
        left_out = {tp: left_out.get(tp, (0, generation)) for tp in missing}
        left_out = {tp: (ns + max(0, stood_ns), first) for tp, (ns, first) in left_out.items()}
        most_ns = settled_ms(record, generation) * MS if left_out else 0
        for tp, (ns, first) in sorted(left_out.items()):
            # `coverage` judges a single generation.
            if ns >= most_ns and first is not generation and tp not in orphans:
                orphans.add(tp)
                message = (
                    f"generations {first.number} to {generation.number} assigned {named(tp)} to no member, "
                    f"for {ns / MS:.0f} ms in total"
                )
                findings.broken("O3", message, first.event, generation.event)


def _subscribed(generation: Generation, findings: Findings) -> dict[str, frozenset[str]] | None:
    try:
        return {m: generation.topics_of(m) for m in generation.assigned}
    except WireError as error:
        findings.unknown.append(f"O3: a subscription of generation {generation.number} can't be read: {error}")
    return None


def generations_grow(record: GroupRecord, findings: Findings) -> None:
    """G1: committed generations grow. One is written again only if a static member returned to the same assignment.

    If the coordinator converts the group to another protocol, the number does not fall and members keep what they have.
    """
    for before, after in pairwise(record.generations):
        findings.judged("G1")
        if after.number < before.number:
            message = f"generation {after.number} was committed after generation {before.number}"
            findings.broken("G1", message, before.event, after.event)
        elif after.number == before.number and not after.rewrites(before):
            message = f"generation {after.number} was committed twice, but not for a static member that rejoined"
            findings.broken("G1", message, before.event, after.event)
    for before, after in record.conversions:
        findings.judged("G1")
        if after.number < before.number:
            message = f"generation {before.number} was converted to another protocol as generation {after.number}"
            findings.broken("G1", message, before.event, after.event)
        for member_id, has in sorted(after.assigned.items()):
            had = before.assigned.get(member_id, frozenset())
            if has != had:
                message = (
                    f"generation {before.number} gave {after.names[member_id]} {all_named(sorted(had))}, "
                    f"its conversion to another protocol {all_named(sorted(has))}"
                )
                findings.broken("G1", message, before.event, after.event)


def epochs_never_fall(record: GroupRecord, findings: Findings) -> None:
    """G1 of a KIP-848 group: the epochs of the group, of its target assignment and of each member never fall.

    Counting starts again after a record is deleted (a member left, a group ended), and after the coordinator writes an
    epoch below 0 (a static member is away).
    """
    before: dict[tuple[str, str | None], tuple[int, Event]] = {}
    for event in sorted(record.events.of(BrokerAssignedBody), key=lambda e: e.seq):
        name = EPOCHS.get(event.body.record)
        if name is None:
            continue
        what, epoch = (event.body.record, event.member_id), (event.body.fields or {}).get(name, -1)
        last = before.pop(what, None)
        if epoch < 0:
            continue
        before[what] = epoch, event
        if last is None:
            continue
        findings.judged("G1")
        if epoch < last[0]:
            whose = "the group" if event.member_id is None else f"member {event.member_id}"
            message = f"{name} {epoch} of {whose} was committed after {last[0]}"
            findings.broken("G1", message, last[1], event)


def agreement(record: GroupRecord, findings: Findings) -> None:
    """G2: a member adopts exactly the assignment in the coordinator log.

    In a KIP-848 group it adopts a current assignment of its own, at the epoch of that assignment.
    """
    for event in record.events.of(GenerationBody):
        number = event.body.generation
        generation = record.generation_of(number, event.member_id)
        if record.broker_assigned and not _of_classic(generation, event):
            _agreement_by_epoch(record, event, findings)
            continue
        if generation is None:
            findings.unknown.append(
                f"G2: {event.member} adopted generation {number}, which the coordinator log does not have"
            )
            continue
        findings.judged("G2")
        adopted, given = frozenset(event.body.partitions), generation.assigned.get(event.member_id or "")
        if given is None:
            message = f"{event.member} adopted generation {number}, whose committed members do not include it"
            findings.broken("G2", message, event, generation.event)
        elif adopted != given:
            message = (
                f"{event.member} adopted {all_named(sorted(adopted))} in generation {number}, "
                f"the coordinator committed {all_named(sorted(given))}"
            )
            findings.broken("G2", message, event, generation.event)


def _of_classic(generation: Generation | None, adopted: Event[GenerationBody]) -> bool:
    """Whether a member adopted a classic generation. In a group that was converted since, it may get less of it."""
    if generation is None or generation.by_broker:
        return False
    return frozenset(adopted.body.partitions) == generation.assigned.get(adopted.member_id or "")


def _agreement_by_epoch(record: GroupRecord, event: Event[GenerationBody], findings: Findings) -> None:
    number, adopted = event.body.generation, frozenset(event.body.partitions)
    rows = record.reconciliation.of_member(event.member_id or "")
    there = [
        current
        for current in rows
        if current.epoch == number and not surely_before(event.mono_ns, current.event.mono_ns)
    ]
    if not rows:
        findings.unknown.append(f"G2: the coordinator log has no assignment of {event.member}")
        return
    findings.judged("G2")
    if not there:
        message = f"{event.member} adopted epoch {number}, in which the coordinator log does not have it"
        findings.broken("G2", message, event)
    elif all(adopted != current.assigned for current in there):
        message = (
            f"{event.member} adopted {all_named(sorted(adopted))} in epoch {number}, "
            f"the coordinator committed {all_named(sorted(there[-1].assigned))}"
        )
        findings.broken("G2", message, event, there[-1].event)


def elected_protocol(record: GroupRecord, findings: Findings) -> None:
    """G3: the elected assignor is offered by all members and wins the vote."""
    for generation in record.generations:
        if generation.by_broker:
            findings.not_judged("G3", "the broker assigns, and members do not vote")
            continue
        if not generation.protocol:
            findings.judged("G3")
            findings.broken("G3", f"generation {generation.number} has members, and no assignor", generation.event)
            continue
        starts = {name: record.start_of(member_id) for member_id, name in generation.names.items()}
        start_events = {name: start for name, start in starts.items() if start is not None}
        if len(start_events) < len(generation.names):
            findings.not_judged("G3", "the history does not have the assignors of a foreign member")
            continue
        findings.judged("G3")
        offers: dict[str, list[str]] = {name: list(start.body.assignors) for name, start in start_events.items()}
        without = [name for name, names in offers.items() if generation.protocol not in names]
        if without:
            message = (
                f"generation {generation.number} elected {generation.protocol!r}, which {without[0]} does not offer"
            )
            findings.broken("G3", message, generation.event, start_events[without[0]])
            continue
        try:
            winner = election.elect(offers).winner
        except ElectionError as error:
            winner = f"none ({error})"
        if winner != generation.protocol:
            message = f"generation {generation.number} elected {generation.protocol!r}, but the vote elects {winner!r}"
            findings.broken("G3", message, generation.event, *start_events.values())


def replay(record: GroupRecord, findings: Findings) -> None:
    """A1: a committed assignment equals what our core computes from the same bytes, if the leader ran ours."""
    for before, generation in pairwise([None, *record.generations]):
        assert generation is not None
        if generation.by_broker:
            findings.not_judged("A1", "the broker assigns, and the log does not have what it computed from")
            continue
        # A returning static member rewrites it with a new subscription that the leader never saw.
        if before is not None and generation.rewrites(before):
            continue
        if not record.led_by_ours(generation):
            findings.not_judged("A1", f"the leader ran {record.strategy_of_leader(generation)}, which we cannot replay")
            continue
        view = record.views.get((generation.leader, generation.number))
        if view is None:
            name = generation.names.get(generation.leader or "", generation.leader)
            findings.unknown.append(
                f"A1: the history does not have the topics that {name} saw as leader of generation {generation.number}"
            )
            continue
        rows = generation.body.members
        members = [(m.member_id, m.instance_id, bytes.fromhex(m.subscription)) for m in rows]
        try:
            _, options = options_of(record.strategy_of_leader(generation))
            seen = view.body.topics, view.body.racks, view.body.leaders
            ours = reading.replay(generation.protocol, members, *seen, **options)
        except KafkaAssignorsError as error:
            findings.unknown.append(f"A1: generation {generation.number} can't be replayed: {error}")
            continue
        findings.judged("A1")
        for member_id, given in sorted(generation.assigned.items()):
            computed = {TopicPartition(t, p) for t, ps in ours.get(member_id, {}).items() for p in ps}
            if computed != given:
                message = (
                    f"generation {generation.number} ({generation.protocol}) gives {generation.names[member_id]} "
                    f"{all_named(sorted(given))}, the replay {all_named(sorted(computed))}"
                )
                findings.broken("A1", message, generation.event, view)


def _standing(record: GroupRecord) -> list[int]:
    """When each committed generation ended: at the next one, or at the first event that makes another one due."""
    kinds = ("start", "stop", "exit", "fault_begin", "admin_change", "closing")
    ends = sorted(e.mono_ns for kind in kinds for e in record.events[kind])
    last_ns = record.last_ns
    generation_ends = []
    for generation, after in pairwise([*record.generations, None]):
        assert generation is not None
        # A member that joins or leaves makes another generation due, even if none follows.
        at = bisect_right(ends, generation.event.mono_ns)
        until = ends[at] - 1 if at < len(ends) else last_ns  # the partition counts up to that moment apply
        generation_ends.append(until if after is None else min(until, after.event.mono_ns))
    return generation_ends


def _settled(record: GroupRecord, standing: Sequence[int]) -> dict[int, tuple[int, Event | None]]:
    """Generations that stayed: number -> (when that was known, the event that records it)."""
    stayed: dict[int, tuple[int, Event | None]] = {
        generation.number: (_counted_ns(record, generation, until), None)
        for generation, until in zip(record.generations, standing, strict=True)
        if _stood_ns(record, generation, until) >= settled_ms(record, generation) * MS
    }
    for rest in record.rests:
        if rest.body.generation is not None:
            stayed[rest.body.generation] = rest.mono_ns, rest
    return stayed


def _stood_ns(record: GroupRecord, generation: Generation, until: int) -> int:
    """How long a generation stood while no service may have worked.

    A process gives up what is withheld once it polls again, and another joins the next generation once it does.
    """
    begun = generation.event.mono_ns
    return until - begun - int(record.busy.may_delay_ms(begun, until, 2) * MS)


def _counted_ns(record: GroupRecord, generation: Generation, until: int) -> int:
    """When partitions are counted that a generation must cover: before a change that may be later, by the clocks."""
    changes = [e.mono_ns for e in record.events["admin_change"] if e.mono_ns <= generation.event.mono_ns]
    last_ns = max(changes, default=None)
    return until if last_ns is None or surely_before(last_ns, generation.event.mono_ns) else last_ns - 1


def settled_ms(record: GroupRecord, generation: Generation) -> int:
    """How long a generation may stand without covering every partition, by the slowest heartbeat of its members."""
    starts = (record.starts.get(process) for process in record.present(generation))
    beats = [_beat_ms(start) for start in starts if start is not None]
    return SETTLED_MS + 2 * max(0, max(beats, default=0) - BEAT_MS)


def _beat_ms(start: Event[StartBody]) -> int:
    """A member's heartbeat interval; of connections alone, the longest that Kafka's documentation advises."""
    config = start.body.config
    return (config.session_timeout_ms or 0) // 3 if start.client == WIRE else config.heartbeat_interval_ms or 0


def _led_by(generation: Generation) -> str:
    leader = generation.names.get(generation.leader)
    return f", led by {leader}" if leader else ""


def _breaches(
    generation: Generation, topics: Mapping[str, frozenset[str]], partitions: Mapping[str, int], laws: Collection[str]
) -> Iterator[tuple[str, str]]:
    """The invariants that a committed assignment breaks: (law, first texts), with members' names."""
    # Members that share a client id can only be distinguished by member id.
    names = generation.names if len(set(generation.names.values())) == len(generation.names) else {}
    members = [Member(names.get(m, m), topics.get(m, ())) for m in generation.assigned]
    assignment = {names.get(m, m): by_topic(tps) for m, tps in generation.assigned.items()}
    texts: dict[str, list[str]] = defaultdict(list)
    for violation in invariants.violations(Group(members, partitions), assignment):
        if violation.law in laws:
            nobody = violation.law == "covered"
            texts[violation.law].append(f"{violation.partition} → nobody" if nobody else violation.text)
    for law, breaches in texts.items():
        more = f"; and {len(breaches) - SHOWN} more" if len(breaches) > SHOWN else ""
        yield law, "; ".join(breaches[:SHOWN]) + more
