"""A program that tells on stderr what it is doing: run to its end, each line passed on as it comes."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import IO

from kafka_assignors.errors import KafkaAssignorsError

GRACE_S = 20.0
"""How long a program that is told to end may take: one that runs a JVM waits for it."""


@dataclass(frozen=True)
class Ended:
    """A program that ended, with all that it wrote."""

    returncode: int
    stdout: str
    stderr: str


class TooSlow(KafkaAssignorsError):
    """A program did not end in time, and was ended. `line`, its last on stderr ("": none), came `line_s` before."""

    def __init__(self, line: str, line_s: float) -> None:
        self.line, self.line_s = line, line_s
        super().__init__(f"{line or 'nothing'}, {line_s:.0f} s before the end")


def run_told(
    command: Sequence[str],
    tell: Callable[[str, float], None],
    *,
    timeout_s: float,
    silence_s: float,
    given: str | None = None,
) -> Ended:
    """Run a program. If it is too slow, or this call is interrupted, it gets SIGTERM, and SIGKILL after `GRACE_S`.

    `tell` is called with its last line on stderr ("" before the first) and the seconds since that line: as each line
    comes, and every `silence_s` seconds without one. `given` is its standard input, at most a pipe's buffer (64 kB);
    None: this process's own.

    Raises:
        TooSlow: It did not end in time.
        OSError: It could not be started.
    """
    process = subprocess.Popen(
        command,
        stdin=None if given is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        if given is not None and process.stdin is not None:
            with suppress(BrokenPipeError), process.stdin:  # it ended before it read: its exit code tells
                process.stdin.write(given)
        assert process.stdout is not None
        assert process.stderr is not None
        lines: SimpleQueue[str | None] = SimpleQueue()
        answer: list[str] = []
        threading.Thread(target=_pass_on, args=(process.stderr, lines), daemon=True).start()
        reader = threading.Thread(target=_keep, args=(process.stdout, answer), daemon=True)
        reader.start()
        deadline = time.monotonic() + timeout_s
        stderr_lines = _tell_all(lines, tell, deadline, silence_s)
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:  # it closed stderr and goes on
            raise TooSlow(stderr_lines[-1].strip() if stderr_lines else "", 0.0) from None
        reader.join(GRACE_S)
        return Ended(process.returncode, "".join(answer), "".join(stderr_lines))
    finally:
        _end(process)


def _pass_on(pipe: IO[str], lines: SimpleQueue[str | None]) -> None:
    with pipe:
        for line in pipe:
            lines.put(line)
    lines.put(None)


def _keep(pipe: IO[str], answer: list[str]) -> None:
    with pipe:
        answer.append(pipe.read())


def _tell_all(
    lines: SimpleQueue[str | None], tell: Callable[[str, float], None], deadline: float, silence_s: float
) -> list[str]:
    """Pass on all lines until the last; returns them."""
    stderr_lines: list[str] = []
    last, since = "", time.monotonic()
    while True:
        now = time.monotonic()
        if now >= deadline:
            raise TooSlow(last, now - since)
        try:
            line = lines.get(timeout=min(silence_s, deadline - now))
        except Empty:
            tell(last, time.monotonic() - since)
            continue
        if line is None:
            return stderr_lines
        stderr_lines.append(line)
        last, since = line.strip(), time.monotonic()
        tell(last, 0.0)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
