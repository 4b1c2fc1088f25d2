"""Shared by members of every client: where their events go, and how they report records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

CLOSE_MS = 5000
"""Limit for a member to leave its group."""


class Writing(Protocol):
    """Receives a member's events, e.g. an `EventWriter`."""

    def write(self, kind: str, **data: Any) -> object:
        """Take one event."""


def runs(tp: tuple[str, int], read: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    """Join records of one partition, (offset, bytes) each, into runs of contiguous offsets for ``consume`` events.

    A gap ends a run, so that a lost record shows.
    """
    ranges: list[dict[str, Any]] = []
    for offset, size in read:
        if ranges and offset == ranges[-1]["last"] + 1:
            ranges[-1]["last"] = offset
            ranges[-1]["count"] += 1
            ranges[-1]["bytes"] += size
        else:
            first = {"first": offset, "last": offset, "count": 1, "bytes": size}
            ranges.append({"topic": tp[0], "partition": tp[1], **first})
    return ranges


def record_size(record: Any) -> int:
    """Bytes of a record's key and value."""
    return max(0, int(record.serialized_key_size)) + max(0, int(record.serialized_value_size))
