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

A member sends the weights of the partitions it owns, and as many others as fit in `OTHERS` bytes: members that start
own nothing yet, and the leader must also know the weights of unowned partitions. So a new leader knows what the old one
knew.
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
from .protocol import Subscription, by_topic

Floats = NDArray[np.float64]

VERSION = 3
MOST_PRIORITY = 1 << 31
"""Of either sign."""
STEPS = 16
"""Steps of a weight's byte per octave."""
OTHERS = 4_000
"""Bytes for weights of partitions that a member does not own: those of 200 members stay below a broker's limit."""
Told = Mapping[str, tuple[Ints, Floats]]
"""topic -> ascending partition ids, and their weights."""
_OWN = struct.Struct(">dBB")
_LIMITS = struct.Struct(">qd")
_TOP = struct.Struct(">d")


@dataclass(frozen=True)
class Own:
    """What a member tells of itself.

    Args:
        capacity: Its capacity.
        checks: Consecutive checks that found its work to stand out (`core.weighted.loop`).
        asked: How often it has asked for a rebalance. A join that asks must differ from the one before, or the
            coordinator answers it with the current generation.
        priority: Its priority.
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
class Carried:
    """The decoded user data of a member.

    Args:
        said: Claims, generation, rack, instance id; garbage.
        own: What it tells of itself.
        weights: topic -> ascending partition ids, and their weights.
        moving: What it tells about moves.
    """

    said: compact.Carried = field(default_factory=compact.Carried)
    own: Own = field(default_factory=Own)
    weights: Told = field(default_factory=dict)
    moving: Moving = field(default_factory=Moving)


def encode(claims: bytes, own: Own, weights: Told, moving: Moving | None = None) -> bytes:
    """Encode user data.

    Args:
        claims: Bytes from `compact.encode`.
        own: What the member tells of itself.
        weights: topic -> ascending partition ids, and their weights; NaN is unknown.
        moving: What it tells about moves.
    """
    more = moving is not None and (len(moving.resting) > 0 or any(len(ids) for ids, _ in moving.state.values()))
    version = 3 if more else own.version
    blocks = [claims]
    if moving is not None and more:
        blocks += [compact.encode(moving.resting), packed(b"", moving.state)]
    head = _OWN.pack(own.capacity, own.checks, own.asked % 256)
    if version > 1:
        head += _LIMITS.pack(own.priority, own.max_work)
    rest = b"".join(len(each).to_bytes(4, "big") + each for each in blocks) + packed(head, weights)
    return version.to_bytes(1, "big") + _checksum(version, rest) + rest


def _checksum(version: int, rest: bytes) -> bytes:
    return zlib.crc32(rest, 0 if version == 1 else version).to_bytes(4, "big")


def packed(head: bytes, weights: Told) -> bytes:
    """Compress a head and weights.

    Args:
        head: Bytes of a fixed size.
        weights: topic -> ascending partition ids, and their weights; NaN is unknown.
    """
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
    known, of = np.unique(codes, return_inverse=True)
    values = top * np.exp2((known.astype(np.float64) - 255) / STEPS)
    # Keep two significant digits more than the code has, so that the result does not depend on the machine's exp2.
    return np.where(known == 0, np.nan, np.array([float(f"{each:.4g}") for each in values]))[of]


def decode(data: bytes | None, partitions: Mapping[str, int]) -> Carried:
    """Decode user data of any origin. None and empty bytes mean no data. Never raises.

    Args:
        data: The user data.
        partitions: topic -> partition count; see `compact.decode`. Weights of other partitions are left out.
    """
    if not data:
        return Carried()
    if data[0] > VERSION:
        return Carried(compact.Carried(garbage=f"user data has version {data[0]}, newer than {VERSION}"))
    rest = data[5:]
    if data[0] < 1 or _checksum(data[0], rest) != data[1:5]:
        return Carried(compact.Carried(garbage=f"{len(data)} bytes of user data are not this assignor's, or damaged"))
    claims, rest = _block(rest)
    said = compact.decode(claims, partitions)
    try:
        moving = Moving()
        if data[0] > 2:
            resting, rest = _block(rest)
            state, rest = _block(rest)
            moving = Moving(unpacked(state, 0, partitions)[1], compact.decode(resting, partitions).owned)
        size = _OWN.size + (_LIMITS.size if data[0] > 1 else 0)
        head, weights = unpacked(rest, size, partitions)
        limits_ = _LIMITS.unpack(head[_OWN.size :]) if data[0] > 1 else ()
        own = Own(*_OWN.unpack(head[: _OWN.size]), *limits_)
        if not (math.isfinite(own.capacity) and 0 <= own.capacity <= 1e6):
            raise ValueError(f"capacity {own.capacity} is out of range")
        if not own.max_work > 0 or abs(own.priority) > MOST_PRIORITY:
            raise ValueError(f"max_work {own.max_work} or priority {own.priority} is out of range")
        return Carried(said, own, weights, moving)
    except UNREADABLE as error:
        why = f"{len(data)} bytes of user data cannot be read: {error}"
        return Carried(compact.Carried(garbage=said.garbage or why))


def _block(data: bytes) -> tuple[bytes, bytes]:
    """The first block with its length in front, and what follows."""
    end = 4 + int.from_bytes(data[:4], "big")
    return data[4:end], data[end:]


UNREADABLE = (ValueError, IndexError, TypeError, RecursionError, zlib.error, struct.error)
"""What `unpacked` raises for bytes that are not of `packed`."""


def unpacked(body: bytes, head: int, partitions: Mapping[str, int]) -> tuple[bytes, Told]:
    """Decompress what `packed` returned.

    Args:
        body: The bytes.
        head: Size of the head in bytes.
        partitions: topic -> partition count. Weights of other partitions are left out.

    Raises:
        One of `UNREADABLE`.
    """
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    content = unpacker.decompress(body, limits.UNPACKED_BYTES)
    if not unpacker.eof:
        raise ValueError(f"cut off, or more than {limits.UNPACKED_BYTES:,} bytes unpacked")
    (top,) = _TOP.unpack_from(content, head)
    if not (math.isfinite(top) and top >= 0):
        raise ValueError(f"weight {top} is out of range")
    text = head + _TOP.size + 4
    at = text + int.from_bytes(content[text - 4 : text], "big")
    topics = json.loads(content[text:at].decode())
    if not (isinstance(topics, list) and all(isinstance(each, str) for each in topics)):
        raise ValueError("not a list of topics")
    if len(topics) > limits.TOPICS:
        raise ValueError(f"weights of more than {limits.TOPICS:,} topics")
    starts: list[int] = []
    lengths: list[int] = []
    ends: list[int] = []  # per topic, the number of weights up to its last one
    total = 0
    for _ in topics:
        (count,), at = _varints(content, at, 1)
        numbers, at = _varints(content, at, 2 * count)
        beyond = 0
        for gap, more in zip(numbers[::2], numbers[1::2], strict=True):
            starts.append(beyond + gap)
            lengths.append(more + 1)
            beyond += gap + more + 1
            total += more + 1
        if total > limits.PARTITIONS:
            raise ValueError(f"weights of more than {limits.PARTITIONS:,} partitions")
        ends.append(total)
    if len(content) - at != total:
        raise ValueError("not one weight for each partition")
    ids = compact._ranges(np.array(starts, np.int64), np.array(lengths, np.int64), 1)
    values = _values(np.frombuffer(content, np.uint8, total, at), top)
    return content[:head], _of_topics(topics, ends, ids, values, partitions)


def _of_topics(
    topics: Sequence[str], ends: Sequence[int], ids: Ints, values: Floats, partitions: Mapping[str, int]
) -> Told:
    """Topic -> its ids and values, of partitions that exist. `ends`: where those of each topic end."""
    counts = [partitions.get(topic, 0) for topic in topics]
    sizes = [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
    exists = ids < np.repeat(np.array(counts, np.int64), np.array(sizes, np.int64))
    until = np.append(0, np.cumsum(exists))[ends].tolist()
    ids, values = ids[exists], values[exists]
    return {
        topic: (ids[begin:end], values[begin:end])
        for topic, begin, end in zip(topics, [0, *until][: len(until)], until, strict=True)
    }


def _varints(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    if count > len(data) - at:
        raise ValueError("runs are missing")
    found = []
    for _ in range(count):
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 35:
                raise ValueError("a number of more than 35 bits")
        found.append(value)
    return found, at


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
    told: bytes = b"",
    own: Own | None = None,
    weights: Told | None = None,
    moving: Moving | None = None,
) -> tuple[bytes, str]:
    """Encode user data that a broker will store: drop weights and what concerns moves, then claims, if too large.

    Returns:
        The user data, and why something is missing; "" if it is complete.
    """
    claims, why = compact.encode_within(owned, generation, rack, instance_id, told)
    data = encode(claims, own or Own(), weights or {}, moving)
    if len(data) > compact.RECORD_LIMIT:
        many = sum(len(ids) for ids, _ in (weights or {}).values())
        why = f"weights of {many:,} partitions take {len(data):,} bytes, {compact.LIMIT_TEXT}; this member sends none"
        data = encode(claims, own or Own(), {})
        if len(data) > compact.RECORD_LIMIT:
            data = encode(compact.encode((), NO_GENERATION, rack, instance_id, told), own or Own(), {})
    return data, why


def chosen(
    weights: Mapping[str, Floats], owned: Collection[tuple[str, int]], identity: str, others: int = OTHERS
) -> dict[str, tuple[Ints, Floats]]:
    """Choose the weights that a member sends: those of its own partitions and of some more.

    Args:
        weights: topic -> weight per partition, NaN if unknown.
        owned: Topic-partitions that it owns.
        identity: Determines where the others begin, so that members send different ones if not all fit.
        others: Maximum number of the others.
    """
    topics = sorted(weights, key=utf16)
    ends = np.cumsum([len(weights[topic]) for topic in topics])
    total = int(ends[-1]) if len(ends) else 0
    first = dict(zip(topics, [0, *ends.tolist()], strict=False))
    picked = np.zeros(total, bool)
    begin = zlib.crc32(identity.encode("utf-8", "replace")) % total if total else 0
    picked[(begin + np.arange(min(others, total))) % max(total, 1)] = True
    for topic, ids in by_topic(owned).items():
        if topic in first:
            here: Ints = np.array([each for each in ids if each < len(weights[topic])], np.int64)
            picked[first[topic] + here] = True
    found = {}
    for topic in topics:
        values = weights[topic]
        at = np.flatnonzero(picked[first[topic] : first[topic] + len(values)] & ~np.isnan(values))
        found[topic] = at, values[at]
    return found


def inputs(members: Sequence[tuple[str, str | None, Subscription]]) -> dict[str, Any]:
    """Combine the members' user data into options of the strategy: weights, capacities, priorities, hard caps, and
    members that revoked everything.

    If several members send a partition's weight (or state), its owner's is used, preferring the newest generation;
    without an owner's, the heaviest. The result depends only on the bytes sent, so a replay gives the same.
    """
    topics = {topic for _, _, sent in members for topic in sent.topics}
    counts = dict.fromkeys(topics, limits.UNKNOWN_PARTITIONS)
    weights, state = _Heard(), _Heard()
    capacity: dict[str, float] = {}
    priority: dict[str, int] = {}
    max_work: dict[str, float] = {}
    resting: set[tuple[str, int]] = set()
    eager: list[str] = []
    checks = 0
    for member_id, _, sent in members:
        carried = decode(sent.user_data, counts)
        if carried.own.capacity != 1.0:
            capacity[member_id] = carried.own.capacity
        if carried.own.priority:
            priority[member_id] = carried.own.priority
        if carried.own.max_work < math.inf:
            max_work[member_id] = carried.own.max_work
        checks = max(checks, carried.own.checks)
        if len(carried.said.owned) and not len(sent.owned):
            eager.append(member_id)
        owned = by_topic(sent.owned or carried.said.owned)
        generation = max(sent.generation, carried.said.generation)
        weights.hear(carried.weights, owned, generation)
        state.hear(carried.moving.state, owned, generation)
        resting.update((topic, p) for topic, p in carried.moving.resting)
    found = {
        "weights": weights.options(),
        "capacity": dict(sorted(capacity.items())),
        "priority": dict(sorted(priority.items())),
        "max_work": dict(sorted(max_work.items())),
        "state": state.options(),
        "resting": {topic: list(map(int, ids)) for topic, ids in sorted(by_topic(resting).items())},
        "eager": sorted(eager),
        "checks": checks,
    }
    return {name: value for name, value in found.items() if value}


class _Heard:
    """A figure per partition, from several members."""

    def __init__(self) -> None:
        self._value: dict[str, Floats] = {}
        self._rank: dict[str, Ints] = {}

    def hear(self, told: Told, owned: Mapping[str, Sequence[int]], generation: int) -> None:
        """Take what one member tells, if it ranks above what others told.

        Args:
            told: topic -> ascending partition ids, and their figures.
            owned: topic -> partition ids that the member owns.
            generation: The generation in which it got them.
        """
        for topic, (ids, values) in told.items():
            if not len(ids):
                continue
            value, rank = self._value.get(topic, np.zeros(0)), self._rank.get(topic, np.zeros(0, np.int64))
            if (more := int(ids[-1]) + 1 - len(value)) > 0:
                value, rank = np.append(value, np.full(more, np.nan)), np.append(rank, np.full(more, -3))
            mine = set(owned.get(topic, ()))  # for the few partitions of many topics, faster than NumPy
            ranks = np.array([generation if p in mine else -2 for p in ids.tolist()], np.int64)
            better = (ranks > rank[ids]) | ((ranks == rank[ids]) & (values > value[ids]))
            value[ids[better]], rank[ids[better]] = values[better], ranks[better]
            self._value[topic], self._rank[topic] = value, rank

    def options(self) -> dict[str, list[float | None]]:
        """The figures as an option of the strategy."""
        return {topic: _told(each) for topic, each in sorted(self._value.items())}


def _told(values: Floats) -> list[float | None]:
    known = (~np.isnan(values)).tolist()
    return [weight if known_ else None for weight, known_ in zip(values.tolist(), known, strict=True)]


def arrays(weights: Mapping[str, Any]) -> dict[str, Floats]:
    """Weights by topic, as `core.weighted.model.checked` returns them -> weight per partition, NaN if unknown."""
    found = {}
    for topic, each in weights.items():
        if isinstance(each, Mapping):
            known = {int(p): weight for p, weight in each.items() if int(p) < limits.UNKNOWN_PARTITIONS}
            values = np.full(max(known, default=-1) + 1, np.nan)
            values[list(known)] = list(known.values())
        else:
            values = np.array(each, np.float64)
        found[topic] = values
    return found
