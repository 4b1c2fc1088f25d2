"""Programs, each run to its end in pipes and without a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
def owner(program: str) -> Iterator[tuple[int, list[str]]]:
    """A Python program that prints a line and waits: its pid, and the words of the line. Killed at the end."""
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            yield process.pid, process.stdout.readline().split()
        finally:
            process.kill()
