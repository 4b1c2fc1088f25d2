"""The effect of each rebalance, and of every other assignor in its place.

What happened in a group is computed by a grouped map, a group at a time (`decided`); what another assignor would have
done is plain Python on the driver, using the strategies' own code.
"""

from __future__ import annotations

import json
import pickle
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from kafka_assignors.core.group import NO_GENERATION, TopicPartition
from kafka_assignors.core.group.assignment import moves
from kafka_assignors.core.reading import decode
from kafka_assignors.core.strategies import strategy
from kafka_assignors.core.wire.protocol import Subscription

from . import committed, decided
from .decided import Owners, Replayable, triggers

__all__ = ["Begun", "Decided", "Owners", "Replayable", "answer", "begun", "collect", "per_rebalance", "triggers",
           "what_if"]  # fmt: skip

MOST_GENERATIONS = 2_000
"""Maximum generations per group, the last ones. Each needs the one before it, so a single machine processes them."""

_ROUNDS = 3
"""A cooperative group needs two rounds: partitions withheld in the first are free in the second."""


@dataclass(frozen=True)
class Decided:
    """The rebalances (each group's in order) and ownership intervals of all groups, from the coordinator's log.

    Intervals are rows of `schema.GROUP_TIMELINE`. What is `left_out` are rows of `schema.REJECTED`: generations beyond
    the limit per group.
    """

    rebalances: list[Replayable]
    intervals: list[tuple[Any, ...]]
    left_out: list[tuple[Any, ...]]


def collect(events: DataFrame) -> Decided:
    """The rebalances and intervals of all groups in `schema.EVENTS`, each computed where Spark has the group's events.

    Cost: four jobs; the memory of a task is O(generations x (members + partitions)) of one group, at most
    `MOST_GENERATIONS`; that of the driver is O(generations x partitions) of the results.
    """
    events, left_out = _lately(events)
    rows = decided.event_rows(events).unionByName(committed.commits(events), allowMissingColumns=True)
    decisions = rows.groupBy("run", "group").applyInArrow(_deciding(_counts(events)), _FOUND).collect()
    rebalances, intervals = [], []
    for _, _, pickled in sorted(decisions):
        mine, owned = pickle.loads(pickled)  # of our own tasks
        rebalances += mine
        intervals += owned
    return Decided(rebalances, intervals, left_out)


_FOUND = "run string, group string, found binary"


