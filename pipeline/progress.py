"""Progress of a command, for its user."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from kafka_assignors.output import TOLD_EVERY_S, is_quiet, repeated


class Progress:
    """Measures seconds per step, and shows them: as a live line on a terminal, as lines in a pipe.

    In a pipe a step is told as it begins, every `TOLD_EVERY_S` seconds while it runs, and with its seconds at its end.
    `detail` returns what a running step is at, for people, or ""; another thread calls it.

    >>> progress = Progress()
    >>> with progress("nothing"):
    ...     pass
    >>> sorted(progress.seconds)
    ['nothing', 'total']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.detail: Callable[[], str] = str
        self._begin = time.monotonic()

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time the body of the ``with`` under this name."""
        begin = time.monotonic()
        with self._live(name, begin):
            yield
        now = time.monotonic()
        self.seconds.update({name: round(now - begin, 2), "total": round(now - self._begin, 2)})
        if not sys.stderr.isatty() and not is_quiet():
            _print(f"{name} {self.seconds[name]:.1f} s")

    @contextlib.contextmanager
    def _live(self, name: str, begin: float) -> Iterator[None]:
        if is_quiet():
            yield
        elif sys.stderr.isatty():
            from rich.console import Console

            status = Console(stderr=True).status(f"pipeline: {name} …")
            with status, repeated(1.0, lambda: status.update(f"pipeline: {self._at(name, begin)}")):
                yield
        else:
            _print(f"{name} …")
            with repeated(TOLD_EVERY_S, lambda: _print(self._at(name, begin))):
                yield

    def _at(self, name: str, begin: float) -> str:
        detail = self.detail()
        return f"{name} … {time.monotonic() - begin:.0f} s" + (f", {detail}" if detail else "")


def _print(text: str) -> None:
    print(f"pipeline: {text}", file=sys.stderr, flush=True)
