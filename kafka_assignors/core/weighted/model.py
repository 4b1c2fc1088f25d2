"""The model: work of each partition, capacity of each member, and allowed pairs, in integers.

Work of a partition per second is ``s * (rate + lag / T)``, see `work`. An unmeasured partition weighs the median of its
topic, or of the group. Each work is at least 5 % of the group's median, so that idle partitions are spread too.

Works are multiples of a power of two: their sums and comparisons are exact, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError
from ..group.claims import Claims
from ..group.facts import Fact
from ..group.indexed import UNASSIGNED, Bools, Indexed, Ints

Floats = NDArray[np.float64]
Weights = Mapping[Any, Any]
"""``{("orders", 0): 12.5}``, or by topic: ``{"orders": [12.5, None]}``, ``{"orders": {"0": 12.5}}``; None: unknown."""

DRAIN_S = 300.0
"""Seconds in which a backlog should be consumed."""
FLOOR = 0.05
"""Minimum work as a part of the median."""
EPSILON = 0.05
"""Allowed relative excess of work / capacity over the bound, if that saves moves."""
BITS = 40
"""Bits of the heaviest work as an integer; fewer above a million partitions."""


def work(rate: float, lag: float = 0.0, seconds: float = 1.0, drain_s: float = DRAIN_S) -> float:
    """Processing time that a partition causes, in seconds per second; without `seconds`, records per second.

    Args:
        rate: Records that arrive per second.
        lag: Records behind.
        seconds: Processing time per record.
        drain_s: Seconds in which the lag should be consumed.

    >>> work(rate=100, lag=3000, seconds=0.002)
    0.22
    """
    return seconds * (rate + lag / drain_s)


def checked(weights: Weights | None) -> dict[str, Mapping[str, float] | Sequence[float | None]]:
    """Validate weights, and return them by topic in the form of JSON.

    Raises:
        ConfigError: They have another form, or a weight is not a finite number of 0 or above.
    """
    found: dict[str, Any] = {}
    if not isinstance(weights or {}, Mapping):
        raise ConfigError(f"weights must be a mapping like {{('orders', 0): 12.5}}, not {type(weights).__name__}")
    for key, value in (weights or {}).items():
        if isinstance(key, tuple):
            topic, partition = key if len(key) == 2 else (None, -1)
            if not isinstance(topic, str) or not _is_partition(partition):
                raise ConfigError(f"weights: {key!r} is no (topic, partition)")
            known = found.setdefault(topic, {})
            if not isinstance(known, dict):
                raise ConfigError(f"weights has topic {topic!r} in two forms")
            known[str(int(partition))] = _weight(topic, partition, value)
        elif isinstance(key, str) and key not in found:
            found[key] = _of_topic(key, value)
        else:
            raise ConfigError(f"weights: {key!r} is neither (topic, partition) nor a topic, or is there twice")
    return found


def _of_topic(topic: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        if wrong := [each for each in value if not _is_partition(each)]:
            raise ConfigError(f"weights[{topic!r}]: {wrong[0]!r} is no partition")
        return {str(int(each)): _weight(topic, each, weight) for each, weight in value.items()}
    if isinstance(value, list | tuple):
        try:
            numbers = np.array(value if set(map(type, value)) <= _PLAIN else (), np.float64)  # None becomes NaN
        except OverflowError:
            numbers = np.zeros(0)
        if len(numbers) == len(value):
            odd = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
            if all(value[i] is None for i in odd.tolist()):
                return list(value)
        return [None if each is None else _weight(topic, i, each) for i, each in enumerate(value)]
    raise ConfigError(f"weights[{topic!r}] must be a list of weights or {{partition: weight}}, not {value!r}")


_PLAIN = {int, float, type(None)}


def _is_partition(value: Any) -> bool:
    if isinstance(value, str):
        return value.isascii() and value.isdigit() and len(value) <= 10
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) < 1 << 31


def _weight(topic: str, partition: Any, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ConfigError(f"{topic}-{partition} weighs {value!r}, which is no number")
    try:
        weight = float(value)
    except OverflowError:
        weight = math.inf
    if not (math.isfinite(weight) and weight >= 0):
        raise ConfigError(f"{topic}-{partition} weighs {value!r}; a weight is finite and at least 0")
    return weight


def checked_capacity(capacity: Mapping[str, float] | None) -> dict[str, float]:
    """Validate capacities by member id.

    Raises:
        ConfigError: Not a mapping, or a capacity is not a finite number of 0 or above.
    """
    if not isinstance(capacity or {}, Mapping):
        raise ConfigError(f"capacity must be a mapping like {{'m1': 2.0}}, not {capacity!r}")
    return {member: one_capacity(value, repr(member)) for member, value in (capacity or {}).items()}


def one_capacity(value: Any, of: str = "") -> float:
    """Validate one capacity; raises `ConfigError` if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ConfigError(
            f"capacity {f'of {of} ' if of else ''}must be a number of 0 (standby) or above, not {value!r}"
        )
    if value and not 1e-6 <= value <= 1e6:
        raise ConfigError(f"capacity {f'of {of} ' if of else ''}must be 0 or from 1e-6 to 1e6, not {value!r}")
    return float(value)


