"""Words of the command line: how they are declared, and those that hold several values."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import typer

option = functools.partial(typer.Option, show_default=False)
"""An option that is not given, unless somebody gives it: its help tells no default."""
argument = functools.partial(typer.Argument, show_default=False)
"""The same of an argument."""


def separated(values: Sequence[str] | None) -> list[str]:
    """Values of an option that may be repeated, and hold several with commas."""
    return [word.strip() for value in values or () for word in value.split(",") if word.strip()]


def grown(values: Sequence[str] | None) -> dict[str, int]:
    """``TOPIC:COUNT`` options as topic -> count. Raises typer.BadParameter if a value has another form."""
    counts = {}
    for value in separated(values):
        topic, _, count = value.rpartition(":")
        if not topic or not count.isdecimal():
            raise typer.BadParameter(f"{value!r} is not TOPIC:COUNT, as in orders:12", param_hint="--add-partitions")
        counts[topic] = int(count)
    return counts


_MOST_JOINING = 100_000
_MOST_MEMBERS = 10_000


def joining(values: Sequence[str] | None) -> tuple[int, tuple[str, ...]]:
    """``--add`` options as the number of unnamed members that join, and the client ids of the named ones.

    Raises:
        typer.BadParameter: A number is too large, or a client id is given twice.

    >>> joining(["2", "m7,m8"])
    (2, ('m7', 'm8'))
    """
    words = separated(values)
    named = tuple(word for word in words if not word.lstrip("-").isdecimal())
    count = 0
    for word in words:
        if word in named:
            continue
        if not 0 <= int(word) <= _MOST_JOINING:
            raise typer.BadParameter(f"{word} is not in the range 0 to {_MOST_JOINING:,}", param_hint="--add")
        count += int(word)
    if twice := next((name for n, name in enumerate(named) if name in named[:n]), None):
        raise typer.BadParameter(f"{twice!r} is given twice; name each new member once", param_hint="--add")
    return count, named


def sizes(text: str | None) -> range | None:
    """``--members A..B`` as a range that includes both; None if it isn't given.

    Raises:
        typer.BadParameter: The value has another form, or a size is below 1 or too large.

    >>> sizes("1..40")
    range(1, 41)
    """
    if text is None:
        return None
    first, dots, last = text.partition("..")
    if not dots or not first.isdecimal() or not last.isdecimal() or not 1 <= int(first) <= int(last) <= _MOST_MEMBERS:
        wanted = f"A..B with 1 <= A <= B <= {_MOST_MEMBERS:,}, as in 1..40"
        raise typer.BadParameter(f"{text!r} is not {wanted}", param_hint="--members")
    return range(int(first), int(last) + 1)


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str, option: str) -> float:
    """A duration in seconds. Raises typer.BadParameter if the text has another form.

    >>> seconds("30s", "--delay"), seconds("2m", "--delay"), seconds("45", "--delay")
    (30.0, 120.0, 45.0)
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a time such as 30s or 2m", param_hint=option)
    return float(match[1]) * _SECONDS[match[2] or "s"]


def offers(values: Sequence[str] | None) -> dict[str, list[str]]:
    """``MEMBER=LIST`` options as member -> names. Raises typer.BadParameter if a value has another form."""
    lists = {}
    for value in values or ():
        member, _, listed = value.rpartition("=")
        if not member or not separated([listed]):
            raise typer.BadParameter(f"{value!r} is not MEMBER=LIST, as in m1=range,sticky", param_hint="--offer")
        lists[member] = separated([listed])
    return lists
