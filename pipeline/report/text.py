"""Print a summary as text."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from kafka_assignors.output import printable

from .. import findings

SHOWN_LOADS = 24
"""Maximum partitions printed per topic; the JSON has all."""
_REBALANCE = (
    "group", "generation", "after", "elected", "members", "moves", "fewest", "given back", "longest stop ms",
    "downtime ms", "assign us",
)  # fmt: skip


def show(summary: dict[str, Any]) -> None:
    """Print a summary on stdout: tables on a terminal, aligned columns in a pipe."""
    _show_load(summary)
    _show_groups(summary)
    if summary["partitioners"]:
        _show_partitioners(summary["partitioners"])
    if "weights" in summary and summary["weights"]["file"]:
        weights, names = summary["weights"], ("file", "version", "unit", "partitions", "changed")
        row = [*(weights[name] for name in names), weights["note"] or ""]
        table("Weights for the next assignment", (*names, "note"), [row])
    if summary["rejected"]:
        table("Not read, with the reason", ("reason", "lines or offsets"), list(summary["rejected"].items()))


def _show_load(summary: dict[str, Any]) -> None:
    table(
        "Load per topic",
        ("topic", "partitions", "records", "bytes", "max/mean", "cv", "gini", "empty"),
        [
            (
                *(topic[name] for name in ("topic", "partitions", "records", "bytes")),
                *(f"{topic[name]:.3f}" for name in ("max_over_mean", "cv", "gini")),
                topic["empty_partitions"],
            )
            for topic in summary["topics"]
        ],
    )
    table(
        "Findings",
        ("kind", "what"),
        [(one["kind"], one["text"]) for one in summary["findings"]]
        or [
            ("none", sentence)
            for sentence in findings.judged(summary) or ["the run has no records or events to report"]
        ],
    )
    table(
        "Records per partition", ("topic", "from partition 0 on"), [(t["topic"], _loads(t)) for t in summary["topics"]]
    )


def _lag(group: dict[str, Any], summary: dict[str, Any]) -> tuple[object, ...]:
    lags = [row for row in summary["lags"] if (row["run"], row["group"]) == (group["run"], group["group"])]
    known_lags = [row for row in lags if row["lag"] is not None]
    largest = f"{known_lags[0]['topic']}-{known_lags[0]['partition']}" if known_lags and known_lags[0]["lag"] else "-"
    return (
        group["group"],
        sum(row["lag"] for row in known_lags) if known_lags else "unknown",
        f"{len(known_lags)}/{len(lags)}",
        largest,
    )


def _show_groups(summary: dict[str, Any]) -> None:
    table(
        "Ownership per group",
        ("group", "told by", "intervals", "members", "moves", "longest gap ms", "overlap ms"),
        [
            (
                *(group[name] for name in ("group", "source", "intervals", "members", "moves")),
                span(group["longest_gap_ms"], group["gap_at_least_ms"], group["gap_at_most_ms"]),
                f"{group['overlap_ms']:.1f}",
            )
            for group in summary["groups"]
        ],
    )
    table("Lag", ("group", "records", "known of", "largest at"), [_lag(group, summary) for group in summary["groups"]])
    table(
        "Rebalances",
        _REBALANCE,
        [
            (
                *(row[name] for name in ("group", "generation", "trigger", "elected", "members", "moves")),
                _cell_text(row["min_moves"]),
                str(row["returned"]),
                span(row["stop_ms"], row["stop_at_least_ms"], row["stop_at_most_ms"]),
                "?" if row["tp_downtime_ms"] is None else f"{row['tp_downtime_ms']:.1f}",
                _cell_text(row["assign_us"]),
            )
            for row in summary["rebalances"]
        ],
    )
    table(
        "What-if: each assignor",
        ("group", "assignor", "elected", "moves", "most partitions", "load max/mean"),
        [
            (
                *(row[name] for name in ("group", "assignor")),
                "yes" if row["elected"] else "",
                *(row[name] for name in ("moves", "max_partitions")),
                f"{row['max_over_mean']:.2f}",
            )
            for row in summary["assignors"]
        ],
    )


def _show_partitioners(partitioners: list[dict[str, Any]]) -> None:
    table(
        "What-if: records per partition",
        ("topic", "partitions", "rule", "max/mean", "cv", "keys elsewhere", "records elsewhere"),
        [
            (
                *(row[name] for name in ("topic", "partitions", "rule")),
                f"{row['max_over_mean']:.3f}",
                f"{row['cv']:.3f}",
                "-" if row["moved_key_share"] is None else f"{row['moved_key_share']:.1%}",
                "-" if row["moved_records"] is None else row["moved_records"],
            )
            for row in partitioners
        ],
    )


def span(exact: float | None, at_least: float, at_most: float | None, unit: str = "") -> str:
    """A time in ms or its bounds; a dash if nothing moved to another member.

    >>> span(305.04, 0, 0), span(None, 10, 16_000, " ms"), span(None, 10, None), span(None, 0, 0)
    ('305.0', '10 to 16,000 ms', 'at least 10', '–')
    """
    if exact is not None:
        return f"{exact:,.1f}{unit}"
    if at_most is None:
        return f"at least {at_least:,.0f}{unit}"
    return f"{at_least:,.0f} to {at_most:,.0f}{unit}" if at_most else "–"


def _cell_text(value: Any) -> str:
    return "?" if value is None else str(value)


def _loads(topic: dict[str, Any]) -> str:
    records = {load["partition"]: load["records"] for load in topic["loads"]}
    shown = [str(records.get(partition, 0)) for partition in range(min(topic["partitions"], SHOWN_LOADS))]
    return " ".join([*shown, "…"] if topic["partitions"] > SHOWN_LOADS else shown)


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print one table: with borders on a terminal, as aligned columns in a pipe."""
    cells = [head, *([printable(str(cell)) for cell in row] for row in rows)]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        drawn = Table(*head, title=title)
        for row in cells[1:]:
            drawn.add_row(*map(Text, row))
        Console().print(drawn)
        return
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(title)
    for row in cells:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
