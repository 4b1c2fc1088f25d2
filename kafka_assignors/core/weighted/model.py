"""The model: work of each partition, capacity of each member, and allowed pairs, in integers.

Work of a partition per second is ``s * (rate + lag / T)``, see `work`. An unmeasured partition weighs the median of its
topic, or of the group. Each work is at least 5 % of the group's median, so that idle partitions are spread too.

Works are whole multiples of a part of the heaviest, and capacities parts of the greatest. Sums and comparisons are
exact, in any order, and a group in other units, of weights or of capacities, is the same model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError
from ..group.claims import Claims
from ..group.facts import Fact
from ..group.indexed import UNASSIGNED, Bools, Indexed, Ints
from ..sticky.objective import Objective
from ..sticky.racks import RackCosts, position_costs

Floats = NDArray[np.float64]
Weights = Mapping[Any, Any]
"""``{("orders", 0): 12.5}``, or by topic: ``{"orders": [12.5, None]}``, ``{"orders": {"0": 12.5}}``; None: unknown."""

DRAIN_S = 300.0
"""Seconds in which a backlog should be consumed."""
FLOOR = 0.05
"""Minimum work as a part of the median."""
EPSILON = 0.05
"""Allowed relative excess of work / capacity over the bound, if that saves moves."""
NEAR = 1e-9
"""Limits are integers; this slack compensates for float rounding."""
NO_CAP = 1 << 62
COSTS = 1 << 30
"""The heaviest state is this many units, so that sums are exact."""
LIGHTEST, HEAVIEST = 2.0**-1000, 1e200
"""Limits of the unit and of a weight, so that sums and quotients of any finite weights stay finite."""
BITS = 40
"""Bits of the heaviest work as an integer; fewer above a million partitions."""
DIGITS = 40
"""Binary digits of a capacity as a part of the greatest: fewer than a float has, so that rounding in another unit makes
no difference."""
SLOWEST, FASTEST = 1e-6, 1e6
"""Valid capacities. Only quotients of capacities count, so that any unit does that keeps all within these limits."""


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
    """Weights by topic in the form of JSON; ConfigError for another form, or a weight that is not finite and from 0."""
    by_topic: dict[str, Any] = {}
    if weights is not None and not isinstance(weights, Mapping):
        raise ConfigError(f"weights must be a mapping like {{('orders', 0): 12.5}}, not {type(weights).__name__}")
    for key, value in (weights or {}).items():
        if isinstance(key, tuple):
            topic, partition = key if len(key) == 2 else (None, -1)
            if not isinstance(topic, str) or not is_partition(partition):
                raise ConfigError(f"weights: {key!r} is not a (topic, partition)")
            weight_of = by_topic.setdefault(topic, {})
            if not isinstance(weight_of, dict):
                raise ConfigError(f"weights has topic {topic!r} in two forms")
            weight_of[str(int(partition))] = _weight(topic, partition, value)
        elif isinstance(key, str) and key not in by_topic:
            by_topic[key] = _of_topic(key, value)
        else:
            raise ConfigError(f"weights: {key!r} is neither (topic, partition) nor a topic, or appears twice")
    return by_topic


def _of_topic(topic: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        if wrong := [partition for partition in value if not is_partition(partition)]:
            raise ConfigError(f"weights[{topic!r}]: {wrong[0]!r} is not a partition")
        return {str(int(partition)): _weight(topic, partition, weight) for partition, weight in value.items()}
    if isinstance(value, list | tuple):
        try:
            numbers = np.array(value if set(map(type, value)) <= _PLAIN else (), np.float64)  # None becomes NaN
        except OverflowError:
            numbers = np.zeros(0)
        if len(numbers) == len(value):
            odd = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
            if all(value[i] is None for i in odd.tolist()):
                return list(value)
        return [None if weight is None else _weight(topic, i, weight) for i, weight in enumerate(value)]
    raise ConfigError(f"weights[{topic!r}] must be a list of weights or {{partition: weight}}, not {value!r}")


_PLAIN = {int, float, type(None)}


def is_partition(value: Any) -> bool:
    """Whether a value can be the number of a partition; JSON has it as text where it is a key."""
    if isinstance(value, str):
        return value.isascii() and value.isdigit() and len(value) <= 10
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) < 1 << 31


def _weight(topic: str, partition: Any, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ConfigError(f"{topic}-{partition} weighs {value!r}, which is not a number")
    try:
        weight = float(value)
    except OverflowError:
        weight = math.inf
    if not (math.isfinite(weight) and weight >= 0):
        raise ConfigError(f"{topic}-{partition} weighs {value!r}; a weight is finite and at least 0")
    return weight


@dataclass(frozen=True)
class Wishes:
    """Optional inputs beside weights and capacities, validated by `options`.

    Args:
        priority: member id -> priority, 0 if absent. A topic goes to its subscribers of the highest priority; others
            take over when these have left, as standbys do.
        max_work: member id -> the most work that it may have, in the unit of the weights.
        state: Cost of moving a partition, by topic like weights; see `Model.cost`.
        resting: topic -> partition ids that moved recently and stay where they are.
    """

    priority: Mapping[str, int] = field(default_factory=dict)
    max_work: Mapping[str, float] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    resting: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Model:
    """A group with works and capacities.

    Args:
        holder: int[P], the holder of each position; `UNASSIGNED` if there is none or it is unknown.
        given: float[P], the weights as given; NaN if unknown, or if nobody subscribes.
        filled: float[P], the weights with gaps filled, at least the floor; 0 if no member may have the position.
        work: int[P], the same in multiples of `unit`, at least 1.
        unit: One unit of work, in the unit of the weights.
        capacity: float[M], parts of the greatest (1.0); 0 for members that get nothing: unneeded standbys and members
            without subscription.
        capacities: float[M], the same as given.
        of: int[P], class of each position, `UNASSIGNED` if nobody subscribes; the same members may have all of a class.
        allowed: bool[G, M].
        most: int[M], the hard cap of each member; `NO_CAP` if it has none.
        cost: int[P], cost of moving each position, in multiples of `cost_unit`; all 1 if moves are counted.
        cost_unit: 0 if moves are counted.
        pinned: bool[P], positions that rest where they are.
    """

    indexed: Indexed
    holder: Ints
    given: Floats
    filled: Floats
    work: Ints
    unit: float
    capacity: Floats
    capacities: Floats
    of: Ints
    allowed: Bools
    facts: tuple[Fact, ...]
    most: Ints
    cost: Ints
    cost_unit: float
    pinned: Bools

    def with_holders(self, holder: Ints, pinned: Bools) -> Model:
        """The group with other holders and resting positions."""
        other = replace(self, holder=holder, pinned=pinned)
        same = ("subscribers", "heaviest_first", "far", "has_racks", "measured")
        vars(other).update({name: vars(self)[name] for name in same if name in vars(self)})  # what is known already
        return other

    @cached_property
    def subscribers(self) -> list[Ints]:
        """Per class, the members that may have it."""
        return [np.flatnonzero(row) for row in self.allowed]

    @cached_property
    def kept(self) -> Ints:
        """int[P], the holder if it may keep the position, else `UNASSIGNED`."""
        may = np.zeros(len(self.holder), bool)
        positions = np.flatnonzero((self.holder != UNASSIGNED) & (self.of != UNASSIGNED))
        may[positions] = self.allowed[self.of[positions], self.holder[positions]]
        return np.where(may, self.holder, UNASSIGNED)

    @cached_property
    def heaviest_first(self) -> Ints:
        """int[P], all positions, heaviest first."""
        return np.argsort(-self.work, kind="stable")

    @cached_property
    def far(self) -> RackCosts:
        """1 for each position and member without a replica on the member's rack; 0 if either rack is unknown."""
        return position_costs(self.indexed, Objective())

    @cached_property
    def has_racks(self) -> bool:
        """Whether `far` is not 0 everywhere."""
        return bool(self.far.rows.any())

    def remote(self, owner: Ints) -> int:
        """Work that members read from other racks under an assignment."""
        at = np.flatnonzero((owner != UNASSIGNED) & (self.of != UNASSIGNED))
        return int((self.work[at] * self.far.rows[self.far.of[at], self.far.rack[owner[at]]]).sum())

    def limits(self, ratio: float) -> Ints:
        """int[M], the most work of each member at a greatest work / capacity, within the hard caps."""
        with np.errstate(invalid="ignore"):  # an infinite ratio of a capacity of 0
            most = np.nan_to_num(np.floor(ratio * self.capacity * (1 + NEAR)), posinf=NO_CAP)
        limits: Ints = np.minimum(np.minimum(most, float(NO_CAP)).astype(np.int64), self.most)
        return limits

    @cached_property
    def ratio_unit(self) -> float:
        """One unit of `work` / `capacity`, in the units of the weights and capacities as given."""
        return self.unit / float(self.capacities.max(initial=0.0) or 1.0)

    @cached_property
    def measured(self) -> Bools:
        """bool[P], whether the position's work was given; false if nobody subscribes."""
        mask: Bools = ~np.isnan(self.given)
        return mask

    @property
    def coverage(self) -> tuple[int, int]:
        """Number of measured positions, and of all subscribed positions."""
        return int(self.measured.sum()), int((self.of != UNASSIGNED).sum())

    def weights(self) -> dict[str, Floats]:
        """Weight per partition by topic, in the unit of the given weights; NaN if it was not measured."""
        first = self.indexed.first.tolist()
        return {topic: self.given[first[t] : first[t + 1]] for t, topic in enumerate(self.indexed.topics)}

    def loads(self, owner: Ints) -> Ints:
        """int[M], the work of each member under an assignment."""
        given = np.flatnonzero(owner != UNASSIGNED)
        return sums(owner[given], self.work[given], len(self.capacity))


