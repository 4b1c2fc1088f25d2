"""The sort orders of Kafka's Java client for names and members. All members of a mixed group must agree on them."""

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
    return _static_key(member.member_id, member.instance_id)


def _static_key(member_id: str, instance_id: str | None) -> tuple[bool, bytes, bytes]:
    key = utf16(member_id)
    return (True, key, b"") if instance_id is None else (False, utf16(instance_id), key)


def static_order(ids: Sequence[tuple[str, str | None]]) -> list[int]:
    """The indices of members, given as member id and instance id or None, in the order of `static_first`."""
    if all(instance_id is None for _, instance_id in ids) and "".join([member_id for member_id, _ in ids]).isascii():
        return sorted(range(len(ids)), key=[member_id for member_id, _ in ids].__getitem__)
    return sorted(range(len(ids)), key=[_static_key(*pair) for pair in ids].__getitem__)


_STAMP = re.compile("-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
"""The suffix that the coordinator appends to a client id to make a member id: a ``java.util.UUID``."""

_STAMP_LENGTH = 37


def lasting_name(member_id: str, instance_id: str | None) -> str:
    """The name of a member that survives a restart: the instance id of a static member, else its client id.

    The coordinator builds the id of a dynamic member anew at each join: client id, "-", UUID. Another id is used whole.
    """
    if instance_id is not None:
        return instance_id
    name = member_id
    stamped = name[-_STAMP_LENGTH : -_STAMP_LENGTH + 1] == "-" and _STAMP.fullmatch(name, len(name) - _STAMP_LENGTH)
    return name[:-_STAMP_LENGTH] if stamped else name


def lasting(members: Sequence[Member]) -> tuple[list[Member], list[str]]:
    """Members in an order that survives restarts if lasting names are distinct, and their lasting names."""
    names, order = lasting_order([(member.member_id, member.instance_id) for member in members])
    return [members[m] for m in order], [names[m] for m in order]


def lasting_order(ids: Sequence[tuple[str, str | None]]) -> tuple[list[str], list[int]]:
    """The lasting name of each member, and the indices of members in the order of `lasting`.

    Given are member id, and instance id or None. Ties are broken by member id. Both use Java's string order.
    """
    names = [lasting_name(*pair) for pair in ids]
    keys: Sequence[Any] = names
    if len(set(names)) < len(names):
        keys = list(zip(names, (member_id for member_id, _ in ids), strict=True))
    if not "".join(names).isascii() or (keys is not names and not "".join(key[1] for key in keys).isascii()):
        keys = [(utf16(name), utf16(member_id)) for name, (member_id, _) in zip(names, ids, strict=True)]
    return names, sorted(range(len(names)), key=keys.__getitem__)


def hash_code(name: str) -> int:
    """Java's ``String.hashCode`` as an unsigned 32-bit integer."""
    units = utf16(name)
    code = 0
    for i in range(0, len(units), 2):
        code = (31 * code + units[i] * 256 + units[i + 1]) & 0xFFFFFFFF
    return code


def hash_order(names: Iterable[str]) -> list[str]:
    """The iteration order of a Java ``HashMap``. The insertion order matters only within a bucket."""
    kept = list(dict.fromkeys(names))
    return [kept[i] for i in by_bucket([hash_code(name) for name in kept])]


def by_bucket(hash_codes: Sequence[int], buckets: int = 16) -> list[int]:
    """The iteration order of a Java ``HashMap`` or ``HashSet`` of distinct keys, as indices in `hash_codes`.

    Args:
        hash_codes: Of the keys in insertion order, as unsigned 32-bit integers.
        buckets: At the beginning, see `buckets_for`. Buckets that become trees (more than 8 keys in one of 64 or more)
            are listed in insertion order here, and in another order by Java.
    """
    codes = [_spread(code) for code in hash_codes]
    chains = Counter[int]()
    for i, code in enumerate(codes):
        # Double at a load of 3/4, or if a chain gets its ninth key while there are fewer than 64 buckets.
        chains[code % buckets] += 1
        if chains[code % buckets] > 8 and buckets < 64:
            buckets *= 2
            chains = Counter(key_code % buckets for key_code in codes[: i + 1])
        while i + 1 > buckets * 3 // 4:
            buckets *= 2
            chains = Counter(key_code % buckets for key_code in codes[: i + 1])
    return sorted(range(len(codes)), key=lambda i: codes[i] % buckets)


def buckets_for(size: int) -> int:
    """How many buckets ``new HashSet(collection)`` begins with, for a collection of that size."""
    return 1 << (max(int(size / 0.75) + 1, 16) - 1).bit_length()


def timeline_order(names: Iterable[str]) -> list[str]:
    """The iteration order of the coordinator's ``TimelineHashMap``, filled in the given order.

    Source: ``org.apache.kafka.timeline.BaseHashTable`` of apache/kafka 4.3.0: Fibonacci hashing, twice the slots at a
    load of 4/3, the keys of one slot from the last to the first.
    """
    kept = list(dict.fromkeys(names))
    slots = 2
    while len(kept) * 3 > slots * 4:
        slots *= 2
    shift = 65 - slots.bit_length()

    def slot(name: str) -> int:
        code = hash_code(name)
        signed = code - (1 << 32) if code >= 1 << 31 else code
        return (signed * -7046029254386353131 & (1 << 64) - 1) >> shift

    kept.reverse()
    return sorted(kept, key=slot)


class HashedSet:
    """Topic-partitions of one topic in the order of a Java ``HashSet``."""

    def __init__(self) -> None:
        self._hashes: dict[TopicPartition, int] = {}  # partition -> hash, in insertion order
        self._buckets = 16

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, partition: TopicPartition) -> None:
        """Add a partition that is not in the set."""
        self._hashes[partition] = _spread((31 * (31 + partition.partition) + hash_code(partition.topic)) & 0xFFFFFFFF)
        if len(self._hashes) > self._buckets * 3 // 4:
            self._buckets *= 2

    def remove(self, partition: TopicPartition) -> None:
        """Remove a partition; the number of buckets does not shrink."""
        del self._hashes[partition]

    def first(self) -> TopicPartition:
        """The first partition in iteration order."""
        return min(self._hashes, key=lambda partition: self._hashes[partition] % self._buckets)


def _spread(code: int) -> int:
    return code ^ (code >> 16)
