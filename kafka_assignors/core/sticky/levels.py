"""Members with equal loads in every assignment of least sum of squares: the first step of `flow`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..group.indexed import Bools, Ints
from . import maxflow


@dataclass(frozen=True)
class Block:
    """Classes and kinds whose members have loads as equal as possible.

    Args:
        classes, kinds: int[], rows and columns.
        low: The smaller load; every member has this or one more.
        extras: Number of members with one more.
    """

    classes: Ints
    kinds: Ints
    low: int
    extras: int


@dataclass(frozen=True)
class _Parts:
    """Parts that are split at the same time. No two parts share a pair of class and kind.

    Args:
        size: int[G], partitions in each class.
        crew: int[K], members of each kind.
        of_class: int[G], the part of each class.
        of_kind: int[K], the part of each kind; N if it may have nothing.
        class_: int[], classes of the pairs inside parts that may still split.
        kind: int[], kinds of these pairs.
        count: Number of parts, N.
    """

    size: Ints
    crew: Ints
    of_class: Ints
    of_kind: Ints
    class_: Ints
    kind: Ints
    count: int

    def total(self, of: Ints, what: NDArray[Any] | None = None) -> NDArray[Any]:
        """float[N], sums per part."""
        return np.bincount(of, what, self.count + 1)[: self.count]

    def mean(self) -> NDArray[np.float64]:
        """float[N + 1], the mean load per part, then 0."""
        return np.append(self.total(self.of_class, self.size) / self.total(self.of_kind, self.crew), 0)

    def inside(self, some: Bools) -> tuple[Ints, Ints]:
        pairs = np.flatnonzero(some[self.of_class[self.class_]])
        return self.class_[pairs], self.kind[pairs]


def levels(size: Ints, allowed: Bools, crew: Ints) -> list[Block]:
    """Split into blocks of equal load; see `flow`. Kinds that may have nothing are in no block.

    Args:
        size: int[G], partitions in each class, at least one.
        allowed: bool[G, K], which kinds may have the class; at least one per class.
        crew: int[K], members of each kind, at least one.

    Cost: O(G * K) if loads can be equal and `_even` proves it. Otherwise at most two maximum flows on G + K nodes per
    depth of nested splits, at most min(G, K) deep.
    """
    class_, kind = np.nonzero(allowed)
    of_class, of_kind = np.zeros(len(size), np.int64), np.where(allowed.any(axis=0), 0, 1)
    open_ = np.full(min(len(size), 1), True)
    while open_.any():
        same = np.flatnonzero((of_class[class_] == of_kind[kind]) & open_[of_class[class_]])
        class_, kind = class_[same], kind[same]
        parts = _Parts(size, crew, of_class, of_kind, class_, kind, len(open_))
        # A part in which every kind may have every class does not split.
        open_ &= parts.total(of_class[class_]) < parts.total(of_class) * parts.total(of_kind)
        open_ &= ~_even(parts, open_)
        of_class, of_kind = of_class.copy(), np.where(of_kind == parts.count, -1, of_kind)
        whole, count = open_.copy(), parts.count
        mean = parts.mean()
        for split, load in ((_crowded, np.ceil(mean)), (_idle, np.floor(mean))):
            if not whole.any():
                break
            # One flow for all parts. A part that splits becomes two; the busier side gets a new number.
            busy, busy_kinds = split(parts, whole, load[parts.of_kind].astype(np.int64) * crew)
            has_busy = np.zeros(parts.count, bool)
            has_busy[parts.of_class[busy]] = True
            number = count + np.cumsum(has_busy) - 1
            of_class[busy], of_kind[busy_kinds] = number[parts.of_class[busy]], number[parts.of_kind[busy_kinds]]
            whole &= ~has_busy
            count += int(has_busy.sum())
        open_ = np.append(open_ & ~whole, np.full(count - parts.count, True))
        of_kind[of_kind < 0] = count
    return [_block(size, crew, np.flatnonzero(of_class == n), np.flatnonzero(of_kind == n)) for n in range(len(open_))]


def _block(size: Ints, crew: Ints, classes: Ints, kinds: Ints) -> Block:
    return Block(classes, kinds, *divmod(int(size[classes].sum()), int(crew[kinds].sum())))


_TRIES = 16
"""Rounds of `_even`; two or three are enough if subscriptions overlap a lot."""


def _even(parts: _Parts, open_: Bools) -> Bools:
    """bool[N], whether a fractional split of the classes proves that all loads can be the mean, rounded.

    Each class is split over its kinds in proportion to weights, which change until the loads fit. Then whole units fit
    as well: no set of classes is larger than the room of its kinds. Because these are whole numbers, loads may even
    exceed the bounds by less than one in total. False means undecided.

    Source: Sinkhorn & Knopp 1967 (the weights); Hoffman 1960 (why fractions are enough).
    """
    even, trying = np.zeros(parts.count, bool), open_.copy()
    last = np.full(parts.count, np.inf)
    mean = parts.mean()
    low, high, wanted = ((mean_load[parts.of_kind] * parts.crew) for mean_load in (np.floor(mean), np.ceil(mean), mean))
    weight = parts.crew.astype(np.float64)
    class_, kind = parts.inside(trying)
    for _ in range(_TRIES):
        if not trying.any():
            break
        among = np.bincount(class_, weight[kind], len(parts.size))
        share = parts.size / np.where(among > 0, among, 1)
        load = weight * np.bincount(kind, share[class_], len(parts.crew))
        beyond = parts.total(parts.of_kind, np.maximum(load - high, 0))
        beyond = np.maximum(beyond, parts.total(parts.of_kind, np.maximum(low - load, 0)))
        even |= trying & (beyond < 0.5)
        given_up = trying & (even | (beyond > 0.7 * last))
        if given_up.any():
            trying &= ~given_up
            class_, kind = parts.inside(trying)
        last = beyond
        weight *= np.where(load > 0, wanted / np.where(load > 0, load, 1), 1)
    return even


def _crowded(parts: _Parts, some: Bools, room: Ints) -> tuple[Bools, Bools]:
    """Classes that need more room than the mean load, rounded up, and the only kinds that may have them.

    This test and `_idle` are strict. A class that fits within the mean must not count as crowded because of an unlucky
    choice of the members with one more: the split would forbid moves that cost no balance.

    `some` is bool[N], the parts to test; `room` int[K], the most units of each kind.
    """
    class_, kind, units = _filled(parts, some, room)
    crowded = some[parts.of_class] & (np.bincount(class_, units, len(parts.size)) < parts.size)
    while True:  # a class is crowded if a kind of a crowded class has units of it
        busy = np.zeros(len(room), bool)
        busy[kind[crowded[class_]]] = True
        more = crowded.copy()
        more[class_[busy[kind] & (units > 0)]] = True
        if (more == crowded).all():
            return crowded, busy
        crowded = more


def _idle(parts: _Parts, some: Bools, room: Ints) -> tuple[Bools, Bools]:
    """In parts with kinds below the mean load, rounded down: all classes and kinds except these.

    `some` is bool[N], the parts to test; `room` int[K], the least units of each kind.
    """
    class_, kind, units = _filled(parts, some, room)
    here = np.append(some, False)
    idle = here[parts.of_kind] & (np.bincount(kind, units, len(room)) < room)
    here[:] = False
    here[parts.of_kind[idle]] = True
    while True:  # a kind is idle if it has units that an idle kind may have
        spare = np.zeros(len(parts.size), bool)
        spare[class_[idle[kind]]] = True
        more = idle.copy()
        more[kind[spare[class_] & (units > 0)]] = True
        if (more == idle).all():
            return here[parts.of_class] & ~spare, here[parts.of_kind] & ~idle
        idle = more


def _filled(parts: _Parts, some: Bools, room: Ints) -> tuple[Ints, Ints, Ints]:
    """Place as many units as possible inside the parts, no kind above its room: classes, kinds, units; parallel."""
    class_, kind = parts.inside(some)
    classes, kinds = np.flatnonzero(some[parts.of_class]), np.flatnonzero(np.append(some, False)[parts.of_kind])
    first_kind = len(parts.size)
    source, sink = first_kind + len(room), first_kind + len(room) + 1
    tail, head, sent = maxflow.sent(
        np.concatenate([np.full(len(classes), source), class_, first_kind + kinds]),
        np.concatenate([classes, first_kind + kind, np.full(len(kinds), sink)]),
        np.concatenate([parts.size[classes], parts.size[class_], room[kinds]]),
        source,
        sink,
    )
    units = np.zeros(len(class_), np.int64)
    given = np.flatnonzero(tail < first_kind)
    at = np.searchsorted(class_ * len(room) + kind, tail[given] * len(room) + head[given] - first_kind)
    units[at] = sent[given]
    return class_, kind, units
