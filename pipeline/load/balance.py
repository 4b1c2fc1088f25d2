"""The balance of load: per topic-partition and window, and over a topic's partitions."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from .. import schema


def placement(windows: DataFrame, partitions: Mapping[str, int], disorder: DataFrame | None = None) -> DataFrame:
    """`schema.PLACEMENT`: the load of each topic-partition per window, from the result of `keys.windows`.

    `partitions`, topic -> partition count, is for the mean over all partitions. `disorder` is that of `keys.disorder`;
    None: no record has an order to keep.

    Cost: lazy. Two shuffles of (topic-partition, window).
    """
    if disorder is None:
        rows = windows.withColumn("order_violations", sf.lit(0).cast("long"))
    else:
        at = ["run", "topic", "partition", "window_start"]
        rows = windows.join(disorder.groupBy(*at).agg(sf.count("*").alias("order_violations")), at, "left")
        rows = rows.fillna(0, "order_violations")
    rows = with_counts(rows, partitions)
    topic = Window.partitionBy("run", "topic", "window_start")
    seconds = sf.unix_micros(sf.col("window_end")) / 1e6 - sf.unix_micros(sf.col("window_start")) / 1e6
    topic_bytes = sf.sum("bytes").over(topic)
    figures = {
        "dt": schema.utc_day("window_start"),
        "record_rate": sf.col("records") / seconds,
        "byte_rate": sf.col("bytes") / seconds,
        "share": sf.col("records") / sf.sum("records").over(topic),
        "skew": ratio(sf.col("bytes") * sf.col("n"), topic_bytes),
    }
    return schema.conform(rows.withColumns(figures), schema.PLACEMENT)


def topic_load(placement: DataFrame, partitions: Mapping[str, int]) -> DataFrame:
    """`schema.TOPIC_LOAD` from `schema.PLACEMENT`: the balance of each topic's bytes, all windows together.

    All measures are 0 for a topic whose records have no bytes.

    Cost: lazy; two small shuffles, and memory of O(partitions of a topic) in one row.
    """
    per_partition = placement.groupBy("run", "topic", "partition").agg(
        sf.sum("records").alias("records"), sf.sum("bytes").alias("bytes")
    )
    topics = per_partition.groupBy("run", "topic").agg(
        sf.sum("records").alias("records"),
        sf.sum("bytes").alias("bytes"),
        sf.array_sort(sf.collect_list("bytes")).alias("loads"),
    )
    n, empty, mean = sf.col("n"), sf.col("n") - sf.size("loads"), sf.col("bytes") / sf.col("n")
    # `loads` lacks empty partitions. They come first in ascending order and add nothing to the sum.
    ranked = sf.transform("loads", lambda load, i: load * (2 * (empty + i + 1) - n - 1))
    squares = sf.transform("loads", lambda load: (load - mean) * (load - mean))

    def total(array: Column) -> Column:
        return sf.aggregate(array, sf.lit(0.0), lambda sum_, x: sum_ + x)

    figures = {
        "partitions": n,
        "max_over_mean": ratio(sf.array_max("loads"), mean),
        "cv": ratio(sf.sqrt((total(squares) + empty * mean * mean) / n), mean),
        "gini": ratio(total(ranked), n * sf.col("bytes")),
        "empty_partitions": empty,
    }
    return schema.conform(with_counts(topics, partitions).withColumns(figures), schema.TOPIC_LOAD)


def ratio(part: Column, whole: Column) -> Column:
    """A part of a whole; 0 of nothing."""
    return sf.when(whole > 0, part / whole).otherwise(0.0)


def with_counts(rows: DataFrame, partitions: Mapping[str, int]) -> DataFrame:
    """Add ``n``, the partition count of the row's topic; rows of other topics are dropped."""
    counts = rows.sparkSession.createDataFrame(list(partitions.items()), "topic string, n int")
    return rows.join(sf.broadcast(counts), "topic")