def _deciding(counts: Mapping[str, decided.Counts]) -> Callable[[pa.Table], pa.Table]:
    def decide(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        run, group = rows[0]["run"], rows[0]["group"]
        decisions = decided.of_group(run, group, rows, counts.get(run, ()))
        schema = pa.schema({"run": pa.string(), "group": pa.string(), "found": pa.binary()})
        return pa.Table.from_pylist([{"run": run, "group": group, "found": pickle.dumps(decisions)}], schema=schema)

    return decide


def _counts(events: DataFrame) -> dict[str, list[tuple[int, Mapping[str, int]]]]:
    """Run -> the partition counts that it saw, and when, in order."""
    topics = sf.col("detail")["topics"]
    rows = (
        events.where(sf.col("kind").isin("step", "admin_change") & topics.isNotNull())
        .select("run", "mono_ns", "seq", topics)
        .orderBy("run", "mono_ns", "seq")
        .collect()
    )
    counts: dict[str, list[tuple[int, Mapping[str, int]]]] = defaultdict(list)
    for run, ns, _, topics_ in rows:
        counts[run].append((ns, json.loads(topics_)))
    return dict(counts)


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
    omissions = [
        (run, f"group:{group}", reason, f"before {ns} ns", count - MOST_GENERATIONS) for run, group, count, ns in first
    ]
    begins = events.sparkSession.createDataFrame(
        [(r, g, ns) for r, g, _, ns in first], "run string, group string, ns long"
    )
    kept = events.join(sf.broadcast(begins), ["run", "group"], "left")
    return kept.where("ns is null or mono_ns >= ns").select(*events.columns), omissions


def answer(protocol: str, rebalance: Replayable, before: Owners, generation: int) -> Owners:
    """The owners after a rebalance, a `known` one, if the given assignor had been elected.

    Holders that are gone claim nothing of what they owned `before`. That was assigned by `generation`, or by none
    (`NO_GENERATION`).

    Cost: that of the strategy, twice if it needs a second round.
    """
    assert rebalance.partitions is not None
    made = strategy(protocol)
    for _ in range(_ROUNDS):
        claims: dict[str, list[TopicPartition]] = defaultdict(list)
        for tp, holder in sorted(before.items()):
            claims[holder].append(tp)
        members = []
        for member_id, holder, subscription in rebalance.members:
            assert subscription is not None
            owned, claimed = tuple(claims[holder]), generation if claims[holder] else NO_GENERATION
            data = made.claiming(owned, claimed)
            instance_id = holder if holder != member_id else None
            members.append(
                (member_id, instance_id, Subscription(subscription.topics, data, owned, claimed, subscription.rack))
            )
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


def _exists(tp: TopicPartition, rebalance: Replayable) -> bool:
    wanted = any(tp.topic in subscription.topics for _, _, subscription in rebalance.members if subscription)
    return wanted and tp.partition < (rebalance.partitions or {}).get(tp.topic, 0)


@dataclass(frozen=True)
class Begun:
    """The intervals of a group that begin at the same instant; times in ms, None as in `schema.GROUP_TIMELINE`."""

    start_ns: int
    source: str  # callback or coordlog
    stop_ms: float | None  # the longest gap
    at_least_ms: float | None  # the longest lower bound of a gap
    at_most_ms: float | None  # the longest upper bound
    unbounded: bool  # whether a gap has no upper bound
    downtime_ms: float | None  # sum of the gaps


def begun(timeline: DataFrame) -> dict[tuple[str, str], list[Begun]]:
    """The intervals of `schema.GROUP_TIMELINE` by (run, group), grouped by start.

    Cost: one job; driver memory of O(callbacks that gave something).
    """
    rows = (
        timeline.groupBy("run", "group", "start_ns", "source")
        .agg(
            sf.max("gap_before_ms"), sf.max("gap_at_least_ms"), sf.max("gap_at_most_ms"),
            sf.bool_or(sf.col("gap_at_least_ms").isNotNull() & sf.col("gap_at_most_ms").isNull()),
            sf.sum("gap_before_ms"),
        )
        .collect()
    )  # fmt: skip
    starts: dict[tuple[str, str], list[Begun]] = defaultdict(list)
    for run, group, *values in rows:
        starts[run, group].append(Begun(*values))
    return starts


def per_rebalance(
    rebalances: Iterable[Replayable], begun: Mapping[tuple[str, str], list[Begun]]
) -> Iterator[tuple[Any, ...]]:
    """Rows of `schema.REBALANCES`. An interval belongs to the last rebalance committed by its start."""
    for (run, group), log in groupby(rebalances, key=lambda r: (r.run, r.group)):
        before: Owners = {}
        generation, group_rebalances = NO_GENERATION, list(log)
        starts = sorted(begun.get((run, group), []), key=lambda start: start.start_ns)
        by_callbacks = any(start.source == "callback" for start in starts)
        firsts = [bisect_left(starts, r.begin_ns, key=lambda start: start.start_ns) for r in group_rebalances]
        for rebalance, first, end in zip(group_rebalances, firsts, [*firsts[1:], len(starts)], strict=True):
            mine = starts[first:end]
            outcome, fewest = rebalance.outcome, rebalance.outcome.fewest
            if fewest is None and rebalance.complete:  # racks or work decide: what the optimum would have moved
                fewest = len(moves(before, answer("sticky", rebalance, before, generation)))
            stops = [[value for start in mine if (value := getattr(start, name)) is not None]
                     for name in ("stop_ms", "at_least_ms", "at_most_ms", "downtime_ms")]  # fmt: skip
            stop, least, most = (max(values, default=0.0) for values in stops[:3])
            yield (
                run, group, rebalance.number, rebalance.generation, len(rebalance.rounds), rebalance.begin_ns,
                rebalance.protocol, len(rebalance.members), outcome.moved, fewest,
                stop if by_callbacks else None, least, None if any(start.unbounded for start in mine) else most,
                sum(stops[3], 0.0) if by_callbacks else None, rebalance.assign_us, rebalance.trigger,
                outcome.needless, outcome.returned,
            )  # fmt: skip
            before, generation = rebalance.owners, rebalance.generation


def what_if(
    rebalances: Iterable[Replayable], loads: Mapping[TopicPartition, float], assignors: Iterable[str]
) -> Iterator[tuple[Any, ...]]:
    """Rows of `schema.ASSIGNOR_WHAT_IF`: each group's rebalances, replayed under each assignor from the first on.

    A group's replay ends before its first rebalance that is not `complete`. A topic-partition without a measured load
    counts as 0.
    """
    names = list(assignors)
    for _, log in groupby(rebalances, key=lambda r: (r.run, r.group)):
        before: dict[str, Owners] = {name: {} for name in names}
        generation = NO_GENERATION
        for rebalance in log:
            if not rebalance.complete:
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
