"""A program that ends with this process, however that ends: started, told to end, paused."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kafka_assignors.output import ENDING

from .piped import piped

_WATCHDOG = Path(__file__).with_name("watchdog.py")


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back the signals that end the harness, so that a program that was started is known to those who end it.

    The signal takes effect at the end. In another thread nothing is held back: there signals interrupt nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []
    numbers = [n for n in (signal.SIGINT, *ENDING) if callable(signal.getsignal(n))]
    before = {number: signal.signal(number, lambda got, _frame: seen.append(got)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if seen:
            signal.raise_signal(seen[0])


@contextmanager
def watched_folder(prefix: str) -> Iterator[Path]:
    """A temporary folder, for this user alone, that is removed at the end, and if this process ends before it."""
    with uninterrupted():
        folder = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
        command = [sys.executable, "-I", "-S", str(_WATCHDOG), "--remove", str(folder)]
        watchdog = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield folder
    finally:
        watchdog.communicate()
        shutil.rmtree(folder, ignore_errors=True)  # unless the watchdog was killed, it is gone


class ChildProgram:
    """A program under its own `watchdog`, which ends it when this process is gone.

    Both of its outputs are appended to the file `output`: an unread pipe would fill up and block it. The caller closes
    `stdin`. The working directory `folder`, by default this process's, is gone with this process or on `close` if
    `remove`. It gets the variables of `environment` beside this process's.
    """

    def __init__(
        self,
        command: Sequence[str],
        output: Path,
        *,
        stdin: int | None = None,
        folder: Path | None = None,
        remove: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        watchdog = [sys.executable, "-I", "-S", str(_WATCHDOG)]
        if remove:
            watchdog += ["--remove", str(folder)]
        if stdin is not None:
            watchdog += ["--stdin", str(stdin)]
        self._code: int | None = None
        self._reading = threading.Lock()
        with output.open("ab") as log:
            self._watchdog = subprocess.Popen(
                [*watchdog, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,  # `select` doesn't see data that was read ahead
                # not in the terminal's process group: this process handles Ctrl-C, then ends the program in order
                start_new_session=True,
                pass_fds=() if stdin is None else (stdin,),
                cwd=folder,
                env=None if environment is None else {**os.environ, **environment},
            )
        line = piped(self._watchdog.stdout).readline()
        self.pid = int(line) if line else None  # None: it couldn't be started; the output says why

    @property
    def runs(self) -> bool:
        """Whether the program exists, paused or not."""
        return self.returncode is None

    @property
    def returncode(self) -> int | None:
        """Its exit code, 128 + n after signal n; None while it runs."""
        return self._ended(0)

    def pids(self) -> list[int]:
        """Ids of the watchdog and the program while they run."""
        program_pids = [self.pid] if self.runs and self.pid is not None else []
        return [self._watchdog.pid, *program_pids] if self._watchdog.poll() is None else program_pids

    def terminate(self) -> None:
        """Send SIGTERM; doesn't wait. A paused program doesn't receive it."""
        self._send(b"stop\n")

    def kill(self) -> None:
        """Send SIGKILL; doesn't wait."""
        self._send(b"kill\n")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal that doesn't end the program."""
        # The pid is still this program's: its watchdog reaps it only when the watchdog ends.
        if self.runs and self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, timeout_s: float) -> None:
        """Wait for its end. subprocess.TimeoutExpired if it still runs."""
        if self._ended(timeout_s) is None:
            raise subprocess.TimeoutExpired(self._watchdog.args, timeout_s)

    def release(self) -> None:
        """End it like `close`, but keep its folder for the next program."""
        self._send(b"leave\n")
        self._watchdog.wait()
        self.close()

    def close(self) -> None:
        """End it by SIGKILL, remove its folder if requested, wait for both. Safe to call twice."""
        with self._reading:
            for pipe in (self._watchdog.stdin, self._watchdog.stdout):
                with contextlib.suppress(BrokenPipeError):
                    piped(pipe).close()
            code = self._watchdog.wait()
            if self._code is None:
                self._code = code

    def _ended(self, timeout_s: float) -> int | None:
        """The program's exit code if it ends in time."""
        pipe = piped(self._watchdog.stdout)
        if self._code is None and _readable(pipe, timeout_s):
            with self._reading:  # another thread may have read it meanwhile
                if self._code is None and _readable(pipe, 0):
                    line = pipe.readline()  # "exit CODE"; empty if the program or the watchdog never ran
                    self._code = int(line.split()[1]) if line else self._watchdog.wait()
        return self._code

    def _send(self, command: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has just ended, or was closed
            pipe = piped(self._watchdog.stdin)
            pipe.write(command)
            pipe.flush()


def _readable(pipe: IO[bytes], timeout_s: float) -> bool:
    """Whether the pipe has data or its end within a time. `select.select` fails beyond descriptor 1,023."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN | select.POLLHUP)
    return bool(poll.poll(1000 * timeout_s))