def sums(of: Ints, work: Ints, members: int) -> Ints:
    """Exact sums of works per member: floats would round above 2^53."""
    low = np.bincount(of, work & 0xFFFFF, minlength=members).astype(np.int64)
    high = np.bincount(of, work >> 20, minlength=members).astype(np.int64)
    return low + (high << 20)


def model(
    claims: Claims, weights: Mapping[str, Any], capacity: Mapping[str, float], also: Wishes | None = None
) -> Model:
    """Convert a group, weights and capacities to integers.

    `weights` are those that `checked` returns; nonexistent topics and partitions are reported and ignored. Members
    absent from `capacity` have 1.

    Cost: O(P + T * distinct subscriptions).
    """
    indexed, also = claims.indexed, also or Wishes()
    facts: list[Fact] = []
    cap = _capacity(indexed, capacity, facts)
    standby = cap == 0
    needed = float(np.median(cap[~standby])) if len(cap) else 1.0
    reads = indexed.reads[indexed.subscription] if len(indexed.members) else np.zeros((0, len(indexed.topics)), bool)
    able = reads & ~standby[:, None]
    able = np.where(able.any(axis=0), able, reads)  # standbys take what no other member may have
    if also.priority:
        able &= _first(able, indexed, also.priority, facts)
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
    cap = np.where(used, np.where(standby, needed, cap), 0.0)
    of = of_topic[indexed.topic_of()]
    raw = np.minimum(_given(indexed, weights, facts), HEAVIEST)
    raw[of == UNASSIGNED] = np.nan
    filled = _filled(indexed, raw, of != UNASSIGNED)
    heaviest = float(filled.max(initial=0.0))
    units = 1 << min(BITS, 60 - max(len(of), 1).bit_length())
    unit = max(heaviest / units, LIGHTEST) if heaviest else 1.0
    parts = filled / (heaviest or 1.0) * units if unit > LIGHTEST else filled / unit
    whole = np.where(of == UNASSIGNED, 0, np.maximum(np.rint(parts), 1)).astype(np.int64)
    cost, cost_unit = _costs(indexed, also.state, facts)
    caps = _caps(indexed, also.max_work, unit, facts)
    return Model(
        indexed, claims.holder, raw, filled, whole, unit, _parts(cap), cap, of, allowed, tuple(facts), caps, cost,
        cost_unit, _pinned(indexed, also.resting),
    )  # fmt: skip


