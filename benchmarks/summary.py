"""The end of ``python -m benchmarks all``: each ratio beside its full run and its goal, and what was left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .goals import goal_of
from .result import RESULTS

Row = Mapping[str, Any]


@dataclass
class Ran:
    """One benchmark of a run.

    Args:
        name: Its name.
        seconds: How long it took.
        rows: Its rows, as in the results file.
        wrong: Why it failed; empty if it completed with right answers.
    """

    name: str
    seconds: float = 0.0
    rows: list[dict[str, Any]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def kept(benchmark: str, folder: Path = RESULTS) -> dict[str, Row]:
    """The rows of the kept full runs of a benchmark, else of its quick ones, each from the newest file that has it."""
    rows: dict[str, Row] = {}
    for path in sorted(folder.glob(f"{benchmark}-full-*.jsonl")) or sorted(folder.glob(f"{benchmark}-*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            if "name" in row:
                rows[row["name"]] = row
    return rows


def lines(ran: Sequence[Ran], skipped: Mapping[str, str], folder: Path = RESULTS) -> Iterator[str]:
    """The summary of a run.

    Args:
        ran: Its benchmarks.
        skipped: Benchmark that did not run -> why.
        folder: Has the kept full runs.
    """
    full = {name: kept(name, folder) for name in [*(run.name for run in ran), *skipped]}
    yield f"{'benchmark':<13}{'row':<44}{'ratio':>9}{'full run':>10}  goal"
    for run in ran:
        for row in run.rows:
            goal = goal_of(run.name, row["name"])
            if row["ratio"] is None and row["peer"] is None and goal is None:
                continue
            before = full[run.name].get(row["name"], {}).get("ratio")
            hit = {None: "", True: "hit", False: "MISSED"}[goal.hit(row) if goal else None]
            goal_text = f"{goal.text(row['unit'])}: {hit or 'no result'}" if goal else "-"
            if goal and goal.ratio is None:
                goal_text += f" ({row['value']} {row['unit']})"
            yield f"{run.name:<13}{row['name']:<44}{_ratio(row['ratio']):>9}{_ratio(before):>10}  {goal_text}"
    left = {run.name: _left_out(full[run.name], {row["name"] for row in run.rows}) for run in ran}
    for name, rows in left.items():
        if rows:
            yield f"left out of {name}: {', '.join(rows)}"
    for name, why in skipped.items():
        yield f"left out: {name} ({why})"
    yield "seconds: " + ", ".join(f"{run.name} {run.seconds:.0f}" for run in ran)
    for run in ran:
        yield from (f"WRONG: {run.name}: {why}" for why in run.wrong)
    goals = [(goal, row) for run in ran for row in run.rows if (goal := goal_of(run.name, row["name"]))]
    reached = sum(goal.hit(row) is True for goal, row in goals)
    total = sum(run.seconds for run in ran)
    yield f"{reached} of {len(goals)} goals reached; {len(ran)} benchmarks in {total // 60:.0f} min {total % 60:.0f} s"


def read(path: Path) -> list[Ran]:
    """The benchmarks of a kept summary, ``results/all-….jsonl``."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [Ran(row["benchmark"], row["seconds"], row["rows"], row["wrong"]) for row in rows if "rows" in row]


def goals_table(ran: Sequence[Ran]) -> Iterator[str]:
    """The rows that have a goal, as Markdown for ``docs/measurements.md``."""
    yield "| benchmark | row | ratio | goal | |"
    yield "|---|---|---|---|---|"
    for run in ran:
        for row in run.rows:
            if goal := goal_of(run.name, row["name"]):
                value = "-" if row["value"] is None else f"{row['value']:.3g} {row['unit']}"
                shown = value if goal.ratio is None else _ratio(row["ratio"])
                hit = {None: "no result", True: "hit", False: "**missed**"}[goal.hit(row)]
                yield f"| {run.name} | `{row['name']}` | {shown} | {goal.text(row['unit'])} | {hit} |"


def _left_out(full: Mapping[str, Row], rows: set[str]) -> list[str]:
    """The kept rows with a ratio that these rows lack."""
    return [name for name, row in full.items() if row["ratio"] is not None and name not in rows]


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3g}x"
