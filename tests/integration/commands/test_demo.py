"""The demo's end: its page and its histories are there before Spark, and stay whatever Spark does."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from kafka_assignors.integration.commands import demo
from kafka_assignors.integration.commands.demo import Demo
from kafka_assignors.integration.commands.playing import tell_demo
from kafka_assignors.integration.processes.told import TooSlow, run_told
from kafka_assignors.integration.report.report import Report
from tests.support.cli import SCHEMAS
from tests.support.programs import python

SEES_THE_PAGE = """
import pathlib, sys
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
page = out.parent / "report.html"
print("pipeline: the page", "is there" if page.is_file() else "is missing", file=sys.stderr, flush=True)
out.parent.joinpath("seen.html").write_bytes(page.read_bytes())
"""
"""A Spark job that keeps the page as it is when the job begins."""
HANGS = "import time\nprint('pipeline: keys …', file=sys.stderr, flush=True)\ntime.sleep(600)\n"
FAILS = "print('error: the heap is full', file=sys.stderr)\nsys.exit(3)\n"
ANSWERS = """print('{"topics": [], "out": {"placement": "p", "group_timeline": "t"}}')\n"""


@dataclass
class Kafka:
    """A broker and a sandbox that are only named."""

    backend: str = "none"
    version: str = "0"
    connection: Any = field(default_factory=lambda: SimpleNamespace(properties=lambda: ""))

    def name(self, topic: str) -> str:
        return topic


def played(
    out: Path, monkeypatch: pytest.MonkeyPatch, job: str, *, timeout_s: float = 60, value: bool | None = True
) -> tuple[Demo, Report, str]:
    """A demo of one part with this verdict, and this Spark job; the demo, its report, what it printed."""
    monkeypatch.setattr(demo, "SPARK", (sys.executable, "-c", SEES_THE_PAGE + job))
    monkeypatch.setattr(demo, "SPARK_TOLD_S", 0.2)
    monkeypatch.setattr(demo, "read_back", lambda *_: SimpleNamespace(counts={}))
    monkeypatch.setattr(demo, "_parquet", lambda *_: iter(()))
    monkeypatch.setattr(Demo, "_parts", lambda _: [("placement", lambda: Report("the demo", "", value, ()))])
    out.mkdir(exist_ok=True)
    printed, kafka = StringIO(), Kafka()
    console = Console(file=printed, width=200)
    one = Demo(kafka, kafka, out, "run", console, spark_timeout_s=timeout_s)  # type: ignore[arg-type]
    return one, one.run(), printed.getvalue()


def test_the_page_and_the_paths_are_there_before_spark_and_the_page_again_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, report, printed = played(tmp_path / "out", monkeypatch, ANSWERS)

    seen, last = ((tmp_path / "out" / name).read_text("utf-8") for name in ("seen.html", "report.html"))
    assert "Spark is at work" in seen
    assert "Spark is at work" not in last
    assert "What Spark read" in last
    assert "... Spark: the page is there" in printed
    before = printed[: printed.index("2 of 2: Spark")]
    assert f"Page without Spark: {one.page.resolve()}" in before
    assert f"Histories: {one.history.resolve()}" in before
    assert (report.value, one.spark_failure) == (True, "")
    assert tell_demo(one, report, 1.0, False) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "timeout_s", "says"),
    [
        (FAILS, 60, "the Spark job failed (exit 3): the heap is full"),
        (HANGS, 1.5, "did not end within 1.5 s; it was at: keys …"),
    ],
)
def test_a_spark_job_that_fails_or_is_too_slow_leaves_all_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    job: str,
    timeout_s: float,
    says: str,
) -> None:
    one, report, printed = played(tmp_path / "out", monkeypatch, job, timeout_s=timeout_s)

    assert says in one.spark_failure
    assert "placement: true" in printed
    assert report.value is True
    page = one.page.read_text("utf-8")
    assert says.split(";", maxsplit=1)[0] in page
    assert "Spark is at work" not in page
    assert tell_demo(one, report, 1.0, False) == 3
    told = capsys.readouterr()
    assert "All verdicts but Spark's: true." in told.out
    assert f"Page: {one.page.resolve()}" in told.out
    assert f"Histories: {one.history.resolve()}" in told.out
    assert told.err.startswith("error: the Spark job")


@pytest.mark.slow
def test_what_is_false_stays_false_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, report, _ = played(tmp_path / "out", monkeypatch, FAILS, value=False)
    assert tell_demo(one, report, 1.0, False) == 1
    one, report, _ = played(tmp_path / "unknown", monkeypatch, FAILS, value=None)
    assert tell_demo(one, report, 1.0, False) == 3


@pytest.mark.slow
def test_json_has_the_history_and_why_spark_has_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((SCHEMAS / "demo.json").read_text("utf-8"))
    for job, failed in ((ANSWERS, False), (FAILS, True)):
        one, report, _ = played(tmp_path / str(failed), monkeypatch, job)
        tell_demo(one, report, 1.0, True)
        told = json.loads(capsys.readouterr().out)
        jsonschema.validate(told, schema)
        assert (told["history"], told["spark_failure"] is not None) == (str(one.history.resolve()), failed)


@pytest.mark.slow
def test_a_stage_is_told_again_while_it_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that says nothing is not silence for the user: no more than `SPARK_TOLD_S` pass without a line."""
    _, _, printed = played(tmp_path / "out", monkeypatch, HANGS, timeout_s=2.5)
    stages = [line for line in printed.splitlines() if line.startswith("... Spark: keys …")]
    assert stages[0] == "... Spark: keys …"
    assert len(stages) >= 4
    assert all(line.endswith(" s ago)") for line in stages[1:])


@pytest.mark.slow
def test_a_program_is_told_from_its_start_and_ended_if_it_is_too_slow() -> None:
    told: list[tuple[str, bool]] = []
    silent = [sys.executable, "-c", "import time; time.sleep(600)"]

    with pytest.raises(TooSlow) as slow:
        run_told(silent, lambda line, s: told.append((line, s > 0)), timeout_s=1, silence_s=0.2)

    assert slow.value.line == ""
    assert told
    assert set(told) == {("", True)}
    assert run_told(*_echo("a\nb\n"), timeout_s=60, silence_s=5).stderr == "a\nb\n"


def _echo(text: str) -> tuple[Sequence[str], Any]:
    return [sys.executable, "-c", f"import sys; sys.stderr.write({text!r})"], lambda line, s: None


def test_a_step_is_told_as_it_begins_in_a_pipe() -> None:
    """And again while it runs, with what it is at."""
    code = (
        "import sys, threading\n"
        "from kafka_assignors.pipeline import progress\n"
        "progress.TOLD_EVERY_S = 0.05\n"
        "seen = threading.Event()\n"
        "one = progress.Progress()\n"
        "one.detail = lambda: (seen.set(), 'stage 7: 3 of 12 tasks')[1]\n"
        "with one('keys'):\n"
        "    seen.wait(30)\n"
    )
    said = python("-c", code, check=True).stderr.splitlines()
    assert said[0] == "pipeline: keys …"
    assert said[1] == "pipeline: keys … 0 s, stage 7: 3 of 12 tasks"
    assert said[-1].startswith("pipeline: keys 0.")
