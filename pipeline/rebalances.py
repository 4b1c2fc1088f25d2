"""What each rebalance did, and what every assignor would have done instead.

Plain Python on the driver, by the strategies' own code: a run has thousands of generations at most, and each needs the
one before it. Only what the events say comes in; the tables' rows go out.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kafka_assignors.core import strategies
from kafka_assignors.core.assignment import moves
from kafka_assignors.core.group import NO_GENERATION, TopicPartition
from kafka_assignors.core.protocol import Subscription, decode_subscription
from kafka_assignors.errors import WireError

Owners = Mapping[TopicPartition, str]
"""topic-partition -> holder: the instance id of a static member, whose member id changes when it comes back, else the
member id."""

_TOLD = ("generation_committed", "assign_begin", "assign_end", "fault_begin", "step", "admin_change")

_ROUNDS = 3
"""A cooperative group needs two rounds: what is withheld in the first is free in the second."""


@dataclass(frozen=True)
class Rebalance:
    """Committed generations of the same members with the same subscriptions and partitions: one rebalance's rounds.

    Args:
        number: Its place among the group's, from 0.
        trigger: What differs from the rebalance before; see `schema.REBALANCES`.
        begin_ns: When its first generation was committed; monotonic, ns.
        rounds: Its generations, in order.
        protocol: The elected assignor.
        members: (member id, holder, subscription); None where a member's bytes are no subscription.
        names: holder -> client id, which a run's events call it by.
        partitions: topic -> partition count as the leader saw it; None: nobody's events tell.
        racks: topic -> per partition its replicas' racks as the leader saw them; empty: nobody tells.
        leaders: topic -> per partition its leader's rack, likewise.
        owners: Who got what in the last generation.
        assign_us: Longest time the leader took to assign, µs; None: its leader tells nothing.
    """

    run: str
    group: str
    number: int
    trigger: str
    begin_ns: int
    rounds: tuple[int, ...]
    protocol: str
    members: tuple[tuple[str, str, Subscription | None], ...]
    names: Mapping[str, str]
    partitions: Mapping[str, int] | None
    racks: Mapping[str, Sequence[Sequence[str]]]
    leaders: Mapping[str, Sequence[str | None]]
    owners: Owners
    assign_us: int | None

    @property
    def generation(self) -> int:
        """The last one."""
        return self.rounds[-1]

    @property
    def holders(self) -> frozenset[str]:
        """Who its members are."""
        return frozenset(holder for _, holder, _ in self.members)

    @property
    def known(self) -> bool:
        """It can be computed again."""
        return self.partitions is not None and all(subscription is not None for _, _, subscription in self.members)


def collect(events: DataFrame) -> list[Rebalance]:
    """The rebalances of all runs and groups, each group's in order.

    Args:
        events: `schema.EVENTS`.

    Cost: one job; driver memory of O(generations x (members + partitions)).
    """
    detail = sf.col("detail")
    rows = (
        events.where(sf.col("kind").isin(*_TOLD))
        .select("run", "group", "mono_ns", "seq", "kind", "generation", "protocol", "member", "member_id", "fault",
                "duration_us",
                *(detail[name].alias(name) for name in ("members", "leader", "topics", "racks", "leaders")))
        .orderBy("run", "mono_ns", "seq")
        .collect()
    )  # fmt: skip
    committed: dict[tuple[str, str], list[Any]] = defaultdict(list)
    views: dict[tuple[object, ...], Any] = {}
    took: dict[tuple[object, ...], int] = {}
    counts: dict[str, list[tuple[int, Mapping[str, int]]]] = defaultdict(list)
    faults: dict[tuple[str, str], list[tuple[int, str, str]]] = defaultdict(list)
    for row in rows:
        leader = row["run"], row["group"], row["generation"], row["member_id"]
        if row["kind"] == "generation_committed":
            committed[row["run"], row["group"]].append(row)
        elif row["kind"] == "assign_begin":
            views[leader] = row
        elif row["kind"] == "assign_end" and row["duration_us"] is not None:
            took[leader] = row["duration_us"]
        elif row["kind"] == "fault_begin":
            if row["group"] and row["member"] and row["fault"]:
                faults[row["run"], row["group"]].append((row["mono_ns"], row["member"], row["fault"]))
        elif row["topics"]:
            counts[row["run"]].append((row["mono_ns"], json.loads(row["topics"])))
    found: list[Rebalance] = []
    for (run, group), log in sorted(committed.items()):
        generations = [_generation(row, views, took, counts[run]) for row in log if json.loads(row["members"] or "[]")]
        rounds = groupby(generations, key=lambda g: (sorted(g.members, key=lambda m: m[0]), g.partitions))
        before: Rebalance | None = None
        for number, (_, same) in enumerate(rounds):
            before = _whole(number, list(same), before, faults[run, group])
            found.append(before)
    return found


def _generation(
    row: Any,
    views: Mapping[tuple[object, ...], Any],
    took: Mapping[tuple[object, ...], int],
    counts: Sequence[tuple[int, Mapping[str, int]]],
) -> Rebalance:
    leader = row["run"], row["group"], row["generation"], row["leader"]
    members, names, owners = [], {}, {}
    for member in json.loads(row["members"]):
        holder = member.get("instance_id") or member["member_id"]
        try:
            said = decode_subscription(bytes.fromhex(member["subscription"]))
            # Claims differ from round to round; what makes two rounds one rebalance does not.
            subscription = Subscription(tuple(sorted(set(said.topics))), rack=said.rack)
        except WireError:
            subscription = None
        members.append((member["member_id"], holder, subscription))
        names[holder] = member.get("client_id") or holder
        owners.update({TopicPartition(tp["topic"], tp["partition"]): holder for tp in member["assigned"]})
    if view := views.get(leader):
        partitions, racks, leaders = (json.loads(view[name] or "{}") for name in ("topics", "racks", "leaders"))
    else:  # a leader that is not ours: what the harness knew by then, or knew first
        known = [topics for ns, topics in counts if ns <= row["mono_ns"]][-1:] or [topics for _, topics in counts]
        partitions, racks, leaders = known[0] if known else None, {}, {}
    return Rebalance(
        row["run"], row["group"], 0, "", row["mono_ns"], (row["generation"],), row["protocol"] or "", tuple(members),
        names, partitions, racks, leaders, owners, took.get(leader),
    )  # fmt: skip


def _whole(
    number: int, rounds: Sequence[Rebalance], before: Rebalance | None, faults: Iterable[tuple[int, str, str]]
) -> Rebalance:
    times = [g.assign_us for g in rounds if g.assign_us is not None]
    return replace(
        rounds[-1],
        number=number,
        trigger=_trigger(before, rounds[0], faults),
        begin_ns=rounds[0].begin_ns,
        rounds=tuple(g.generation for g in rounds),
        assign_us=max(times, default=None),
    )


def _trigger(before: Rebalance | None, after: Rebalance, faults: Iterable[tuple[int, str, str]]) -> str:
    """What differs; `faults` are (ns, member, fault) of the group."""
    if before is None:
        return "join"
    lately = {member: fault for ns, member, fault in faults if before.begin_ns < ns <= after.begin_ns}
    found = {lately.get(before.names[holder], "leave") for holder in before.holders - after.holders}
    if after.holders - before.holders:
        found.add("join")
    if before.partitions != after.partitions:
        found.add("topic")
    said, said_before = ({holder: said for _, holder, said in r.members} for r in (after, before))
    if any(said[holder] != said_before[holder] for holder in said.keys() & said_before.keys()):
        found.add("subscription")
    return "+".join(sorted(found)) or "rejoin"


def triggers(found: Iterable[Rebalance]) -> list[tuple[str, str, int, str]]:
    """The trigger of each generation, as `timeline.TRIGGERS`."""
    # A generation may be written again for a static member that came back: what began it is what was written first.
    first: dict[tuple[str, str, int], str] = {}
    for rebalance in found:
        for generation in rebalance.rounds:
            first.setdefault((rebalance.run, rebalance.group, generation), rebalance.trigger)
    return [(*place, trigger) for place, trigger in first.items()]


def answer(protocol: str, rebalance: Rebalance, before: Owners, generation: int) -> Owners:
    """Who would own what after a rebalance, had this assignor been elected.

    Args:
        protocol: One of `strategies.STRATEGIES`.
        rebalance: A `known` one.
        before: Who owned what; holders that are gone claim nothing.
        generation: In which they got it; `NO_GENERATION` if they had none.

    Cost: that of the strategy, twice where it needs a second round.
    """
    assert rebalance.partitions is not None
    for _ in range(_ROUNDS):
        held: dict[str, list[TopicPartition]] = defaultdict(list)
        for tp, holder in sorted(before.items()):
            held[holder].append(tp)
        members = []
        for member_id, holder, said in rebalance.members:
            assert said is not None
            owned, claimed = tuple(held[holder]), generation if held[holder] else NO_GENERATION
            data = strategies.claiming(protocol, owned, claimed)
            instance_id = holder if holder != member_id else None
            members.append((member_id, instance_id, Subscription(said.topics, data, owned, claimed, said.rack)))
        reading = strategies.read(protocol, members, rebalance.partitions, rebalance.racks, rebalance.leaders)
        assigned, _ = strategies.strategy(protocol).answer(reading)
        holders = {member_id: holder for member_id, holder, _ in rebalance.members}
        after = {
            TopicPartition(topic, partition): holders[member_id]
            for member_id, topics in assigned.items()
            for topic, partitions in topics.items()
            for partition in partitions
        }
        again = protocol == "cooperative-sticky" and any(tp not in after for tp in before if _exists(tp, rebalance))
        if not again:
            break
        # A member that gave a partition up joins again with what it has now.
        before, generation = after, generation + 1
    return after


def _exists(tp: TopicPartition, rebalance: Rebalance) -> bool:
    wanted = any(tp.topic in said.topics for _, _, said in rebalance.members if said)
    return wanted and tp.partition < (rebalance.partitions or {}).get(tp.topic, 0)


def begun(timeline: DataFrame) -> list[tuple[str, str, int, float, bool]]:
    """The (run, group, start_ns, gap_before_ms, needless) of the intervals of `schema.GROUP_TIMELINE` with either."""
    rows = timeline.where("gap_before_ms > 0 or needless").select(
        "run", "group", "start_ns", "gap_before_ms", "needless"
    )
    return [tuple(row) for row in rows.collect()]


def per_rebalance(
    found: Iterable[Rebalance], begun: Iterable[tuple[str, str, int, float, bool]]
) -> Iterator[tuple[Any, ...]]:
    """Rows of `schema.REBALANCES`.

    Args:
        found: What `collect` returns.
        begun: What `begun` returns. An interval belongs to the rebalance that began it: the last one committed by then.
    """
    starts: dict[tuple[str, str], list[tuple[int, float, bool]]] = defaultdict(list)
    for run, group, start_ns, gap_ms, needless in begun:
        starts[run, group].append((start_ns, gap_ms, needless))
    for (run, group), log in groupby(found, key=lambda r: (r.run, r.group)):
        before: Owners = {}
        generation, rebalances = NO_GENERATION, list(log)
        for rebalance, next_ in zip(rebalances, [*rebalances[1:], None], strict=True):
            mine = [start for start in starts[run, group]
                    if rebalance.begin_ns <= start[0] and (next_ is None or start[0] < next_.begin_ns)]  # fmt: skip
            gaps = [gap_ms for _, gap_ms, _ in mine]
            fewest = None
            if rebalance.known:
                fewest = len(moves(before, answer("sticky", rebalance, before, generation)))
            yield (
                run, group, rebalance.number, rebalance.generation, len(rebalance.rounds), rebalance.begin_ns,
                rebalance.protocol, len(rebalance.members), len(moves(before, rebalance.owners)), fewest,
                max(gaps, default=0.0), sum(gaps, 0.0), rebalance.assign_us, rebalance.trigger,
                sum(needless for _, _, needless in mine),
            )  # fmt: skip
            before, generation = rebalance.owners, rebalance.generation


def what_if(
    found: Iterable[Rebalance], loads: Mapping[TopicPartition, float], assignors: Iterable[str]
) -> Iterator[tuple[Any, ...]]:
    """Rows of `schema.ASSIGNOR_WHAT_IF`: each group's rebalances again, under each assignor from the first on.

    Args:
        found: What `collect` returns. A group's rebalances are left out from the first that is not `known` on.
        loads: Measured load per topic-partition; one that is missing counts as 0.
        assignors: Names of `strategies.STRATEGIES`.
    """
    names = list(assignors)
    for _, log in groupby(found, key=lambda r: (r.run, r.group)):
        before: dict[str, Owners] = {name: {} for name in names}
        generation = NO_GENERATION
        for rebalance in log:
            if not rebalance.known:
                break
            for name in names:
                after = answer(name, rebalance, before[name], generation)
                load, count = dict.fromkeys((m[1] for m in rebalance.members), 0.0), defaultdict[str, int](int)
                for tp, holder in after.items():
                    load[holder] += loads.get(tp, 0.0)
                    count[holder] += 1
                yield (
                    rebalance.run, rebalance.group, rebalance.number, rebalance.generation, name,
                    name == rebalance.protocol, len(rebalance.members), len(moves(before[name], after)),
                    max(count.values(), default=0), max(load.values()), sum(load.values()) / len(load),
                )  # fmt: skip
                before[name] = after
            generation = rebalance.generation