def _parts(capacities: Floats) -> Floats:
    """Capacities as parts of the greatest, rounded to `DIGITS` binary digits."""
    digits, exponents = np.frexp(capacities / (capacities.max(initial=0.0) or 1.0))
    parts: Floats = np.ldexp(np.rint(np.ldexp(digits, DIGITS)), exponents - DIGITS)
    return parts


def _first(able: Bools, indexed: Indexed, priority: Mapping[str, int], facts: list[Fact]) -> Bools:
    """bool[M, T], whether a member has the highest priority of those that may have a topic."""
    _strangers("priority", priority, indexed, facts)
    rank = np.array([priority.get(member.member_id, 0) for member in indexed.members], np.int64)
    best = np.where(able, rank[:, None], -(1 << 40)).max(axis=0, initial=-(1 << 40))
    mask: Bools = rank[:, None] == best
    return mask


def _caps(indexed: Indexed, max_work: Mapping[str, float], unit: float, facts: list[Fact]) -> Ints:
    _strangers("max_work", max_work, indexed, facts)
    caps = np.full(len(indexed.members), NO_CAP)
    for m, member in enumerate(indexed.members):
        if (cap := max_work.get(member.member_id)) is not None:
            caps[m] = int(min(cap / unit * (1 + NEAR), NO_CAP))
    return caps


