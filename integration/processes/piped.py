"""A Python module in a process of its own, which takes commands as lines of JSON, until their pipe closes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from .python import python_command


class PipedProcess(subprocess.Popen[bytes]):
    """Its commands go to its standard input, `answers` come from its standard output, and `log` gets its errors.

    It ends with this process, with which its standard input does.
    """

    def __init__(self, module: str, *arguments: str, log: IO[bytes]) -> None:
        super().__init__(
            python_command(module, *arguments),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            start_new_session=True,  # the harness handles Ctrl-C at the terminal
        )  # fmt: skip
        self.answers = piped(self.stdout)

    def tell(self, command: Mapping[str, Any]) -> None:
        """Send a command. BrokenPipeError or ValueError: the process has ended, or was told to."""
        pipe = piped(self.stdin)
        pipe.write(json.dumps(command).encode() + b"\n")
        pipe.flush()

    def end(self, timeout_s: float) -> None:
        """Close its standard input, and wait for its end; it is killed after so many seconds. Safe to call twice."""
        with suppress(BrokenPipeError):
            piped(self.stdin).close()
        try:
            self.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            self.wait()


def piped(pipe: IO[bytes] | None) -> IO[bytes]:
    """The end of a process's pipe, which was asked for."""
    assert pipe is not None
    return pipe
