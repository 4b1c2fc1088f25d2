"""The effect of each rebalance, and of every other assignor in its place.

Plain Python on the driver, using the strategies' own code: a run has at most thousands of generations, and each needs
the one before it. Input are events; output are rows of the tables.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from kafka_assignors.core.group import NO_GENERATION, TopicPartition, identity_of
from kafka_assignors.core.group.assignment import moves
from kafka_assignors.core.reading import decode
from kafka_assignors.core.strategies import strategy
from kafka_assignors.core.wire.protocol import Subscription, decode_subscription
from kafka_assignors.errors import WireError
from kafka_assignors.history import departures, ownership

from .. import schema
from . import committed

Owners = Mapping[TopicPartition, str]
"""topic-partition -> holder: the instance id of a static member, which survives restarts, else the member id."""

_TOLD = ("generation_committed", "assign_begin", "assign_end", "fault_begin", "stop", "step", "admin_change")

MOST_GENERATIONS = 2_000
"""Maximum generations per group, the last ones. Each needs the one before it, so a single machine processes them."""

_ROUNDS = 3
"""A cooperative group needs two rounds: partitions withheld in the first are free in the second."""


@dataclass(frozen=True)
class Rebalance:
    """One rebalance: the committed generations (rounds) with the same members, subscriptions and partitions.

    Args:
        number: Its number within the group, from 0.
        trigger: The difference from the rebalance before; see `schema.REBALANCES`.
        begin_ns: Time at which its first generation was committed; monotonic, ns.
        rounds: Its generations, in order.
        protocol: The elected assignor.
        members: (member id, holder, subscription); the subscription is None if its bytes are invalid.
        names: holder -> client id, the member's name in a run's events.
        partitions: topic -> partition count as the leader saw it; None if no event has it.
        racks: topic -> per partition its replicas' racks as the leader saw them; empty if unknown.
        leaders: topic -> per partition its leader's rack, likewise.
        owners: The assignment of the last generation.
        assign_us: Longest time that the leader took to assign, µs; None if its leader does not report it.
        gone: holder -> why it is not in the next generation, as in `schema.REBALANCES`.
        gone_in: That generation; None if there is none.
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
    gone: Mapping[str, str] = field(default_factory=dict)
    gone_in: int | None = None

    @property
    def generation(self) -> int:
        """The last generation."""
        return self.rounds[-1]

    @property
    def holders(self) -> frozenset[str]:
        """The ids of its members."""
        return frozenset(holder for _, holder, _ in self.members)

    @property
    def known(self) -> bool:
        """Whether all inputs for a replay are known."""
        return self.partitions is not None and all(subscription is not None for _, _, subscription in self.members)


@dataclass(frozen=True)
class Decided:
    """The rebalances and ownership intervals of all runs and groups, from the coordinator's log.

    Args:
        rebalances: Each group's, in order.
        intervals: Rows of `schema.GROUP_TIMELINE`.
        left_out: Rows of `schema.REJECTED`: generations beyond the limit per group.
    """

    rebalances: list[Rebalance]
    intervals: list[tuple[Any, ...]]
    left_out: list[tuple[Any, ...]]


def collect(events: DataFrame) -> Decided:
    """The rebalances and ownership intervals of all groups.

    Args:
        events: `schema.EVENTS`.

    Cost: three jobs; driver memory of O(generations x (members + partitions)), at most `MOST_GENERATIONS` per group.
    """
    detail = sf.col("detail")
    events, left_out = _lately(events)
    rows = (
        events.where(sf.col("kind").isin(*_TOLD))
        .select("run", "group", "mono_ns", "ts_ns", "seq", "kind", "generation", "protocol", "member", "member_id",
                "fault", "duration_us",
                *(detail[name].alias(name) for name in ("members", "leader", "topics", "racks", "leaders", "ts_ms")))
        .orderBy("run", "mono_ns", "seq")
        .collect()
    )  # fmt: skip
    log: dict[tuple[str, str], list[Any]] = defaultdict(list)
    views: dict[tuple[object, ...], Any] = {}
    took: dict[tuple[object, ...], int] = {}
    counts: dict[str, list[tuple[int, Mapping[str, int]]]] = defaultdict(list)
    ends: dict[tuple[str, str], list[tuple[int, str, str]]] = defaultdict(list)
    for row in rows:
        leader = row["run"], row["group"], row["generation"], row["member_id"]
        if row["kind"] == "generation_committed":
            if row["group"] is not None:
                log[row["run"], row["group"]].append(row)
        elif row["kind"] == "assign_begin":
            views[leader] = row
        elif row["kind"] == "assign_end" and row["duration_us"] is not None:
            took[leader] = row["duration_us"]
        elif row["kind"] in ("fault_begin", "stop"):
            if row["group"] and row["member"] and (fault := row["fault"] if row["kind"] != "stop" else "stop"):
                ends[row["run"], row["group"]].append((row["mono_ns"], row["member"], fault))
        elif row["topics"]:
            counts[row["run"]].append((row["mono_ns"], json.loads(row["topics"])))
    made = committed.commits(events)
    decided = Decided([], [], left_out)
    for (run, group), records in sorted(log.items()):
        told = [committed.record(row, made[run, group][n]) for n, row in enumerate(records, 1)]
        generations = [_generation(row, views, took, counts[run]) for row in records]
        mine = _whole(list(zip(generations, told, strict=True)), ends[run, group])
        decided.rebalances.extend(mine)
        decided.intervals.extend(_rows(run, group, ownership.intervals(told, _causes(mine)), triggers(mine)))
    return decided


