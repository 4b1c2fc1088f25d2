"""What a member carries in user data under a name of our own: rack, instance id, generation and claims, in few bytes.

The consumer protocol has places for these (subscription versions 1 to 3, JoinGroup version 5), but not every client
shows them to its assignor: aiokafka hands over topics and user data alone. Java's names have user data of their own
(`userdata`), so these bytes go with other names only.

=========  ============================================================================================================
bytes      what
=========  ============================================================================================================
1          version, 1
4          CRC-32 of the rest, big endian
rest       deflate (RFC 1951) of: int32 size of a text; the text, JSON ``[rack, instance id, topic, …]``; varints
           (LEB128): generation + 1, then per topic its number of runs and per run the gap to the run before and the
           run's length - 1. A run is a range of partitions without a hole.
=========  ============================================================================================================

A newer version is not read: what it carries counts as not said, which is safe as claims only keep partitions in place.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import WireError
from .group import NO_GENERATION, Partitions, TopicPartition
from .protocol import by_topic

JAVAS = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""Names that promise Java's bytes, so none of these."""
VERSION = 1
RECORD_LIMIT = 1_000_000
"""Bytes. All members' subscriptions and assignments are one record of ``__consumer_offsets``, and a broker takes
1,048,588 by default (``message.max.bytes``): beyond it, no rebalance of the group can complete."""
LIMIT_TEXT = "a broker stores 1,048,588 for a whole group by default (message.max.bytes)"
_MOST_BYTES = 1 << 26  # unpacked: a million partitions, each a run of its own, take 2 MB
_MOST_PARTITIONS = 1 << 23

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Carried:
    """What a member says of itself.

    Args:
        owned: Topic-partitions it holds.
        generation: Generation that gave it `owned`; `NO_GENERATION` when it has none.
        rack: Its rack, or None.
        instance_id: Its ``group.instance.id``, or None.
        garbage: Why the bytes could not be read, "" when they could. Garbage says nothing.
    """

    owned: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None
    garbage: str = ""


