"""Fills in what a test leaves out of an event: every field that its kind must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from kafka_assignors.history.events.bodies import KINDS

_EMPTY: dict[Any, Any] = {str: "", int: 0, float: 0, tuple: [], Mapping: {}}


def whole(kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event, as JSON, with empty values for those that it must have and `data` lacks."""
    return _whole(KINDS[kind], data)


def _whole(cls: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    if is_dataclass(cls):
        required = [field.name for field in fields(cls) if field.default is MISSING]
    else:
        required = [name for name in cls._fields if name not in cls._field_defaults]
    hints = get_type_hints(cls)
    filled = {**{name: _empty(hints[name]) for name in required}, **row}
    return {name: _filled(hints.get(name), value) for name, value in filled.items()}


def _empty(hint: Any) -> Any:
    return {} if is_dataclass(hint) else _EMPTY[get_origin(hint) or hint]


def _filled(hint: Any, value: Any) -> Any:
    """The rows of a list are filled in as well."""
    if get_origin(hint) is tuple and hasattr(get_args(hint)[0], "_fields"):
        return [_whole(get_args(hint)[0], row) for row in value]
    return value