def _lately(events: DataFrame) -> tuple[DataFrame, list[tuple[Any, ...]]]:
    """Events without those before a group's last `MOST_GENERATIONS` generations, and rows that report the omission."""
    place = Window.partitionBy("run", "group")
    committed = events.where((sf.col("kind") == "generation_committed") & sf.col("group").isNotNull())
    first = (
        committed.withColumn("back", sf.row_number().over(place.orderBy(sf.desc("mono_ns"), sf.desc("seq"))))
        .groupBy("run", "group")
        .agg(sf.count("*").alias("all"), sf.max_by("mono_ns", -sf.abs(sf.col("back") - MOST_GENERATIONS)).alias("ns"))
        .where(sf.col("all") > MOST_GENERATIONS)
        .collect()
    )
    if not first:
        return events, []
    reason = f"generations before the last {MOST_GENERATIONS:,} of a group"
    told = [
        (run, f"group:{group}", reason, f"before {ns} ns", count - MOST_GENERATIONS) for run, group, count, ns in first
    ]
    begins = events.sparkSession.createDataFrame(
        [(r, g, ns) for r, g, _, ns in first], "run string, group string, ns long"
    )
    kept = events.join(sf.broadcast(begins), ["run", "group"], "left")
    return kept.where("ns is null or mono_ns >= ns").select(*events.columns), told


def _causes(found: Iterable[Rebalance]) -> dict[tuple[int, str], str]:
    """(generation, holder) -> why it is not in it. The log shows a fault of the harness as `left or expired`."""
    return {(r.gone_in, holder): cause if cause == departures.LEFT else departures.UNPROVEN
            for r in found if r.gone_in is not None for holder, cause in r.gone.items()}  # fmt: skip


