"""The committed generations of Spark's events, and the commits made in each, as `history.generations` has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.generations import GroupGeneration, from_row
from kafka_assignors.history.ownership import Commits


def generation(row: Any, commits: Mapping[TopicPartition, Commits]) -> GroupGeneration:
    """A row of ``generation_committed``, ``members`` and ``ts_ms`` as text, with the commits made in it."""
    fields = {name: row[name] for name in ("generation", "protocol", "leader")}
    fields |= {"ts_ms": int(row["ts_ms"] or -1), "members": json.loads(row["members"] or "[]")}
    made = from_row(row["group"], fields, row["ts_ns"] // 1_000_000, row["mono_ns"])
    return replace(made, committed=replace(made.committed, commits=commits))


COMMITS = "commits"
"""Kind of the rows of `commits`."""


def commits(events: DataFrame) -> DataFrame:
    """The commits of each (run, group) and topic-partition in each generation; `n` is its record's ordinal, from 1.

    Cost: lazy; a sort of the coordinator's events.
    """
    detail = sf.col("detail")
    in_time = Window.partitionBy("run", "group").orderBy("mono_ns", "seq")
    until_now = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    of_commit = sf.col("kind") == "offset_committed"
    return (
        events.where((of_commit | (sf.col("kind") == "generation_committed")) & sf.col("group").isNotNull())
        .withColumn("n", sf.count_if(sf.col("kind") == "generation_committed").over(until_now))
        .where(of_commit)
        .groupBy("run", "group", "n", detail["topic"].alias("topic"), detail["partition"].alias("partition"))
        .agg(
            sf.min("mono_ns").alias("first_ns"),
            sf.max("mono_ns").alias("last_ns"),
            sf.expr("max(ts_ns) div 1000000").alias("last_ms"),
        )
        .withColumn("kind", sf.lit(COMMITS))
    )
