"""The folders of runs that start at once: each run has its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.recording import run_folder
from tests.support.places import ROOT
from tests.support.programs import ran

MANY = 12
TAKE = """
import json, sys
from pathlib import Path
from kafka_assignors.errors import ConfigError
from kafka_assignors.integration import recording
recording.time.strftime = lambda form: "20260131-080000"
sys.stdin.readline()
try:
    with recording.run_folder(Path(sys.argv[1]) if len(sys.argv) > 1 else None) as folder:
        (folder / "history").mkdir()
        print(json.dumps(str(folder)), flush=True)
        sys.stdin.readline()
except ConfigError as error:
    print(json.dumps(f"error: {error}"), flush=True)
"""


def at_once(folder: Path, *words: str) -> list[str]:
    """What many processes get that ask at the same moment, each before any of them ends."""
    command = [sys.executable, "-c", TAKE, *words]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": folder}
    processes = [subprocess.Popen(command, **pipes) for _ in range(MANY)]
    try:
        for each in processes:
            each.stdin.write("go\n")  # type: ignore[union-attr]
            each.stdin.flush()  # type: ignore[union-attr]
        answers = [json.loads(each.stdout.readline()) for each in processes]  # type: ignore[union-attr]
    finally:
        for each in processes:
            each.communicate()
    return answers


@pytest.mark.slow
def test_runs_of_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    first, *others = sorted(at_once(tmp_path), key=lambda name: (len(name), name))

    assert first == "runs/20260131-080000"
    assert others == [f"{first}-{number}" for number in range(2, MANY + 1)]


@pytest.mark.slow
def test_one_run_alone_gets_a_folder_that_was_named(tmp_path: Path) -> None:
    answers = at_once(tmp_path, "mine")

    assert [answer for answer in answers if not answer.startswith("error")] == ["mine"]
    refused = {answer for answer in answers if answer.startswith("error")}
    assert refused == {"error: --out mine: another run is writing into it; name another folder"}


@pytest.mark.parametrize("resumed", [True, False])
def test_a_folder_is_free_again_when_its_run_is_over(tmp_path: Path, resumed: bool) -> None:
    """It is removed if nothing was written, and a later run gets it only if it may add to it."""
    out = tmp_path / "out"
    with run_folder(out), pytest.raises(ConfigError, match="another run"), run_folder(out, resumed=True):
        pass
    assert not out.exists()
    with run_folder(out):
        (out / "history").mkdir()
    if resumed:
        with run_folder(out, resumed=True) as folder:
            assert folder == out
    else:
        with pytest.raises(ConfigError, match="is not empty"), run_folder(out):
            pass


@pytest.mark.slow
@pytest.mark.parametrize("where", ["--out", "the working directory"])
def test_a_name_that_no_page_can_have_is_refused_before_anything_starts(tmp_path: Path, where: str) -> None:
    """Pages and manifests are UTF-8; the run would fail at its end."""
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    odd.mkdir()
    command = [sys.executable, "-m", "kafka_assignors.integration", "run", "range-skew"]
    more = ["--out", str(odd / "out")] if where == "--out" else []

    done = ran(*command, *more, cwd=tmp_path if more else odd, PYTHONPATH=str(ROOT))

    assert (done.returncode, done.stdout) == (2, "")
    name = r"caf\xe9/out" if more else r"caf\xe9"
    assert done.stderr == f"error: --out {tmp_path}/{name}: its name is not UTF-8; name another folder\n"
    assert list(odd.iterdir()) == []