def _rows(
    run: str, group: str, intervals: Iterable[ownership.Interval], triggers: Iterable[tuple[str, str, int, str]]
) -> Iterator[tuple[Any, ...]]:
    began = {generation: trigger for _, _, generation, trigger in triggers}
    for iv in intervals:
        day = datetime.fromtimestamp(iv.ts_ns // 10**9, timezone.utc).date()
        row = {
            **vars(iv), "run": run, "group": group, "dt": day,
            "topic": iv.tp.topic, "partition": iv.tp.partition, "member": iv.holder, "incarnation": 0,
            "start_kind": "assigned", "source": "coordlog", "trigger": began.get(iv.generation_start),
        }  # fmt: skip
        yield tuple(row.get(name) for name in schema.GROUP_TIMELINE.names)


def _generation(
    row: Any,
    views: Mapping[tuple[object, ...], Any],
    took: Mapping[tuple[object, ...], int],
    counts: Sequence[tuple[int, Mapping[str, int]]],
) -> Rebalance:
    leader = row["run"], row["group"], row["generation"], row["leader"]
    members, names, owners = [], {}, {}
    for member in json.loads(row["members"] or "[]"):
        holder = identity_of(member["member_id"], member.get("instance_id"))
        try:
            said = decode_subscription(bytes.fromhex(member["subscription"]))
            # Claims differ between rounds of one rebalance, so compare without them.
            subscription = Subscription(tuple(sorted(set(said.topics))), rack=said.rack)
        except WireError:
            subscription = None
        members.append((member["member_id"], holder, subscription))
        names[holder] = member.get("client_id") or holder
        owners.update({TopicPartition(tp["topic"], tp["partition"]): holder for tp in member["assigned"]})
    if view := views.get(leader):
        partitions, racks, leaders = (json.loads(view[name] or "{}") for name in ("topics", "racks", "leaders"))
    else:  # foreign leader: the harness's latest knowledge by then, else its first
        known = [topics for ns, topics in counts if ns <= row["mono_ns"]][-1:] or [topics for _, topics in counts]
        partitions, racks, leaders = known[0] if known else None, {}, {}
    return Rebalance(
        row["run"], row["group"], 0, "", row["mono_ns"], (row["generation"],), row["protocol"] or "", tuple(members),
        names, partitions, racks, leaders, owners, took.get(leader),
    )  # fmt: skip


def _whole(
    log: Sequence[tuple[Rebalance, ownership.Committed]], ends: Iterable[tuple[int, str, str]]
) -> list[Rebalance]:
    """The rebalances of a group; `ends` are (ns, member, fault or stop)."""
    found: list[Rebalance] = []
    last: list[ownership.Committed] = []
    for _, same in groupby(log, key=lambda g: (sorted(g[0].members, key=lambda m: m[0]), g[0].partitions)):
        rounds, told = map(list, zip(*same, strict=True))
        first, times = rounds[0], [g.assign_us for g in rounds if g.assign_us is not None]
        if found and found[-1].gone_in is None:  # the next generation, possibly without members
            found[-1] = replace(found[-1], gone=_gone(found[-1], last, told[0], ends), gone_in=first.generation)
        last = told
        if first.members:
            found.append(
                replace(
                    rounds[-1],
                    number=len(found),
                    trigger=_trigger(found[-1] if found else None, first),
                    begin_ns=first.begin_ns,
                    rounds=tuple(g.generation for g in rounds),
                    assign_us=max(times, default=None),
                )
            )
    return found


def _gone(
    before: Rebalance,
    rounds: Sequence[ownership.Committed],
    after: ownership.Committed,
    ends: Iterable[tuple[int, str, str]],
) -> dict[str, str]:
    """Why each holder missing in `after` is gone; `rounds` are those of the rebalance before."""
    lately = {member: how for ns, member, how in ends if before.begin_ns < ns <= after.begin_ns}
    found = {}
    for holder in before.holders - after.members.keys():
        how = lately.get(before.names[holder])
        if how is None or how == "stop":
            # A dynamic member sends LeaveGroup when it is closed; a static one expires.
            closed = how == "stop" and holder in rounds[-1].members.values()
            seen = max((ms for g in rounds if (ms := g.last_seen_ms(holder)) is not None), default=None)
            timeout = rounds[-1].timeouts.get(holder)
            how = departures.LEFT if closed else departures.cause(seen, after.joined_ms, timeout)
        found[holder] = how
    return found


def _trigger(before: Rebalance | None, after: Rebalance) -> str:
    """The difference between two generations that triggered the rebalance."""
    if before is None:
        return "join"
    found = set(before.gone.values())
    if after.holders - (before.holders - before.gone.keys()):
        found.add("join")
    if before.partitions != after.partitions:
        found.add("topic")
    said, said_before = ({holder: said for _, holder, said in r.members} for r in (after, before))
    if any(said[holder] != said_before[holder] for holder in said.keys() & said_before.keys()):
        found.add("subscription")
    return "+".join(sorted(found)) or "rejoin"


def triggers(found: Iterable[Rebalance]) -> list[tuple[str, str, int, str]]:
    """The trigger of each generation, as `timeline.TRIGGERS`."""
    # A generation may be written again when a static member rejoins: its first record has the trigger.
    first: dict[tuple[str, str, int], str] = {}
    for rebalance in found:
        for generation in rebalance.rounds:
            first.setdefault((rebalance.run, rebalance.group, generation), rebalance.trigger)
    return [(*place, trigger) for place, trigger in first.items()]


def answer(protocol: str, rebalance: Rebalance, before: Owners, generation: int) -> Owners:
    """The owners after a rebalance if the given assignor had been elected.

    Args:
        protocol: One of `strategies.STRATEGIES`.
        rebalance: A `known` one.
        before: The owners before; holders that are gone claim nothing.
        generation: The generation that assigned these; `NO_GENERATION` if none.

    Cost: that of the strategy, twice if it needs a second round.
    """
    assert rebalance.partitions is not None
    made = strategy(protocol)
    for _ in range(_ROUNDS):
        held: dict[str, list[TopicPartition]] = defaultdict(list)
        for tp, holder in sorted(before.items()):
            held[holder].append(tp)
        members = []
        for member_id, holder, said in rebalance.members:
            assert said is not None
            owned, claimed = tuple(held[holder]), generation if held[holder] else NO_GENERATION
            data = made.claiming(owned, claimed)
            instance_id = holder if holder != member_id else None
            members.append((member_id, instance_id, Subscription(said.topics, data, owned, claimed, said.rack)))
        assigned, _ = made.assign(decode(protocol, members, rebalance.partitions, rebalance.racks, rebalance.leaders))
        holders = {member_id: holder for member_id, holder, _ in rebalance.members}
        after = {
            TopicPartition(topic, partition): holders[member_id]
            for member_id, topics in assigned.items()
            for topic, partitions in topics.items()
            for partition in partitions
        }
        withheld = made.withholds and any(tp not in after for tp in before if _exists(tp, rebalance))
        if not withheld:
            break
        # A member that revoked a partition rejoins with what it has now.
        before, generation = after, generation + 1
    return after


def _exists(tp: TopicPartition, rebalance: Rebalance) -> bool:
    wanted = any(tp.topic in said.topics for _, _, said in rebalance.members if said)
    return wanted and tp.partition < (rebalance.partitions or {}).get(tp.topic, 0)


@dataclass(frozen=True)
class Begun:
    """The intervals of a group that begin at the same instant; times in ms, None as in `schema.GROUP_TIMELINE`.

    Args:
        source: callback or coordlog.
        stop_ms: The longest gap.
        at_least_ms: The longest lower bound of a gap.
        at_most_ms: The longest upper bound of a gap.
        unbounded: Whether a gap has no upper bound.
        downtime_ms: Sum of the gaps.
        needless: Number of partitions returned to the same process.
    """

    start_ns: int
    source: str
    stop_ms: float | None
    at_least_ms: float | None
    at_most_ms: float | None
    unbounded: bool
    downtime_ms: float | None
    needless: int


def begun(timeline: DataFrame) -> dict[tuple[str, str], list[Begun]]:
    """The intervals of `schema.GROUP_TIMELINE` by (run, group), grouped by start.

    Cost: one job; driver memory of O(callbacks that gave something).
    """
    rows = (
        timeline.groupBy("run", "group", "start_ns", "source")
        .agg(
            sf.max("gap_before_ms"), sf.max("gap_at_least_ms"), sf.max("gap_at_most_ms"),
            sf.bool_or(sf.col("gap_at_least_ms").isNotNull() & sf.col("gap_at_most_ms").isNull()),
            sf.sum("gap_before_ms"), sf.count_if("needless"),
        )
        .collect()
    )  # fmt: skip
    found: dict[tuple[str, str], list[Begun]] = defaultdict(list)
    for run, group, *values in rows:
        found[run, group].append(Begun(*values))
    return found


def per_rebalance(
    found: Iterable[Rebalance], begun: Mapping[tuple[str, str], list[Begun]]
) -> Iterator[tuple[Any, ...]]:
    """Rows of `schema.REBALANCES`.

    Args:
        found: The result of `collect`.
        begun: The result of `begun`. An interval belongs to the last rebalance committed by its start.
    """
    for (run, group), log in groupby(found, key=lambda r: (r.run, r.group)):
        before: Owners = {}
        generation, rebalances = NO_GENERATION, list(log)
        starts = sorted(begun.get((run, group), []), key=lambda start: start.start_ns)
        by_callbacks = any(start.source == "callback" for start in starts)
        firsts = [bisect_left(starts, r.begin_ns, key=lambda start: start.start_ns) for r in rebalances]
        for rebalance, first, end in zip(rebalances, firsts, [*firsts[1:], len(starts)], strict=True):
            mine = starts[first:end]
            fewest = None
            if rebalance.known:
                fewest = len(moves(before, answer("sticky", rebalance, before, generation)))
            stops = [[value for start in mine if (value := getattr(start, name)) is not None]
                     for name in ("stop_ms", "at_least_ms", "at_most_ms", "downtime_ms")]  # fmt: skip
            stop, least, most = (max(values, default=0.0) for values in stops[:3])
            yield (
                run, group, rebalance.number, rebalance.generation, len(rebalance.rounds), rebalance.begin_ns,
                rebalance.protocol, len(rebalance.members), len(moves(before, rebalance.owners)), fewest,
                stop if by_callbacks else None, least, None if any(start.unbounded for start in mine) else most,
                sum(stops[3], 0.0) if by_callbacks else None, rebalance.assign_us, rebalance.trigger,
                sum(start.needless for start in mine) if by_callbacks else None,
            )  # fmt: skip
            before, generation = rebalance.owners, rebalance.generation


def what_if(
    found: Iterable[Rebalance], loads: Mapping[TopicPartition, float], assignors: Iterable[str]
) -> Iterator[tuple[Any, ...]]:
    """Rows of `schema.ASSIGNOR_WHAT_IF`: each group's rebalances, replayed under each assignor from the first on.

    Args:
        found: The result of `collect`. A group's replay ends before its first rebalance that is not `known`.
        loads: Measured load per topic-partition; an absent one counts as 0.
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
