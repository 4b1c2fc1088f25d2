"""User data of the weighted strategy: a member's claims, its capacity, and the weights it knows.

=========  ============================================================================================================
bytes      what
=========  ============================================================================================================
1          version: 3 if the member tells something about moves (`Moving`), 2 if it has a priority or a hard cap, else 1
4          CRC-32 of the rest, big endian; from version 2 on the start value is the version
4 + n      big-endian length n, then n bytes of `compact`'s user data: rack, instance id, options and claims
4 + n      only in version 3: the same with the resting partitions for claims
4 + n      only in version 3: big-endian length n, then cost of state in the form of the weights below, without `Own`
rest       deflate (RFC 1951) of: `Own`, big endian (float64 capacity, uint8 checks, uint8 asked modulo 256; from
           version 2 on int64 priority, float64 max_work, infinite if there is none); and the weights (`packed`):
           float64 `top`; int32 size of a text; the text, JSON ``[topic, …]``; varints as in `compact`, per topic its
           number of runs of partitions, and the runs; a byte per partition, its weight
=========  ============================================================================================================

A weight is one byte: 0 is unknown, 255 is `top`, and each step below is a sixteenth of an octave (4.4 %). The error is
at most 2.2 % over sixteen octaves; lighter weights are clamped to the lightest. Works are sums of many weights, whose
errors cancel.

Which weights a member sends is in `choice`, how a leader combines them in `merge`.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..group import NO_GENERATION
from ..group.indexed import Ints
from ..group.order import utf16
from . import compact, limits

Floats = NDArray[np.float64]

VERSION = 3
STEPS = 16
"""Steps of a weight's byte per octave."""
Told = Mapping[str, tuple[Ints, Floats]]
"""topic -> ascending partition ids, and their weights."""
_OWN = struct.Struct(">dBB")
_LIMITS = struct.Struct(">qd")
_TOP = struct.Struct(">d")
_GREATEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Own:
    """What a member tells of itself.

    Args:
        checks: Consecutive checks that found its work to stand out (`core.weighted.loop`).
        asked: How often it has asked for a rebalance. A join that asks must differ from the one before, or the
            coordinator answers it with the current generation.
        max_work: The most work that it may have.
    """

    capacity: float = 1.0
    checks: int = 0
    asked: int = 0
    priority: int = 0
    max_work: float = math.inf

    @property
    def version(self) -> int:
        """The oldest version of the user data that has room for it."""
        return 1 if (self.priority, self.max_work) == (0, math.inf) else 2

    def options(self) -> dict[str, float]:
        """What is not at its default, under the names of the strategy's options; of any origin, so unchecked."""
        options: dict[str, float] = {}
        if self.capacity != 1.0:
            options["capacity"] = self.capacity
        if self.priority:
            options["priority"] = self.priority
        if self.max_work != math.inf:
            options["max_work"] = self.max_work
        return options


@dataclass(frozen=True)
class Moving:
    """What a member tells about moves of the partitions that it owns.

    Args:
        state: topic -> ascending partition ids, and the cost of moving them.
        resting: Partitions that moved to it too recently to move again.
    """

    state: Told = field(default_factory=dict)
    resting: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True)
class ByWorkData:
    """The decoded user data of a member.

    Args:
        compact_data: Claims, generation, rack, instance id; garbage.
        weights: topic -> ascending partition ids, and their weights.
        garbage: Why what follows the claims could not be decoded, "" if it could. If it has a text, all other fields
            but `compact_data` are empty.
    """

    compact_data: compact.CompactData = field(default_factory=compact.CompactData)
    own: Own = field(default_factory=Own)
    weights: Told = field(default_factory=dict)
    moving: Moving = field(default_factory=Moving)
    garbage: str = ""


def encode(claims: bytes, own: Own, weights: Told, moving: Moving | None = None) -> bytes:
    """Encode user data. `claims` are bytes from `compact.encode`; a weight of NaN is unknown."""
    more = moving is not None and (len(moving.resting) > 0 or any(len(ids) for ids, _ in moving.state.values()))
    version = 3 if more else own.version
    blocks = [claims]
    if moving is not None and more:
        blocks += [compact.encode(moving.resting), packed(b"", moving.state)]
    head = _OWN.pack(own.capacity, own.checks, own.asked % 256)
    if version > 1:
        head += _LIMITS.pack(own.priority, own.max_work)
    rest = b"".join(len(block).to_bytes(4, "big") + block for block in blocks) + packed(head, weights)
    return version.to_bytes(1, "big") + _checksum(version, rest) + rest


