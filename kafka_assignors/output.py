"""What commands share beside their work: text from outside, numbers of things, notes, -q, -v, --color and signals."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

_QUIET, _COLOR, _PLAIN = "KAFKA_ASSIGNORS_QUIET", "FORCE_COLOR", "NO_COLOR"  # rich reads the last two

_COMMAND = re.compile(r"::(?=[A-Za-z])|##(?=\w*\[)")  # GitHub's ::error::; Azure's ##[error] and TeamCity's


def printable(text: str) -> str:
    r"""Text from outside, such as a group, a member, a host or a key, as one line may show it.

    What is not printable becomes its escape as in a Python string: control characters, line ends, characters that turn
    the direction of writing, lone surrogates. So does the mark of a command to a build server that reads the output,
    ``::error::`` or ``##vso[``, wherever it stands: a line may be broken before it.

    >>> print(printable("m1\x1b[31m\nm2 ::error::no"))
    m1\x1b[31m\nm2 \x3a:error\x3a:no
    """
    if text.count("::") > 1 or "##" in text:
        text = _COMMAND.sub(lambda mark: f"\\x{ord(mark[0][0]):02x}{mark[0][1:]}", text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines: its line ends stay."""
    return "\n".join(map(printable, text.split("\n")))


def many(count: int, what: str) -> str:
    """A number of things.

    >>> many(1, "member"), many(1200, "partition")
    ('1 member', '1,200 partitions')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def complain(error: object) -> None:
    """Tell on stderr why a command fails: ``error: …``. A terminal that was closed is no further error."""
    with suppress(OSError):
        print(f"error: {printable_lines(str(error))}", file=sys.stderr)


@contextmanager
def configured(*, quiet: bool, verbose: bool, color: str) -> Iterator[None]:
    """Run a command with these options; environment variables pass them on to the processes that it starts.

    `quiet`: no notes, no progress; `verbose`: the Kafka client's log on stderr; `color`: auto, always or never.
    """
    before = {name: os.environ.get(name) for name in (_QUIET, _COLOR, _PLAIN)}
    logging.basicConfig(level=logging.INFO if verbose else logging.CRITICAL, stream=sys.stderr)
    if quiet:
        os.environ[_QUIET] = "1"
    if color != "auto":
        wanted, other = (_COLOR, _PLAIN) if color == "always" else (_PLAIN, _COLOR)
        os.environ[wanted] = "1"
        os.environ.pop(other, None)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def is_quiet() -> bool:
    """Whether notes and progress are unwanted."""
    return bool(os.environ.get(_QUIET))


def note(text: str) -> None:
    """Tell something beside the answer, on stderr."""
    if not is_quiet():
        print(f"note: {printable_lines(text)}", file=sys.stderr)


TOLD_EVERY_S = 5.0
"""No command is silent for longer while it works, also where no terminal shows a live line."""


@contextmanager
def repeated(every_s: float, tell: Callable[[], object]) -> Iterator[None]:
    """Call a function again and again on a thread while the body runs, first after `every_s` seconds."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every_s):
            tell()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(1.0)  # what it calls may wait for a process that has ended


@contextmanager
def going_on(doing: str, at: Callable[[], str] = str) -> Iterator[None]:
    """Tell on stderr each `TOLD_EVERY_S` that the body goes on, and where (`at`), unless `quiet`."""
    if is_quiet():
        yield
        return
    begin = time.monotonic()

    def tell() -> None:
        where = at()
        with suppress(OSError):
            text = f"{doing}: {time.monotonic() - begin:.0f} s{', ' if where else ''}{where}"
            print(printable_lines(text), file=sys.stderr, flush=True)

    with repeated(TOLD_EVERY_S, tell):
        yield


def open_streams() -> None:
    """Let a standard stream that is closed (``>&-``) lead nowhere: Python has None in its place.

    The first file that is opened would otherwise get its number, and whatever a child process prints.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            with suppress(OSError):
                os.fstat(number)  # by now it may be the number of something else, which stays
                number = opened
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - as long as the process


ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that end a command as Ctrl-C does: it closes and removes what it has made."""


def _interrupt(number: int) -> NoReturn:
    raise KeyboardInterrupt(signal.Signals(number).name)


@contextmanager
def ended_by_signals(end: Callable[[int], NoReturn] = _interrupt) -> Iterator[None]:
    """Context manager in which each signal of `ENDING` calls `end`, by default like Ctrl-C. For the main thread.

    A signal that the process ignores stays ignored, as SIGHUP under ``nohup``. The shell and the system both tell of a
    terminal that is closed: a second SIGHUP must not cut short what the first one has begun.
    """

    def stop(number: int, _frame: FrameType | None) -> NoReturn:
        if number == signal.SIGHUP:
            signal.signal(number, signal.SIG_IGN)
        end(number)

    ours = [number for number in ENDING if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, stop) for number in ours}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
