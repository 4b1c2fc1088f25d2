"""The written tables -> one summary, and the summary -> text."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from .. import findings
from ..findings import printable

SHOWN_LOADS = 24
"""Partitions of a topic whose records are printed; the JSON has them all."""

SHOWN_KEYS = 10
"""Hot keys of a topic that are shown; the table has more."""


def summary(tables: dict[str, DataFrame]) -> dict[str, Any]:
    """What a reader wants to know first, from the tables of `run.TABLES`.

    Returns:
        ``rows``: table -> row count. ``topics``: per topic its `schema.TOPIC_LOAD` and ``loads``, the records, bytes
        and share of each partition that has any, ``judged_records`` (compared with the reference rule) and
        ``numbered_records`` (compared with their sender's order). ``groups``: per group its intervals, members, moves,
        ``source`` (callback or coordlog), longest gap (null: no callbacks tell), its bounds and overlap (ms).
        ``rebalances``: the rows of `schema.REBALANCES`. ``assignors``: per group and assignor its
        moves over all rebalances, and the worst of its loads. ``partitioners``: per topic, rule and partition count its
        `schema.PARTITIONER_WHAT_IF` but for the lists. ``hot_keys``: the first `SHOWN_KEYS` of each topic,
        as `schema.HOT_KEYS`. ``findings``: what is not as it should be, each with its sentence. ``rejected``: reason ->
        lines or offsets. All sorted, all plain JSON values.

    Cost: twelve small jobs; driver memory of O(partitions + rebalances).
    """
    loads: dict[tuple[str, str], list[dict[str, Any]]] = {}
    placed = tables["placement"].groupBy("run", "topic", "partition")
    per_partition = placed.agg(
        sf.sum("records").alias("records"), sf.sum("bytes").alias("bytes"), sf.count("*").alias("windows"),
        sf.sum("numbered_records").alias("numbered"),
    )  # fmt: skip
    windows = 0
    numbered: dict[tuple[str, str], int] = defaultdict(int)
    compared = tables["partition_keys"].groupBy("run", "topic").agg(sf.sum("judged_records").alias("records"))
    judged = {(row["run"], row["topic"]): row["records"] for row in compared.collect()}
    for row in sorted(per_partition.collect(), key=lambda row: row[:3]):
        load = {name: row[name] for name in ("partition", "records", "bytes")}
        loads.setdefault((row["run"], row["topic"]), []).append(load)
        windows += row["windows"]
        numbered[row["run"], row["topic"]] += row["numbered"]
    topics = [row.asDict() for row in sorted(tables["topic_load"].collect())]
    for topic in topics:
        topic["loads"] = loads.get((topic["run"], topic["topic"]), [])
        topic["numbered_records"] = numbered[topic["run"], topic["topic"]]
        topic["judged_records"] = judged.get((topic["run"], topic["topic"]), 0)
        for load in topic["loads"]:
            load["share"] = load["records"] / topic["records"]
    groups = [
        row.asDict()
        for row in sorted(
            tables["group_timeline"]
            .groupBy("run", "group")
            .agg(
                sf.count("*").alias("intervals"),
                sf.count_distinct("member").alias("members"),
                sf.count_if("moved").alias("moves"),
                sf.first("source").alias("source"),
                sf.max(sf.when(sf.col("source") == "callback", sf.coalesce("gap_before_ms", sf.lit(0.0)))).alias(
                    "longest_gap_ms"
                ),
                sf.coalesce(sf.max("gap_at_least_ms"), sf.lit(0.0)).alias("gap_at_least_ms"),
                sf.when(
                    sf.count("gap_at_least_ms") == sf.count("gap_at_most_ms"),
                    sf.coalesce(sf.max("gap_at_most_ms"), sf.lit(0.0)),
                ).alias("gap_at_most_ms"),
                sf.sum("overlap_prev_ms").alias("overlap_ms"),
            )
            .collect()
        )
    ]
    what_if = (
        tables["assignor_what_if"]
        .groupBy("run", "group", "assignor")
        .agg(
            sf.bool_or("elected").alias("elected"),
            sf.sum("moves").alias("moves"),
            sf.max("max_partitions").alias("max_partitions"),
            sf.max(_ratio("max_load", "mean_load")).alias("max_over_mean"),
            sf.count("*").alias("rebalances"),
        )
    )
    assignors = [row.asDict() for row in sorted(what_if.collect())]
    rebalances = [row.asDict() for row in tables["rebalances"].orderBy("run", "group", "rebalance").collect()]
    tried = tables["partitioner_what_if"].drop("records_per_partition")
    partitioners = [row.asDict() for row in tried.orderBy("run", "topic", "partitions", "rule").collect()]
    reasons = tables["rejected"].groupBy("reason").agg(sf.sum("rows").alias("rows")).collect()
    rejected = {row["reason"]: row["rows"] for row in sorted(reasons)}
    hot = [
        {**row.asDict(), "key_sample": printable(row["key_sample"])}
        for row in tables["hot_keys"].where(sf.col("rank") <= SHOWN_KEYS).orderBy("run", "topic", "rank").collect()
    ]
    found = [
        {name: row[name] for name in ("kind", "group", "topic", "partition", "member", "records", "text")}
        for row in tables["findings"].orderBy("run", "kind", "topic", "partition", "first_offset", "text").collect()
    ]
    rows = {
        "placement": windows,
        "topic_load": len(topics),
        "partition_keys": sum(len(topic["loads"]) for topic in topics),
        "group_timeline": sum(group["intervals"] for group in groups),
        "rebalances": len(rebalances),
        "assignor_what_if": sum(row["rebalances"] for row in assignors),
        "partitioner_what_if": len(partitioners),
        "partition_weights": tables["partition_weights"].count(),
        "hot_keys": tables["hot_keys"].count(),
        "findings": len(found),
        "rejected": tables["rejected"].count(),
    }
    return {
        "rows": rows,
        "topics": topics,
        "groups": groups,
        "rebalances": rebalances,
        "assignors": assignors,
        "partitioners": partitioners,
        "hot_keys": hot,
        "findings": found,
        "rejected": rejected,
    }


def _ratio(part: str, whole: str) -> Column:
    return sf.when(sf.col(whole) > 0, sf.col(part) / sf.col(whole)).otherwise(0.0)


def show(said: dict[str, Any]) -> None:
    """Print a summary on stdout: tables on a terminal, aligned columns in a pipe."""
    table(
        "Load per topic",
        ("topic", "partitions", "records", "bytes", "max/mean", "cv", "gini", "empty"),
        [
            (
                *(topic[name] for name in ("topic", "partitions", "records", "bytes")),
                *(f"{topic[name]:.3f}" for name in ("max_over_mean", "cv", "gini")),
                topic["empty_partitions"],
            )
            for topic in said["topics"]
        ],
    )
    table(
        "Findings",
        ("kind", "what"),
        [(one["kind"], one["text"]) for one in said["findings"]]
        or [("none", sentence) for sentence in findings.judged(said) or ["nothing was read that could be judged"]],
    )
    table("Records per partition", ("topic", "from partition 0 on"), [(t["topic"], _loads(t)) for t in said["topics"]])
    table(
        "Ownership per group",
        ("group", "told by", "intervals", "members", "moves", "longest gap ms", "overlap ms"),
        [
            (
                *(group[name] for name in ("group", "source", "intervals", "members", "moves")),
                span(group["longest_gap_ms"], group["gap_at_least_ms"], group["gap_at_most_ms"]),
                f"{group['overlap_ms']:.1f}",
            )
            for group in said["groups"]
        ],
    )
    table(
        "Rebalances",
        (
            "group",
            "generation",
            "after",
            "elected",
            "members",
            "moves",
            "fewest",
            "given back",
            "longest stop ms",
            "downtime ms",
            "assign us",
        ),
        [
            (
                *(row[name] for name in ("group", "generation", "trigger", "elected", "members", "moves")),
                _known(row["min_moves"]),
                _known(row["needless"]),
                span(row["stop_ms"], row["stop_at_least_ms"], row["stop_at_most_ms"]),
                "?" if row["tp_downtime_ms"] is None else f"{row['tp_downtime_ms']:.1f}",
                _known(row["assign_us"]),
            )
            for row in said["rebalances"]
        ],
    )
    table(
        "What each assignor would have done",
        ("group", "assignor", "elected", "moves", "most partitions", "load max/mean"),
        [
            (
                row["group"],
                row["assignor"],
                "yes" if row["elected"] else "",
                *(row[name] for name in ("moves", "max_partitions")),
                f"{row['max_over_mean']:.2f}",
            )
            for row in said["assignors"]
        ],
    )
    if said["partitioners"]:
        table(
            "Where records would lie",
            ("topic", "partitions", "rule", "max/mean", "cv", "keys elsewhere", "records elsewhere"),
            [
                (
                    *(row[name] for name in ("topic", "partitions", "rule")),
                    f"{row['max_over_mean']:.3f}",
                    f"{row['cv']:.3f}",
                    "-" if row["moved_key_share"] is None else f"{row['moved_key_share']:.1%}",
                    "-" if row["moved_records"] is None else row["moved_records"],
                )
                for row in said["partitioners"]
            ],
        )
    if "weights" in said and said["weights"]["file"]:
        weights = said["weights"]
        table(
            "Weights for the next assignment",
            ("file", "version", "unit", "partitions", "changed", "note"),
            [
                [weights[name] for name in ("file", "version", "unit", "partitions", "changed")]
                + [weights["note"] or ""]
            ],
        )
    if said["rejected"]:
        table("Not read, and why", ("reason", "lines or offsets"), list(said["rejected"].items()))


def span(exact: float | None, at_least: float, at_most: float | None, unit: str = "") -> str:
    """A time in ms, or what is known of it; a dash where nothing got another member.

    >>> span(305.04, 0, 0), span(None, 10, 16_000, " ms"), span(None, 10, None), span(None, 0, 0)
    ('305.0', '10 to 16,000 ms', 'at least 10', '–')
    """
    if exact is not None:
        return f"{exact:,.1f}{unit}"
    if at_most is None:
        return f"at least {at_least:,.0f}{unit}"
    return f"{at_least:,.0f} to {at_most:,.0f}{unit}" if at_most else "–"


def _known(value: Any) -> str:
    return "?" if value is None else str(value)


def _loads(topic: dict[str, Any]) -> str:
    records = {load["partition"]: load["records"] for load in topic["loads"]}
    shown = [str(records.get(partition, 0)) for partition in range(min(topic["partitions"], SHOWN_LOADS))]
    return " ".join([*shown, "…"] if topic["partitions"] > SHOWN_LOADS else shown)


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print one table: drawn on a terminal, in aligned columns in a pipe."""
    cells = [head, *([str(cell) for cell in row] for row in rows)]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        drawn = Table(*head, title=title)
        for row in cells[1:]:
            drawn.add_row(*row)
        Console().print(drawn)
        return
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(title)
    for row in cells:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
