"""Hashes and partitions of many keys at once, from Arrow, NumPy, pandas or plain sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .core.keys.columns import murmur2_column, partitions_columns
from .core.keys.keyed import partition_for_key, preset_named
from .core.keys.murmur2 import as_bytes

_WIDE = {"large_binary", "large_string"}
_NARROW = {"binary", "string"}


def murmur2_batch(keys: Any) -> NDArray[np.int32]:
    """`murmur2` of many keys.

    Args:
        keys: A pyarrow ``Array`` or ``ChunkedArray`` (binary, string, their large forms, fixed-size binary), read
            without copying; a two-dimensional NumPy ``uint8`` array, one key per row; or any sequence of bytes and
            None.

    Returns:
        int32[keys], signed as in Java; 0 for None (`partitions_for_keys` distinguishes it).

    Raises:
        TypeError: Keys of another type.

    Cost: about 90 ns per key of 54 bytes from Arrow; sequences are joined first.
    """
    data, offsets, nulls = columns(keys)
    hashes = murmur2_column(data, offsets).view(np.int32)
    if nulls is not None:
        hashes[nulls] = 0
    return hashes


def partitions_for_keys(keys: Any, n: int, preset: str = "java") -> NDArray[np.int32]:
    """`partition_for_key` of many keys.

    Args:
        keys: See `murmur2_batch`.
        n: Number of partitions.
        preset: One of `PRESETS`.

    Returns:
        int32[keys]; -1 for None, unless the preset places it like an empty key (``"librdkafka-consistent"``), and for
        an empty key if the preset treats it as no key (``"librdkafka"``).

    Raises:
        ConfigError: `n` is not a positive int; UnknownName: no such preset.
        TypeError: Keys of another type.

    >>> partitions_for_keys([b"kafka", None, b""], 12).tolist()
    [4, -1, 9]
    """
    return next(partitions_for_tries(keys, [(preset, n)]))


def partitions_for_tries(keys: Any, tries: Iterable[tuple[str, int]]) -> Iterator[NDArray[np.int32]]:
    """`partitions_for_keys` for several (preset, number of partitions), in their order; each hash is computed once.

    >>> [placed.tolist() for placed in partitions_for_tries([b"kafka", None], [("java", 12), ("java", 6)])]
    [[4, -1], [4, -1]]
    """
    data, offsets, nulls = columns(keys)
    tries = list(tries)
    for (preset, n), placed in zip(tries, partitions_columns(data, offsets, tries), strict=True):
        if nulls is not None:
            placed[nulls] = partition_for_key(b"", n, preset) if preset_named(preset).null_is_empty else -1
        yield placed


def columns(keys: Any) -> tuple[NDArray[np.uint8], NDArray[Any], NDArray[np.bool_] | None]:
    """Keys -> (their bytes concatenated, offsets, a mask of the keys that are None; None without any)."""
    if type(keys).__module__.partition(".")[0] == "pyarrow":
        return _from_arrow(keys)
    if isinstance(keys, np.ndarray) and keys.dtype == np.uint8 and keys.ndim == 2:
        rows, width = keys.shape
        return np.ascontiguousarray(keys).reshape(-1), np.arange(rows + 1, dtype=np.int64) * width, None
    if isinstance(keys, (str, bytes, bytearray, memoryview)):
        raise TypeError(
            f"keys must be a column of keys, not a {type(keys).__name__}; for one key use partition_for_key"
        )
    parts = [b"" if key is None else as_bytes(key) for key in keys]
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    nulls = np.fromiter((key is None for key in keys), np.bool_, len(parts))
    return np.frombuffer(b"".join(parts), np.uint8), offsets, nulls if nulls.any() else None


def _from_arrow(keys: Any) -> tuple[NDArray[np.uint8], NDArray[Any], NDArray[np.bool_] | None]:
    kind = str(keys.type)
    if hasattr(keys, "combine_chunks"):
        keys = keys.combine_chunks()
        if hasattr(keys, "chunks"):  # pyarrow keeps chunks that would not fit into one array
            raise TypeError(f"a column of {kind} keys beyond 2 GiB: cast it to large_binary first")
    rows, first = len(keys), keys.offset
    nulls = np.asarray(keys.is_null()) if keys.null_count else None
    buffers = keys.buffers()
    if kind.startswith("fixed_size_binary"):
        width = keys.type.byte_width
        data = np.frombuffer(buffers[1] or b"", np.uint8)
        return data, (np.arange(rows + 1, dtype=np.int64) + first) * width, nulls
    if kind not in _WIDE | _NARROW:
        raise TypeError(f"keys of Arrow type {kind}: cast them to binary, serialized as the producer does")
    offset_type = np.int64 if kind in _WIDE else np.int32
    offsets = np.frombuffer(buffers[1] or bytes(8), offset_type)[first : first + rows + 1]
    if not rows:
        offsets = np.zeros(1, np.int64)
    return np.frombuffer(buffers[2] or b"", np.uint8), offsets, nulls
