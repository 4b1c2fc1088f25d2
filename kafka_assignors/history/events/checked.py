"""An event of a line that may be anything: a recording may come from any machine, and be cut off or changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from .bodies import KINDS
from .event import COMMON, Event
from .lines import decoded

_MOST_INT = 1 << 63
"""Kafka's numbers, and times in nanoseconds, have 64 bits."""


def checked_event(line: bytes) -> Event:
    """The event of a line, without its newline; each of its fields has the type that its class declares.

    Raises:
        ValueError: It is no JSON (`lines.decoded`), no event of this version, or a field is missing or of another type.
    """
    event = Event.from_row(decoded(line))
    hints = get_type_hints(Event)
    for name in COMMON[1:]:
        if _misfits(getattr(event, name), hints[name]):
            raise ValueError(f"{name} of an event can't be {getattr(event, name)!r:.40}")
    if event.kind not in KINDS:
        raise ValueError(f"no event has the kind {event.kind!r:.40}")
    try:
        body = event.body
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"the fields of a {event.kind!r} can't be read: {type(error).__name__}: {error}") from error
    for name, hint in get_type_hints(type(body)).items():
        if _misfits(getattr(body, name), hint):
            raise ValueError(f"{name} of a {event.kind!r} can't be {getattr(body, name)!r:.40}")
    return event


def _misfits(value: Any, hint: Any) -> bool:
    """Whether a value is not of a type that the classes of `bodies` declare."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return False
    if origin in (Union, UnionType):
        return all(_misfits(value, one) for one in inner)
    if hint is int:
        return type(value) is not int or not -_MOST_INT <= value < _MOST_INT
    if hint is float:
        return isinstance(value, bool) or not isinstance(value, int | float)
    if hint in (str, bool, NoneType):
        return type(value) is not hint
    if origin is tuple:
        return not isinstance(value, tuple) or any(_misfits(one, inner[0]) for one in value)
    if origin is not None and issubclass(origin, Mapping):
        return not isinstance(value, Mapping) or any(
            _misfits(key, inner[0]) or _misfits(one, inner[1]) for key, one in value.items()
        )
    if not isinstance(value, hint):
        return True
    if hasattr(hint, "_fields") or is_dataclass(hint):
        return any(_misfits(getattr(value, name), one) for name, one in get_type_hints(hint).items())
    return False
