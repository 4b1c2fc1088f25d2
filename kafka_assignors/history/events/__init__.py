"""Events of a group: values <-> JSON lines, and the fields of each kind as a class."""

from __future__ import annotations

from .event import (
    COMMON,
    INCOMPLETE,
    TOPIC,
    VERSION,
    WIRE,
    Event,
    EventsByKind,
    committed,
    file_stem,
    generation_in,
    is_of,
    member_json,
    partitions_json,
)

__all__ = [
    "COMMON", "INCOMPLETE", "TOPIC", "VERSION", "WIRE", "Event", "EventsByKind", "committed", "file_stem",
    "generation_in", "is_of", "member_json", "partitions_json",
]  # fmt: skip