def encode(
    owned: Collection[tuple[str, int]] = (),
    generation: int = NO_GENERATION,
    rack: str | None = None,
    instance_id: str | None = None,
) -> bytes:
    """Write user data; partitions that are named twice once.

    Returns:
        Bytes: less than one per partition where partitions are contiguous, about one and a half where they are not.

    Raises:
        WireError: A partition or generation out of range.

    Cost: O(owned log owned).
    """
    topics = by_topic(owned)
    text = json.dumps([rack, instance_id, *topics], ensure_ascii=False, separators=(",", ":")).encode()
    numbers = [np.array([generation + 1], np.int64), *(_runs(np.unique(ids)) for ids in topics.values())]
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(len(text).to_bytes(4, "big") + text + _varints(np.concatenate(numbers))) + packer.flush()
    return VERSION.to_bytes(1, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def encode_within(
    owned: Collection[tuple[str, int]], generation: int, rack: str | None, instance_id: str | None
) -> tuple[bytes, str]:
    """`encode`, without the claims where no broker would store them.

    Returns:
        The user data, and why they claim nothing; "" when they are complete.
    """
    data = encode(owned, generation, rack, instance_id)
    if len(data) <= RECORD_LIMIT:
        return data, ""
    why = f"claims of {len(owned):,} partitions take {len(data):,} bytes, {LIMIT_TEXT}; this member claims nothing"
    return encode((), NO_GENERATION, rack, instance_id), why


def decode(data: bytes | None) -> Carried:
    """Read user data of any origin. Never raises; None and empty bytes say nothing."""
    if not data:
        return Carried()
    if data[0] > VERSION:
        return Carried(garbage=f"user data has version {data[0]}, newer than {VERSION}")
    body = data[5:]
    if data[0] != VERSION or zlib.crc32(body) != int.from_bytes(data[1:5], "big"):
        return Carried(garbage=f"{len(data)} bytes of user data are not this assignor's, or damaged")
    try:
        return _read(body)
    except (ValueError, IndexError, RecursionError, zlib.error) as error:  # a right checksum over wrong content
        return Carried(garbage=f"{len(data)} bytes of user data cannot be read: {error}")


def _read(body: bytes) -> Carried:
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    content = unpacker.decompress(body, _MOST_BYTES)
    if not unpacker.eof:
        raise ValueError(f"cut off, or more than {_MOST_BYTES} bytes unpacked")
    end = 4 + int.from_bytes(content[:4], "big")
    names = json.loads(content[4:end].decode())
    if not (isinstance(names, list) and len(names) >= 2 and all(isinstance(name, str) for name in names[2:])):
        raise ValueError("no list of names")
    rack, instance_id, *topics = names
    if not all(name is None or isinstance(name, str) for name in (rack, instance_id)):
        raise ValueError("rack or instance id is no string")
    numbers = _numbers(content[end:])
    at, counts, ids, room = 1, [], [np.zeros(0, np.int64)], _MOST_PARTITIONS
    for _ in topics:
        runs = numbers[at + 1 : at + 1 + 2 * int(numbers[at])].reshape(-1, 2)
        if len(runs) != numbers[at]:
            raise ValueError("runs are missing")
        at += 1 + 2 * len(runs)
        length = runs[:, 1] + 1
        if (count := int(length.sum())) > room:
            raise ValueError(f"more than {_MOST_PARTITIONS} partitions")
        room -= count
        # The gap to the first run is that to partition 0. Every partition is one more than the one before, except
        # where a run starts: there it is a gap more.
        step = np.ones(count, np.int64)
        if count:
            starts = np.concatenate([[0], np.cumsum(length)[:-1]])
            step[starts] = runs[:, 0] + 1
            step[0] -= 1
        ids.append(np.cumsum(step))
        counts.append(count)
        if count and ids[-1][-1] >= 1 << 31:
            raise ValueError("a partition beyond int32")
    return Carried(Partitions(topics, counts, np.concatenate(ids)), int(numbers[0]) - 1, rack, instance_id)


def _runs(ids: Ints) -> Ints:
    """Ascending partition ids of one topic as the numbers that stand for them."""
    first = np.flatnonzero(np.concatenate([[True], np.diff(ids) > 1]))
    starts, ends = ids[first], ids[np.append(first[1:], len(ids)) - 1]
    gaps = starts - np.concatenate([[0], ends[:-1] + 1])
    return np.concatenate([[len(first)], np.stack([gaps, ends - starts], 1).ravel()])


def _varints(values: Ints) -> bytes:
    """Numbers as LEB128: seven bits a byte, the lowest first, the high bit set where more follow."""
    if len(values) and not (values.min() >= 0 and values.max() < 1 << 35):
        raise WireError(f"partitions and generations are 0 to 2,147,483,647, not {values.min()} to {values.max()}")
    size = np.ones(len(values), np.int64)
    for k in range(1, 5):
        size += values >= 1 << 7 * k
    out = np.zeros(int(size.sum()), np.uint8)
    start = np.cumsum(size) - size
    for k in range(int(size.max(initial=0))):
        has = size > k
        more = (size[has] > k + 1) * 0x80
        out[start[has] + k] = (values[has] >> 7 * k & 0x7F) | more
    return out.tobytes()


def _numbers(data: bytes) -> Ints:
    """The numbers of some LEB128."""
    each = np.frombuffer(data, np.uint8).astype(np.int64)
    last = np.flatnonzero(each < 0x80)
    if not len(last) or last[-1] != len(each) - 1:
        raise ValueError("cut off")
    start = np.concatenate([[0], last[:-1] + 1])
    if (last - start).max() > 4:
        raise ValueError("a number of more than 35 bits")
    place = np.arange(len(each)) - np.repeat(start, last - start + 1)
    return np.add.reduceat((each & 0x7F) << 7 * place, start)
