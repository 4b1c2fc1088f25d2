"""DataFrame -> DataFrame, in Spark's built-in functions alone: where records went, and who held what when."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from . import schema


def placement(records: DataFrame, window: str, partitions: Mapping[str, int]) -> DataFrame:
    """Load and keys of each topic-partition per window.

    Args:
        records: `schema.RECORDS`.
        window: Length of the windows, as Spark writes it (``"1 minute"``); they start at the epoch's multiples of it.
        partitions: topic -> partition count, for the mean over all partitions. A topic that has records beyond its
            count (it grew in between) counts up to its highest partition.

    Returns:
        `schema.PLACEMENT`.

    Cost: lazy. Two shuffles of (topic-partition, window, key) counts, two of (topic-partition, window).
    """
    place = ["run", "topic", "partition", "window"]
    # Few rows from many early: everything below works on one row per key and place.
    keys = records.groupBy("run", "topic", "partition", sf.window("ts", window).alias("window"), "key_hash").agg(
        sf.count("*").alias("n"),
        sf.sum(_record_bytes()).alias("bytes"),
        sf.min("ts").alias("first_ts"),
        sf.max("ts").alias("last_ts"),
    )
    same_key = Window.partitionBy("run", "topic", "key_hash")
    has_key = sf.col("key_hash").isNotNull()
    keys = keys.withColumn(
        "moved", has_key & (sf.min("partition").over(same_key) != sf.max("partition").over(same_key))
    )
    rows = keys.groupBy(*place).agg(
        sf.sum("n").alias("records"),
        sf.sum("bytes").alias("bytes"),
        sf.approx_count_distinct("key_hash").alias("keys_approx"),
        sf.sum(sf.when(has_key, 0).otherwise(sf.col("n"))).alias("null_key_records"),
        # max() of the complement picks the lower hash of two keys with as many records
        sf.max(sf.when(has_key, sf.struct("n", sf.bitwise_not("key_hash").alias("not_hash")))).alias("top"),
        sf.count_if("moved").alias("moved_keys"),
        sf.min("first_ts").alias("first_ts"),
        sf.max("last_ts").alias("last_ts"),
    )
    topic = Window.partitionBy("run", "topic", "window")
    seconds = sf.unix_micros(sf.col("window.end")) / 1e6 - sf.unix_micros(sf.col("window.start")) / 1e6
    count = _partition_count(partitions, sf.max("partition").over(topic))
    topic_bytes = sf.sum("bytes").over(topic)
    return schema.conform(
        rows.select(
            "run",
            sf.to_date("window.start").alias("dt"),
            "topic",
            "partition",
            sf.col("window.start").alias("window_start"),
            sf.col("window.end").alias("window_end"),
            "records",
            "bytes",
            (sf.col("records") / seconds).alias("record_rate"),
            (sf.col("bytes") / seconds).alias("byte_rate"),
            "keys_approx",
            "null_key_records",
            sf.bitwise_not("top.not_hash").alias("top_key_hash"),
            sf.coalesce(sf.col("top.n") / sf.col("records"), sf.lit(0.0)).alias("top_key_share"),
            "moved_keys",
            (sf.col("records") / sf.sum("records").over(topic)).alias("share"),
            _ratio(sf.col("bytes") * count, topic_bytes).alias("skew"),
            "first_ts",
            "last_ts",
        ),
        schema.PLACEMENT,
    )


def topic_load(placement: DataFrame, partitions: Mapping[str, int]) -> DataFrame:
    """How even each topic's bytes lie over its partitions, all windows together.

    Args:
        placement: `schema.PLACEMENT`.
        partitions: topic -> partition count, as for `placement`.

    Returns:
        `schema.TOPIC_LOAD`; all measures are 0 for a topic whose records have no bytes.

    Cost: lazy; two small shuffles, and memory of O(partitions of a topic) in one row.
    """
    each = placement.groupBy("run", "topic", "partition").agg(
        sf.sum("records").alias("records"), sf.sum("bytes").alias("bytes")
    )
    topics = each.groupBy("run", "topic").agg(
        sf.sum("records").alias("records"),
        sf.sum("bytes").alias("bytes"),
        sf.array_sort(sf.collect_list("bytes")).alias("loads"),
        sf.max("partition").alias("highest"),
    )
    n, empty, mean = sf.col("n"), sf.col("n") - sf.size("loads"), sf.col("bytes") / sf.col("n")
    # Empty partitions are not in `loads`; they come first in ascending order, and add nothing to the sum.
    ranked = sf.transform("loads", lambda load, i: load * (2 * (empty + i + 1) - n - 1))
    squares = sf.transform("loads", lambda load: (load - mean) * (load - mean))

    def total(array: Column) -> Column:
        return sf.aggregate(array, sf.lit(0.0), lambda sum_, x: sum_ + x)

    return schema.conform(
        topics.withColumn("n", _partition_count(partitions, sf.col("highest"))).select(
            "run",
            "topic",
            n.alias("partitions"),
            "records",
            "bytes",
            _ratio(sf.array_max("loads"), mean).alias("max_over_mean"),
            _ratio(sf.sqrt((total(squares) + empty * mean * mean) / n), mean).alias("cv"),
            _ratio(total(ranked), n * sf.col("bytes")).alias("gini"),
            empty.alias("empty_partitions"),
        ),
        schema.TOPIC_LOAD,
    )


def _record_bytes() -> Column:
    zero = sf.lit(0)
    return sf.coalesce("key_bytes", zero) + sf.coalesce("value_bytes", zero) + sf.col("header_bytes")


def _ratio(part: Column, whole: Column) -> Column:
    return sf.when(whole > 0, part / whole).otherwise(0.0)


def _partition_count(partitions: Mapping[str, int], highest: Column) -> Column:
    counts = sf.create_map(*(sf.lit(x) for item in partitions.items() for x in item))
    return sf.greatest(sf.try_element_at(counts, sf.col("topic")), highest + 1)


_STARTS = {"assigned_begin": "assigned"}
_OWN_ENDS = {"revoke_end": "revoked", "lost_begin": "lost"}  # of the topic-partitions that they list
_PROCESS_ENDS = {"fault_begin": "killed", "stop": "stop", "exit": "exit"}  # of all that the process holds


def group_timeline(events: DataFrame) -> DataFrame:
    """Who held each topic-partition from when to when, as the members' own callbacks tell it.

    For each process (group, member, incarnation) and topic-partition, in the order of (mono_ns, src, seq):
    `assigned_begin` opens an interval unless one is open. The first of these ends it: `revoke_end` or `lost_begin` that
    list the topic-partition, the process's `fault_begin` of kind kill, its `stop`, its `exit`. Without any it is open,
    and ends with the group's last event.

    Args:
        events: `schema.EVENTS`, of one or more runs.

    Returns:
        `schema.GROUP_TIMELINE`.

    Cost: lazy; four shuffles of (callback, topic-partition) rows, of which a run has no more than partitions x
    generations.
    Source: the rule of integration/timeline.py, in windows instead of a loop; the tests hold one against the other.
    """
    process = ["run", "group", "member", "incarnation"]
    holding = [*process, "topic", "partition"]
    known = events.where(sf.col("group").isNotNull())
    of_process = known.where(sf.col("member").isNotNull())
    callbacks = of_process.where(sf.col("kind").isin(*_STARTS, *_OWN_ENDS)).select(
        *process, sf.inline("partitions"), "mono_ns", "src", "seq", "ts", "kind", "generation", "member_id"
    )
    held = callbacks.where(sf.col("kind").isin(*_STARTS)).select(*holding).distinct()
    gone = of_process.where(
        sf.col("kind").isin("stop", "exit") | ((sf.col("kind") == "fault_begin") & (sf.col("fault") == "kill"))
    ).select(*process, "mono_ns", "src", "seq", "kind", "generation")
    rows = callbacks.unionByName(gone.join(held, process), allowMissingColumns=True)

    in_time = Window.partitionBy(*holding).orderBy("mono_ns", "src", "seq")
    starts = sf.col("kind").isin(*_STARTS)
    ending = sf.struct(
        sf.col("mono_ns").alias("ns"), _renamed({**_OWN_ENDS, **_PROCESS_ENDS}).alias("kind"), "generation"
    )
    later = in_time.rowsBetween(1, Window.unboundedFollowing)
    last = known.groupBy("run", "group").agg(sf.max("mono_ns").alias("last_ns"))
    intervals = (
        rows.withColumn("end", sf.first(sf.when(~starts, ending), ignorenulls=True).over(later))
        .withColumn("held_already", sf.coalesce(sf.lag(starts).over(in_time), sf.lit(False)))
        .where(starts & ~sf.col("held_already"))
        .join(sf.broadcast(last), ["run", "group"])
        .withColumn("start_ns", sf.col("mono_ns"))
        .withColumn("end_ns", sf.coalesce("end.ns", "last_ns"))
    )

    order = Window.partitionBy("run", "group", "topic", "partition").orderBy("start_ns", "member", "incarnation")
    until = sf.max("end_ns").over(order.rowsBetween(Window.unboundedPreceding, -1))  # latest end of the rows before
    before = sf.lag(sf.struct("member", "incarnation")).over(order)
    zero = sf.lit(0)
    return schema.conform(
        intervals.select(
            *holding,
            "member_id",
            "start_ns",
            "end_ns",
            sf.to_date("ts").alias("dt"),
            sf.col("generation").alias("generation_start"),
            sf.col("end.generation").alias("generation_end"),
            _renamed(_STARTS).alias("start_kind"),
            sf.coalesce("end.kind", sf.lit("open")).alias("end_kind"),
            sf.lit("callback").alias("source"),
            # greatest() passes over nulls, and the first row has no gap, rather than one of 0
            sf.when(until.isNotNull(), sf.greatest(sf.col("start_ns") - until, zero) / 1e6).alias("gap_before_ms"),
            (sf.greatest(until - sf.col("start_ns"), zero) / 1e6).alias("overlap_prev_ms"),
            sf.coalesce(before != sf.struct("member", "incarnation"), sf.lit(False)).alias("moved"),
        ),
        schema.GROUP_TIMELINE,
    )


def _renamed(names: Mapping[str, str]) -> Column:
    return sf.create_map(*(sf.lit(x) for item in names.items() for x in item))[sf.col("kind")]
