"""The processes of the harness: what they import, and how they are waited for."""

from __future__ import annotations

import resource
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafka_assignors.integration.processes.child import ChildProgram
from kafka_assignors.integration.processes.python import python_command
from tests.support.programs import ran


def test_the_standard_library_is_not_shadowed_by_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "mine.py").write_text("import random, sys; print(random.randrange(1), sys.argv[1:])")
    monkeypatch.chdir(tmp_path)

    done = ran(*python_command("mine", "a", "b c"), cwd=tmp_path)

    assert (done.stdout, done.returncode) == ("0 ['a', 'b c']\n", 0), done.stderr


def test_a_process_is_waited_for_beyond_a_thousand_descriptors(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip(f"this machine allows {hard} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    try:
        with ExitStack() as stack:
            for _ in range(1100):
                stack.enter_context(Path("/dev/null").open("rb"))
            program = ChildProgram([sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "output")
            stack.callback(program.close)
            program.wait(30)
            assert program.returncode == 3
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
