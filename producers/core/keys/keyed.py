"""Key bytes -> partition, as the clients of each ecosystem place keyed records."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...errors import ConfigError, UnknownName
from .hashing import crc32, fnv1a, jump, kafkajs_legacy, magnitude
from .murmur2 import as_bytes, unsigned

MEMO_KEYS = 1 << 16
MEMO_KEY_BYTES = 128
"""Limits of `KeyMemo`: 65,536 keys of up to 128 bytes, below 20 MB per topic."""

Index = Callable[[bytes, int], int]
"""(key bytes, number of partitions) -> 0..n-1."""


class Preset(NamedTuple):
    """The key placement of one ecosystem."""

    place: Index
    empty_is_null: bool = False  # an empty key counts as no key
    null_is_empty: bool = False  # a record without a key is placed like an empty key
    like_java: bool = False


def _java(key: bytes, n: int) -> int:
    return (unsigned(key) & 0x7FFFFFFF) % n


def _crc32(key: bytes, n: int) -> int:
    return crc32(key) % n


def _sarama(key: bytes, n: int) -> int:
    return magnitude(fnv1a(key)) % n


PRESETS: dict[str, Preset] = {
    "java": Preset(_java, like_java=True),
    "librdkafka": Preset(_crc32, empty_is_null=True),
    "librdkafka-consistent": Preset(_crc32, null_is_empty=True),
    "librdkafka-murmur2": Preset(_java, null_is_empty=True, like_java=True),
    "librdkafka-fnv1a": Preset(_sarama, null_is_empty=True),
    "sarama": Preset(_sarama),
    "fnv1a": Preset(_sarama),
    "sarama-reference": Preset(lambda key, n: (fnv1a(key) & 0x7FFFFFFF) % n),
    "franz-go-sarama": Preset(lambda key, n: fnv1a(key) % n),
    "kafkajs-legacy": Preset(lambda key, n: (kafkajs_legacy(key) & 0x7FFFFFFF) % n),
    "consistent": Preset(lambda key, n: jump(unsigned(key), n)),
}
PRESETS |= {
    "librdkafka-consistent-random": PRESETS["librdkafka"],
    "librdkafka-murmur2-random": PRESETS["java"],
    "librdkafka-fnv1a-random": PRESETS["fnv1a"],
    "franz-go": PRESETS["java"],
    "kafkajs": PRESETS["java"],
    "segmentio": PRESETS["sarama"],
    "segmentio-reference": PRESETS["sarama-reference"],
    "segmentio-crc32": PRESETS["librdkafka"],
    "segmentio-murmur2": PRESETS["java"],
}
"""name -> placement.

* ``java``: Java, kafka-python, aiokafka, KafkaJS, franz-go; librdkafka's ``murmur2_random``.
* ``librdkafka``: its default ``consistent_random`` (CRC-32), so confluent-kafka in Python, Go, .NET; node-rdkafka.
* ``librdkafka-…``: librdkafka's ``partitioner`` of that name. Without ``-random`` it places records without a key like
  an empty key: **all of them in one partition**.
* ``sarama`` (``fnv1a``): Sarama's default, segmentio's ``Hash`` and librdkafka's ``fnv1a_random``.
* ``sarama-reference``: the sign bit is masked off instead, as ``NewReferenceHashPartitioner`` does; a third of the keys
  lies elsewhere.
* ``franz-go-sarama``: franz-go's ``SaramaHasher``, which takes the hash as unsigned.
* ``kafkajs-legacy``: KafkaJS's ``LegacyPartitioner``, the default before KafkaJS 2.
* ``kafkajs``, ``franz-go`` and ``segmentio…``: these clients' partitioners, each the same as one of the others.
* ``consistent``: jump hash over murmur2. **No other client places like it**; for topics that will grow.
"""


def preset_named(name: str) -> Preset:
    """Look up a preset by name; raises `UnknownName`, which lists the known ones."""
    try:
        return PRESETS[name]
    except (KeyError, TypeError):
        raise UnknownName("preset", name, PRESETS) from None


def check_count(n: object, what: str = "n (number of partitions)") -> int:
    """Validate and return a number of partitions; raises `ConfigError` unless it is an int of at least 1."""
    if type(n) is not int or n < 1:
        raise ConfigError(f"{what} must be an int of at least 1, not {n!r}")
    return n


def partition_for_key(key: bytes | bytearray | memoryview, n: int, preset: str = "java") -> int:
    """The partition of a key's records.

    Args:
        key: Serialized key. An empty key is a key. None is not: records without a key are placed by another rule.
        n: Number of the topic's partitions, including those without a leader.
        preset: One of `PRESETS`; the default is Java's producer: ``(murmur2(key) & 0x7fffffff) % n`` (it masks off the
            sign bit instead of taking the absolute value). librdkafka's default spreads empty keys like absent ones;
            this function returns 0 for them under ``"librdkafka"``, as its ``consistent`` does.

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
    """Caches the placement of keys, for hashes in Python, which cost ten times as much as a look-up.

    A memo belongs to one topic with one number of partitions. It keeps at most `MEMO_KEYS` keys of at most
    `MEMO_KEY_BYTES`, then is cleared: exact LRU order would cost more per record than it saves. Threads may share it: a
    race computes a key twice, with the same result. Callers may look a key up in `placed` (key -> partition) first.
    """

    __slots__ = ("_index", "placed")

    def __init__(self, index: Index) -> None:
        self._index = index
        self.placed: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.placed)

    def place(self, key: bytes, n: int) -> int:
        """Place a key over `n` partitions, always the same number. Cost: one look-up for a cached key, else the hash.

        Raises `TypeError` if the key is not bytes: mutable keys would invalidate the memo.
        """
        partition = self.placed.get(key)
        return self.learn(key, n) if partition is None else partition

    def learn(self, key: bytes, n: int) -> int:
        """Place a key that the caller did not find in `placed`."""
        if type(key) is not bytes:
            raise TypeError(f"a memo stores bytes, not {type(key).__name__}")
        partition = self._index(key, n)
        if len(key) <= MEMO_KEY_BYTES:
            placed = self.placed
            if len(placed) >= MEMO_KEYS:
                placed.clear()
            placed[key] = partition
        return partition
