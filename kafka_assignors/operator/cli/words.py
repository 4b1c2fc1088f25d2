"""Numbers and names as people read them, safe for rich's markup."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ...output import printable


def safe(text: str) -> str:
    """Text from outside, `printable` and without markup."""
    from rich.markup import escape

    return escape(printable(text))


def clock(ms: int) -> str:
    """A wall clock in ms as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ms / 1000))


def duration(ms: float) -> str:
    """A time in ms, in a fitting unit.

    >>> duration(0.25), duration(12), duration(2_500), duration(300_000)
    ('0.2 ms', '12 ms', '2.5 s', '5 min')
    """
    if ms < 1:
        return f"{ms:.1f} ms"
    if ms < 1000:
        return f"{ms:.0f} ms"
    for unit, size in (("days", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if ms >= 2 * size:
            return f"{ms / size:.0f} {unit}"
    return f"{ms / 1000:.1f} s"


def some(names: Iterable[str], most: int = 6) -> str:
    """The first names of many."""
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
