"""The key hashes of Kafka clients other than Java, and jump hash."""

from __future__ import annotations

import zlib

_MASK = 0xFFFFFFFF
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193
_MURMUR2_SEED, _MURMUR2_M = 0x9747B28C, 0x5BD1E995
JUMP_STEP, _MASK_64 = 2862933555777941757, 0xFFFFFFFFFFFFFFFF


def crc32(key: bytes) -> int:
    """CRC-32 (IEEE), unsigned: librdkafka's ``consistent`` partitioners.

    >>> crc32(b"123456789")
    3421780262
    """
    return zlib.crc32(key)


def fnv1a(key: bytes) -> int:
    """FNV-1a, 32 bits, unsigned: Sarama and librdkafka's ``fnv1a`` partitioners. Cost: O(len(key)), 0.1 µs a byte.

    >>> fnv1a(b"a")
    3826002220
    """
    h = _FNV_OFFSET
    for byte in key:
        h = (h ^ byte) * _FNV_PRIME & _MASK
    return h


def magnitude(h: int) -> int:
    """The absolute value of an unsigned 32-bit hash read as signed, which Sarama takes modulo the partitions.

    2**31 stays 2**31, because Sarama takes the remainder first and then the absolute value.
    """
    return (1 << 32) - h if h & 0x80000000 else h


def kafkajs_legacy(key: bytes) -> int:
    """KafkaJS's first murmur2, unsigned. It multiplies in floating point, and reads the tail of the key twice.

    Cost: O(len(key)).
    Source: tulios/kafkajs v2.2.4 ``src/producer/partitioners/legacy/murmur2.js``.
    """
    size = len(key)
    padded = key + bytes(3)
    h: float = _MURMUR2_SEED ^ size
    for at in range(0, size, 4):  # the last word is padded with zeros
        k = int.from_bytes(padded[at : at + 4], "little", signed=True)
        k = _int32(float(k) * _MURMUR2_M)
        k ^= (k & _MASK) >> 24
        h = _int32(h * float(_MURMUR2_M)) ^ _int32(float(k) * _MURMUR2_M)
    if rest := size % 4:
        h = _int32(_int32(h) ^ int.from_bytes(key[size - rest :], "little")) * float(_MURMUR2_M)
    mixed = _int32(h)
    mixed = _int32((mixed ^ (mixed & _MASK) >> 13) * float(_MURMUR2_M))
    return (mixed ^ (mixed & _MASK) >> 15) & _MASK


def _int32(number: float) -> int:
    """JavaScript's ToInt32 of a number."""
    low = int(number) & _MASK
    return low - (1 << 32) if low & 0x80000000 else low


def jump(h: int, n: int) -> int:
    """Jump consistent hash: growing from n to m buckets moves only (m - n) / m of the hashes. 0 <= h < 2**64, n >= 1.

    Cost: O(log n).
    Source: Lamping and Veach 2014, "A Fast, Minimal Memory, Consistent Hash Algorithm".

    >>> [jump(0xDEADBEEF, n) for n in (1, 2, 10, 100)]
    [0, 1, 5, 87]
    """
    bucket, following = 0, 0
    while following < n:
        bucket = following
        h = (h * JUMP_STEP + 1) & _MASK_64
        following = int((bucket + 1) * ((1 << 31) / ((h >> 33) + 1)))
    return bucket
