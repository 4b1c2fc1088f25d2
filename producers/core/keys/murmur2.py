"""Kafka's key hash: MurmurHash2, 32 bits, seed 0x9747b28c."""

from __future__ import annotations

import struct

_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF

# The hash of a long key multiplies many words at once, as lanes of one Python int.
# Unpackers by number of words: a precompiled Struct halves the cost of unpacking.
_SHORT_WORDS = 7  # number of words from which lanes pay off
_BLOCK_WORDS = 64
_WORDS = tuple(struct.Struct(f"<{n}I").unpack_from for n in range(_SHORT_WORDS))
_LANES = tuple(struct.Struct(f"<{n}Q").unpack for n in range(_BLOCK_WORDS // 2 + 1))
_LANE_MASKS = tuple(sum(_MASK << 64 * lane for lane in range(n)) for n in range(_BLOCK_WORDS // 2 + 1))
_int = int.from_bytes


def unsigned(key: bytes) -> int:
    """`murmur2` as a number from 0 to 2**32 - 1. Takes only bytes; used on the hot paths."""
    length = len(key)
    words = length >> 2
    h = _SEED ^ length
    if words < _SHORT_WORDS:
        # Products and ^ only carry upwards, so h may grow and is masked at the end. k is shifted down, so it is masked
        # here.
        for k in _WORDS[words](key):
            k = k * _M & _MASK
            h = h * _M ^ (k ^ k >> 24) * _M
    elif words <= _BLOCK_WORDS:
        h = _lanes(h, _int(key, "little"), words)
    else:
        for at in range(0, words, _BLOCK_WORDS):
            block = key[4 * at : 4 * (at + _BLOCK_WORDS)]
            h = _lanes(h, _int(block, "little"), min(words - at, _BLOCK_WORDS)) & _MASK
    rest = length & 3
    if rest:
        k = key[-1]
        if rest > 1:
            k = k << 8 | key[-2]
            if rest > 2:
                k = k << 8 | key[-3]
        h = (h ^ k) * _M
    h &= _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def _lanes(h: int, block: int, words: int) -> int:
    """Hash up to 64 words, many at once.

    The steps that mix a word before it meets h are independent of other words. So every second word becomes a 64-bit
    lane of one long int, with room for a product, and Python multiplies all lanes at once; then the words between.
    """
    pairs = words + 1 >> 1
    mask = _LANE_MASKS[pairs]
    even = (block & mask) * _M & mask
    odd = (block >> 32 & mask) * _M & mask
    firsts: tuple[int, ...] = _LANES[pairs](((even ^ even >> 24 & mask) * _M).to_bytes(pairs << 3, "little"))
    seconds: tuple[int, ...] = _LANES[pairs](((odd ^ odd >> 24 & mask) * _M).to_bytes(pairs << 3, "little"))
    if words & 1:  # the last lane contains the bytes after the words
        for first, second in zip(firsts[:-1], seconds):  # noqa: B905
            h = ((h * _M ^ first) * _M ^ second) & _MASK
        return h * _M ^ firsts[-1]
    for first, second in zip(firsts, seconds):  # noqa: B905
        h = ((h * _M ^ first) * _M ^ second) & _MASK
    return h


def as_bytes(key: object) -> bytes:
    """Convert the key to bytes; raises `TypeError` for other types: the caller must encode a str."""
    if isinstance(key, (bytes, bytearray, memoryview)):
        return bytes(key)
    hint = "; encode it first" if isinstance(key, str) else ""
    raise TypeError(f"a key is hashed as bytes, bytearray or memoryview, not {type(key).__name__}{hint}")


def murmur2(key: bytes | bytearray | memoryview) -> int:
    """Hash key bytes as Java's producer does; an empty key is a key.

    Returns a signed 32-bit number, as Java prints it. (kafka-python's function of this name gives the same bits
    unsigned.)

    Raises:
        TypeError: Not bytes, bytearray or memoryview.

    Cost: O(len(key)); about 0.7 µs + 0.2 µs per 4 bytes.
    Source: apache/kafka ``org.apache.kafka.common.utils.Utils.murmur2``.

    >>> murmur2(b"kafka")
    -798503068
    """
    h = unsigned(key if type(key) is bytes else as_bytes(key))
    return h - 0x100000000 if h & 0x80000000 else h
