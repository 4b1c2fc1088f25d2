"""The laws of a run, each a function of the run's record that tells what breaks it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kafka_assignors import election
from kafka_assignors.core import invariants, strategies
from kafka_assignors.core.group import Group, Member, TopicPartition
from kafka_assignors.core.protocol import by_topic
from kafka_assignors.errors import ElectionError, KafkaAssignorsError, WireError
from kafka_assignors.events import Event

from .ledger import Generation, GroupRecord, RunRecord
from .names import is_ours
from .timeline import Span, partitions_of

SETTLED_MS = 5000
"""A generation that stood this long, or that the harness found stable, must cover every partition."""
_SHOWN = 5


@dataclass(frozen=True)
class Violation:
    """A law that was broken.

    Args:
        law: Its id.
        message: One sentence that explains.
        witnesses: The events that prove it.
    """

    law: str
    message: str
    witnesses: tuple[Event, ...]


@dataclass
class Findings:
    """What the laws found.

    Args:
        checked: law -> how often it was judged; a law that was never judged proves nothing.
        unknown: Why something couldn't be judged that should have been.
    """

    violations: list[Violation] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)

    def judged(self, law: str, times: int = 1) -> None:
        """The law was judged."""
        self.checked[law] = self.checked.get(law, 0) + times

    def broken(self, law: str, message: str, *witnesses: Event | None) -> None:
        """The law was broken."""
        self.violations.append(Violation(law, message, tuple(w for w in witnesses if w is not None)))


def one_owner_in_time(record: GroupRecord, found: Findings) -> None:
    """O1 and R1: intervals of one topic-partition at different processes don't overlap; revoke comes before assign."""
    latest: Span | None = None
    for before, span in pairwise([None, *record.spans]):
        assert span is not None
        if before is None or _tp(before) != _tp(span):
            latest = span
            continue
        assert latest is not None
        if span.owner != latest.owner:
            found.judged("O1")
            if span.interval.start_ns < latest.interval.end_ns:
                found.broken("O1", _overlap(latest, span), latest.start, span.start, latest.end)
            if latest.interval.end_kind == "revoked":
                found.judged("R1")
                if span.interval.start_ns < latest.interval.end_ns:
                    message = (
                        f"{_name(_tp(span))} was assigned to {span.interval.member} "
                        f"{(latest.interval.end_ns - span.interval.start_ns) / 1e6:.1f} ms before "
                        f"{latest.interval.member} had given it up"
                    )
                    found.broken("R1", message, span.start, latest.end)
        if span.interval.end_ns >= latest.interval.end_ns:
            latest = span


def one_owner_per_generation(record: GroupRecord, found: Findings) -> None:
    """O2: no committed generation gives a topic-partition to two members."""
    for generation in record.generations:
        found.judged("O2")
        for _, texts in _breaches(generation, {}, {}, ("single-owner",)):
            found.broken("O2", f"generation {generation.number}: {texts}", generation.event)


def coverage(record: GroupRecord, found: Findings) -> None:
    """O3: a generation that stays gives every partition of the subscribed topics to a subscriber."""
    for number, (at_ns, witness) in sorted(_settled(record).items()):
        generation = record.by_number.get(number)
        if generation is None:
            found.unknown.append(f"O3: group {record.group!r} settled in generation {number}, which wasn't committed")
            continue
        try:
            topics = {m: generation.topics_of(m) for m in generation.assigned}
        except WireError as error:
            found.unknown.append(f"O3: a subscription of generation {number} can't be read: {error}")
            continue
        counts = {t: record.count_of(t, at_ns) for t in sorted(frozenset().union(*topics.values()))}
        if missing := [t for t, count in counts.items() if count is None]:
            found.unknown.append(f"O3: how many partitions {', '.join(missing)} had isn't in the history")
            continue
        found.judged("O3")
        partitions = {t: count or 0 for t, count in counts.items()}
        for _, texts in _breaches(generation, topics, partitions, ("covered", "subscribed", "exists")):
            found.broken("O3", f"generation {number} stayed: {texts}", generation.event, witness)


def generations_grow(record: GroupRecord, found: Findings) -> None:
    """G1: the coordinator's generations grow. A number written twice is a static member that came back."""
    for before, after in pairwise(record.generations):
        found.judged("G1")
        if after.number < before.number:
            message = f"generation {after.number} was committed after generation {before.number}"
            found.broken("G1", message, before.event, after.event)


