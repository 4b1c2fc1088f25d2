"""Ownership intervals from events, with only Spark's built-in functions: who owned what from when to when."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from .. import schema
from .zombies import PROCESS, zombies

TRIGGERS = "run string, group string, generation int, trigger string"


def group_timeline(events: DataFrame, triggers: DataFrame, committed: DataFrame) -> DataFrame:
    """`schema.GROUP_TIMELINE`: from the members' callbacks where a group's events have them, else `committed`.

    `committed` has the intervals of all groups by the coordinator's log, from `rebalances.collect`; `triggers` come
    from `rebalances.triggers`, `events` (`schema.EVENTS`) from one or more runs. Lazy.
    """
    begun = sf.col("kind").isin(*_STARTS) & (sf.size("partitions") > 0) & sf.col("member").isNotNull()
    groups_with_callbacks = events.where(begun).select("run", "group").distinct()
    silent = committed.join(sf.broadcast(groups_with_callbacks), ["run", "group"], "left_anti")
    of_start = triggers.withColumnRenamed("generation", "generation_start")
    intervals = from_callbacks(events).join(sf.broadcast(of_start), ["run", "group", "generation_start"], "left")
    # A union loses NOT NULL.
    return schema.conform(intervals.unionByName(silent), schema.GROUP_TIMELINE, strict=False)


_STARTS = {"assigned_begin": "assigned"}
_OWN_ENDS = {"revoke_end": "revoked", "lost_begin": "lost"}  # for the topic-partitions listed
_PROCESS_ENDS = {"fault_begin": "killed", "stop": "stop", "exit": "exit"}  # for all topic-partitions of the process


def from_callbacks(events: DataFrame) -> DataFrame:
    """`schema.GROUP_TIMELINE` without its trigger, from the callbacks in `schema.EVENTS` of one or more runs.

    For each process (group, member, incarnation) and topic-partition, in the order of (mono_ns, src, seq):
    `assigned_begin` opens an interval unless one is open. It ends at the first of: a `revoke_end` or `lost_begin` that
    lists the topic-partition, or the process's `fault_begin` of kind kill, `stop` or `exit`. Otherwise it stays open,
    and ends with the group's last event.

    Cost: lazy; five shuffles of (callback, topic-partition) rows, at most partitions x generations per run.

    Source: the rule of `history.timeline`, with windows instead of a loop; tests compare the two.
    """
    process = list(PROCESS)
    holding = [*process, "topic", "partition"]
    group_events = events.where(sf.col("group").isNotNull())
    of_process = group_events.where(sf.col("member").isNotNull())
    callbacks = of_process.where(sf.col("kind").isin(*_STARTS, *_OWN_ENDS)).select(
        *process, sf.inline("partitions"), "mono_ns", "src", "seq", "ts", "kind", "generation", "member_id"
    )
    assignments = callbacks.where(sf.col("kind").isin(*_STARTS)).select(*holding).distinct()
    gone = of_process.where(
        sf.col("kind").isin("stop", "exit") | ((sf.col("kind") == "fault_begin") & (sf.col("fault") == "kill"))
    ).select(*process, "mono_ns", "src", "seq", "kind", "generation")
    rows = callbacks.unionByName(gone.join(assignments, process), allowMissingColumns=True)

    in_time = Window.partitionBy(*holding).orderBy("mono_ns", "src", "seq")
    starts = sf.col("kind").isin(*_STARTS)
    ending = sf.struct(
        sf.col("mono_ns").alias("ns"), _renamed({**_OWN_ENDS, **_PROCESS_ENDS}).alias("kind"), "generation"
    )
    later = in_time.rowsBetween(1, Window.unboundedFollowing)
    last = group_events.groupBy("run", "group").agg(sf.max("mono_ns").alias("last_ns"))
    begun = sf.filter("zombies", lambda z: (z["begin_ns"] >= sf.col("start_ns")) & (z["begin_ns"] < sf.col("end_ns")))
    zombie = sf.get(sf.reverse(begun), sf.lit(0))  # a loss ends the interval, so the last one counts
    return _placed(
        rows.withColumns(
            {
                "end": sf.first(sf.when(~starts, ending), ignorenulls=True).over(later),
                "held_already": sf.coalesce(sf.lag(starts).over(in_time), sf.lit(False)),
            }
        )
        .where(starts & ~sf.col("held_already"))
        .join(sf.broadcast(last), ["run", "group"])
        .withColumns(
            {
                "start_ns": sf.col("mono_ns"),
                "end_ns": sf.coalesce("end.ns", "last_ns"),
                "generation_start": sf.col("generation"),
                "generation_end": sf.col("end.generation"),
                "start_kind": _renamed(_STARTS),
                "end_kind": sf.coalesce("end.kind", sf.lit("open")),
                "source": sf.lit("callback"),
            }
        )
        .join(sf.broadcast(zombies(group_events)), process, "left")
        .withColumn("zombie_ms", (sf.least(zombie["end_ns"], "end_ns") - zombie["begin_ns"]) / 1e6)
        .fillna(0.0, "zombie_ms")
    )


def _placed(intervals: DataFrame) -> DataFrame:
    """Compare each interval with those before it: gaps, overlaps, moves, needless revokes."""
    order = Window.partitionBy("run", "group", "topic", "partition").orderBy("start_ns", "member", "incarnation")
    until = sf.max("end_ns").over(order.rowsBetween(Window.unboundedPreceding, -1))  # latest end of the rows before
    owner = sf.struct("member", "incarnation")
    before, ended = sf.lag(owner).over(order), sf.lag("end_kind").over(order)
    zero = sf.lit(0)
    placed = intervals.withColumns(
        {
            "dt": schema.utc_day("ts"),
            # greatest() ignores nulls, but the first row must have no gap, not a gap of 0
            "gap_before_ms": sf.when(until.isNotNull(), sf.greatest(sf.col("start_ns") - until, zero) / 1e6),
            "overlap_prev_ms": sf.greatest(until - sf.col("start_ns"), zero) / 1e6,
            "moved": sf.coalesce(before != owner, sf.lit(False)),
            "returned": sf.coalesce((before == owner) & (ended == "revoked"), sf.lit(False)),
        }
    )
    exact = {name: sf.col("gap_before_ms") for name in ("gap_at_least_ms", "gap_at_most_ms")}
    unknown = {name: sf.lit(None).cast("long") for name in ("first_commit_ns", "last_commit_ns")}
    table = schema.without(schema.GROUP_TIMELINE, "trigger")
    return schema.conform(placed.withColumns({**exact, **unknown}), table)


def _renamed(names: Mapping[str, str]) -> Column:
    return sf.create_map(*(sf.lit(x) for item in names.items() for x in item))[sf.col("kind")]
