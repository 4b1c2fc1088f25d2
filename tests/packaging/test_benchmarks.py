"""``python -m benchmarks all``: its summary, goals and exit code, with results that no benchmark measured."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from benchmarks import __main__ as command
from benchmarks import result, summary
from benchmarks.goals import GOALS, goal_of
from benchmarks.recorder import apart, overhead
from benchmarks.result import Result
from benchmarks.summary import Ran


def full(folder: Path, benchmark: str, *rows: Result) -> None:
    """Keep a full run."""
    lines = [{"benchmark": benchmark}, *(row.row() for row in rows)]
    (folder / f"{benchmark}-full-20260101-000000.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")


@pytest.mark.slow
def test_every_goal_is_of_a_row_that_a_full_run_has() -> None:
    assert [
        goal for goal in GOALS if not any(re.fullmatch(goal.rows, row) for row in summary.kept(goal.benchmark))
    ] == []


def test_the_summary_tells_each_ratio_its_goal_and_what_is_left_out(tmp_path: Path) -> None:
    w1, w2 = Result("W1-join", 2.0, "ms", "p", 1200.0), Result("W2-join/wire/java-sticky", 2.0, "ms", "p", 40.0)
    full(tmp_path, "assignors", w1, w2)
    ran = Ran("assignors", 65.0, [Result("W1-join", 3.0, "ms", "p", 1200.0).row()])

    told = "\n".join(summary.lines([ran], {"distinct": "no ratio"}, tmp_path))

    assert re.search(r"W1-join +400x +600x +>= 500x: MISSED", told)
    assert "left out of assignors: W2-join/wire/java-sticky" in told
    assert "left out: distinct (no ratio)" in told
    assert "0 of 1 goals reached; 1 benchmarks in 1 min 5 s" in told


@pytest.mark.parametrize(
    ("benchmark", "row", "hit"),
    [
        ("assignors", Result("W1-join", 1.0, "ms", "p", 500.0), True),
        ("assignors", Result("W1-join", 1.0, "ms", "p", 499.0), False),
        ("assignors", Result("W1-join", 1.0, "ms", "p", None), None),
        ("stops", Result("3x12/join/java/cooperative-sticky", 400.0, "partition-ms", "p", 8000.0), True),
        ("stops", Result("3x12/leave/kafka-python/cooperative-sticky", 400.0, "partition-ms", "p", 7900.0), False),
        ("broker", Result("warm-start-1", 1.3, "s"), False),
        ("start", Result("idle/range", 54.0, "MB", "p", 30.0), True),
        ("start", Result("idle/range", 56.0, "MB", "p", 30.0), False),
    ],
)
def test_a_goal_is_hit_or_missed(benchmark: str, row: Result, hit: bool | None) -> None:
    goal = goal_of(benchmark, row.name)

    assert goal is not None
    assert goal.hit(row.row()) is hit


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "code"), [(0, 0), (1, 1)])
def test_a_wrong_answer_fails_the_run(wrong: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(quick: bool) -> Iterator[Result]:
        assert quick
        yield Result("laws-broken", wrong, "runs", none=True)

    monkeypatch.setattr(command, "import_module", lambda *_: SimpleNamespace(run=run))
    monkeypatch.setattr(result, "RESULTS", tmp_path / "benchmarks" / "results")
    (tmp_path / "benchmarks").mkdir()

    said = CliRunner().invoke(command.app, ["all", "--quick"])

    assert said.exit_code == code, said.output
    assert ("WRONG: send: laws-broken: 1.0 runs, and 0 is right" in said.output) is bool(wrong)
    assert "left out: distinct (growth" in said.output


@pytest.mark.parametrize(
    ("ratios", "told"),
    [
        # of 11 the second and the tenth: 2 * (1 + 11) / 2 ** 11 = 1.2 %, and one further in 6.5 %
        ([0.9, 1.01, *[1.02] * 7, 1.03, 1.5], "+2.0 % in 11 turns; 95 %: +1.0 to +3.0"),
        # of 6 the first and the last: 2 / 2 ** 6 = 3.1 %
        ([0.99, 1.0, 1.0, 1.0, 1.0, 1.04], "+0.0 % in 6 turns; 95 %: -1.0 to +4.0"),
        ([1.0, 1.1, 1.2, 1.3, 1.4], "+20.0 % in 5 turns; too few turns for bounds"),
    ],
)
def test_an_overhead_has_the_bounds_of_its_median(ratios: list[float], told: str) -> None:
    without = [2.0 + number for number in range(len(ratios))]

    assert overhead([ratio * other for ratio, other in zip(ratios, without, strict=True)], without) == told


@pytest.mark.parametrize("way", ["poll", "iterator"])
def test_the_recorders_own_calls_are_timed_on_records_in_memory(way: str, tmp_path: Path) -> None:
    """The wrapper of today's recorder fits the consumer of the benchmark."""
    took = apart(way, 1000, 1, tmp_path)

    assert (took.name, took.unit) == (f"kafka-python/{way}/apart", "us/record")
    assert any('"count":' in path.read_text("utf-8") for path in tmp_path.iterdir())
