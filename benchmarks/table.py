"""``python -m benchmarks.table RESULTS.jsonl … [NAME …]``: raw results as a Markdown table for README.md.

Results of `rebalances` give one table per trigger, or with names of measures one table per measure. Results of `stops`
give one table per group, clients over changes.
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


def stops(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Lines of a table per group: for each client and change the partition-ms without an owner and the longest stop.

    Args:
        rows: Rows of results files of `stops`. Cells are medians over their runs.
    """
    cells: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows:
        shape, change, *client = row["name"].split("/")
        if client and row["raw"].get("downtime_ms"):
            area, longest = (statistics.median(row["raw"][measure]) for measure in ("downtime_ms", "stop_ms"))
            cells.setdefault(shape, {}).setdefault("/".join(client), {})[change] = f"{area:,.0f} ({longest:,.0f})"
    lines: list[str] = []
    for shape, clients in cells.items():
        members, _, partitions = shape.partition("x")
        changes = list(dict.fromkeys(change for of in clients.values() for change in of))
        lines += [f"**{members} members, {partitions} partitions**: partition-ms without an owner (longest, ms)", ""]
        lines += [f"| | {' | '.join(changes)} |", f"|---|{'---:|' * len(changes)}"]
        for client, of in clients.items():
            name, _, assignor = client.partition("/")
            shown = " | ".join(of.get(change, "not measured") for change in changes)
            lines.append(f"| {name} `{assignor}` | {shown} |")
        lines.append("")
    return lines


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
