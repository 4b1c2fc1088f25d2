"""The coordinator's own log as the harness reads it; see `kafka_assignors.core.coordlog`."""

from __future__ import annotations

from kafka_assignors.core.coordlog import (
    COORDINATOR_TOPIC,
    CommittedMember,
    Decoded,
    GroupCommitted,
    OffsetCommitted,
    Tombstone,
    Unknown,
    decode,
    partition_of,
)

__all__ = [
    "COORDINATOR_TOPIC",
    "CommittedMember",
    "Decoded",
    "GroupCommitted",
    "OffsetCommitted",
    "Tombstone",
    "Unknown",
    "decode",
    "partition_of",
]
