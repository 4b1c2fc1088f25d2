"""How far each group is behind the ends of its topics."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from kafka_assignors.core.group import TopicPartition

from .. import schema

_KEY = ("run", "group", "topic", "partition")


def group_lag(events: DataFrame, timeline: DataFrame, ends: Mapping[TopicPartition, int]) -> DataFrame:
    """`schema.GROUP_LAG`: each topic-partition that a group committed or owned, and the records after the last commit.

    `timeline` is the `schema.GROUP_TIMELINE` of the `events`. `ends` has the offset of the next record per
    topic-partition; topics that were not read are missing.

    Cost: lazy; one shuffle of the commits.
    """
    detail = sf.col("detail")
    last = sf.struct("mono_ns", "seq")
    committed = (
        events.where((sf.col("kind") == "offset_committed") & sf.col("group").isNotNull())
        .groupBy("run", "group", detail["topic"].alias("topic"), detail["partition"].cast("int").alias("partition"))
        .agg(
            sf.max_by(detail["offset"].cast("long"), last).alias("committed"),
            sf.max_by("ts", last).alias("committed_at"),
        )
    )
    still = sf.when(sf.col("end_kind") == "open", sf.struct("start_ns", "member"))
    owned = timeline.groupBy(*_KEY).agg(sf.max(still)["member"].alias("member"))
    rows = [(topic, partition, end) for (topic, partition), end in ends.items()]
    end_offsets = events.sparkSession.createDataFrame(rows, "topic string, partition int, end long")
    offsets = committed.join(owned, list(_KEY), "full").join(end_offsets, ["topic", "partition"], "left")
    behind = sf.col("end") - sf.col("committed")
    # `greatest` skips nulls: without a commit or an end nothing is known.
    lag = sf.when(behind.isNotNull(), sf.greatest(behind, sf.lit(0)))
    return schema.conform(offsets.withColumn("lag", lag), schema.GROUP_LAG)
