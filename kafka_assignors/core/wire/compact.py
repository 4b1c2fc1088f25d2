"""User data under our own assignor names: rack, instance id, generation and claims in few bytes.

The consumer protocol has fields for these (subscription versions 1 to 3, JoinGroup version 5), but not every client
passes them to its assignor: aiokafka passes only topics and user data. Java's names have their own user data
(`userdata`), so this format is only used under other names.

=========  ============================================================================================================
bytes      what
=========  ============================================================================================================
1          version, 1; or 2 if the member has options
4          CRC-32 of the rest, big endian
2 + n      only in version 2: big-endian length n, then n bytes of options (`options.tell`)
rest       deflate (RFC 1951) of: int32 size of a text; the text, JSON ``[rack, instance id, topic, …]``; varints
           (LEB128): generation + 1, then per topic its number of runs and per run the gap to the run before and the
           run's length - 1. A run is a range of partitions without a hole.
=========  ============================================================================================================

A newer version is ignored, as if the member had sent nothing. This is safe: claims only keep partitions in place.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ...errors import WireError
from ..group import NO_GENERATION, Partitions, TopicPartition
from . import limits
from .protocol import by_topic

VERSION = 2
RECORD_LIMIT = 1_000_000
"""Bytes. The subscriptions and assignments of all members are one record of ``__consumer_offsets``. A broker accepts
1,048,588 bytes by default (``message.max.bytes``); above this limit, no rebalance of the group can complete."""
TOO_LONG = -1
"""What a number of more than 35 bits is read as."""
LIMIT_TEXT = "a broker stores 1,048,588 for a whole group by default (message.max.bytes)"

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CompactData:
    """The decoded user data of a member.

    Args:
        owned: The topic-partitions it claims to hold.
        generation: Generation that assigned `owned`, else `NO_GENERATION`.
        instance_id: Its ``group.instance.id``, or None.
        garbage: Why the bytes could not be decoded, "" if they could. All other fields are then empty.
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
    option_bytes: bytes = b"",
) -> bytes:
    """Encode user data; `option_bytes` are those of `options.tell`. Duplicate partitions are written once.

    A partition takes less than a byte if partitions are contiguous, else about one and a half.

    Raises:
        WireError: A partition or generation is out of range.

    Cost: O(owned log owned).
    """
    topics = by_topic(owned)
    text = json.dumps([rack, instance_id, *topics], ensure_ascii=False, separators=(",", ":")).encode()
    numbers = [np.array([generation + 1], np.int64), *(_runs(np.unique(ids)) for ids in topics.values())]
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(len(text).to_bytes(4, "big") + text + _varints(np.concatenate(numbers))) + packer.flush()
    rest = len(option_bytes).to_bytes(2, "big") + option_bytes + body if option_bytes else body
    return (2 if option_bytes else 1).to_bytes(1, "big") + zlib.crc32(rest).to_bytes(4, "big") + rest


def encode_within(
    owned: Collection[tuple[str, int]],
    generation: int,
    rack: str | None,
    instance_id: str | None,
    option_bytes: bytes = b"",
) -> tuple[bytes, str]:
    """`encode`, but without the claims if they would exceed the size that a broker stores.

    Returns the user data, and why the claims are missing; "" if they are complete.
    """
    data = encode(owned, generation, rack, instance_id, option_bytes)
    if len(data) <= RECORD_LIMIT:
        return data, ""
    why = (
        f"claims of {len(owned):,} partitions take {len(data):,} bytes, {LIMIT_TEXT}; this member claims no partitions"
    )
    return encode((), NO_GENERATION, rack, instance_id, option_bytes), why


def options(data: bytes) -> bytes:
    """The options in user data of any origin; b"" if there are none. Never raises."""
    return _split(data)[0] if data[:1] == b"\2" else b""


def _split(data: bytes) -> tuple[bytes, bytes | None]:
    """Split user data into options and the packed rest. The rest is None if the bytes are foreign or damaged."""
    rest = data[5:]
    if not 1 <= data[0] <= VERSION or zlib.crc32(rest) != int.from_bytes(data[1:5], "big"):
        return b"", None
    end = 2 + int.from_bytes(rest[:2], "big") if data[0] == 2 else 0
    return rest[2:end], rest[end:]


def decode(data: bytes | None, partitions: Mapping[str, int]) -> CompactData:
    """Decode user data of any origin. None and empty bytes mean no data. Never raises.

    Claims of topics that `partitions` (topic -> count) lacks, or of partitions beyond the count, are left out before
    they are expanded, because a few bytes may claim billions.

    Cost: O(bytes unpacked + partitions claimed that exist), both bounded by `limits`.
    """
    if not data:
        return CompactData()
    if data[0] > VERSION:
        return CompactData(garbage=f"user data has version {data[0]}, newer than {VERSION}")
    if (body := _split(data)[1]) is None:
        return CompactData(garbage=f"{len(data)} bytes of user data are not this assignor's, or damaged")
    try:
        return _read(body, partitions)
    except (ValueError, IndexError, RecursionError, zlib.error) as error:  # valid checksum over invalid content
        return CompactData(garbage=f"{len(data)} bytes of user data cannot be read: {error}")


def _read(body: bytes, partitions: Mapping[str, int]) -> CompactData:
    content = inflated(body, limits.UNPACKED_BYTES)
    end = 4 + int.from_bytes(content[:4], "big")
    rack, instance_id, *topics = names(content[4:end], "claims", nullable=2)
    varints = np.frombuffer(content, np.uint8)[min(end, len(content)) :]
    read, ends = numbers(varints)
    if not len(ends) or ends[-1] + 1 != len(varints):
        raise ValueError("cut off")
    if read.min() == TOO_LONG:
        raise ValueError("a number of more than 35 bits")
    generation = int(read[0]) - 1
    if generation >= 1 << 31:
        raise ValueError(f"a generation beyond int32: {generation}")
    return CompactData(_claimed(topics, read, partitions), generation, rack, instance_id)


