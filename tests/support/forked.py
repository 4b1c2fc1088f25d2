"""Our commands in processes that are forked from one which has loaded all packages, once for all tests of a worker.

A command of ours takes about a second of a processor to be imported, and less to run. A forked one has its own
arguments, environment, working directory, streams, signals and exit, as one has that is started. What is imported
later than a command's own module, as by its first answer, is loaded beforehand, too.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import kafka_assignors
from tests.support.places import ROOT

_MOST = 1 << 20
_READ_AT_START = ("PYTHON", "LC_", "LANG", "TERM", "COLUMNS", "FORCE_COLOR", "NO_COLOR")
"""How variables begin that Python, or a package as it is imported, reads: if they differ, a process is started."""
_ONE_AT_A_TIME = threading.Lock()


def run(
    module: str, *args: str, timeout_s: float, cwd: Path = ROOT, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What ``python -m MODULE ARG…`` answers, in a pipe and without a terminal.

    Args:
        environment: All of the command's; None: that of this process, but for the width that pytest-xdist sets.

    Raises:
        subprocess.TimeoutExpired: It did not end in time, and was killed.
    """
    environment = _outside() if environment is None else environment
    command = [sys.executable, "-m", module, *args]
    server, loaded_in = _server()
    if _read_at_start(environment) != loaded_in:
        try:
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, cwd=cwd,
                env=environment, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:  # its output is bytes, whatever `text` says
            output, errors = (
                stream.decode() if isinstance(stream, bytes) else stream or "" for stream in (late.output, late.stderr)
            )
            raise subprocess.TimeoutExpired(command, timeout_s, output, errors) from None
    asked = json.dumps([module, args, str(cwd), environment]).encode()
    ours, theirs = socket.socketpair()
    with ours, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with theirs, _ONE_AT_A_TIME:
            socket.send_fds(server, [len(asked).to_bytes(4, "big")], [out.fileno(), err.fileno(), theirs.fileno()])
            server.sendall(asked)
        pid = int(_line(ours))
        ours.settimeout(timeout_s)
        try:
            code = int(_line(ours))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(command, timeout_s, _text(out), _text(err)) from None
        return subprocess.CompletedProcess(command, code, _text(out), _text(err))


def _outside() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "COLUMNS"}


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _line(answers: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = answers.recv(1)
        if not part:
            raise RuntimeError("the process that commands are forked from has ended")
        line += part
    return line


def _text(file: IO[bytes]) -> str:
    """As a pipe that is read as text: any end of a line is a newline."""
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")


@functools.cache
def _server() -> tuple[socket.socket, dict[str, str]]:
    """The socket of the process that commands are forked from, which ends with this one, and what it read at start."""
    ours, theirs = socket.socketpair()
    environment = _outside()
    with theirs:
        command = [sys.executable, "-m", "tests.support.forked", str(theirs.fileno())]
        null = subprocess.DEVNULL
        server = subprocess.Popen(
            command, stdin=null, stdout=null, pass_fds=[theirs.fileno()], cwd=ROOT, env=environment
        )

    @atexit.register
    def end() -> None:
        ours.close()
        server.wait(timeout=30)

    return ours, _read_at_start(environment)


def _next(requests: socket.socket) -> tuple[str, list[str]] | None:
    """Fork for each request; returns in the forked process, with what to run, and at the end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
    while True:
        head, fds, _, _ = socket.recv_fds(requests, 4, 3)
        if not head:
            return None
        size, asked = int.from_bytes(head, "big"), b""
        while len(asked) < size:
            asked += requests.recv(min(_MOST, size - len(asked)))
        if os.fork() == 0:
            requests.close()
            out, err, answers = fds
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            pid = os.fork()
            if pid == 0:
                os.close(answers)
                return _become(out, err, *json.loads(asked))
            os.write(answers, b"%d\n" % pid)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.write(answers, b"%d\n" % code)
            os._exit(0)
        for fd in fds:
            os.close(fd)


def _become(out: int, err: int, module: str, args: list[str], cwd: str, environment: Any) -> tuple[str, list[str]]:
    for ours, standard in ((out, 1), (err, 2)):
        os.dup2(ours, standard)
        os.close(ours)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = cwd
    return module, args


def _load() -> None:
    """Import whatever a command may: its own module, and what it imports when it runs."""
    from tests.support.cli import commands

    commands()
    for module in pkgutil.walk_packages(kafka_assignors.__path__, "kafka_assignors."):
        # `runpy` runs a program's own module, and a service's process loads the recorder
        if not module.name.endswith("__main__") and ".recorder." not in module.name:
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                importlib.import_module(module.name)
    importlib.import_module("typer._adapters")
    gc.collect()
    gc.freeze()  # a collection in a forked process writes to no page that was loaded here


def _main() -> None:
    _load()
    asked = _next(socket.socket(fileno=int(sys.argv[1])))
    if asked is not None:
        module, args = asked
        sys.argv = [module, *args]
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
