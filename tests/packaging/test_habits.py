"""What surrounds the source: hooks, workflow, issue forms, the tour, the page on security."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.support.places import ROOT
from tests.support.workers import workers

TEMPLATES = ROOT / ".github" / "ISSUE_TEMPLATE"
pytestmark = pytest.mark.skipif(not TEMPLATES.is_dir(), reason="they are in a checkout, not in the sdist")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def recipe(target: str) -> list[str]:
    """The commands of a target of the Makefile."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert found is not None, target
    return [line.strip() for line in found[1].splitlines()]


def test_the_hooks_are_the_linters_of_make_lint() -> None:
    """From the same .venv; a hook of another repository would bring a version of its own."""
    [source] = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert source["repo"] == "local"
    linters = {line.replace("$(BIN)", ".venv/bin").removesuffix(" .") for line in recipe("lint")}
    *first, last = source["hooks"]
    assert {hook["entry"] for hook in first} == {line for line in linters if "/ruff " in line}
    assert (last["entry"], last["stages"], last["pass_filenames"]) == ("make lint", ["pre-push"], False)
    assert {hook["language"] for hook in source["hooks"]} == {"system"}


def test_the_workflow_runs_what_a_contributor_runs_on_each_python() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert {".ci/run", "make test-fast PYTHON=python"} <= set(commands)
    checked = re.search(r"^PYTHONS = \((.+)\)$", (ROOT / ".ci" / "release_check.py").read_text("utf-8"), re.MULTILINE)
    assert checked is not None
    assert jobs["fast"]["strategy"]["matrix"]["python"] == re.findall(r'"([\d.]+)"', checked[1])


@pytest.mark.parametrize("name", ["bug", "idea"])
def test_an_issue_brings_the_doctor_and_a_history(name: str) -> None:
    form = read(TEMPLATES / f"{name}.yml")
    text = str(form["body"])
    assert "kafka-assignors doctor" in text
    assert "history" in text
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0


def test_the_tour_leads_to_files_and_takes_ten_minutes() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rows = [row.split(" | ") for row in text.splitlines() if re.match(r"\| \d+ \| ", row)]
    assert sum(int(row[0].strip("| ")) for row in rows) == 10
    named = [path for row in rows for path in re.findall(r"`([^`]+/[^`]+)`", row[1])]
    assert len(named) > 8
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_security_says_where_to_report_and_what_is_supported() -> None:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    assert "private security advisory" in text
    assert "## What is supported" in text


def test_ci_runs_the_tests_as_the_readme_does() -> None:
    """Without a variable that says how many at a time."""
    commands = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    assert "make test" in commands
    assert not [line for line in commands if "WORKERS" in line]
    assert re.search(r"^make test +#", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize(
    ("brokers", "cpus", "memory_mb", "expected"),
    [
        (True, 1, 16_000, 1),
        (True, 2, 16_000, 3),
        (True, 4, 9_000, 2),
        (True, 2, 1_000, 1),
        (True, 64, 500_000, 8),
        (False, 2, 16_000, 2),
        (False, 64, 500_000, 64),
    ],
)
def test_workers_keep_the_cpus_busy_as_far_as_memory_suffices(
    brokers: bool, cpus: int, memory_mb: int, expected: int
) -> None:
    assert workers(brokers, cpus, memory_mb) == expected


@pytest.mark.parametrize(
    ("quota", "memory", "expected"),
    [("150000 100000", "max", 1), ("max 100000", "1600000000", 2), ("400000 100000", "800000000", 1)],
)
def test_a_container_has_fewer_workers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quota: str, memory: str, expected: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(16), raising=False)
    monkeypatch.setattr("tests.support.workers._LIMITS", tmp_path)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=64_000_000_000))
    (tmp_path / "cpu.max").write_text(f"{quota}\n")
    (tmp_path / "memory.max").write_text(f"{memory}\n")
    assert workers(False) == expected
