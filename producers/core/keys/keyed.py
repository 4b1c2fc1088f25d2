"""Key bytes -> partition, as the clients of one ecosystem or another place keyed records."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...errors import ConfigError, UnknownName
from .hashing import crc32, fnv1a, jump, magnitude
from .murmur2 import as_bytes, unsigned

MEMO_KEYS = 1 << 16
MEMO_KEY_BYTES = 128
"""What `KeyMemo` keeps at most: 65,536 keys of up to 128 bytes, below 20 MB a topic."""

Index = Callable[[bytes, int], int]
"""(key bytes, number of partitions) -> 0..n-1."""


class Preset(NamedTuple):
    """How one ecosystem places keys."""

    place: Index
    empty_is_null: bool = False  # an empty key is no key: the record goes where records without one go
    like_java: bool = False


def _java(key: bytes, n: int) -> int:
    return (unsigned(key) & 0x7FFFFFFF) % n


def _sarama(key: bytes, n: int) -> int:
    return magnitude(fnv1a(key)) % n


PRESETS: dict[str, Preset] = {
    "java": Preset(_java, like_java=True),
    "librdkafka": Preset(lambda key, n: crc32(key) % n, empty_is_null=True),
    "librdkafka-murmur2": Preset(_java, like_java=True),
    "sarama": Preset(_sarama),
    "fnv1a": Preset(_sarama),
    "sarama-reference": Preset(lambda key, n: (fnv1a(key) & 0x7FFFFFFF) % n),
    "consistent": Preset(lambda key, n: jump(unsigned(key), n)),
}
"""name -> placement.

* ``java``: Java, kafka-python, aiokafka, KafkaJS, franz-go; librdkafka's ``murmur2_random`` (``librdkafka-murmur2``).
* ``librdkafka``: its default ``consistent_random`` (CRC-32), so confluent-kafka in Python, Go, .NET; node-rdkafka.
* ``sarama`` (``fnv1a`` in librdkafka): Sarama's default and segmentio's ``Hash``. ``sarama-reference``: the sign bit is
  masked off instead, as ``NewReferenceHashPartitioner`` does; a third of the keys lies elsewhere.
* ``consistent``: jump hash over murmur2. **No other client places like it**; for topics that will grow.
"""


def preset_named(name: str) -> Preset:
    """The preset of that name.

    Raises:
        UnknownName: There is none; the message lists the known ones.
    """
    try:
        return PRESETS[name]
    except (KeyError, TypeError):
        raise UnknownName("preset", name, PRESETS) from None


def check_count(n: object, what: str = "n (number of partitions)") -> int:
    """Give back a number of partitions.

    Raises:
        ConfigError: Not an int of at least 1.
    """
    if type(n) is not int or n < 1:
        raise ConfigError(f"{what} must be an int of at least 1, not {n!r}")
    return n


def partition_for_key(key: bytes | bytearray | memoryview, n: int, preset: str = "java") -> int:
    """The partition a key's records go to.

    Args:
        key: Serialized key. Empty is a key; None is not: a record without a key is placed by another rule.
        n: Number of the topic's partitions, leaderless ones included.
        preset: One of `PRESETS`; the default is Java's producer: ``(murmur2(key) & 0x7fffffff) % n`` (the sign bit is
            masked off, it is not the absolute value). librdkafka's default spreads empty keys like absent ones; this
            function answers 0 for them under ``"librdkafka"``, which is what its ``consistent`` does.

    Raises:
        ConfigError: `n` is not a positive int; UnknownName: no such preset.
        TypeError: `key` is not bytes, bytearray or memoryview.

    Cost: O(len(key)).
    Source: apache/kafka ``BuiltInPartitioner.partitionForKey``; confluentinc/librdkafka ``rdkafka_msg.c``; IBM/sarama
    ``partitioner.go``.

    >>> partition_for_key(b"kafka", 12)
    4
    >>> partition_for_key(b"kafka", 12, preset="librdkafka")
    11
    """
    return preset_named(preset).place(key if type(key) is bytes else as_bytes(key), check_count(n))


class KeyMemo:
    """Remembers where keys are placed: for hashes in Python, which cost ten times as much as looking up.

    Args:
        index: Places keys.

    A memo belongs to one topic with one number of partitions. It keeps at most `MEMO_KEYS` keys of at most
    `MEMO_KEY_BYTES`, then forgets all and starts again: exact least-recently-used order would cost more per record than
    it saves. Threads may share it: a race computes a key twice, with the same answer.

    Attributes:
        placed: key -> partition, for callers that look it up before they call.
    """

    __slots__ = ("_index", "placed")

    def __init__(self, index: Index) -> None:
        self._index = index
        self.placed: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.placed)

    def place(self, key: bytes, n: int) -> int:
        """Place a key over `n` partitions, the same number each time. Cost: one look-up for a seen key, else the hash.

        Raises:
            TypeError: The key is not bytes. Anything else may change, and the memo with it.
        """
        found = self.placed.get(key)
        return self.learn(key, n) if found is None else found

    def learn(self, key: bytes, n: int) -> int:
        """The same for a key that was looked for in `placed` already."""
        if type(key) is not bytes:
            raise TypeError(f"a memo keeps bytes, not {type(key).__name__}")
        found = self._index(key, n)
        if len(key) <= MEMO_KEY_BYTES:
            placed = self.placed
            if len(placed) >= MEMO_KEYS:
                placed.clear()
            placed[key] = found
        return found
