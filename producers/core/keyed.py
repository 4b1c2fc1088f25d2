"""Key bytes -> partition, as Java's producer places keyed records."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ConfigError
from .murmur2 import as_bytes, unsigned

MEMO_KEYS = 1 << 16
MEMO_KEY_BYTES = 128
"""What `KeyMemo` keeps at most: 65,536 keys of up to 128 bytes, below 20 MB a topic."""


def partition_for_key(key: bytes | bytearray | memoryview, n: int) -> int:
    """The partition Java's producer gives a key.

    Args:
        key: Serialized key. Empty is a key; None is not: a record without a key is placed by another rule.
        n: Number of the topic's partitions, leaderless ones included.

    Returns:
        ``(murmur2(key) & 0x7fffffff) % n``: the sign bit is masked off, it is not the absolute value.

    Raises:
        ConfigError: `n` is not a positive int.
        TypeError: `key` is not bytes, bytearray or memoryview.

    Cost: O(len(key)).
    Source: apache/kafka ``BuiltInPartitioner.partitionForKey``.

    >>> partition_for_key(b"kafka", 12)
    4
    """
    if type(n) is not int or n < 1:
        raise ConfigError(f"n (number of partitions) must be an int of at least 1, not {n!r}")
    return (unsigned(key if type(key) is bytes else as_bytes(key)) & 0x7FFFFFFF) % n


class KeyMemo:
    """`partition_for_key` for one topic, remembering the keys it has seen.

    Args:
        partitions: The topic's ascending partition ids.

    Keeps at most `MEMO_KEYS` keys of at most `MEMO_KEY_BYTES`, then forgets all and starts again: exact
    least-recently-used order would cost more per record than it saves. Threads may share it: a race computes a key
    twice, with the same answer.
    """

    __slots__ = ("_ids", "_n", "_seen")

    def __init__(self, partitions: Sequence[int]) -> None:
        self._ids = tuple(partitions)
        self._n = len(self._ids)
        self._seen: dict[bytes, int] = {}

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partition ids it places over."""
        return self._ids

    def __len__(self) -> int:
        return len(self._seen)

    def partition(self, key: bytes | bytearray | memoryview) -> int:
        """The key's partition. Cost: one dict look-up for a seen key, else the hash."""
        if type(key) is not bytes:  # mutable, or a view of something mutable: nothing to remember it by
            key = as_bytes(key)
        found = self._seen.get(key)
        if found is not None:
            return found
        partition = self._ids[(unsigned(key) & 0x7FFFFFFF) % self._n]
        if len(key) <= MEMO_KEY_BYTES:
            if len(self._seen) >= MEMO_KEYS:
                self._seen.clear()
            self._seen[key] = partition
        return partition