def agreement(record: GroupRecord, found: Findings) -> None:
    """G2: what a member adopted is what the coordinator log gave it in that generation."""
    for event in record.events["generation"]:
        number = event.data["generation"]
        generation = record.by_number.get(number)
        if generation is None:
            found.unknown.append(
                f"G2: {event.member} adopted generation {number}, of which the coordinator log has nothing"
            )
            continue
        found.judged("G2")
        adopted, given = frozenset(partitions_of(event)), generation.assigned.get(event.member_id or "")
        if given is None:
            message = f"{event.member} adopted generation {number}, whose committed members don't include it"
            found.broken("G2", message, event, generation.event)
        elif adopted != given:
            message = (
                f"{event.member} adopted {_names(sorted(adopted))} in generation {number}, "
                f"the coordinator committed {_names(sorted(given))}"
            )
            found.broken("G2", message, event, generation.event)


def elected_protocol(record: GroupRecord, found: Findings) -> None:
    """G3: the elected assignor is offered by all members, and is the one that the vote gives."""
    for generation in record.generations:
        starts = {name: record.start_of(member_id) for member_id, name in generation.names.items()}
        told = {name: start for name, start in starts.items() if start is not None}
        if len(told) < len(generation.names):
            continue  # a member of another client: its list isn't known
        found.judged("G3")
        offers: dict[str, list[str]] = {name: list(start.data["assignors"]) for name, start in told.items()}
        without = [name for name, names in offers.items() if generation.protocol not in names]
        if without:
            message = f"generation {generation.number} elected {generation.protocol!r}, not offered by {without[0]}"
            found.broken("G3", message, generation.event, told[without[0]])
            continue
        try:
            winner = election.elect(offers).winner
        except ElectionError as error:
            winner = f"none ({error})"
        if winner != generation.protocol:
            message = f"generation {generation.number} elected {generation.protocol!r}, the vote gives {winner!r}"
            found.broken("G3", message, generation.event, *told.values())


def replay(record: GroupRecord, found: Findings) -> None:
    """A1: a committed assignment is what our core computes from the same bytes, where the leader ran ours."""
    views = {(e.member_id, e.data.get("generation")): e for e in record.events["assign_begin"]}
    for generation in record.generations:
        start = record.start_of(generation.leader)
        if start is None or not _leads_ours(start, generation.protocol):
            continue
        view = views.get((generation.leader, generation.number))
        if view is None:
            name = generation.names[generation.leader]
            found.unknown.append(f"A1: what {name} saw when it assigned generation {generation.number} is missing")
            continue
        rows = generation.event.data["members"]
        members = [(m["member_id"], m.get("instance_id"), bytes.fromhex(m["subscription"])) for m in rows]
        try:
            ours = strategies.replay(generation.protocol, members, view.data["topics"], view.data.get("racks"))
        except KafkaAssignorsError as error:
            found.unknown.append(f"A1: generation {generation.number} can't be replayed: {error}")
            continue
        found.judged("A1")
        for member_id, given in sorted(generation.assigned.items()):
            computed = {TopicPartition(t, p) for t, ps in ours.get(member_id, {}).items() for p in ps}
            if computed != given:
                message = (
                    f"generation {generation.number} ({generation.protocol}) gives {generation.names[member_id]} "
                    f"{_names(sorted(given))}, the replay {_names(sorted(computed))}"
                )
                found.broken("A1", message, generation.event, view)


def nothing_lost(record: GroupRecord, acks: Iterable[Event], found: Findings) -> None:
    """C3: once the group is drained, every acknowledged record below its end offsets was consumed."""
    ends: dict[tuple[str, int], tuple[int, Event]] = {}
    for step in record.events["step"]:
        if step.data["name"] == "drained":
            ends.update({(r["topic"], r["partition"]): (r["offset"], step) for r in step.data["offsets"]})
    if not ends:
        return
    consumed: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for event in record.events["consume"]:
        for run in event.data["offsets"]:
            consumed[run["topic"], run["partition"]].append((run["first"], run["last"]))
    due: dict[tuple[str, int], list[Event]] = defaultdict(list)
    for ack in acks:
        place = ack.data["topic"], ack.data["partition"]
        if place in ends and ack.data["offset"] < ends[place][0]:
            due[place].append(ack)
    for place, waiting in sorted(due.items()):
        found.judged("C3", len(waiting))
        if lost := list(_outside(waiting, consumed[place])):
            offsets = ", ".join(str(a.data["offset"]) for a in lost[:_SHOWN])
            message = (
                f"{len(lost)} acknowledged record(s) of {place[0]}-{place[1]} never reached group {record.group!r}: "
                f"offset {offsets}{', …' if len(lost) > _SHOWN else ''}"
            )
            found.broken("C3", message, *lost[:_SHOWN], ends[place][1])