def inflated(body: bytes, most: int) -> bytes:
    """Decompress at most this number of bytes.

    Raises:
        ValueError: There are more, or the end is missing.
        zlib.error: Bytes that are not deflate.
    """
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    content = unpacker.decompress(body, max(most, 1))  # 0 would mean no limit
    if not unpacker.eof:
        raise ValueError(f"cut off, or more than {limits.UNPACKED_BYTES:,} bytes unpacked")
    return content


@overload
def names(text: bytes, of: str) -> list[str]: ...


@overload
def names(text: bytes, of: str, nullable: int) -> list[Any]: ...


def names(text: bytes, of: str, nullable: int = 0) -> list[Any]:
    """Decode a JSON list of strings, the first `nullable` of which must be there and may be null; `of` is for errors.

    Raises:
        ValueError: It is something else, or longer than `limits.TOPICS`.
        RecursionError: It is nested too deeply.
    """
    if text.count(b",") > limits.TOPICS:  # a list has a comma between values
        raise ValueError(f"{of} of more than {limits.TOPICS:,} topics")
    strings = json.loads(text.decode())
    if not (isinstance(strings, list) and len(strings) >= nullable):
        raise ValueError("not a list of names")
    if not all(isinstance(name, str) or (name is None and n < nullable) for n, name in enumerate(strings)):
        raise ValueError("a name, the rack or the instance id is not a string")
    "".join(filter(None, strings)).encode()  # JSON can write half of a character, which no client can send on
    return strings


def _claimed(topics: Sequence[str], numbers: Ints, partitions: Mapping[str, int]) -> Partitions:
    """The claims encoded in the numbers after the first one, without unknown topics and partitions."""
    existing_topics: list[str] = []
    heads, runs = [], []
    at = 1
    beyond = 0
    for topic in topics:
        count = int(numbers[at])
        if topic in partitions:
            # No run is empty, so runs beyond the topic's partition count contain no existing partition.
            exist = min(count, max(partitions[topic], 0))
            existing_topics.append(topic)
            heads.append(at + 1)
            runs.append(exist)
            beyond += int(numbers[at + 2 + 2 * exist : at + 1 + 2 * count : 2].sum()) + count - exist
        at += 1 + 2 * count
    if at > len(numbers):
        raise ValueError("runs are missing")
    run_counts = np.array(runs, np.int64)
    run = _ranges(np.array(heads, np.int64), run_counts, 2)
    end = numbers[run]
    run += 1
    length = numbers[run]
    length += 1
    end += length
    np.cumsum(end, out=end)  # over all topics; a topic's own ends start at the end of the topic before
    last = np.cumsum(run_counts)
    end -= np.repeat(np.concatenate([[0], end])[last - run_counts], run_counts)
    if len(end) and end.max() > 1 << 31:
        raise ValueError("a partition id beyond int32")
    start = end
    start -= length
    kept = np.repeat(np.array([partitions[topic] for topic in existing_topics], np.int64), run_counts)
    kept -= start
    np.clip(kept, 0, length, out=kept)
    if (total := int(kept.sum())) > limits.PARTITIONS:
        raise ValueError(f"claims of {total:,} partitions; {limits.PARTITIONS:,} are read at most")
    sums = np.concatenate([[0], np.cumsum(kept)])
    counts: list[int] = (sums[last] - sums[last - run_counts]).tolist()
    beyond += int(length.sum()) - total
    return Partitions(existing_topics, counts, _ranges(start, kept, 1), len(topics) - len(existing_topics), beyond)


def _ranges(start: Ints, count: Ints, step: int) -> Ints:
    """Concatenated ranges, each given by its start and count, with a common step."""
    ends = np.cumsum(count)
    numbers: Ints = np.arange(0, step * int(count.sum()), step)
    numbers += np.repeat(start - step * (ends - count), count)
    return numbers


def _runs(ids: Ints) -> Ints:
    """Encode the ascending partition ids of one topic as runs."""
    first = np.flatnonzero(np.concatenate([[True], np.diff(ids) > 1]))
    starts, ends = ids[first], ids[np.append(first[1:], len(ids)) - 1]
    gaps = starts - np.concatenate([[0], ends[:-1] + 1])
    return np.concatenate([[len(first)], np.stack([gaps, ends - starts], 1).ravel()])


def _varints(values: Ints) -> bytes:
    """Encode numbers as LEB128: seven bits per byte, lowest first; the high bit means that more bytes follow."""
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


def numbers(varints: NDArray[np.uint8]) -> tuple[Ints, Ints]:
    """Decode LEB128 numbers, up to the last one that is complete; and the offset of each one's last byte.

    Numbers of more than 35 bits count as `TOO_LONG`.
    """
    last = np.flatnonzero(varints < 0x80)
    values: Ints = varints[last].astype(np.int64)
    if not len(last) or last[-1] + 1 == len(last):
        return values, last
    size = np.diff(last, prepend=-1)
    long = np.flatnonzero(size > 1)
    for k in range(1, 5):  # from a number's last byte (its highest bits) to its first
        values[long] = values[long] << 7 | varints[last[long] - k] & 0x7F
        long = long[size[long] > k + 1]
    values[long] = TOO_LONG
    return values, last
