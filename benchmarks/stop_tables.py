"""Results of the benchmark `stops` as Markdown, for README.md and docs/measurements.md."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .stops import JOIN, LEAVE, ROLL

ROOT = Path(__file__).parents[1]

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


def tables(rows: Iterable[Mapping[str, Any]]) -> list[str]:
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
        lines += [
            f"**{group}**: partition-ms without an owner (longest, ms), median and worst run",
            "",
            *_lines([*changes], areas),
        ]
        for change, of in changes.items():
            whole = {
                client: [_median(measures.get(measure)) for measure in _MEASURES] for client, measures in of.items()
            }
            lines += [f"**{group}, {change}**, medians", "", *_lines([*_MEASURES.values()], whole)]
    return lines


def _area(measures: Mapping[str, list[float]] | None) -> str:
    """The medians and, of several runs, the largest values: a stop that depends on luck is short in most runs."""
    if measures is None:
        return "not measured"
    areas, longest = measures["downtime_ms"], measures["stop_ms"]
    middle = f"{_median(areas)} ({_median(longest)})"
    return middle if len(areas) == 1 else f"{middle}, worst {max(areas):,.0f} ({max(longest):,.0f})"


def _median(values: list[float] | None) -> str:
    return f"{statistics.median(values):,.0f}" if values else "not measured"


def _lines(heads: Iterable[str], rows: Mapping[str, Iterable[str]]) -> list[str]:
    columns = list(heads)
    body = [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    return [f"| | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}", *body, ""]


SHORT = (("3x12", JOIN), ("3x12", LEAVE), ("5x60", ROLL))
"""Groups and changes of the README's table."""
_SHORT_CLIENTS = (
    *("ours/cooperative-sticky", "kafka-python/cooperative-sticky", "java/cooperative-sticky", "java-kip-848/uniform"),
    *("librdkafka/cooperative-sticky", "franz-go/cooperative-sticky"),
)
"""Rows of the README's table; the other page has all."""
_HEADS = ("a fourth member joins, 12 partitions", "one of four leaves", "five are replaced, 60 partitions")


def short(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Lines of the README's table: the changes in `SHORT`, indented for a list."""
    kept = {row["name"]: row["raw"] for row in rows if row["raw"].get("downtime_ms")}
    there = {name.split("/", 2)[2] for name in kept}
    clients = [client for client in _SHORT_CLIENTS if client in there]
    cells = {
        f"{client.split('/')[0]} `{client.split('/', 1)[1]}`": [
            _area(kept.get(f"{shape}/{change}/{client}")) for shape, change in SHORT
        ]
        for client in clients
    }
    return [f"  {line}".rstrip() for line in _lines(_HEADS, cells)]


def write(rows: Sequence[Mapping[str, Any]], whole: Sequence[str], root: Path = ROOT) -> None:
    """Write the tables between the marks ``<!-- stops -->`` and ``<!-- /stops -->`` of both pages.

    Args:
        rows: Rows of results files of `stops`.
        whole: Lines for docs/measurements.md.
        root: The project.
    """
    for name, lines in (("README.md", short(rows)), ("docs/measurements.md", whole)):
        page = root / name
        text, times = re.subn(
            r"(<!-- stops -->\n).*?(\n *<!-- /stops -->)",
            lambda match, made=lines: f"{match[1]}\n{_trimmed(made)}\n{match[2]}",  # type: ignore[misc]
            page.read_text("utf-8"),
            flags=re.DOTALL,
        )
        if times != 1:
            raise SystemExit(f"error: {page} has no place for the tables: <!-- stops --> … <!-- /stops -->")
        page.write_text(text, "utf-8")


def _trimmed(lines: Sequence[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
