"""Run a program and end it when the process that asked for it is gone, however that ended.

It is a process of its own because ``PR_SET_PDEATHSIG`` is Linux only and fires when the *thread* that forked ends, and
exit handlers don't run on SIGKILL. The system always closes a dead process's pipes: this process reads a pipe from its
parent, and end of file means that the parent is gone or wants the program gone. Standard library only, started with
``-I -S``: about 15 ms and 8 MB.

    python watchdog.py [--remove FOLDER] [--stdin DESCRIPTOR] PROGRAM [ARGUMENT ...]
    python watchdog.py --remove FOLDER

Without a program it waits for end of file, and removes `FOLDER`. With one it writes the program's pid as one line to
stdout, and ``exit CODE`` when it ended (negated signals as 128 + n). Lines on stdin: ``kill`` (SIGKILL) and ``stop``
(SIGTERM) go to the program; on ``leave`` this process ends and removes nothing. On end of file it sends SIGKILL to the
program and removes `FOLDER`. It ends with the program unless there is a folder: a killed broker's data stays until its
owner is gone or asks for the next program.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys


def main(arguments: list[str]) -> int:
    """Run ``arguments`` and return the exit code."""
    folder, stdin = None, subprocess.DEVNULL
    if arguments[0] == "--remove":
        folder, arguments = arguments[1], arguments[2:]
    if not arguments:
        _wait_for_end(os.getppid())
        _remove(folder)
        return 0
    if arguments[0] == "--stdin":
        stdin, arguments = int(arguments[1]), arguments[2:]
    parent = os.getppid()
    ended = _on_child()
    try:
        # stdout is the pipe to the parent, so the program's output goes to stderr, the log
        program = subprocess.Popen(arguments, stdin=stdin, stdout=sys.stderr, stderr=sys.stderr)
    except OSError as error:
        print(f"cannot start {arguments[0]}: {error}", file=sys.stderr)
        _remove(folder)
        return 127
    if stdin >= 0:
        os.close(stdin)
    _tell(str(program.pid))
    exit_reported = leave = False
    while True:
        if not exit_reported and program.poll() is not None:
            exit_reported = True
            _tell(f"exit {_code(program)}")
        if exit_reported and folder is None:
            break
        # the timeout is for a pipe that a fork of the parent keeps open
        ready, _, _ = select.select([0, ended], [], [], 1)
        if ended in ready:
            os.read(ended, 100)
        if 0 in ready:
            command = os.read(0, 100)
            leave = b"leave" in command
            if not command or leave:
                break
            if b"kill" in command:
                program.kill()
            elif b"stop" in command:
                program.terminate()
        if os.getppid() != parent:
            break
    if program.poll() is None:
        program.kill()
    program.wait()
    if not leave:
        _remove(folder)
    return _code(program)


def _wait_for_end(parent: int) -> None:
    """Wait until standard input ends, or the parent has."""
    while os.getppid() == parent:
        # the timeout is for a pipe that a fork of the parent keeps open
        if select.select([0], [], [], 1)[0] and not os.read(0, 100):
            break


def _on_child() -> int:
    """A pipe's end that becomes readable when a child has ended."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler nothing is written
    return reader


def _tell(line: str) -> None:
    try:
        print(line, flush=True)
    except BrokenPipeError:  # the parent is gone, which stdin reports as well
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - else the exit would report the unsent line as an error


def _code(program: subprocess.Popen[bytes]) -> int:
    code = program.returncode
    return code if code >= 0 else 128 - code


def _remove(folder: str | None) -> None:
    if folder is not None:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    # the terminal's Ctrl-C is for the parent, which decides what to stop
    # (a handler, because the program would inherit SIG_IGN)
    signal.signal(signal.SIGINT, lambda *_: None)
    sys.exit(main(sys.argv[1:]))
