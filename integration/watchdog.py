"""Run a program and end it when the process that asked for it is gone, however it went.

Why a process of its own: ``PR_SET_PDEATHSIG`` is Linux only and fires when the *thread* that forked ends, and exit
handlers do not run on SIGKILL. A pipe's end is closed by the system in every case: this process reads a pipe from its
parent, and an end of file means that the parent is gone or wants the program gone. Standard library only, started
with ``-I -S``: about 15 ms and 8 MB.

    python watchdog.py [--remove FOLDER] PROGRAM [ARGUMENT ...]

It writes the program's pid as one line to stdout. Lines on stdin: ``kill`` (SIGKILL) and ``stop`` (SIGTERM) go to the
program. It ends when the program ends, with its exit code (negated signals as 128 + n), and on end of file, after
SIGKILL to the program. `FOLDER` is removed on end of file only: a killed broker's data outlives it until then.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys


def main(arguments: list[str]) -> int:
    """Run ``arguments``; returns the exit code."""
    folder = None
    if arguments[0] == "--remove":
        folder, arguments = arguments[1], arguments[2:]
    parent = os.getppid()
    try:
        # stdout is the pipe to the parent: the program's output goes where stderr goes, to the log
        program = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=sys.stderr)
    except OSError as error:
        print(f"cannot start {arguments[0]}: {error}", file=sys.stderr)
        return 127
    print(program.pid, flush=True)
    orphaned = False
    while program.poll() is None and not orphaned:
        # the time-out is for the program's own end, and for a pipe that a fork of the parent keeps open
        if select.select([0], [], [], 0.2)[0]:
            order = os.read(0, 100)
            orphaned = not order
            if b"kill" in order:
                program.kill()
            elif b"stop" in order:
                program.terminate()
        orphaned = orphaned or os.getppid() != parent
    if orphaned:
        program.kill()
        program.wait()
        if folder:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)
    code = program.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    # the terminal's Ctrl-C is for the parent, which decides what shall end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(main(sys.argv[1:]))
