"""Rules of other systems that place by work, written anew from their descriptions; their code was not run.

Each has the works, the owner of each partition and the number of members, and returns the new owners.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rule = Callable[[Floats, Ints, int], Ints]

BAND, DAMPING, EMA = 0.1, 0.6, 0.5
"""KCL 3: tolerated deviation from the mean, part of the excess that moves at a time, weight of the newest value."""
GAIN = 0.05
"""Hermes: the least gain of a swap, as a part of the mean."""


def loads_of(works: Floats, owner: Ints, members: int) -> Floats:
    """float[M], the work of each member."""
    loads = np.zeros(members)
    np.add.at(loads, owner, works)
    return loads


def longest_first(works: Floats, owner: Ints, members: int) -> Ints:  # noqa: ARG001
    """Longest-first anew (Graham 1969)."""
    loads, then = np.zeros(members), np.zeros(len(works), np.int64)
    for p in np.argsort(-works, kind="stable").tolist():
        then[p] = m = int(loads.argmin())
        loads[m] += works[p]
    return then


def sticky(works: Floats, owner: Ints, members: int) -> Ints:  # noqa: ARG001
    """By counts: members above the ceiling give partitions to the members with the fewest."""
    then: Ints = owner.copy()
    counts = np.bincount(then, minlength=members)
    while counts.max() > counts.min() + 1:
        a, b = int(counts.argmax()), int(counts.argmin())
        then[int(np.flatnonzero(then == a)[-1])] = b
        counts[a], counts[b] = counts[a] - 1, counts[b] + 1
    return then


def grantneale(works: Floats, owner: Ints, members: int) -> Ints:  # noqa: ARG001
    """Heaviest first to the member with the fewest partitions, then the least work (kafka-lag-based-assignor)."""
    loads, counts, then = np.zeros(members), np.zeros(members, np.int64), np.zeros(len(works), np.int64)
    for p in np.argsort(-works, kind="stable").tolist():
        few = np.flatnonzero(counts == counts.min())
        then[p] = m = int(few[loads[few].argmin()])
        loads[m] += works[p]
        counts[m] += 1
    return then


class Kcl:
    """KCL 3: a worker beyond 10 % above the mean gives leases worth 60 % of its excess to the least loaded worker.

    Leases are taken in random order. Its view of works is an average over time (0.5).
    """

    def __init__(self) -> None:
        self._seen: Floats | None = None
        self._rng = np.random.default_rng(5)

    def __call__(self, works: Floats, owner: Ints, members: int) -> Ints:
        if self._seen is None or len(self._seen) != len(works):
            self._seen = works
        self._seen = EMA * works + (1 - EMA) * self._seen
        return self.taken(self._seen, loads_of(self._seen, owner, members), owner)

    def taken(self, works: Floats, loads: Floats, owner: Ints) -> Ints:
        """One round, with the loads that workers report: these may be older than the works."""
        then: Ints = owner.copy()
        loads, mean = loads.copy(), float(loads.mean())
        for m in np.flatnonzero(loads > (1 + BAND) * mean).tolist():
            take = DAMPING * (loads[m] - mean)
            for p in self._rng.permutation(np.flatnonzero(then == m)).tolist():
                if take <= 0:
                    break
                to = int(loads.argmin())
                if works[p] <= take:
                    then[p], take = to, take - works[p]
                    loads[m], loads[to] = loads[m] - works[p], loads[to] + works[p]
        return then


def hermes(works: Floats, owner: Ints, members: int) -> Ints:
    """Hermes: swaps between the heaviest and the lightest member that gain at least 5 % of the mean."""
    then: Ints = owner.copy()
    mean = float(works.sum()) / members
    for _ in range(10 * members):
        loads = np.bincount(then, works, members)
        a, b = int(loads.argmax()), int(loads.argmin())
        mine, theirs = np.flatnonzero(then == a), np.flatnonzero(then == b)
        if not len(mine) or not len(theirs):
            break
        gap = works[mine][:, None] - works[theirs][None, :]
        wish = (loads[a] - loads[b]) / 2
        best = np.unravel_index(int(np.abs(gap - wish).argmin()), gap.shape)
        gain = min(gap[best], loads[a] - loads[b] - gap[best])
        if gain < GAIN * mean:
            break
        then[mine[best[0]]], then[theirs[best[1]]] = b, a
    return then


def single_moves(works: Floats, owner: Ints, members: int) -> Ints:
    """A scheduler of single moves (franz-go's idea): the best one from the heaviest to the lightest, down to 1.05."""
    then: Ints = owner.copy()
    loads = np.bincount(then, works, members)
    for _ in range(len(works)):
        a, b = int(loads.argmax()), int(loads.argmin())
        mine = np.flatnonzero(then == a)
        peak = np.maximum(loads[a] - works[mine], loads[b] + works[mine])
        best = int(peak.argmin())
        if loads[a] <= 1.05 * loads.mean() or peak[best] >= loads[a]:
            break
        p = int(mine[best])
        then[p] = b
        loads[a], loads[b] = loads[a] - works[p], loads[b] + works[p]
    return then


def all_rules() -> dict[str, Rule]:
    """By name; anew, as some remember what they saw."""
    return {
        "lpt": longest_first,
        "kcl": Kcl(),
        "hermes": hermes,
        "lag": grantneale,
        "single-moves": single_moves,
        "sticky": sticky,
    }
