"""The bytes of all members at once: owners -> every member's assignment, every member's claims -> arrays.

The formats are `protocol`'s. What one member at a time would take a Python object per topic and member, a million in a
large group, is here a few passes over arrays. One trick serves both directions: a buffer is also seen as an array that
has an element at *every* offset (`at_each`), so that one indexing operation reads or writes a field of all members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import WireError
from .indexed import FREE, Indexed, Ints
from .protocol import VERSION

_BLOCK = 1 << 16
"""Partitions that are written in one pass."""


def assignments(indexed: Indexed, owner: NDArray[np.integer]) -> dict[str, memoryview]:
    """Write every member's assignment: version 3, topics in Java's string order, ascending ids, no user data.

    Args:
        indexed: The group as integers.
        owner: int[P], member number or `FREE` per position.

    Returns:
        member id -> bytes, in the group's order; slices of one buffer. An entry for every member.

    Raises:
        WireError: A topic name longer than 32,767 bytes.

    Cost: O(P + R + M) for R runs, a run being the partitions of one topic that one member gets; about 40 ns a run.
    """
    names = [topic.encode() for topic in indexed.topics]
    longest = max(map(len, names), default=0)
    if longest > 0x7FFF:
        raise WireError(f"name of {longest} bytes is longer than Kafka's 32767")
    heads = [len(name).to_bytes(2, "big") + name for name in names]
    position, of = by_owner(owner, len(indexed.members))
    topic_of = indexed.topic_of()
    share = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(indexed.members)))])
    written: dict[str, memoryview] = {}
    for low, high in _blocks(share):
        here = slice(share[low], share[high])
        topic = topic_of[position[here]]
        data, ends = _written(heads, of[here] - low, topic, position[here] - indexed.first[topic], high - low)
        for member, begin, end in zip(indexed.members[low:high], [0, *ends], ends, strict=False):
            written[member.member_id] = data[begin:end]
    return {member.member_id: written[member.member_id] for member in indexed.group.members}


def _blocks(share: Ints) -> Iterator[tuple[int, int]]:
    """Cut the members where their partitions pass a multiple of `_BLOCK`: what a pass leaves is then still in cache."""
    cuts = np.searchsorted(share, np.arange(_BLOCK, share[-1], _BLOCK)).tolist()
    for low, high in pairwise([0, *dict.fromkeys(cuts), len(share) - 1]):
        if low < high:
            yield low, high


def _written(
    heads: Sequence[bytes], of: NDArray[np.integer], topic: Ints, ids: Ints, members: int
) -> tuple[memoryview, list[int]]:
    """The assignments of some members, one behind the other, and their ends. Arrays by member, topic, partition id."""
    begins = np.ones(len(of), bool)
    begins[1:] = (of[1:] != of[:-1]) | (topic[1:] != topic[:-1])
    begin = np.flatnonzero(begins)
    count = np.diff(begin, append=len(of))
    of, topic = of[begin], topic[begin]
    length = np.array(list(map(len, heads)), np.int64)
    head = length[topic]
    end = np.cumsum(head + 4 + 4 * count)
    runs = np.bincount(of, minlength=members)
    # Each member's version and number of runs come before its runs, and 4 bytes for no user data behind them.
    ends = np.concatenate([[0], end])[np.cumsum(runs)] + 10 * np.arange(1, members + 1)

    out = np.empty(int(ends[-1]), np.uint8)
    starts = np.concatenate([[0], ends[:-1]])
    at_each(out, ">i2")[starts] = VERSION
    at_each(out, ">i4")[starts + 2] = runs
    at_each(out, ">i4")[ends - 4] = -1
    at = end - 4 * count - 4 + (6 + 10 * of.astype(np.int64))  # of each run's count
    for size, alike in by_length(head):
        table = np.zeros(len(heads), f"V{size}")
        for t in np.flatnonzero(length == size).tolist():
            table[t] = heads[t]
        at_each(out, table.dtype)[at[alike] - size] = table[topic[alike]]
    at_each(out, ">i8")[at] = (count << 32) + ids[begin]
    later = np.flatnonzero(~begins)
    if len(later):  # the j-th partition of all, its run's first one being the b-th, lies 4 (j - b) further on
        at_each(out, ">i4")[np.repeat(at + 4 - 4 * begin, count - 1) + 4 * later] = ids[later]
    return out.data, ends.tolist()


def by_owner(owner: NDArray[np.integer], members: int) -> tuple[Ints, NDArray[np.integer]]:
    """The owned positions, by owner and then ascending; and the owner of each."""
    narrow = owner.astype(np.int16) if members < 1 << 15 else owner  # NumPy has a radix sort for 16 bits
    order = np.argsort(narrow, kind="stable")[np.count_nonzero(owner == FREE) :]
    return order, narrow[order]


def at_each(buffer: NDArray[np.uint8], dtype: DTypeLike) -> NDArray[Any]:
    """The buffer as an array with an element of that type at each offset."""
    size = np.dtype(dtype).itemsize
    each: NDArray[Any] = np.ndarray((max(0, len(buffer) - size + 1),), dtype, buffer, 0, (1,))
    return each


def by_length(length: Ints) -> Iterator[tuple[int, Ints | slice]]:
    """Each different length, and where it is."""
    if not len(length):
        return
    if (length == length[0]).all():
        yield int(length[0]), slice(None)
        return
    order = np.argsort(length.astype(np.int16), kind="stable")
    bounds = np.flatnonzero(np.diff(length[order], prepend=-1, append=-1))
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        yield int(length[order[begin]]), order[begin:end]
