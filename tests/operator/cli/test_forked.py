"""A command that is forked for a test answers as one that is started."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.forked import run
from tests.support.places import ROOT
from tests.support.programs import python


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    ["kafka_assignors explain o1", "kafka_assignors explain O99", "kafka_assignors --nonsense",
     "kafka_assignors.integration judge absent --json", "kafka_assignors.producers growth --from 6 --to 12"],
)  # fmt: skip
def test_the_same_answer(line: str, tmp_path: Path) -> None:
    module, *args = line.split()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = python("-m", module, *args, cwd=tmp_path, env=environment)

    forked = run(module, *args, timeout_s=60, cwd=tmp_path)

    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)


@pytest.mark.slow
def test_it_has_its_own_environment_and_is_killed_if_it_is_late(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text("import os, sys\nprint(os.environ['OURS'], os.getcwd())\nsys.exit(7)\n")
    (tmp_path / "late.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")

    told = run("told", timeout_s=60, cwd=tmp_path, environment={**os.environ, "OURS": "own"})

    assert (told.returncode, told.stdout) == (7, f"own {tmp_path}\n")
    with pytest.raises(subprocess.TimeoutExpired) as late:
        run("late", timeout_s=1, cwd=tmp_path)
    assert late.value.output in ("", "begun\n")


def test_what_is_read_at_the_start_of_python_needs_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "coded.py").write_text("import sys\nprint(sys.stdout.encoding)\n")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}

    assert run("coded", timeout_s=60, cwd=tmp_path, environment=environment).stdout == "ascii\n"
