"""``python -m benchmarks.table RESULTS.jsonl … [NAME …]``: raw results as a Markdown table for README.md.

Results of `rebalances` give one table per trigger, or with names of measures one table per measure. Results of `stops`
give one table per group, clients over changes, then all measures of each change.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .triggers import triggers


def table(files: list[list[dict[str, Any]]], names: list[str]) -> str:
    """The rows with these names in this order (without names: all), and the machine and date of the measurement.

    If several files have a row, the last one counts.
    """
    rows = {row["name"]: row for lines in files for row in lines[1:]}
    if unknown := [name for name in names if name not in rows]:
        raise SystemExit(f"error: no row {', '.join(unknown)}; rows: {', '.join(rows)}")
    out = ["| | ours | peer | | ratio | |", "|---|---|---|---|---|---|"]
    for row in [rows[name] for name in names] if names else rows.values():
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3g}"
        peer = [row["peer"], _value(row["peer_value"], row["unit"])] if row["peer"] else ["", ""]
        cells = [f"`{row['name']}`", _value(row["value"], row["unit"]), *peer, ratio, row.get("note", "")]
        out.append(f"| {' | '.join(cells)} |")
    return "\n".join([*out, *(_measured(lines[0]) for lines in files)])


_MEASURES: Mapping[str, str] = {
    "downtime_ms": "partition-ms without an owner",
    "stop_ms": "longest, ms",
    "p50_ms": "a record's delay: median, ms",
    "p99_ms": "p99, ms",
    "most_ms": "largest, ms",
    "duplicates": "records read twice",
    "generations": "generations",
    "moves": "moves",
    "above_least": "above the least",
}
"""Measure of `stops` -> its column."""


def stops(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Lines of a table per group: for each client and change the partition-ms without an owner and the longest stop.

    A second table per group and change has all measures.

    Args:
        rows: Rows of results files of `stops`. Cells are medians over their runs.
    """
    runs: dict[str, dict[str, dict[str, Mapping[str, list[float]]]]] = {}  # shape -> change -> client -> its runs
    for row in rows:
        shape, change, *client = row["name"].split("/")
        if client and row["raw"].get("downtime_ms"):
            name = f"{client[0]} `{'/'.join(client[1:])}`"
            runs.setdefault(shape, {}).setdefault(change, {})[name] = row["raw"]
    lines: list[str] = []
    for shape, changes in runs.items():
        members, _, partitions = shape.partition("x")
        group = f"{members} members, {partitions} partitions"
        clients = dict.fromkeys(client for of in changes.values() for client in of)
        areas = {client: [_area(of.get(client)) for of in changes.values()] for client in clients}
        lines += [f"**{group}**: partition-ms without an owner (longest, ms)", "", *_lines([*changes], areas)]
        for change, of in changes.items():
            whole = {client: [_median(found.get(measure)) for measure in _MEASURES] for client, found in of.items()}
            lines += [f"**{group}, {change}**, medians", "", *_lines([*_MEASURES.values()], whole)]
    return lines


def _area(found: Mapping[str, list[float]] | None) -> str:
    return "not measured" if found is None else f"{_median(found['downtime_ms'])} ({_median(found['stop_ms'])})"


def _median(values: list[float] | None) -> str:
    return f"{statistics.median(values):,.0f}" if values else "not measured"


def _lines(heads: Iterable[str], rows: Mapping[str, Iterable[str]]) -> list[str]:
    columns = list(heads)
    body = [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    return [f"| | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}", *body, ""]


def _measured(machine: Mapping[str, Any]) -> str:
    """The machine and the date."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"\nMeasured {machine['at'][:10]} at commit {machine['commit']} on {machine['cpus']} CPUs "
        f"({machine['machine']}, load {machine['load']} at the start), Python {machine['python']}, {versions}."
    )


def _value(value: float | None, unit: str) -> str:
    return "no result" if value is None else f"{value:,.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


if __name__ == "__main__":
    paths = [Path(each) for each in sys.argv[1:] if each.endswith(".jsonl")]
    if not paths:
        raise SystemExit("usage: python -m benchmarks.table RESULTS.jsonl … [NAME …]")
    read = [[json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] for path in paths]
    names = [each for each in sys.argv[1:] if not each.endswith(".jsonl")]
    kinds, rows = {lines[0]["benchmark"] for lines in read}, [row for lines in read for row in lines[1:]]
    if "rebalances" in kinds:
        print("\n".join([triggers(rows, names), *(_measured(lines[0]) for lines in read)]))
    elif "stops" in kinds:
        print("\n".join([*stops(rows), *(_measured(lines[0]) for lines in read)]))
    else:
        print(table(read, names))
