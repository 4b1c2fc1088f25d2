"""The committed generations of Spark's events, and the commits made in each, as values of `history.ownership`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from kafka_assignors.core.group import TopicPartition, identity_of
from kafka_assignors.history.ownership import Commits, Committed


def record(row: Any, commits: Mapping[TopicPartition, Commits]) -> Committed:
    """Convert a row of ``generation_committed``: ``generation, mono_ns, ts_ns, ts_ms, members`` (last two as text)."""
    members, timeouts, held = {}, {}, {}
    for member in json.loads(row["members"] or "[]"):
        holder = identity_of(member["member_id"], member.get("instance_id"))
        members[holder] = member["member_id"]
        both = [member.get(f"{name}_timeout_ms") or 0 for name in ("session", "rebalance")]
        if min(both) > 0:
            timeouts[holder] = min(both)
        held[holder] = frozenset(TopicPartition(tp["topic"], tp["partition"]) for tp in member["assigned"])
    joined_ms = int(row["ts_ms"] or 0)
    return Committed(
        row["generation"], row["mono_ns"], row["ts_ns"], joined_ms if joined_ms > 0 else None, members, timeouts, held,
        commits,
    )  # fmt: skip


def commits(events: DataFrame) -> dict[tuple[str, str], dict[int, dict[TopicPartition, Commits]]]:
    """The commits of each (run, group), by the ordinal of their generation's record in the log, from 1.

    Args:
        events: `schema.EVENTS`, of one or more runs.

    Cost: one job with a sort of the coordinator's events; driver memory of O(generations x topic-partitions).
    """
    detail = sf.col("detail")
    in_time = Window.partitionBy("run", "group").orderBy("mono_ns", "seq")
    until_now = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    of_commit = sf.col("kind") == "offset_committed"
    rows: Iterable[Any] = (
        events.where((of_commit | (sf.col("kind") == "generation_committed")) & sf.col("group").isNotNull())
        .withColumn("n", sf.count_if(sf.col("kind") == "generation_committed").over(until_now))
        .where(of_commit)
        .groupBy("run", "group", "n", detail["topic"].alias("topic"), detail["partition"].alias("partition"))
        .agg(sf.min("mono_ns"), sf.max("mono_ns"), sf.expr("max(ts_ns) div 1000000"))
        .collect()
    )
    found: dict[tuple[str, str], dict[int, dict[TopicPartition, Commits]]] = defaultdict(lambda: defaultdict(dict))
    for run, group, n, topic, partition, *times in rows:
        found[run, group][n][TopicPartition(topic, int(partition))] = Commits(*times)
    return found
