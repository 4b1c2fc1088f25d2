"""No command is silent for more than five seconds, also where no terminal shows a live line."""

from __future__ import annotations

import io
import os
import re
import subprocess
import threading
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from kafka_assignors import output
from kafka_assignors.frame import Output
from kafka_assignors.output import TOLD_EVERY_S, configured, going_on
from tests.support.places import ROOT
from tests.support.waiting import until


class Lines(io.StringIO):
    """A stream that tells when so many lines were written."""

    def wait(self, count: int) -> None:
        until(lambda: self.getvalue().count("\n") >= count, f"{count} lines", within_s=30)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "TOLD_EVERY_S", 0.01)


def test_it_is_five_seconds() -> None:
    assert TOLD_EVERY_S == 5


def test_what_goes_on_is_told_with_where_it_is() -> None:
    with redirect_stderr(Lines()) as stderr, going_on("reading a\x1b[31mb", lambda: "3 of 9"):
        stderr.wait(2)
    before = stderr.getvalue()

    assert re.fullmatch(r"(reading a\\x1b\[31mb: \d+ s, 3 of 9\n)+", before)
    assert not [thread for thread in threading.enumerate() if "repeat" in thread.name]
    assert stderr.getvalue() == before


def test_a_command_in_a_pipe_tells_the_share_and_a_quiet_one_nothing() -> None:
    with redirect_stderr(Lines()) as stderr, Output().busy("reading the log") as progress:
        stderr.wait(1)
        progress(0.25)
        before = stderr.getvalue().count("\n")
        stderr.wait(before + 2)
    assert re.match(r"reading the log: \d+ s\n", stderr.getvalue())
    assert re.search(r"reading the log: \d+ s, 25%\n", stderr.getvalue())

    with redirect_stderr(Lines()) as stderr, configured(quiet=True, verbose=False, color="auto"):
        threads = threading.active_count()
        with Output(quiet=True).busy("reading the log") as progress:
            progress(0.5)
            assert threading.active_count() == threads, "nothing is to tell"
    assert stderr.getvalue() == ""


@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 3])
def test_make_tells_that_a_step_goes_on_and_has_its_exit_code(code: int, tmp_path: Path) -> None:
    """The step reads its input, and ends with it.

    `make test` hands its own flags to every make below it, by which that one would tell its folder too.
    """
    text = (ROOT / "Makefile").read_text("utf-8")
    definition = re.search(r"^PATIENTLY := (?:.*\\\n)*.*\n", text, re.MULTILINE)
    assert definition is not None
    assert "sleep 5" in definition[0]
    step = f"sh -c 'cat; exit {code}'"
    make = tmp_path / "Makefile"
    make.write_text(f"{definition[0].replace('sleep 5', 'sleep 0.1')}\nall:\n\t@$(PATIENTLY) 'step 1 of 3' {step}\n")
    with subprocess.Popen(
        ["make", "-f", str(make)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert re.fullmatch(r"step 1 of 3: \d+ s\n", process.stdout.readline())
        process.stdin.close()
        process.stdout.read()
    assert (process.returncode == 0) is (code == 0)


def test_every_long_step_of_make_is_told() -> None:
    """`pip` and `mkdocs` are silent in a pipe, and so may the preparing of Java be."""
    text = (ROOT / "Makefile").read_text("utf-8")
    long = [line for line in text.splitlines() if re.search(r"-m (pip install|mkdocs|kafka_assignors\.jvm)", line)]
    assert len(long) == 5
    assert [line for line in long if "$(PATIENTLY)" not in line] == []