def _costs(indexed: Indexed, state: Mapping[str, Any], facts: list[Fact]) -> tuple[Ints, float]:
    """Cost of moving each position, and its unit. An unknown state is the median; no move is free of cost."""
    if not state:
        return np.ones(indexed.size, np.int64), 0.0
    raw = np.minimum(_given(indexed, state, facts, "state"), HEAVIEST)
    states = raw[~np.isnan(raw)]
    if not len(states) or not states.max() > 0:
        return np.ones(indexed.size, np.int64), 0.0
    unit = max(float(states.max()) / COSTS, LIGHTEST)
    filled = np.where(np.isnan(raw), float(np.median(states)), raw)
    return np.maximum(np.rint(filled / unit), 1).astype(np.int64), unit


def _pinned(indexed: Indexed, resting: Mapping[str, Sequence[int]]) -> Bools:
    mask = np.zeros(indexed.size, bool)
    for topic, ids in resting.items():
        if topic in indexed.number:
            first, end = indexed.first[indexed.number[topic] : indexed.number[topic] + 2].tolist()
            mask[[first + p for p in ids if p < end - first]] = True
    return mask


def _strangers(option: str, given: Mapping[str, Any], indexed: Indexed, facts: list[Fact]) -> None:
    for member in sorted(given.keys() - {group_member.member_id for group_member in indexed.members}):
        facts.append(
            Fact(f"{option}-strange", member, f"{option} is given for {member!r}, which is not a member; ignored")
        )


def _capacity(indexed: Indexed, capacity: Mapping[str, float], facts: list[Fact]) -> Floats:
    _strangers("capacity", capacity, indexed, facts)
    cap = np.array([capacity.get(member.member_id, 1.0) for member in indexed.members], np.float64)
    if len(cap) and not cap.any():
        facts.append(Fact("standby-all", "", "every member is a standby (capacity 0); all count as 1"))
        cap[:] = 1.0
    return cap


def _given(indexed: Indexed, weights: Mapping[str, Any], facts: list[Fact], kind: str = "weight") -> Floats:
    """float[P], NaN if no weight (or state) is known."""
    raw = np.full(indexed.size, np.nan)
    beyond: list[str] = []
    strange: list[str] = []
    for topic, figures in weights.items():
        if topic not in indexed.number:
            strange.append(topic)
            continue
        first, end = indexed.first[indexed.number[topic] : indexed.number[topic] + 2].tolist()
        if isinstance(figures, Mapping):
            ids = np.array(list(map(int, figures)), np.int64)
            values = np.array(list(figures.values()), np.float64)
        else:
            ids, values = np.arange(len(figures)), np.array(figures, np.float64)
        exists = ids < end - first
        if not exists.all():
            beyond.append(topic)
        raw[first + ids[exists]] = values[exists]
    for which, topics, why in (
        (f"{kind}-topic", strange, "which has no partitions in this group"),
        (f"{kind}-partition", beyond, "including nonexistent partitions"),
    ):
        facts += [Fact(which, topic, f"{kind}s are given for topic {topic!r}, {why}; ignored") for topic in topics]
    return raw


def _filled(indexed: Indexed, raw: Floats, exists: Bools) -> Floats:
    """Works with gaps filled, none below the floor; 0 where no member may have the position."""
    weights = raw[~np.isnan(raw)]
    if not len(weights) or not weights.max() > 0:  # nothing is known, or all is idle: use counts
        return np.where(exists, 1.0, 0.0)
    middle = float(np.median(weights)) or float(np.median(weights[weights > 0]))
    filled = raw.copy()
    missing = np.isnan(raw) & exists
    if missing.any():
        topic = indexed.topic_of()
        for t in np.unique(topic[missing]).tolist():
            here = slice(*indexed.first[t : t + 2].tolist())
            part = raw[here]
            some = part[~np.isnan(part)]
            filled[here][missing[here]] = float(np.median(some)) if len(some) else middle
    return np.where(exists, np.maximum(np.nan_to_num(filled), FLOOR * middle), 0.0)


def named(indexed: Indexed, positions: Iterable[int]) -> list[str]:
    """Topic-partitions as text."""
    return [f"{tp.topic}-{tp.partition}" for tp in indexed.names(np.array(list(positions), np.int64))]
