"""Commands whose standard output or error is closed, and signals that a command must not answer."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_assignors.output import ended_by_signals
from tests.support.programs import ran

FURTHER = pytest.mark.release("another command of one frame")
COMMANDS = (
    "kafka_assignors explain",
    pytest.param("kafka_assignors.integration judge {nothing}", marks=FURTHER),
    pytest.param("kafka_assignors keys growth --from 6 --to 12", marks=FURTHER),
    # long: more commands of the same front ends
    *(
        pytest.param(line, marks=pytest.mark.long)
        for line in (
            "kafka_assignors doctor",
            "kafka_assignors judge {nothing}",
            "kafka_assignors.integration up --nodes 2 --port 1",
        )
    ),
)
"""Command lines that need no broker."""


def run(line: str, closed: str) -> subprocess.CompletedProcess[str]:
    """A command's answer, without how long it took so far (``placing the keys: 5 s``)."""
    command = f"exec {shlex.quote(sys.executable)} -m {line} {closed}"
    answer = ran("sh", "-c", command)
    answer.stderr = re.sub(r"^.*: \d+ s\n", "", answer.stderr, flags=re.MULTILINE)
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMANDS)
def test_a_closed_stream_changes_no_answer(line: str, tmp_path: Path) -> None:
    """What would be written there is lost; the rest is as it is without."""
    line = line.format(nothing=tmp_path)
    open_ = run(line, "")
    without_output, without_errors, without_any = (run(line, closed) for closed in (">&-", "2>&-", "<&- >&- 2>&-"))

    assert "Traceback" not in open_.stderr
    assert (without_output.returncode, without_output.stdout, without_output.stderr) == (
        open_.returncode, "", open_.stderr,
    )  # fmt: skip
    assert (without_errors.returncode, without_errors.stderr) == (open_.returncode, "")
    assert (without_any.returncode, without_any.stdout, without_any.stderr) == (open_.returncode, "", "")


def test_a_signal_that_the_process_ignores_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under ``nohup``."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT])
def test_a_signal_ends_as_ctrl_c_does_and_a_second_sighup_is_ignored(number: signal.Signals) -> None:
    before, cleaned = signal.getsignal(number), []

    def work() -> None:
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(signal.SIGHUP if number == signal.SIGHUP else signal.SIGCHLD)
            cleaned.append("all")

    with pytest.raises(KeyboardInterrupt, match=number.name), ended_by_signals():
        work()
    assert cleaned == ["all"]
    assert signal.getsignal(number) is before
