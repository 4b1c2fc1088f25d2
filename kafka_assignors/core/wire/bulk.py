"""Codec for the bytes of all members at once: owners -> assignments, claims -> arrays.

The formats are those of `protocol`. Decoding one member at a time creates a Python object per topic and member, a
million in a large group; this module makes a few passes over arrays instead. Both directions view a buffer as an array
that has an element at *every* offset (`at_each`), so one indexing operation reads or writes a field of all members.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...errors import WireError
from ..group import NO_GENERATION
from ..group.columns import Claimed, Columns
from ..group.indexed import UNASSIGNED, Indexed, Ints, narrowed
from . import limits
from .protocol import VERSION, Heads, Subscription, beyond, int16, int32, read_subscription, shared_topics
from .userdata import Claim, decode_sticky, split

Words = NDArray[np.uint64]

_BLOCK = 1 << 16
"""Number of partitions written, or runs read, per pass, so that the intermediate arrays stay in cache."""


def assignments(indexed: Indexed, owner: NDArray[np.integer]) -> dict[str, memoryview]:
    """Encode every member's assignment: version 3, topics in Java's string order, ascending ids, no user data.

    `owner` is int[P], member number or `UNASSIGNED` per position. Returns slices of one buffer by member id, in the
    group's order, with an entry for every member.

    Raises:
        WireError: A topic name is longer than 32,767 bytes.

    Cost: O(P + R + M) for R runs (the partitions of one topic that one member gets); about 40 ns per run.
    """
    names = [topic.encode() for topic in indexed.topics]
    longest = max(map(len, names), default=0)
    if longest > 0x7FFF:
        raise WireError(f"name of {longest} bytes is longer than Kafka's 32767")
    heads = [len(name).to_bytes(2, "big") + name for name in names]
    narrow = narrowed(owner, len(indexed.members))
    position = np.argsort(narrow, kind="stable")[np.count_nonzero(owner == UNASSIGNED) :]
    of = narrow[position]
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
    """Split the members where their cumulative partitions pass a multiple of `_BLOCK`."""
    cuts = np.searchsorted(share, np.arange(_BLOCK, share[-1], _BLOCK)).tolist()
    for low, high in pairwise([0, *dict.fromkeys(cuts), len(share) - 1]):
        if low < high:
            yield low, high


def _written(
    heads: Sequence[bytes], of: NDArray[np.integer], topic: Ints, ids: Ints, members: int
) -> tuple[memoryview, list[int]]:
    """The concatenated assignments of some members, and their ends. Arrays: by member, topic, partition id."""
    begins = np.ones(len(of), bool)
    begins[1:] = (of[1:] != of[:-1]) | (topic[1:] != topic[:-1])
    begin = np.flatnonzero(begins)
    count = np.diff(begin, append=len(of))
    of, topic = of[begin], topic[begin]
    length = np.array(list(map(len, heads)), np.int64)
    head = length[topic]
    end = np.cumsum(head + 4 + 4 * count)
    runs = np.bincount(of, minlength=members)
    # Each member's runs follow its version and number of runs; 4 bytes for null user data follow the runs.
    ends = np.concatenate([[0], end])[np.cumsum(runs)] + 10 * np.arange(1, members + 1)

    out = np.empty(int(ends[-1]), np.uint8)
    starts = np.concatenate([[0], ends[:-1]])
    at_each(out, ">i2")[starts] = VERSION
    at_each(out, ">i4")[starts + 2] = runs
    at_each(out, ">i4")[ends - 4] = -1
    at = end - 4 * count - 4 + (6 + 10 * of.astype(np.int64))  # offset of each run's count
    for size, alike in by_length(head):
        table = np.zeros(len(heads), f"V{size}")
        for t in np.flatnonzero(length == size).tolist():
            table[t] = heads[t]
        at_each(out, table.dtype)[at[alike] - size] = table[topic[alike]]
    at_each(out, ">i8")[at] = (count << 32) + ids[begin]
    later = np.flatnonzero(~begins)
    if len(later):  # partition j of a run that starts at partition b is at 4 (j - b)
        at_each(out, ">i4")[np.repeat(at + 4 - 4 * begin, count - 1) + 4 * later] = ids[later]
    return out.data, ends.tolist()


def at_each(buffer: NDArray[np.uint8], dtype: DTypeLike) -> NDArray[Any]:
    """View the buffer as an array with an element of the given type at each offset."""
    size = np.dtype(dtype).itemsize
    view: NDArray[Any] = np.ndarray((max(0, len(buffer) - size + 1),), dtype, buffer, 0, (1,))
    return view


def by_length(length: NDArray[np.integer]) -> Iterator[tuple[int, Ints | slice]]:
    """Each distinct length, and the indices that have it."""
    if not len(length):
        return
    if (length == length[0]).all():
        yield int(length[0]), slice(None)
        return
    order = np.argsort(length.astype(np.int16), kind="stable")
    bounds = np.flatnonzero(np.diff(length[order], prepend=-1, append=-1))
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        yield int(length[order[begin]]), order[begin:end]


def claims(data: Sequence[bytes], at: Sequence[int], topics: Iterable[str]) -> list[tuple[Claimed, int] | None]:
    """Decode an array of (topic, partition ids) of each member, which begins at the offset `at` in its bytes.

    Claims of other topics than `topics` are left out without decoding their names. Returns per member its claims and
    the offset of their end; None if `protocol.Reader.partitions` would raise.

    Cost: O(bytes); about 60 ns per run. Each step decodes the n-th run of all members. A few members with many more
    runs than the others are decoded one by one.
    """
    sizes = np.array(list(map(len, data)), np.int64)
    joined = b"".join([*data, bytes(_PADDING)])
    buffer = np.frombuffer(joined, np.uint8)
    end = np.cumsum(sizes)
    base = end - sizes
    begin, cursor, runs = _walk(joined, buffer, base + np.array(at, np.int64), end)

    sound = runs >= 0
    runs = np.concatenate([[0], np.cumsum(np.maximum(runs, 0))])
    names = list(dict.fromkeys(topics))
    table = _Names([name.encode(errors="surrogatepass") for name in names[:_TABLE]])
    rare = {name.encode(errors="surrogatepass"): t for t, name in enumerate(names[_TABLE:], _TABLE)}
    strange = np.zeros(len(data), np.int64)
    parts: list[tuple[Ints, Ints, NDArray[np.integer]]] = []
    for low in range(0, len(begin), _BLOCK):
        here = begin[low : low + _BLOCK]
        length = at_each(buffer, ">u2")[here].astype(np.int64)
        count = at_each(buffer, ">u4")[here + 2 + length].astype(np.int64)
        topic = table.find(buffer, here + 2, length)
        if rare:
            for r in np.flatnonzero(topic < 0).tolist():
                topic[r] = rare.get(joined[here[r] + 2 : here[r] + 2 + length[r]], UNASSIGNED)
        if (foreign := np.flatnonzero(topic < 0)).size:
            of = np.searchsorted(runs, low + foreign, side="right") - 1
            strange += np.bincount(of, minlength=len(data))
            ours = topic >= 0
            here, length, topic, count = here[ours], length[ours], topic[ours], count[ours]
        ends = np.cumsum(count)
        places = np.repeat(here + (6 + length) - 4 * (ends - count), count)
        places += 4 * np.arange(len(places))
        parts.append((topic, count, at_each(buffer, ">i4")[places].astype(np.int32)))
    nothing = np.zeros(0, np.int64)
    topic, count, ids = (np.concatenate([part[i] for part in parts] or [nothing]) for i in range(3))
    columns = Columns(names, topic, count, ids, runs - np.concatenate([[0], np.cumsum(strange)]), strange)
    where = zip(sound.tolist(), (cursor - base).tolist(), strict=True)
    return [(Claimed(columns, row), till) if good else None for row, (good, till) in enumerate(where)]


def decode_all_sticky(data: Sequence[bytes | None], topics: Iterable[str]) -> list[Claim]:
    """`decode_sticky` of many members at once; `topics` are those that they probably name."""
    read = [Claim()] * len(data)
    telling = [(m, split(user_data)[1]) for m, user_data in enumerate(data) if user_data]
    claims_and_ends = claims([user_data for _, user_data in telling], [0] * len(telling), topics)
    for (m, user_data), claimed in zip(telling, claims_and_ends, strict=True):
        if claimed is not None and claimed[1] + 4 == len(user_data):
            generation = int.from_bytes(user_data[-4:], "big", signed=True)
            read[m] = Claim(claimed[0], max(generation, NO_GENERATION))
        else:  # not V1
            read[m] = decode_sticky(user_data)
    return read


_TABLE = 1 << 15
"""Maximum names in the lookup table, which is slow to build; further names are looked up one by one."""

_PADDING = 16
"""Bytes appended after the last member's, so that a truncated field can be read."""

