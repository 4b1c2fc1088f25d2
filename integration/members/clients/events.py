"""What members of every client share: where their events go, and how they tell of records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

CLOSE_MS = 5000
"""How long a member may take to leave its group."""


class Writing(Protocol):
    """Where a member's events go, such as an `EventWriter`."""

    def write(self, kind: str, **data: Any) -> object:
        """Take one event."""


def runs(tp: tuple[str, int], read: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    """Records of one partition, (offset, bytes) each, as runs of contiguous offsets, as ``consume`` events carry them.

    A gap must show, or a lost record would hide in it.
    """
    found: list[dict[str, Any]] = []
    for offset, size in read:
        if found and offset == found[-1]["last"] + 1:
            found[-1]["last"] = offset
            found[-1]["count"] += 1
            found[-1]["bytes"] += size
        else:
            first = {"first": offset, "last": offset, "count": 1, "bytes": size}
            found.append({"topic": tp[0], "partition": tp[1], **first})
    return found


def record_size(record: Any) -> int:
    """Bytes of a record's key and value."""
    return max(0, int(record.serialized_key_size)) + max(0, int(record.serialized_value_size))