def _checksum(version: int, rest: bytes) -> bytes:
    return zlib.crc32(rest, 0 if version == 1 else version).to_bytes(4, "big")


def packed(head: bytes, weights: Told) -> bytes:
    """Compress a head of a fixed size and weights; NaN is unknown."""
    topics = sorted((topic for topic, (ids, _) in weights.items() if len(ids)), key=utf16)
    values = np.concatenate([[], *(weights[topic][1] for topic in topics)]).astype(np.float64)
    top = float(np.nanmax(values)) if np.isfinite(values).any() else 0.0
    if top:  # a power of a step, so that a weight that was decoded is encoded as the same
        top = 2.0 ** (math.ceil(STEPS * math.log2(top) - 1e-6) / STEPS)
    text = json.dumps(topics, ensure_ascii=False, separators=(",", ":")).encode()
    runs = np.concatenate([np.zeros(0, np.int64), *(compact._runs(weights[topic][0]) for topic in topics)])
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = head + _TOP.pack(top) + len(text).to_bytes(4, "big") + text
    return (
        packer.compress(body + compact._varints(runs.astype(np.int64)) + _codes(values, top).tobytes()) + packer.flush()
    )


def _codes(values: Floats, top: float) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = 255 + np.rint(STEPS * np.log2(values / top)) if top else np.ones(len(values))
    return np.where(np.isnan(values), 0, np.clip(np.nan_to_num(steps, neginf=1), 1, 255)).astype(np.uint8)


def _values(codes: Any, top: float) -> Floats:
    distinct_codes, of = np.unique(codes, return_inverse=True)
    values = top * np.exp2((distinct_codes.astype(np.float64) - 255) / STEPS)
    # Keep two significant digits more than the code has, so that the result does not depend on the machine's exp2.
    rounded = np.minimum([float(f"{weight:.4g}") for weight in values], _GREATEST)  # rounding up may overflow
    return np.where(distinct_codes == 0, np.nan, rounded)[of]


def decode(data: bytes | None, partitions: Mapping[str, int]) -> ByWorkData:
    """Decode user data of any origin. None and empty bytes mean no data. Never raises.

    Figures may be out of range: the options of the strategy validate them. Weights and claims of other partitions than
    `partitions` (topic -> count) are left out; see `compact.decode`.

    Cost: O(bytes unpacked), bounded by `limits`.
    """
    claims, rest = _split(data, partitions)
    if rest is None or data is None:
        return ByWorkData(claims)
    try:
        moving, most = Moving(), limits.UNPACKED_BYTES
        if data[0] > 2:
            resting, rest = _block(rest)
            state, rest = _block(rest)
            _, states, most = unpacked(state, 0, partitions, most)
            rests = compact.decode(resting, partitions)
            if rests.garbage:
                raise ValueError(f"resting partitions: {rests.garbage}")
            moving = Moving(states, rests.owned)
        size = _OWN.size + (_LIMITS.size if data[0] > 1 else 0)
        head, weights, _ = unpacked(rest, size, partitions, most)
        limits_ = _LIMITS.unpack(head[_OWN.size :]) if data[0] > 1 else ()
        return ByWorkData(claims, Own(*_OWN.unpack(head[: _OWN.size]), *limits_), weights, moving)
    except UNREADABLE as error:
        return ByWorkData(claims, garbage=f"{len(data)} bytes of user data cannot be read: {error}")


def claims(data: bytes | None, partitions: Mapping[str, int]) -> compact.CompactData:
    """Decode only the claims of user data of any origin. Never raises."""
    return _split(data, partitions)[0]


def _split(data: bytes | None, partitions: Mapping[str, int]) -> tuple[compact.CompactData, bytes | None]:
    """The claims, and what follows them; None if the bytes are absent, foreign or damaged."""
    if not data:
        return compact.CompactData(), None
    if data[0] > VERSION:
        return compact.CompactData(garbage=f"user data has version {data[0]}, newer than {VERSION}"), None
    rest = data[5:]
    if data[0] < 1 or _checksum(data[0], rest) != data[1:5]:
        return compact.CompactData(garbage=f"{len(data)} bytes of user data are not this assignor's, or damaged"), None
    claims, rest = _block(rest)
    return compact.decode(claims, partitions), rest


def _block(data: bytes) -> tuple[bytes, bytes]:
    """The first block with its length in front, and what follows."""
    end = 4 + int.from_bytes(data[:4], "big")
    return data[4:end], data[end:]


UNREADABLE = (ValueError, IndexError, RecursionError, zlib.error, struct.error)
"""What `unpacked` raises for bytes that are not of `packed`."""