_FEW = 32  # with this number of members, a step costs as much as decoding one by one


def _walk(joined: bytes, buffer: NDArray[np.uint8], at: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Start of each run, end of each member's array, and its number of runs: -1 if it is malformed."""
    limit = len(joined) - _PADDING + 1  # after every member's end
    inside = at + 4 <= end
    runs = np.where(inside, at_each(buffer, ">i4")[np.minimum(at, limit)], -1).astype(np.int64)
    runs[(6 * runs > end - at - 4) | (runs > limits.TOPICS)] = -1
    several = np.argsort(-runs, kind="stable")
    first = (np.cumsum(np.maximum(runs, 0)) - np.maximum(runs, 0))[several]
    begin = np.empty(int(np.maximum(runs, 0).sum()), np.int64)
    cursor = at[several] + 4
    most = -runs[several]
    sizes, counts = at_each(buffer, ">u2"), at_each(buffer, ">u4")
    step = 0
    while (active := int(np.searchsorted(most, -step))) > _FEW:
        here = cursor[:active]
        begin[first[:active] + step] = here
        behind = np.minimum(here + 2 + sizes[here], limit)
        cursor[:active] = np.minimum(behind + 4 + 4 * counts[behind].astype(np.int64), limit)
        step += 1
    for m in range(active):
        here_, starts = int(cursor[m]), []
        for _ in range(step, -int(most[m])):
            starts.append(here_)
            behind_ = min(here_ + 2 + int.from_bytes(joined[here_ : here_ + 2], "big"), limit)
            here_ = min(behind_ + 4 + 4 * int.from_bytes(joined[behind_ : behind_ + 4], "big"), limit)
        begin[first[m] + step : first[m] - most[m]] = starts
        cursor[m] = here_
    ends = np.empty_like(cursor)
    ends[several] = cursor
    broken = (ends > end) & (runs >= 0)
    long = np.flatnonzero(sizes[begin] > 0x7FFF)
    broken[np.searchsorted(np.cumsum(np.maximum(runs, 0)), long, side="right")] = True
    if broken.any():
        begin = begin[np.repeat(~broken, np.maximum(runs, 0))]
        runs[broken] = -1
    return begin, ends, runs


class _Names:
    """Identifies the name at each of many offsets at once, among distinct names."""

    def __init__(self, names: Sequence[bytes]) -> None:
        alike: dict[int, list[int]] = {}
        for i, name in enumerate(names):
            alike.setdefault(len(name), []).append(i)
        # length -> the names' numbers, words and hash keys, sorted by key; the shift that maps a key to an index of the
        # last array; and that array, which holds the expected position in the sorted order. It is nearly always right.
        self._tables: dict[int, tuple[Ints, list[Words], Words, np.uint64, Ints]] = {}
        for size, numbers in alike.items():
            table = np.frombuffer(b"".join(names[i] for i in numbers) + bytes(8), np.uint8)
            words = _words(table, size * np.arange(len(numbers)), size)
            order = np.argsort(_mixed(words))
            words = [word[order] for word in words]
            key = _mixed(words)
            shift = np.uint64(60 - len(numbers).bit_length())
            guess = np.searchsorted(key >> shift, np.arange((1 << 64) >> int(shift), dtype=np.uint64))
            self._tables[size] = np.array(numbers)[order], words, key, shift, np.minimum(guess, len(numbers) - 1)

    def find(self, buffer: NDArray[np.uint8], at: Ints, length: Ints) -> Ints:
        """The number of the name at each offset; -1 if it is unknown."""
        matches = np.full(len(at), -1)
        for size, here in by_length(length):
            if size not in self._tables:
                continue
            numbers, words, key, shift, guess = self._tables[size]
            asked = _words(buffer, at[here], size)
            wanted = _mixed(asked)
            place = guess[wanted >> shift]
            missed = np.flatnonzero(key[place] != wanted)
            place[missed] = np.minimum(np.searchsorted(key, wanted[missed]), len(key) - 1)
            same = np.logical_and.reduce([word[place] == mine for word, mine in zip(words, asked, strict=True)])
            matches[here] = np.where(same, numbers[place], -1)
        return matches


def _words(buffer: NDArray[np.uint8], at: Ints, size: int) -> list[Words]:
    """Names of equal size as 8-byte words; the last word overlaps the one before it, or is padded with zeros."""
    words = at_each(buffer, "<u8")
    if size < 8:
        return [words[at] & np.uint64((1 << 8 * size) - 1)]
    return [words[at + i] for i in dict.fromkeys([*range(0, size - 7, 8), size - 8])]


def _mixed(words: Sequence[Words]) -> Words:
    """Hash several words into one whose high bits depend on all of them (Knuth's multiplicative hashing)."""
    mixed: Words = words[0] * np.uint64(0x9E3779B97F4A7C15)
    for i, word in enumerate(words[1:], 1):
        mixed += word * np.uint64((0x9E3779B97F4A7C15 * (2 * i + 1) | 1) & 0xFFFFFFFFFFFFFFFF)
    return mixed


def subscriptions(data: Sequence[bytes]) -> list[Subscription]:
    """`protocol.read_subscription` of each member; owned partitions are decoded together.

    Members of a group mostly subscribe alike, so topics are compared as bytes, and equal ones share one tuple.
    """
    read: list[Subscription] = []
    heads: Heads = {}
    holding: dict[int, int] = {}  # member -> offset of its owned partitions
    for m, payload in enumerate(data):
        try:
            if beyond(len(payload), int.from_bytes(payload[2:6], "big")):
                raise ValueError
            topics, at = shared_topics(payload, heads)
            size = int32(payload, at)[0]
            at += 4 + max(size, 0)
            user_data = None if size < 0 else payload[at - size : at]
            version = int.from_bytes(payload[:2], "big", signed=True)
            if version >= 1 and payload[at : at + 4] != b"\0\0\0\0":
                holding[m] = at
                read.append(Subscription(topics, user_data))
            elif version >= 0 and at <= len(payload):
                tail = _tail(payload, at + 4, version)
                read.append(Subscription(topics, user_data, (), *tail, "", min(version, VERSION)))
            else:
                raise ValueError
        except (ValueError, struct.error):
            read.append(read_subscription(payload))  # with the exact error, or a limit
    if holding:
        topic_names = frozenset[str]().union(
            *{id(subscription.topics): subscription.topics for subscription in read}.values()
        )
        claims_and_ends = claims([data[m] for m in holding], list(holding.values()), topic_names)
        for m, claimed in zip(holding, claims_and_ends, strict=True):
            payload, heard = data[m], read[m]
            try:
                if claimed is None:
                    raise ValueError
                version = int.from_bytes(payload[:2], "big")
                tail = _tail(payload, claimed[1], version)
                read[m] = Subscription(heard.topics, heard.user_data, claimed[0], *tail, "", min(version, VERSION))
            except (ValueError, struct.error):
                read[m] = read_subscription(payload)
    return read


def _tail(data: bytes, at: int, version: int) -> tuple[int, str | None]:
    """Generation and rack of a subscription. Raises ValueError or struct.error if it is malformed."""
    generation = int32(data, at)[0] if version >= 2 else NO_GENERATION
    if version < 3:
        return generation, None
    size = int16(data, at + 4)[0]
    rack = data[at + 6 : at + 6 + size]
    if size < 0:
        return generation, None
    if len(rack) < size:
        raise ValueError
    return generation, rack.decode()
