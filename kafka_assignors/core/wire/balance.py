"""User data of an assignment of the weighted strategy: what the leader tells its members.

=========  ============================================================================================================
bytes      what
=========  ============================================================================================================
1          version, 2
4          CRC-32 of the rest, big endian
rest       deflate (RFC 1951) of: float64 bound, float64 greatest, int32 measured, int32 partitions, int32 withheld,
           int32 moved, all big endian; and weights (`weighted.packed`)
=========  ============================================================================================================

Every member gets the weights of the partitions that it is given, and `KEEPERS` members get others too. So those who
remain know the weights of a leader that dies. Other clients ignore these bytes, and so does a replay: it compares
partitions.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import limits
from .choice import OTHERS, chosen
from .weighted import UNREADABLE, Floats, Told, packed, unpacked

VERSION = 2
KEEPERS = 3
"""Number of members that are told the weights of partitions of others, too."""
MOST = 50_000
"""Number of partitions of a group above which no weights are told: the bytes share one record with all members'."""
_HEAD = struct.Struct(">ddiiii")


@dataclass(frozen=True)
class Balance:
    """How a group stands after an assignment.

    Args:
        bound: Lower bound of the greatest work / capacity, in the unit of the weights.
        greatest: The greatest work / capacity of the assignment.
        measured: Number of partitions with a known weight.
        partitions: Number of subscribed partitions.
        withheld: Number of partitions that their owners must revoke before another rebalance assigns them.
        moved: Number of partitions that got another owner at once, because theirs had revoked them.
        weights: Weights that this member is told.
    """

    bound: float
    greatest: float
    measured: int
    partitions: int
    withheld: int = 0
    moved: int = 0
    weights: Told = field(default_factory=dict)


def encode(balance: Balance) -> bytes:
    """Encode what one member is told."""
    figures = balance.bound, balance.greatest, balance.measured, balance.partitions, balance.withheld, balance.moved
    head = _HEAD.pack(*figures)
    rest = packed(head, balance.weights)
    return VERSION.to_bytes(1, "big") + zlib.crc32(rest).to_bytes(4, "big") + rest


def encode_for_members(
    standing: Balance, weights: Mapping[str, Floats], given: Mapping[str, Mapping[str, Sequence[int]]]
) -> dict[str, bytes]:
    """Encode what each member is told: member id -> user data. Unknown weights are NaN; `given` has every member."""
    plain, user_data = encode(standing), {}
    for place, (member_id, topics) in enumerate(sorted(given.items())):
        member_weights = {}
        if standing.partitions <= MOST:
            owned = [(topic, partition) for topic, ids in topics.items() for partition in ids]
            member_weights = chosen(weights, owned, member_id, OTHERS if place < KEEPERS else 0)
        user_data[member_id] = encode(replace(standing, weights=member_weights)) if member_weights else plain
    return user_data


def decode(data: bytes | None) -> Balance | None:
    """Decode an assignment's user data of any origin; None if they are absent, damaged or of another version."""
    if not data or data[0] != VERSION or zlib.crc32(data[5:]) != int.from_bytes(data[1:5], "big"):
        return None
    try:
        head, weights, _ = unpacked(data[5:], _HEAD.size, _Any())
        bound, greatest, measured, partitions, withheld, moved = _HEAD.unpack(head)
        return Balance(bound, greatest, measured, partitions, withheld, moved, weights)
    except UNREADABLE:
        return None


class _Any(dict[str, int]):
    """Every topic has as many partitions as are read at all."""

    def get(self, key: str, default: object = None) -> int:  # noqa: ARG002
        return limits.UNKNOWN_PARTITIONS
