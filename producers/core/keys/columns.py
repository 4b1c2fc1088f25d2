"""Key hashes of whole columns, in NumPy: concatenated keys in one buffer, and their offsets."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError
from .hashing import JUMP_STEP, crc32, fnv1a, kafkajs_legacy
from .keyed import PRESETS, check_count, preset_named
from .murmur2 import unsigned

_M = np.uint32(0x5BD1E995)
_SEED = np.uint32(0x9747B28C)
_FNV_OFFSET, _FNV_PRIME = np.uint32(0x811C9DC5), np.uint32(0x01000193)
_REST_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)  # number of bytes after the last word -> mask
_REST_FACTORS = np.array([1, _M, _M, _M], np.uint32)  # no multiplication without such bytes
_CRC_TABLE = np.array([zlib.crc32(bytes([i ^ 0xFF])) ^ 0xFF000000 for i in range(256)], np.uint32)
_CRC_LONG = 96  # key length in bytes above which zlib, key by key, is faster
_FEW_KEYS = 64  # a NumPy step costs as much as this many keys one by one
_CHUNK_KEYS = 1 << 14  # about a megabyte of keys, so that a chunk stays in cache

Hashes = NDArray[np.uint32]


def murmur2_column(data: NDArray[np.uint8], offsets: NDArray[Any]) -> Hashes:
    """`murmur2` of many keys, unsigned.

    Args:
        data: uint8[bytes].
        offsets: integer[keys + 1], ascending; key i is ``data[offsets[i]:offsets[i + 1]]``.

    Cost: about 90 ns a key of 54 bytes, 30 ns one of 16 where all have that length (a hundredth of kafka-python's
    scalar hash); 50 ns a byte and less for a few keys that are much longer than the others.
    """
    return _in_chunks(_murmur2_chunk, unsigned, data, offsets)


def fnv1a_column(data: NDArray[np.uint8], offsets: NDArray[Any]) -> Hashes:
    """FNV-1a of many keys; arguments as `murmur2_column`. Cost: about 5 ns a byte."""
    return _in_chunks(_fnv1a_chunk, fnv1a, data, offsets)


def crc32_column(data: NDArray[np.uint8], offsets: NDArray[Any]) -> Hashes:
    """CRC-32 of many keys; arguments as `murmur2_column`. Cost: about 3 ns a byte, at most 0.5 µs a key."""
    return _in_chunks(_crc32_chunk, crc32, data, offsets)


def _crc32_chunk(data: NDArray[np.uint8], start: NDArray[Any], length: NDArray[Any]) -> Hashes:
    if length.max() <= _CRC_LONG:
        order, counts = _longest_first(length)
        at = start[order].astype(np.intp)
        h = np.full(len(at), 0xFFFFFFFF, np.uint32)
        for step, count in enumerate(counts):
            hh = h[:count]
            byte = np.take(data, at[:count] + step)
            byte ^= hh.astype(np.uint8)
            hh >>= np.uint32(8)
            hh ^= np.take(_CRC_TABLE, byte)
        hashes: Hashes = np.empty_like(h)
        hashes[order] = ~h
        return hashes
    view, ends = memoryview(data.tobytes()), (start + length).tolist()
    return np.fromiter((zlib.crc32(view[a:b]) for a, b in zip(start.tolist(), ends, strict=True)), np.uint32, len(ends))


def partitions_columns(
    data: NDArray[np.uint8], offsets: NDArray[Any], tries: Iterable[tuple[str, int]]
) -> Iterator[NDArray[np.int32]]:
    """`partition_for_key` of many keys for several (preset, n), in their order: each hash of the keys is computed once.

    `data` and `offsets` as in `murmur2_column`. Yields int32[keys]; -1 for an empty key if the preset treats it as no
    key.

    Raises:
        ConfigError: `n` is not a positive int; UnknownName: no such preset.

    Cost: the hashes that the presets need, plus about 5 ns per key and try; 0.1 µs for ``"consistent"``.
    """
    hashed: dict[Any, Hashes] = {}
    tries = list(tries)
    jumps: dict[int, NDArray[np.uint32]] = {}
    dividends: dict[str, Hashes] = {}
    for preset, n in tries:
        definition = preset_named(preset)
        check_count(n)
        if n > 0x7FFFFFFF:
            raise ConfigError(f"n (number of partitions) must fit into an int32, not {n!r}")
        of_keys = _hash_of(preset)
        if of_keys not in hashed:
            hashed[of_keys] = of_keys(data, offsets)
        h = hashed[of_keys]
        if definition is PRESETS["consistent"]:
            jumps = jumps or jump_columns(h, (n for preset, n in tries if PRESETS[preset] is definition))
            placed = jumps[n]
        else:
            if preset not in dividends:
                dividends[preset] = _dividend(preset, h)
            placed = dividends[preset] % np.uint32(n)
        result: NDArray[np.int32] = placed.astype(np.int32)
        if definition.empty_is_null:
            result[offsets[1:] == offsets[:-1]] = -1
        yield result


def _dividend(preset: str, h: Hashes) -> Hashes:
    """The part of a hash that is divided by the number of partitions."""
    definition = PRESETS[preset]
    if definition.place in (PRESETS["librdkafka"].place, PRESETS["franz-go-sarama"].place):
        return h
    if definition.like_java or definition in (PRESETS["sarama-reference"], PRESETS["kafkajs-legacy"]):
        positive: Hashes = h & np.uint32(0x7FFFFFFF)
        return positive
    return np.where(h & np.uint32(0x80000000), np.uint32(0) - h, h)


def _hash_of(preset: str) -> Callable[[NDArray[np.uint8], NDArray[Any]], Hashes]:
    if PRESETS[preset].place is PRESETS["librdkafka"].place:
        return crc32_column
    if PRESETS[preset] is PRESETS["kafkajs-legacy"]:
        return _kafkajs_legacy_column
    if PRESETS[preset].like_java or PRESETS[preset] is PRESETS["consistent"]:
        return murmur2_column
    return fnv1a_column


def _kafkajs_legacy_column(data: NDArray[np.uint8], offsets: NDArray[Any]) -> Hashes:
    """One key at a time: nobody needs the old hash of many keys fast."""
    joined, bounds = data.tobytes(), offsets.tolist()
    return np.array([kafkajs_legacy(joined[a:b]) for a, b in pairwise(bounds)], np.uint32)


def jump_columns(hashes: Hashes, counts: Iterable[int]) -> dict[int, NDArray[np.uint32]]:
    """`jump` of many hashes for several numbers of buckets: a larger number continues where a smaller one stopped.

    All hashes below the number take the next step at once.
    """
    bucket = np.zeros(len(hashes), np.uint32)
    h, following = hashes.astype(np.uint64), np.zeros(len(hashes))  # integers as floats, which avoids casts
    buckets = {}
    for n in sorted(set(counts)):
        going = np.flatnonzero(following < n)
        state, at = np.take(h, going), np.take(following, going)
        while len(going):
            bucket[going] = at
            state *= np.uint64(JUMP_STEP)  # NumPy's uint64 wraps, like the mask of the scalar form
            state += np.uint64(1)
            high = (state >> np.uint64(33)).view(np.int64)
            high += 1
            at += 1
            at *= float(1 << 31) / high
            np.floor(at, out=at)
            h[going], following[going] = state, at
            more = np.flatnonzero(at < n)
            going, state, at = np.take(going, more), np.take(state, more), np.take(at, more)
        buckets[n] = bucket.copy()
    return buckets


def _in_chunks(chunk: Any, one: Callable[[bytes], int], data: NDArray[np.uint8], offsets: NDArray[Any]) -> Hashes:
    """Hash with `chunk`, which advances many keys per step; hash the few much longer keys with `one`."""
    keys = len(offsets) - 1
    hashes = np.empty(max(keys, 0), np.uint32)
    for at in range(0, keys, _CHUNK_KEYS):
        until = min(at + _CHUNK_KEYS, keys)
        first, last = int(offsets[at]), int(offsets[until])
        near = (offsets[at : until + 1] - first).astype(np.int32 if last - first < 1 << 31 else np.int64, copy=False)
        start, length, bytes_near = near[:-1], np.diff(near), data[first:last]
        long = _few_long(length)
        length[long] = 0
        hashes[at:until] = chunk(bytes_near, start, length)
        for key in long.tolist():
            hashes[at + key] = one(bytes_near[near[key] : near[key + 1]].tobytes())
    return hashes


def _few_long(length: NDArray[Any]) -> NDArray[np.intp]:
    """The keys so few and so much longer than the others that separate steps do not pay."""
    few = max(len(length) - _FEW_KEYS, 0)
    others = int(np.partition(length, few - 1)[few - 1]) if few else 0
    if int(length.max()) <= 2 * others + 4 * _FEW_KEYS:
        return np.empty(0, np.intp)
    return np.flatnonzero(length > others)


def _longest_first(steps: NDArray[Any]) -> tuple[Any, list[int]]:
    """Keys sorted by falling number of steps, and for each step the number of keys that take part."""
    most = int(steps.max())
    if most == steps.min():
        return slice(None), [len(steps)] * most
    # NumPy sorts small integers by counting.
    small: Any = np.uint8 if most < 1 << 8 else np.uint16 if most < 1 << 16 else np.int64
    order = np.argsort((most - steps).astype(small), kind="stable")
    return order, (len(steps) - np.cumsum(np.bincount(steps))[:-1]).tolist()


def _murmur2_chunk(data: NDArray[np.uint8], start: NDArray[Any], length: NDArray[Any]) -> Hashes:
    """Advance all keys together: the longest come first, so the keys with another word are a prefix."""
    # View the bytes as aligned words. A key may begin inside a word, so each of its words is combined from two.
    padded = np.zeros(((len(data) >> 2) + 3) * 4, np.uint8)
    padded[: len(data)] = data
    column: NDArray[np.uint32] = padded.view("<u4").astype(np.uint32, copy=False)
    order, counts = _longest_first(length >> 2)
    start, length = start[order], length[order]
    at = (start >> 2).astype(np.intp)
    right = ((start & 3) << 3).astype(np.uint32)
    left = np.uint32(32) - right  # NumPy shifts by 32 to 0

    h = _SEED ^ length.astype(np.uint32)
    low, high = np.take(column, at, mode="clip"), np.empty_like(h)
    k, other = np.empty_like(h), np.empty_like(h)
    for step, count in enumerate(counts):
        kk, oo, hh = k[:count], other[:count], h[:count]
        np.take(column[step + 1 :], at[:count], out=high[:count], mode="clip")
        np.right_shift(low[:count], right[:count], out=kk)
        np.left_shift(high[:count], left[:count], out=oo)
        np.bitwise_or(kk, oo, out=kk)
        low, high = high, low
        np.multiply(kk, _M, out=kk)
        np.right_shift(kk, np.uint32(24), out=oo)
        np.bitwise_xor(kk, oo, out=kk)
        np.multiply(kk, _M, out=kk)
        np.multiply(hh, _M, out=hh)
        np.bitwise_xor(hh, kk, out=hh)
    at += length >> 2
    word = np.take(column, at, mode="clip") >> right | np.take(column, at + 1, mode="clip") << left
    rest = length & 3
    h ^= word & np.take(_REST_MASKS, rest)
    h *= np.take(_REST_FACTORS, rest)
    h ^= h >> np.uint32(13)
    h *= _M
    h ^= h >> np.uint32(15)
    hashes: Hashes = np.empty_like(h)
    hashes[order] = h
    return hashes


def _fnv1a_chunk(data: NDArray[np.uint8], start: NDArray[Any], length: NDArray[Any]) -> Hashes:
    order, counts = _longest_first(length)
    at = start[order]
    h = np.full(len(at), _FNV_OFFSET, np.uint32)
    for step, count in enumerate(counts):
        hh = h[:count]
        hh ^= np.take(data, at[:count] + step)
        hh *= _FNV_PRIME
    hashes: Hashes = np.empty_like(h)
    hashes[order] = h
    return hashes
