"""``python -m benchmarks.table RESULTS.jsonl [NAME …]``: a kept raw file as a Markdown table, for README.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def table(lines: list[dict[str, Any]], names: list[str]) -> str:
    """The rows of those names in that order (without names: all), and where and when they were measured."""
    machine, rows = lines[0], {row["name"]: row for row in lines[1:]}
    if unknown := [name for name in names if name not in rows]:
        raise SystemExit(f"error: no row {', '.join(unknown)}; there are: {', '.join(rows)}")
    out = ["| | ours | peer | | ratio | |", "|---|---|---|---|---|---|"]
    for row in [rows[name] for name in names] if names else rows.values():
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3g}"
        peer = [row["peer"], _value(row["peer_value"], row["unit"])] if row["peer"] else ["", ""]
        cells = [f"`{row['name']}`", _value(row["value"], row["unit"]), *peer, ratio, row.get("note", "")]
        out.append(f"| {' | '.join(cells)} |")
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    out.append(
        f"\nMeasured {machine['at'][:10]} at commit {machine['commit']} on {machine['cpus']} CPUs "
        f"({machine['machine']}, load {machine['load']} at the start), Python {machine['python']}, {versions}."
    )
    return "\n".join(out)


def _value(value: float | None, unit: str) -> str:
    return "no result" if value is None else f"{value:,.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m benchmarks.table RESULTS.jsonl [NAME …]")
    raw = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    print(table([json.loads(line) for line in raw], sys.argv[2:]))