@dataclass(frozen=True, eq=False)
class Model:
    """A group with works and capacities.

    Args:
        indexed: The group as integers.
        holder: int[P], the holder of each position; `UNASSIGNED` if there is none or it is unknown.
        measured: bool[P], whether the position's work was given; false if nobody subscribes.
        work: int[P], works in multiples of `unit`; 0 if no member may have the position.
        unit: A power of two.
        floor: The least work, in multiples of `unit`.
        capacity: float[M]; 0 for members that get nothing: unneeded standbys and members without subscription.
        of: int[P], class of each position, `UNASSIGNED` if nobody subscribes; the same members may have all of a class.
        allowed: bool[G, M].
        facts: Irregularities of weights and capacities.
    """

    indexed: Indexed
    holder: Ints
    measured: Bools
    work: Ints
    unit: float
    floor: int
    capacity: Floats
    of: Ints
    allowed: Bools
    facts: tuple[Fact, ...]

    @cached_property
    def subscribers(self) -> list[Ints]:
        """Per class, the members that may have it."""
        return [np.flatnonzero(row) for row in self.allowed]

    @cached_property
    def kept(self) -> Ints:
        """int[P], the holder if it may keep the position, else `UNASSIGNED`."""
        may = np.zeros(len(self.holder), bool)
        held = np.flatnonzero((self.holder != UNASSIGNED) & (self.of != UNASSIGNED))
        may[held] = self.allowed[self.of[held], self.holder[held]]
        return np.where(may, self.holder, UNASSIGNED)

    @cached_property
    def heaviest_first(self) -> Ints:
        """int[P], all positions, heaviest first."""
        return np.argsort(-self.work, kind="stable")

    @property
    def coverage(self) -> tuple[int, int]:
        """Number of measured positions, and of all subscribed positions."""
        return int(self.measured.sum()), int((self.of != UNASSIGNED).sum())

    def loads(self, owner: Ints) -> Ints:
        """int[M], the work of each member under an assignment."""
        given = np.flatnonzero(owner != UNASSIGNED)
        return sums(owner[given], self.work[given], len(self.capacity))


def sums(of: Ints, work: Ints, members: int) -> Ints:
    """Exact sums of works per member: floats would round above 2^53."""
    low = np.bincount(of, work & 0xFFFFF, minlength=members).astype(np.int64)
    high = np.bincount(of, work >> 20, minlength=members).astype(np.int64)
    return low + (high << 20)


