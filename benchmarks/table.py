"""``python -m benchmarks.table RESULTS.jsonl … [NAME …]``: raw results as a Markdown table for README.md.

Results of `stops` give one table per group, clients over changes, then all measures of each change. ``--pages`` writes
them into README.md and docs/measurements.md instead.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import stop_tables


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
    return "\n".join([*out, *(measured(lines[0]) for lines in files)])


def measured(machine: Mapping[str, Any]) -> str:
    """The machine and the date."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"\nMeasured {machine['at'][:10]} at commit {machine['commit']} on {machine['cpus']} CPUs "
        f"({machine['machine']}, load {machine['load']} at the start), Python {machine['python']}, {versions}."
    )


def _value(value: float | None, unit: str) -> str:
    return "no result" if value is None else f"{value:,.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


if __name__ == "__main__":
    paths = [Path(argument) for argument in sys.argv[1:] if argument.endswith(".jsonl")]
    if not paths:
        raise SystemExit("usage: python -m benchmarks.table RESULTS.jsonl … [NAME … | --pages]")
    read = [[json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] for path in paths]
    names = [argument for argument in sys.argv[1:] if not argument.endswith(".jsonl")]
    kinds, rows = {lines[0]["benchmark"] for lines in read}, [row for lines in read for row in lines[1:]]
    if kinds == {"stops"}:
        whole = [*stop_tables.tables(rows), *(measured(lines[0]) for lines in read)]
        if names == ["--pages"]:
            stop_tables.write(rows, [*whole, "", f"Raw: {', '.join(f'`{path.name}`' for path in paths)}."])
        else:
            print("\n".join(whole))
    else:
        print(table(read, names))
