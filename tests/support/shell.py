"""A shell at a terminal of its own, to type into as a person does."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_DONE = re.compile(r"<done:(\d+)>")
COLUMNS, ROWS = 160, 60


class Shell:
    """An interactive bash without the user's own settings; a context manager, which ends it and what runs in it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        attributes = termios.tcgetattr(slave)
        attributes[3] &= ~termios.ECHO  # what is read is what was answered
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "--noediting", "-i"],
            stdin=slave, stdout=slave, stderr=slave, cwd=folder, start_new_session=True,
            env={**environment, "PS1": "", "PS2": "", "TERM": "xterm"},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that ^C is a signal
        )  # fmt: skip
        os.close(slave)
        self._text = ""

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._master)  # the terminal hangs up: SIGHUP ends what runs in it
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._master, line.encode() + b"\n")

    def interrupt(self) -> None:
        """Type ^C."""
        os.write(self._master, b"\x03")

    def shown(self, pattern: str, within_s: float) -> str:
        """Wait until a pattern is shown; what was shown up to there since the last time."""
        deadline = time.monotonic() + within_s
        while (match := re.search(pattern, self._text)) is None:
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{pattern!r} is not shown within {within_s:g} s, but:\n{self._text}"
            try:
                data = os.read(self._master, 65_536)
            except OSError as ended:  # how a terminal tells that nobody is left at its other side
                raise AssertionError(f"the shell ended after:\n{self._text}") from ended
            self._text = _COLOURS.sub("", self._text + data.decode(errors="replace")).replace("\r", "")
        shown, self._text = self._text[: match.end()], self._text[match.end() :]
        return shown

    def end(self, within_s: float) -> tuple[int, str]:
        """Wait until what was typed has ended; its exit code, and what was shown since the last time."""
        self.type("printf '<done:%s>\\n' $?")
        shown = self.shown(_DONE.pattern, within_s)
        match = _DONE.search(shown)
        assert match is not None
        return int(match[1]), shown[: match.start()]

    def run(self, line: str, within_s: float = 60) -> tuple[int, str]:
        """Type a line, and wait for its end; its exit code, and what was shown."""
        self.type(line)
        return self.end(within_s)