def model(claims: Claims, weights: Mapping[str, Any], capacity: Mapping[str, float]) -> Model:
    """Convert a group, weights and capacities to integers.

    Args:
        claims: The group, its claims resolved.
        weights: As `checked` returns them. Nonexistent topics and partitions are reported and ignored.
        capacity: member id -> capacity; 1 for absent members.

    Cost: O(P + T * distinct subscriptions).
    """
    indexed = claims.indexed
    told: list[Fact] = []
    cap = _capacity(indexed, capacity, told)
    standby = cap == 0
    reads = indexed.reads[indexed.subscription] if len(indexed.members) else np.zeros((0, len(indexed.topics)), bool)
    able = reads & ~standby[:, None]
    able = np.where(able.any(axis=0), able, reads)  # standbys take what no other member may have
    columns: dict[bytes, int] = {}
    of_topic = np.full(len(indexed.topics), UNASSIGNED)
    rows: list[Bools] = []
    for t, column in enumerate(np.ascontiguousarray(able.T)):
        if column.any():
            of_topic[t] = columns.setdefault(column.tobytes(), len(columns))
            if of_topic[t] == len(rows):
                rows.append(column)
    allowed = np.array(rows, bool).reshape(len(rows), len(indexed.members))
    used = allowed.any(axis=0) if rows else np.zeros(len(indexed.members), bool)
    cap = np.where(used, np.where(standby, 1.0, cap), 0.0)
    of = of_topic[indexed.topic_of()]
    raw = _given(indexed, weights, told)
    raw[of == UNASSIGNED] = np.nan
    measured = ~np.isnan(raw)
    filled, floor = _filled(indexed, raw, of != UNASSIGNED)
    most = float(filled.max(initial=0.0))
    bits = min(BITS, 61 - max(len(of), 1).bit_length())
    unit = 2.0 ** (math.frexp(most)[1] - bits) if most else 1.0
    whole = np.where(of == UNASSIGNED, 0, np.maximum(np.rint(filled / unit), 1)).astype(np.int64)
    return Model(
        indexed, claims.holder, measured, whole, unit, max(int(floor / unit), 1), cap, of, allowed, tuple(told)
    )


def _capacity(indexed: Indexed, capacity: Mapping[str, float], told: list[Fact]) -> Floats:
    known = {member.member_id for member in indexed.members}
    for member in sorted(capacity.keys() - known):
        told.append(Fact("capacity-strange", member, f"capacity is given for {member!r}, which is no member; ignored"))
    cap = np.array([capacity.get(member.member_id, 1.0) for member in indexed.members], np.float64)
    if len(cap) and not cap.any():
        told.append(Fact("standby-all", "", "every member is a standby (capacity 0); all count as 1"))
        cap[:] = 1.0
    return cap


def _given(indexed: Indexed, weights: Mapping[str, Any], told: list[Fact]) -> Floats:
    """float[P], NaN if no weight is known."""
    raw = np.full(indexed.size, np.nan)
    beyond: list[str] = []
    strange: list[str] = []
    for topic, each in weights.items():
        if topic not in indexed.number:
            strange.append(topic)
            continue
        first, end = indexed.first[indexed.number[topic] : indexed.number[topic] + 2].tolist()
        if isinstance(each, Mapping):
            ids = np.array(list(map(int, each)), np.int64)
            values = np.array(list(each.values()), np.float64)
        else:
            ids, values = np.arange(len(each)), np.array(each, np.float64)
        exists = ids < end - first
        if not exists.all():
            beyond.append(topic)
        raw[first + ids[exists]] = values[exists]
    for kind, topics, why in (
        ("weight-topic", strange, "which the group has no partitions of"),
        ("weight-partition", beyond, "also for partitions that do not exist"),
    ):
        told += [Fact(kind, topic, f"weights are given for topic {topic!r}, {why}; ignored") for topic in topics]
    return raw


def _filled(indexed: Indexed, raw: Floats, exists: Bools) -> tuple[Floats, float]:
    """Works with gaps filled, and the floor."""
    known = raw[~np.isnan(raw)]
    if not len(known) or not known.max() > 0:  # nothing is known, or all is idle: use counts
        return np.where(exists, 1.0, 0.0), FLOOR
    middle = float(np.median(known)) or float(np.median(known[known > 0]))
    floor = FLOOR * middle
    filled = raw.copy()
    missing = np.isnan(raw) & exists
    if missing.any():
        topic = indexed.topic_of()
        for t in np.unique(topic[missing]).tolist():
            here = slice(*indexed.first[t : t + 2].tolist())
            part = raw[here]
            some = part[~np.isnan(part)]
            filled[here][missing[here]] = float(np.median(some)) if len(some) else middle
    return np.where(exists, np.maximum(np.nan_to_num(filled), floor), 0.0), floor


def named(indexed: Indexed, positions: Iterable[int]) -> list[str]:
    """Topic-partitions as text."""
    return [f"{each.topic}-{each.partition}" for each in indexed.names(np.array(list(positions), np.int64))]