def placement(run: RunRecord, found: Findings) -> None:
    """K1: promised = chosen = acknowledged = read back, and nothing acknowledged is missing from a read-back."""
    wrong: dict[tuple[str, str, str], list[tuple[Event | None, ...]]] = defaultdict(list)
    ends = [
        (step, seen, {(r["topic"], r["partition"]): r["offset"] for r in step.data["offsets"]})
        for step, seen in run.passes
    ]
    for ack in run.acks:
        data = ack.data
        partitioner, topic = data["partitioner"], data["topic"]
        judged = "predicted" in data or "expected" in data
        if data.get("predicted", data["partition"]) != data["partition"]:
            wrong["lie on another partition than the partitioner chose", partitioner, topic].append((ack,))
        if data.get("expected", data["partition"]) != data["partition"]:
            wrong["lie on another partition than the partitioner's rule demands", partitioner, topic].append((ack,))
        for step, seen, end in ends:
            if data["offset"] >= end.get((data["topic"], data["partition"]), 0):
                continue
            judged = True
            there = seen.get((data["topic"], data["partition"], data["offset"]))
            if there is None:
                wrong["were acknowledged, and are missing from the read-back", partitioner, topic].append((ack, step))
            elif there.data.get("value_id") != data["value_id"]:
                wrong["were acknowledged where another record was read back", partitioner, topic].append((ack, there))
        if judged:
            found.judged("K1")
    for (what, partitioner, topic), cases in wrong.items():
        message = f"{len(cases)} record(s) of {topic} sent through {partitioner!r} {what}"
        found.broken("K1", message, *(w for case in cases[:_SHOWN] for w in case))


GROUP_LAWS: Sequence[Callable[[GroupRecord, Findings], None]] = (
    one_owner_in_time,
    one_owner_per_generation,
    coverage,
    generations_grow,
    agreement,
    elected_protocol,
    replay,
)


def _settled(record: GroupRecord) -> dict[int, tuple[int, Event | None]]:
    """Generations that stayed: number -> (when that was known, the event that says so)."""
    stayed: dict[int, tuple[int, Event | None]] = {}
    ends = sorted(
        e.mono_ns for kind in ("start", "stop", "exit", "fault_begin", "admin_change") for e in record.events[kind]
    )
    last_ns = max((e.mono_ns for events in record.events.values() for e in events), default=0)
    for generation, after in pairwise([*record.generations, None]):
        assert generation is not None
        begun = generation.event.mono_ns
        # Someone who comes or goes makes another generation due, whether or not it ever came.
        until = min((ns for ns in ends if ns > begun), default=last_ns)
        until = until if after is None else min(until, after.event.mono_ns)
        if until - begun >= SETTLED_MS * 1_000_000:
            stayed[generation.number] = until, None
    for step in record.events["step"]:
        if step.data["name"] == "stable":
            stayed[step.data["generation"]] = step.mono_ns, step
    return stayed


def _leads_ours(start: Event, protocol: str) -> bool:
    asked = start.data.get("config", {}).get("assignors", ())
    return any(name == protocol and is_ours(given) for name, given in zip(start.data["assignors"], asked, strict=False))


def _breaches(
    generation: Generation,
    topics: Mapping[str, frozenset[str]],
    partitions: Mapping[str, int],
    laws: Collection[str],
) -> Iterator[tuple[str, str]]:
    """The invariants that a committed assignment breaks, told by members' names: law, first texts."""
    # Two members with one client id can only be told apart by their member ids.
    names = generation.names if len(set(generation.names.values())) == len(generation.names) else {}
    members = [Member(names.get(m, m), topics.get(m, ())) for m in generation.assigned]
    assignment = {names.get(m, m): by_topic(tps) for m, tps in generation.assigned.items()}
    texts: dict[str, list[str]] = defaultdict(list)
    for violation in invariants.violations(Group(members, partitions), assignment):
        if violation.law in laws:
            texts[violation.law].append(violation.text)
    for law, said in texts.items():
        more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
        yield law, "; ".join(said[:_SHOWN]) + more


def _outside(acks: Iterable[Event], ranges: Sequence[tuple[int, int]]) -> Iterator[Event]:
    """Records in none of the ranges of offsets."""
    ranges = sorted(ranges)
    at, reached = 0, -1  # all ranges before `at` end at `reached` at most
    for ack in sorted(acks, key=lambda a: a.data["offset"]):
        offset = ack.data["offset"]
        while at < len(ranges) and ranges[at][0] <= offset:
            reached = max(reached, ranges[at][1])
            at += 1
        if offset > reached:
            yield ack


def _tp(span: Span) -> TopicPartition:
    return TopicPartition(span.interval.topic, span.interval.partition)


def _overlap(one: Span, other: Span) -> str:
    shared = min(one.interval.end_ns, other.interval.end_ns) - other.interval.start_ns
    return f"{_name(_tp(one))} was owned by {one.interval.member} and {other.interval.member} for {shared / 1e6:.1f} ms"


def _name(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"


def _names(tps: Sequence[TopicPartition]) -> str:
    more = f" and {len(tps) - _SHOWN} more" if len(tps) > _SHOWN else ""
    return ", ".join(map(_name, tps[:_SHOWN])) + more if tps else "nothing"
