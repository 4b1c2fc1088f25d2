"""Times in which a process could not know what it had lost: paused, fenced or cut off. Only Spark's functions.

The rules are those of `kafka_assignors/history/zombies.py`, with windows instead of a loop.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

STANDS_STILL = ("pause", "stall", "assign_stall")
"""Faults during which a process cannot learn what it loses."""

ZOMBIE_MS = 5000
"""Time within which a process that resumes, or is reachable again, must notice its losses."""

FENCED_MS = 1000
"""Time beyond two heartbeats in which a static member may not know that another has its instance id."""

PROCESS = ("run", "group", "member", "incarnation")
_TOLD = ("revoke_end", "lost_begin", "assigned_begin")  # events that tell a process what it owns
_NEVER = 2**63 - 1
_MS = 1_000_000


def zombies(events: DataFrame) -> DataFrame:
    """Times in which each process in `schema.EVENTS`, of one or more runs, could not know what it had lost.

    The result has `PROCESS`, and ``zombies``: a sorted array of (begin_ns, end_ns). A process without such times has no
    row.

    Cost: lazy; a few shuffles of callbacks, faults, starts and generations, not per topic-partition.
    """
    of_group = events.where(sf.col("group").isNotNull()).withColumn("at", sf.struct("mono_ns", "src", "seq"))
    of_process = of_group.where(sf.col("member").isNotNull())
    return (
        _noticed_late(of_process)
        .unionByName(_cut_off(of_group, of_process))
        .groupBy(*PROCESS)
        .agg(sf.array_sort(sf.collect_list(sf.struct("begin_ns", "end_ns"))).alias("zombies"))
    )


def _noticed_late(of_process: DataFrame) -> DataFrame:
    """From the start of a fault of `STANDS_STILL`, or from when it was fenced, to the first callback after the fault.

    At most `ZOMBIE_MS` after the end of the fault. If a process resumes or is fenced several times without a callback
    in between, the last time counts.
    """
    faults = _is("fault_begin", "fault_end") & sf.col("fault").isin(*STANDS_STILL)
    rows = (
        of_process.where(_is(*_TOLD) | faults)
        .select(*PROCESS, "at", "kind", sf.when(faults, sf.struct("kind", "mono_ns")).alias("fault"))
        .unionByName(_fenced(of_process), allowMissingColumns=True)
    )
    in_order = Window.partitionBy(*PROCESS).orderBy("at")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    later = in_order.rowsBetween(1, Window.unboundedFollowing)
    fenced = _is("fenced")
    goes_on = fenced | ((sf.col("fault.kind") == "fault_end") & (sf.col("fault_before.kind") == "fault_begin"))
    still = (sf.col("fault.kind") == "fault_begin") & sf.col("fault_after").isNull()
    latest = sf.col("at.mono_ns") + sf.coalesce("grace_ns", sf.lit(ZOMBIE_MS * _MS))
    return (
        rows.withColumns(
            {
                "fault_before": sf.last("fault", ignorenulls=True).over(before),
                "fault_after": sf.first("fault", ignorenulls=True).over(later),
            }
        )
        .withColumn("goes_on", sf.coalesce(goes_on, sf.lit(False)))
        .withColumn(
            "next", sf.first(sf.when(_is(*_TOLD) | sf.col("goes_on"), sf.struct("at", "goes_on")), True).over(later)
        )
        .where((sf.col("goes_on") & ~sf.coalesce("next.goes_on", sf.lit(False))) | still)
        .select(
            *PROCESS,
            sf.when(fenced | still, sf.col("at.mono_ns")).otherwise(sf.col("fault_before.mono_ns")).alias("begin_ns"),
            sf.when(still, sf.lit(_NEVER)).otherwise(sf.least(latest, "next.at.mono_ns")).alias("end_ns"),
        )
    )


def _fenced(of_process: DataFrame) -> DataFrame:
    """`PROCESS`, ``at``, ``kind`` = fenced, ``grace_ns``: when a younger process first had a generation under its id.

    The process may learn that only later: after up to two heartbeats and `FENCED_MS`.
    """
    static = of_process.where(sf.col("instance_id").isNotNull())
    beat_ms = sf.get_json_object(sf.col("detail")["config"], "$.heartbeat_interval_ms").cast("long")
    instance = [*PROCESS, "instance_id"]
    starts = (
        static.where(_is("start"))
        .withColumn("beat_ms", sf.coalesce(beat_ms, sf.lit(0)))
        .groupBy(*instance)
        .agg(sf.min("at").alias("since"), sf.min_by("beat_ms", "at").alias("beat_ms"))
    )
    younger = (
        static.where(_is("generation"))
        .join(starts, instance)
        .where(sf.col("since") < sf.col("at"))
        .select("run", "group", "instance_id", "at", sf.col("since").alias("began"))
    )
    return (
        starts.join(younger, ["run", "group", "instance_id"])
        .where(sf.col("since") < sf.col("began"))
        .groupBy(*PROCESS)
        .agg(sf.min("at").alias("at"), ((2 * sf.min_by("beat_ms", "at") + FENCED_MS) * _MS).alias("grace_ns"))
        .withColumn("kind", sf.lit("fenced"))
    )


def _cut_off(of_group: DataFrame, of_process: DataFrame) -> DataFrame:
    """From a proxy's first fault, or the last callback during it, to the next callback, if the process was evicted.

    It was if the coordinator committed a generation without it meanwhile. Ends at most `ZOMBIE_MS` after the last
    fault.
    """
    callback, proxied = _is(*_TOLD), _is("fault_begin", "fault_end") & (sf.col("src") == "proxy")
    begins = proxied & _is("fault_begin")
    hit = of_process.where(proxied).select(*PROCESS).distinct()
    in_order = Window.partitionBy(*PROCESS).orderBy("at")
    until_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    step = sf.when(begins, 1).when(proxied, -1).otherwise(0)
    # A callback ends one part of a process's time and begins the next.
    parts = (
        of_process.where(callback | proxied)
        .join(sf.broadcast(hit), list(PROCESS), "left_semi")
        .withColumns({"steps": sf.sum(step).over(until_now), "part": sf.count_if(callback).over(until_now)})
        # An end without a begin has no effect.
        .withColumn("faults", sf.col("steps") - sf.least(sf.lit(0), sf.min("steps").over(until_now)))
        .withColumn("acts", begins | (proxied & (sf.lag("faults").over(in_order) > 0)))
        .groupBy(*PROCESS, "part")
        .agg(
            sf.max(sf.when(callback, sf.col("at"))).alias("told"),
            sf.max(sf.when(callback, sf.col("faults"))).alias("carried"),
            sf.min(sf.when(begins, sf.col("at"))).alias("begun"),
            sf.max(sf.when(sf.col("acts"), sf.struct("at", "faults"))).alias("last"),
        )
    )
    latest = sf.when(sf.col("last.faults") == 0, sf.col("last.at.mono_ns") + ZOMBIE_MS * _MS).otherwise(_NEVER)
    hindered = (
        parts.withColumns(
            {
                "since": sf.when(sf.col("carried") > 0, sf.col("told")).otherwise(sf.col("begun")),
                "until": sf.lead("told").over(Window.partitionBy(*PROCESS).orderBy("part")),
            }
        )
        .where(sf.col("since").isNotNull())
        .withColumn("end_ns", sf.least(latest, "until.mono_ns"))
    )
    members = sf.from_json(sf.col("detail")["members"], "array<struct<client_id string>>")
    committed = of_group.where(_is("generation_committed")).select(
        sf.col("run").alias("of_run"), sf.col("group").alias("of_group"), sf.col("at").alias("committed"),
        members["client_id"].alias("there"),
    )  # fmt: skip
    evicted = (
        (sf.col("run") == sf.col("of_run"))
        & (sf.col("group") == sf.col("of_group"))
        & (sf.col("committed") > sf.col("since"))
        & (sf.col("until").isNull() | (sf.col("committed") < sf.col("until")))
        & ~sf.array_contains("there", sf.col("member"))
    )
    return hindered.join(committed, evicted, "left_semi").select(
        *PROCESS, sf.col("since.mono_ns").alias("begin_ns"), "end_ns"
    )


def _is(*kinds: str) -> Column:
    return sf.col("kind").isin(*kinds)
