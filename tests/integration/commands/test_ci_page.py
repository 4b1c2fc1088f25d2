"""``judge`` on the page of a CI job: one history in full, several by their counts, and never another exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_assignors.frame import NO, UNKNOWN, YES
from kafka_assignors.integration.commands.cli import app
from kafka_assignors.integration.report.ci_summary import VARIABLE
from tests.support.histories.story import Story


def story() -> Story:
    return Story("range", {"t": 4}).start("a", "b").round().records(40)


@pytest.fixture
def histories(tmp_path: Path) -> Path:
    """A true one, a false one and an unknown one."""
    folder = tmp_path / "runs"
    story().drain().write(folder / "sound")
    lost = story().consume("a")
    lost.tell("step", name="drained", offsets=lost._ends())
    lost.write(folder / "lost")
    (folder / "empty").mkdir()
    (folder / "empty" / "empty.jsonl").write_text("")
    return folder


def test_one_history_is_told_in_full(histories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setenv(VARIABLE, str(page))

    assert CliRunner().invoke(app, ["judge", str(histories / "sound")]).exit_code == YES
    assert CliRunner().invoke(app, ["judge", str(histories / "lost"), "--json"]).exit_code == NO

    first, second = page.read_text("utf-8").split("### ")[1:]
    assert first.startswith(f"kafka-assignors judge `{histories}/sound`: ✓ true\n")
    assert "| 40 | 40 | 0 |" in first
    assert second.startswith(f"kafka-assignors judge `{histories}/lost`: ✗ FALSE\n")
    assert "\n- **C3** ×2: `" in second


def test_of_several_histories_those_are_named_that_are_not_true(
    histories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setenv(VARIABLE, str(page))

    assert CliRunner().invoke(app, ["judge", str(histories)]).exit_code == NO

    lines = page.read_text("utf-8").splitlines()
    assert lines[0] == f"### kafka-assignors judge `{histories}`: ✗ FALSE"
    assert "3 histories: 1 true, 1 false, 1 unknown" in lines
    assert [line for line in lines if line.startswith(f"- `{histories}/lost` ✗ FALSE: `C3: ")]
    assert [line for line in lines if line.startswith(f"- `{histories}/empty` ? UNKNOWN: `")]
    assert len([line for line in lines if line.startswith("- ")]) == 2


def test_a_page_that_can_not_be_written_changes_no_exit_code(
    histories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))

    sound, unknown = (CliRunner().invoke(app, ["judge", str(histories / name)]) for name in ("sound", "empty"))

    assert (sound.exit_code, unknown.exit_code) == (YES, UNKNOWN)
    for done in (sound, unknown):
        assert f"warning: {VARIABLE} {tmp_path}: Is a directory; no summary is written\n" in done.output


def test_without_a_page_nothing_is_written(histories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    before = sorted(tmp_path.rglob("*"))

    assert CliRunner().invoke(app, ["judge", str(histories)]).exit_code == NO

    assert sorted(tmp_path.rglob("*")) == before
