"""Progress of a command, for its user."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from kafka_assignors.output import is_quiet


class Progress:
    """Measures seconds per step, and shows them: as a live line on a terminal, as a line per step in a pipe.

    >>> progress = Progress()
    >>> with progress("nothing"):
    ...     pass
    >>> sorted(progress.seconds)
    ['nothing', 'total']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begin = time.monotonic()

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time the body of the ``with`` under this name."""
        begin = time.monotonic()
        with self._live(name):
            yield
        now = time.monotonic()
        self.seconds.update({name: round(now - begin, 2), "total": round(now - self._begin, 2)})
        if not sys.stderr.isatty() and not is_quiet():
            print(f"pipeline: {name} {self.seconds[name]:.1f} s", file=sys.stderr, flush=True)

    def _live(self, name: str) -> contextlib.AbstractContextManager[object]:
        if not sys.stderr.isatty() or is_quiet():
            return contextlib.nullcontext()
        from rich.console import Console

        return Console(stderr=True).status(f"pipeline: {name} …")