def unpacked(
    body: bytes, head: int, partitions: Mapping[str, int], most: int = limits.UNPACKED_BYTES
) -> tuple[bytes, Told, int]:
    """Decompress what `packed` returned: the head of `head` bytes, the weights, and what is left of `most`.

    At most `most` bytes are unpacked. Weights of other partitions than `partitions` (topic -> count) are left out.

    Raises:
        One of `UNREADABLE`.

    Cost: O(bytes unpacked); no more is allocated for a run of partitions than for those that exist.
    """
    content = compact.inflated(body, most)
    (top,) = _TOP.unpack_from(content, head)
    if not (math.isfinite(top) and top >= 0):
        raise ValueError(f"weight {top} is out of range")
    text = head + _TOP.size + 4
    at = text + int.from_bytes(content[text - 4 : text], "big")
    topics = compact.names(content[text:at], "weights")
    left = most - len(content)
    return content[:head], _told_of(topics, np.frombuffer(content, np.uint8)[at:], top, partitions), left


def _told_of(topics: Sequence[str], data: NDArray[np.uint8], top: float, partitions: Mapping[str, int]) -> Told:
    """The weights of existing partitions, from the runs of all topics and a byte per partition."""
    heads, runs = [], []
    ends = np.flatnonzero(data < 0x80)  # the last byte of each number, and some of the weights
    at = 0
    for _ in topics:
        heads.append(at + 1)
        (count,), _ = compact.numbers(data[ends[at - 1] + 1 if at else 0 : ends[at] + 1])
        runs.append(int(count))
        at += 1 + 2 * runs[-1]
    if at > len(ends) or min(runs, default=0) < 0:
        raise ValueError("runs are missing")
    end = int(ends[at - 1]) + 1 if at else 0
    del ends
    codes = data[end:]
    numbers, _ = compact.numbers(data[:end])
    if len(numbers) and numbers.min() == compact.TOO_LONG:
        raise ValueError("a number of more than 35 bits")
    run_counts = np.array(runs, np.int64)
    run = compact._ranges(np.array(heads, np.int64), run_counts, 2)
    gap, length = numbers[run], numbers[run + 1] + 1
    del numbers, run
    if int(length.sum()) != len(codes):
        raise ValueError("not one weight for each partition")
    last = np.cumsum(run_counts)
    first = last - run_counts
    until = np.concatenate([[0], np.cumsum(gap + length)])  # over all topics
    start = until[:-1] + gap - np.repeat(until[first], run_counts)
    begin = np.cumsum(length) - length  # of each run's codes
    counts = np.array([partitions.get(topic, 0) for topic in topics], np.int64)
    kept = np.clip(np.repeat(counts, run_counts) - start, 0, length)
    sums = np.concatenate([[0], np.cumsum(kept)])
    ids = compact._ranges(start, kept, 1)
    values = _values(codes[compact._ranges(begin, kept, 1)], top)
    return {
        topic: (ids[low:high], values[low:high])
        for topic, low, high in zip(topics, sums[first].tolist(), sums[last].tolist(), strict=True)
        if low < high
    }


def options(data: bytes) -> bytes:
    """The options in user data of any origin; b"" if there are none. Never raises."""
    rest = data[5:]
    if not data or not 1 <= data[0] <= VERSION or _checksum(data[0], rest) != data[1:5]:
        return b""
    return compact.options(_block(rest)[0])


def encode_within(  # one parameter per field of the user data
    owned: Collection[tuple[str, int]],
    generation: int,
    rack: str | None,
    instance_id: str | None,
    option_bytes: bytes = b"",
    own: Own | None = None,
    weights: Told | None = None,
    moving: Moving | None = None,
) -> tuple[bytes, str]:
    """Encode user data that a broker will store: drop weights and what concerns moves, then claims, if too large.

    Returns the user data, and why something is missing; "" if it is complete.
    """
    claims, why = compact.encode_within(owned, generation, rack, instance_id, option_bytes)
    data = encode(claims, own or Own(), weights or {}, moving)
    if len(data) > compact.RECORD_LIMIT:
        many = sum(len(ids) for ids, _ in (weights or {}).values())
        why = f"weights of {many:,} partitions take {len(data):,} bytes, {compact.LIMIT_TEXT}; this member sends none"
        data = encode(claims, own or Own(), {})
        if len(data) > compact.RECORD_LIMIT:
            data = encode(compact.encode((), NO_GENERATION, rack, instance_id, option_bytes), own or Own(), {})
    return data, why
