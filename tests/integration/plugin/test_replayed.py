"""Law A1 over a whole run: what any test left behind is replayed, and one difference fails the run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.damage.swapped import swapped
from tests.support.histories.story import churn
from tests.support.places import ROOT
from tests.support.programs import python
from tests.support.replayed import INVENTED, replay_all


@pytest.mark.slow
@pytest.mark.invented
def test_generations_are_counted_by_who_led_them(tmp_path: Path) -> None:
    churn("range").write(tmp_path / "test_a0" / "history")
    churn("sticky").write(tmp_path / "test_b0")
    theirs = churn("sticky")
    theirs.change("start", lambda data: data["config"].update(assignors=["java:sticky"]), nth=0)
    theirs.write(tmp_path / "test_c0")
    one = len({e.data["generation"] for e in churn("range").events if e.kind == "generation_committed"})

    found = replay_all(tmp_path)

    assert (found.histories, found.generations, found.wrong) == (3, 3 * one, [])
    assert found.equal["range"] == one
    assert found.equal + Counter(sticky=found.others["java:sticky"]) == Counter(range=one, sticky=2 * one)
    assert found.others["java:sticky"] > 0
    assert f"{found.equal.total()} of {3 * one} generations in 3 histories" in found.lines()[0]


@pytest.mark.invented
def test_a_difference_is_told_with_both_answers_unless_the_test_made_it(tmp_path: Path) -> None:
    bad = swapped("sticky").write(tmp_path / "test_bad0")
    churn("sticky").change("assign_begin", lambda data: data.update(generation=99), nth=0).write(
        tmp_path / "test_blind0"
    )
    churn("sticky").drop("assign_begin", nth=0).write(tmp_path / "test_cut0")

    differs, *_, unseen = replay_all(tmp_path).wrong

    assert differs.startswith(str(bad))
    assert ", the replay " in differs
    assert "test_blind0: A1: the history does not have the topics that " in unseen
    assert "test_cut0" not in "".join(replay_all(tmp_path).wrong)
    for folder in (bad, tmp_path / "test_blind0"):
        (folder / INVENTED).touch()
    assert replay_all(tmp_path).wrong == []


SUITE = """
import sys
import pytest

sys.path.insert(0, {root!r})
from tests.support.histories.story import churn
from tests.support.damage.swapped import swapped


def test_sound(tmp_path):
    churn("range").write(tmp_path)


{mark}
def test_differs(tmp_path):
    swapped("range").write(tmp_path)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("mark", "code"), [("", 1), ("@pytest.mark.invented", 0)], ids=["found", "on purpose"])
def test_one_difference_fails_a_run_in_which_every_test_passes(mark: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(SUITE.format(root=str(ROOT), mark=mark))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    docker: an engine\n    invented: its history\n")

    done = python(
        "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", f"--rootdir={tmp_path}",
        "-c", str(tmp_path / "pytest.ini"), str(tmp_path / "test_two.py"),
    )  # fmt: skip

    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == code
    assert "law A1 over all histories" in done.stdout
    assert ("generation" in done.stdout and ", the replay " in done.stdout) == (code == 1)
    assert f"in {1 + code} histories were led by our assignors" in done.stdout
