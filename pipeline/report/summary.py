"""The page's figures: rows of each table, and what the tables say of each topic and group, as JSON values."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from ..findings import printable
from ..load.balance import ratio

SHOWN_KEYS = 10
"""Maximum hot keys shown per topic; the table has more."""


def summary(tables: dict[str, DataFrame]) -> dict[str, Any]:
    """The most important figures of the tables of `schema.TABLES`.

    Returns:
        ``rows``: table -> row count. ``topics``: per topic its `schema.TOPIC_LOAD`, ``record_max_over_mean`` (the same
        of records), ``loads`` (records, bytes and share of each partition that has any, and those of its key with the
        most: ``top_key_records``, ``top_key_bytes``), ``judged_records`` (compared with the reference rule) and
        ``numbered_records`` (compared with their sender's order). ``groups``: per group its intervals, members, moves,
        ``source`` (callback or coordlog), longest gap (null without callbacks), its bounds, and overlap (ms). ``lags``:
        the rows of `schema.GROUP_LAG`, per group the largest lag first. ``rebalances``: the rows of
        `schema.REBALANCES`. ``assignors``: per group and assignor its moves over all rebalances, and its worst load.
        ``partitioners``: per topic, rule and partition count its `schema.PARTITIONER_WHAT_IF` without the lists.
        ``hot_keys``: the first `SHOWN_KEYS` of each topic by records and by bytes, as `schema.HOT_KEYS`. ``findings``:
        one sentence per fault, per kind those with the most records first; a row with ``more`` counts the rest.
        ``rejected``: reason -> lines or offsets. All sorted, all plain JSON values.

    Cost: thirteen small jobs; driver memory of O(partitions + rebalances).
    """
    topics, windows = _topics(tables)
    groups = _groups(tables["group_timeline"])
    assignors = _assignors(tables["assignor_what_if"])
    rebalances = [row.asDict() for row in tables["rebalances"].orderBy("run", "group", "rebalance").collect()]
    for group in groups:
        mine = (row["moves"] for row in rebalances if (row["run"], row["group"]) == (group["run"], group["group"]))
        group["moves"] = sum(mine)
    behind = lags(tables["group_lag"])
    tried = tables["partitioner_what_if"].drop("records_per_partition")
    partitioners = [row.asDict() for row in tried.orderBy("run", "topic", "partitions", "rule").collect()]
    reasons = tables["rejected"].groupBy("reason").agg(sf.sum("rows").alias("rows")).collect()
    first = (sf.col("rank") <= SHOWN_KEYS) | (sf.col("byte_rank") <= SHOWN_KEYS)
    hot = tables["hot_keys"].where(first).orderBy("run", "topic", sf.desc("records"), "key_hash").collect()
    order = ("topic", "partition", "first_offset", "text")
    findings = tables["findings"].orderBy("run", "kind", "more", sf.desc_nulls_last("records"), *order).collect()
    rows = {
        "placement": windows,
        "topic_load": len(topics),
        "partition_keys": sum(len(topic["loads"]) for topic in topics),
        "group_timeline": sum(group["intervals"] for group in groups),
        "group_lag": len(behind),
        "rebalances": len(rebalances),
        "assignor_what_if": sum(row["rebalances"] for row in assignors),
        "partitioner_what_if": len(partitioners),
        "partition_weights": tables["partition_weights"].count(),
        "hot_keys": tables["hot_keys"].count(),
        "findings": len(findings),
        "rejected": tables["rejected"].count(),
    }
    return {
        "rows": rows,
        "topics": topics,
        "groups": groups,
        "lags": behind,
        "rebalances": rebalances,
        "assignors": assignors,
        "partitioners": partitioners,
        "hot_keys": [{**row.asDict(), "key_sample": printable(row["key_sample"])} for row in hot],
        "findings": [{name: row[name] for name in _FINDING} for row in findings],
        "rejected": {row["reason"]: row["rows"] for row in sorted(reasons)},
    }


_FINDING = ("kind", "group", "topic", "partition", "member", "records", "more", "text")


def _topics(tables: dict[str, DataFrame]) -> tuple[list[dict[str, Any]], int]:
    """The topics, and the number of rows of ``placement``."""
    loads: dict[tuple[str, str], list[dict[str, Any]]] = {}
    placed = tables["placement"].groupBy("run", "topic", "partition")
    per_partition = placed.agg(
        sf.sum("records").alias("records"), sf.sum("bytes").alias("bytes"), sf.count("*").alias("windows"),
        sf.sum("numbered_records").alias("numbered"),
    )  # fmt: skip
    windows = 0
    numbered: dict[tuple[str, str], int] = defaultdict(int)
    judged: dict[tuple[str, str], int] = defaultdict(int)
    tops: dict[tuple[str, str, int], tuple[float, float]] = {}
    for row in tables["partition_keys"].collect():
        judged[row["run"], row["topic"]] += row["judged_records"]
        tops[row["run"], row["topic"], row["partition"]] = row["top_key_share"], row["top_byte_share"]
    for row in sorted(per_partition.collect(), key=lambda row: row[:3]):
        load = {name: row[name] for name in ("partition", "records", "bytes")}
        top = tops.get(row[:3], (0.0, 0.0))
        load |= {"top_key_records": round(top[0] * row["records"]), "top_key_bytes": round(top[1] * row["bytes"])}
        loads.setdefault((row["run"], row["topic"]), []).append(load)
        windows += row["windows"]
        numbered[row["run"], row["topic"]] += row["numbered"]
    topics = [row.asDict() for row in sorted(tables["topic_load"].collect())]
    for topic in topics:
        topic["loads"] = loads.get((topic["run"], topic["topic"]), [])
        topic["numbered_records"] = numbered[topic["run"], topic["topic"]]
        topic["judged_records"] = judged[topic["run"], topic["topic"]]
        for load in topic["loads"]:
            load["share"] = load["records"] / topic["records"]
        most = max((load["share"] for load in topic["loads"]), default=0.0)
        topic["record_max_over_mean"] = most * topic["partitions"]
    return topics, windows


def lags(table: DataFrame) -> list[dict[str, Any]]:
    """The rows of `schema.GROUP_LAG` as JSON values, per group the largest lag first; times in UTC."""
    in_utc = table.withColumn("committed_at", sf.unix_seconds("committed_at"))
    rows = in_utc.orderBy("run", "group", sf.desc("lag"), "topic", "partition").collect()
    return [{**row.asDict(), "committed_at": _utc(row["committed_at"])} for row in rows]


def _utc(seconds: int | None) -> str | None:
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S}"


def _groups(timeline: DataFrame) -> list[dict[str, Any]]:
    callback_gap = sf.when(sf.col("source") == "callback", sf.coalesce("gap_before_ms", sf.lit(0.0)))
    bounded = sf.count("gap_at_least_ms") == sf.count("gap_at_most_ms")
    groups = timeline.groupBy("run", "group").agg(
        sf.count("*").alias("intervals"),
        sf.count_distinct("member").alias("members"),
        sf.first("source").alias("source"),
        sf.max(callback_gap).alias("longest_gap_ms"),
        sf.coalesce(sf.max("gap_at_least_ms"), sf.lit(0.0)).alias("gap_at_least_ms"),
        sf.when(bounded, sf.coalesce(sf.max("gap_at_most_ms"), sf.lit(0.0))).alias("gap_at_most_ms"),
        sf.sum("overlap_prev_ms").alias("overlap_ms"),
    )
    return [row.asDict() for row in sorted(groups.collect())]


def _assignors(what_if: DataFrame) -> list[dict[str, Any]]:
    assignors = what_if.groupBy("run", "group", "assignor").agg(
        sf.bool_or("elected").alias("elected"),
        sf.sum("moves").alias("moves"),
        sf.max("max_partitions").alias("max_partitions"),
        sf.max(ratio(sf.col("max_load"), sf.col("mean_load"))).alias("max_over_mean"),
        sf.count("*").alias("rebalances"),
    )
    return [row.asDict() for row in sorted(assignors.collect())]
