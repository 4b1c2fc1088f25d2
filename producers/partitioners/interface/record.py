"""One record, as a client describes it to a partitioner."""

from __future__ import annotations

from typing import Any, NamedTuple

# Length, attributes, timestamp and offset deltas, lengths of key and value, header count: 7 to 12 bytes in format v2.
RECORD_OVERHEAD_BYTES = 8


class Record(NamedTuple):
    """One record, as a client describes it to a partitioner."""

    topic: str
    key: Any  # as passed to send
    serialized_key: bytes | None
    value: Any  # as passed to send
    serialized_value: bytes | None
    cluster: Any

    @property
    def size(self) -> int:
        """Approximate bytes in its batch; headers are not visible here."""
        return size_of(self.serialized_key, self.serialized_value)


def size_of(key: bytes | None, value: bytes | None) -> int:
    """Approximate bytes of a record in its batch."""
    return RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
