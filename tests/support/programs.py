"""Programs, each run to its end in pipes and without a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.support.places import ROOT


def ran(  # where, in what and for how long a program runs
    *command: str | Path,
    within_s: float = 120,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    check: bool = False,
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """What a program answered, as text.

    Args:
        env: Its environment; None: that of this process.
        **more: Variables beside these.

    Raises:
        subprocess.TimeoutExpired: It did not end in time, and was killed.
        subprocess.CalledProcessError: With `check`, its exit code is not 0.
    """
    environment = {**(os.environ if env is None else env), **more}
    return subprocess.run(
        command, stdin=stdin, capture_output=True, text=True, timeout=within_s, cwd=cwd, env=environment, check=check
    )


def python(*words: str | Path, **how: Any) -> subprocess.CompletedProcess[str]:
    """`ran` with this interpreter."""
    return ran(sys.executable, *words, **how)


@contextmanager
def running(
    *command: str | Path, end: signal.Signals = signal.SIGTERM, **more: str
) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A program and what it prints. If it still runs at the end it gets the signal `end`; in any case it is waited for.

    Args:
        **more: Variables beside those of this process.
    """
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, **more}) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout
        finally:
            process.send_signal(end)


@contextmanager
def owner(program: str) -> Iterator[tuple[int, list[str]]]:
    """A Python program that prints a line and waits: its pid, and the words of the line. Killed at the end."""
    with running(sys.executable, "-c", textwrap.dedent(program), end=signal.SIGKILL) as (process, lines):
        yield process.pid, lines.readline().split()
