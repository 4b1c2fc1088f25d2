"""What -q, -v and --color of a command do to what it prints beside its answer."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_QUIET, _COLOR, _PLAIN = "KAFKA_ASSIGNORS_QUIET", "FORCE_COLOR", "NO_COLOR"  # rich reads the last two


@contextmanager
def configured(*, quiet: bool, verbose: bool, color: str) -> Iterator[None]:
    """Run a command with these options; environment variables pass them on to the processes that it starts.

    Args:
        quiet: Print no notes and no progress.
        verbose: Print the Kafka client's log on stderr.
        color: ``auto``, ``always`` or ``never``.
    """
    before = {name: os.environ.get(name) for name in (_QUIET, _COLOR, _PLAIN)}
    if verbose:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
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
        print(f"note: {text}", file=sys.stderr)
