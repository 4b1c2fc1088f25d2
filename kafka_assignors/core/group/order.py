"""The orders Kafka's Java client sorts names and members by; every member of a mixed group must agree on them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from .values import Member, TopicPartition


def utf16(name: str) -> bytes:
    """Sort key of Java's ``String.compareTo``: UTF-16 code units, which put U+10000 and above before U+E000."""
    return name.encode("utf-16-be", "surrogatepass")


def static_first(member: Member) -> tuple[bool, bytes, bytes]:
    """Sort key of range and roundrobin: static members by instance id, then dynamic ones by member id.

    Source: KIP-345; ``AbstractPartitionAssignor.MemberInfo.compareTo``.
    """
    member_id = utf16(member.member_id)
    return (True, member_id, b"") if member.instance_id is None else (False, utf16(member.instance_id), member_id)


_STAMP = re.compile("-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
"""What the coordinator appends to a client id to make it a member id: a ``java.util.UUID``."""

_STAMP_LENGTH = 37


def lasting_name(member: Member) -> str:
    """What a member is still called after a restart: its instance id if it is static, else its client id.

    The coordinator makes a dynamic member's id anew each time: client id, "-", UUID. Another id counts whole.
    """
    if member.instance_id is not None:
        return member.instance_id
    name = member.member_id
    stamped = name[-_STAMP_LENGTH : -_STAMP_LENGTH + 1] == "-" and _STAMP.fullmatch(name, len(name) - _STAMP_LENGTH)
    return name[:-_STAMP_LENGTH] if stamped else name


def lasting(members: Sequence[Member]) -> tuple[list[Member], list[str]]:
    """Members in an order that outlasts restarts where lasting names differ, and these names.

    Where names are equal, member ids decide; both in Java's string order.
    """
    names = list(map(lasting_name, members))
    keys: Sequence[Any] = names
    if len(set(names)) < len(names):
        keys = list(zip(names, (member.member_id for member in members), strict=True))
    if not "".join(names).isascii() or (keys is not names and not "".join(key[1] for key in keys).isascii()):
        keys = [(utf16(name), utf16(member.member_id)) for name, member in zip(names, members, strict=True)]
    order = sorted(range(len(names)), key=keys.__getitem__)
    return [members[m] for m in order], [names[m] for m in order]


def hash_code(name: str) -> int:
    """Java's ``String.hashCode``, as 32 bits without a sign."""
    units = utf16(name)
    code = 0
    for i in range(0, len(units), 2):
        code = (31 * code + units[i] * 256 + units[i + 1]) & 0xFFFFFFFF
    return code


def hash_order(names: Iterable[str]) -> list[str]:
    """The order in which a Java ``HashMap`` lists its keys, put in as given (that matters inside a bucket alone)."""
    kept = list(dict.fromkeys(names))
    codes = [_spread(hash_code(name)) for name in kept]
    buckets = 16
    chains = Counter[int]()
    for i, code in enumerate(codes):
        # Doubled when three quarters full; also when a chain gets its ninth key while there are less than 64 buckets.
        chains[code % buckets] += 1
        if chains[code % buckets] > 8 and buckets < 64:
            buckets *= 2
            chains = Counter(each % buckets for each in codes[: i + 1])
        while i + 1 > buckets * 3 // 4:
            buckets *= 2
            chains = Counter(each % buckets for each in codes[: i + 1])
    return [kept[i] for i in sorted(range(len(kept)), key=lambda i: codes[i] % buckets)]


class HashedSet:
    """Topic-partitions of one topic in the order of a Java ``HashSet``."""

    def __init__(self) -> None:
        self._held: dict[TopicPartition, int] = {}  # in the order they came -> hash
        self._buckets = 16

    def __len__(self) -> int:
        return len(self._held)

    def add(self, partition: TopicPartition) -> None:
        """Add one that is not in it."""
        self._held[partition] = _spread((31 * (31 + partition.partition) + hash_code(partition.topic)) & 0xFFFFFFFF)
        if len(self._held) > self._buckets * 3 // 4:
            self._buckets *= 2

    def remove(self, partition: TopicPartition) -> None:
        """Remove one; the buckets stay."""
        del self._held[partition]

    def first(self) -> TopicPartition:
        """The one an iterator meets first."""
        return min(self._held, key=lambda partition: self._held[partition] % self._buckets)


def _spread(code: int) -> int:
    return code ^ (code >> 16)
