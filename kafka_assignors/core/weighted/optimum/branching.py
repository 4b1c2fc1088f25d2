"""The optimum of a small group by branch and bound: least maximum, least cost of moves, least work from other racks.

Partitions are decided heaviest first. A branch ends if what is left does not fit, or if the members that are above
their limits must still give away too much: the parts of their own undecided partitions that cost least for their work.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from ...group.indexed import UNASSIGNED, Ints
from ..model import NO_CAP, Model

PAIRS = 100
"""Maximum pairs of partition and member of a small group."""
POSITIONS, PROVABLE = 250, 5_000
"""Maximum partitions, and pairs, of a group whose least cost of moves may be proven: in most, few branches do."""
BRANCHES = 30_000
"""Branches of one search. A count and not a time, so that answers are the same on every machine."""
MET = 1e-9
"""A greatest work / capacity so little above its lower bound is at it."""


def small(model: Model) -> bool:
    """Whether a group is small enough for an exact search."""
    return int((model.of != UNASSIGNED).sum()) * int((model.capacity > 0).sum()) <= PAIRS


def provable(model: Model) -> bool:
    """Whether a group is small enough for an attempt to prove the least cost of moves."""
    positions = int((model.of != UNASSIGNED).sum())
    return positions <= POSITIONS and positions * int((model.capacity > 0).sum()) <= PROVABLE


@dataclass(frozen=True)
class Found:
    """What a search found. `owner` is int[P], None if it found nothing better than what it started from.

    `proven`: it came to its end, so there is nothing better.
    """

    owner: Ints | None
    proven: bool


class Branching:
    """A small group, prepared for several searches. Pinned positions stay where they are.

    In each search, limits are int[M], and at most `budget` positions may leave an owner; None for any number.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        at = np.flatnonzero(model.of != UNASSIGNED)
        self.order = at[np.argsort(-model.work[at], kind="stable")]
        order = self.order.tolist()
        self.work: list[int] = model.work[order].tolist()
        self.home: list[int] = model.kept[order].tolist()
        self.cap: list[float] = model.capacity.tolist()
        self.used = [m for m, c in enumerate(self.cap) if c]
        pinned, able = model.pinned[order].tolist(), model.allowed[model.of[order]]
        self.able = [
            [home] if rests and home != UNASSIGNED else np.flatnonzero(row).tolist()
            for home, rests, row in zip(self.home, pinned, able, strict=True)
        ]
        self.left = [*accumulate(reversed(self.work), initial=0)][::-1]
        far = model.far.rows[model.far.of[order]][:, model.far.rack]
        self.far: list[list[int]] = (far * model.work[order][:, None]).tolist()
        nearest = [min(row[m] for m in able) for row, able in zip(self.far, self.able, strict=True)]
        self.far_left = [*accumulate(reversed(nearest), initial=0)][::-1]

    def least_maximum(self, start: Ints, least: float, budget: int | None = None) -> Found:
        """The assignment with the least greatest work / capacity, within the hard caps; `start` is within the budget.

        One that meets the lower bound `least` ends the search. If `least` is infinite, any one within the caps does.
        """
        loads, most = self.model.loads(start), self.model.most
        greatest = math.inf
        if (loads <= most).all():
            greatest = max(int(loads[m]) / self.cap[m] for m in self.used)
        walk = _Walk(self, None if budget is None else [1] * len(self.order), budget)

        def below(ratio: float) -> list[int]:
            top = self.model.most.tolist()
            if ratio == math.inf:
                return [int(hard_cap) for hard_cap in top]
            return [min(int(ratio * c * (1 - MET)), hard_cap) for c, hard_cap in zip(self.cap, top, strict=True)]

        def better(loads: Sequence[int], _: int) -> bool:
            nonlocal greatest
            greatest = max(loads[m] / self.cap[m] for m in self.used)
            walk.narrow(below(greatest))
            return bool(greatest > least * (1 + MET))

        if greatest < math.inf and greatest <= least * (1 + MET):
            return Found(None, proven=True)
        walk.narrow(below(greatest))
        return walk.run(better)

    def least_cost(self, limit: Ints, below: int, budget: int | None = None) -> Found:
        """The assignment with the least cost of moves within limits, if that is less than `below`."""
        cost = self.model.cost[self.order].tolist()
        walk = _Walk(self, cost, below - 1, moves=budget)
        walk.narrow(limit.tolist())

        def better(_: Sequence[int], paid: int) -> bool:
            walk.most_paid = paid - 1
            return paid > 0

        return walk.run(better)

    def nearest(self, limit: Ints, most_paid: int, below: int, budget: int | None = None) -> Found:
        """The assignment within limits with the least work from other racks, if that is less than `below`.

        Its moves cost at most `most_paid`.
        """
        walk = _Walk(self, self.model.cost[self.order].tolist(), most_paid, far=below - 1, moves=budget)
        walk.narrow(limit.tolist())

        def better(_: Sequence[int], __: int) -> bool:
            walk.most_far = walk.distance - 1
            return bool(walk.most_far >= self.far_left[0])

        return walk.run(better)


class _Walk:
    """One search, depth first. The caller narrows it with each assignment that it finds.

    Args:
        cost: Cost of moving each position, in the group's order; None if moves do not matter.
        most_paid: The most that the moves may cost; None for any cost.
        far: The most work from other racks; None if racks do not matter.
        moves: The most positions that may leave an owner; None for any number.
    """

    def __init__(
        self,
        group: Branching,
        cost: Sequence[int] | None,
        most_paid: int | None,
        far: int | None = None,
        moves: int | None = None,
    ) -> None:
        self.group, self.most_paid, self.most_far, self.most_moves = group, most_paid, far, moves
        self.home = [UNASSIGNED] * len(group.home) if cost is None else group.home
        self.cost = cost or [0] * len(group.home)
        self.paid = self.distance = self.moved = self.branches = 0
        members = len(group.cap)
        self.loads = [0] * members
        self.chosen = [UNASSIGNED] * len(self.cost)
        self.paid_at: dict[Any, int] = {}  # the same loads again, at no less cost, lead to nothing better
        self.best: list[int] | None = None
        # Per member, its own positions in the group's order; and for each number of them that are decided, the others
        # by cost per work, as cumulative works and costs.
        own: list[list[int]] = [[] for _ in range(members)]
        for i, home in enumerate(self.home):
            if home != UNASSIGNED:
                own[home].append(i)
        self.own_left = [[*accumulate((group.work[i] for i in reversed(mine)), initial=0)][::-1] for mine in own]
        self.tables = [[self._table(mine[j:]) for j in range(len(mine) + 1)] for mine in own]
        self.decided = [0] * members
        self.need = [0.0] * members
        self.alike = self._kinds()

    def _table(self, items: Sequence[int]) -> tuple[list[int], list[int]]:
        work = self.group.work
        order = sorted((i for i in items if len(self.group.able[i]) > 1), key=lambda i: (self.cost[i] / work[i], i))
        return (
            [*accumulate((work[i] for i in order), initial=0)],
            [*accumulate((self.cost[i] for i in order), initial=0)],
        )

    def _kinds(self) -> list[Any]:
        """Members of a kind may be swapped if they have equally much and nothing of their own is undecided."""
        group, model = self.group, self.group.model
        if model.pinned.any():
            return list(range(len(group.cap)))
        rack = model.far.rack.tolist() if self.most_far is not None else [0] * len(group.cap)
        return [
            (group.cap[m], int(model.most[m]), model.allowed[:, m].tobytes(), rack[m]) for m in range(len(group.cap))
        ]

    def narrow(self, limit: Sequence[int]) -> None:
        """Set the limits: the most work of each member."""
        self.limit = [min(int(most), NO_CAP) for most in limit]
        self.need[:] = [self._needed(m) for m in range(len(self.limit))]  # in place: branches have this list in hand

    def _needed(self, m: int) -> float:
        """The least cost at which a member that keeps all its undecided positions gets within its limit."""
        over = self.loads[m] + self.own_left[m][self.decided[m]] - self.limit[m]
        if over <= 0:
            return 0.0
        works, costs = self.tables[m][self.decided[m]]
        if over > works[-1]:
            return math.inf
        k = bisect_left(works, over)
        return costs[k - 1] + (costs[k] - costs[k - 1]) * (over - works[k - 1]) / (works[k] - works[k - 1])

    def run(self, better: Any) -> Found:
        """Search; `better` is called with each assignment found, and returns whether to go on."""
        done = self._visit(0, better)
        if self.best is None:
            return Found(None, self.branches <= BRANCHES)
        owner = np.full(len(self.group.model.of), UNASSIGNED)
        owner[self.group.order] = self.best
        return Found(owner, done or self.branches <= BRANCHES)

    def _hopeless(self, i: int) -> bool:
        group = self.group
        if self.most_far is not None and self.distance + group.far_left[i] > self.most_far:
            return True
        if self.most_paid is not None and self.paid + sum(self.need) - 1e-6 > self.most_paid:
            return True
        loads, limit, least = self.loads, self.limit, group.work[-1]
        if group.left[i] > sum(limit[m] - loads[m] for m in group.used if limit[m] - loads[m] >= least):
            return True
        if self.most_far is None and self.most_moves is None:
            key = i, tuple(loads)
            if self.paid_at.get(key, self.paid + 1) <= self.paid:
                return True
            self.paid_at[key] = self.paid
        return False

    def _dearer(self, i: int, m: int, *, moves: bool) -> bool:
        """Whether a position costs more at a member than is left."""
        if self.most_far is not None and self.distance + self.group.far[i][m] > self.most_far:
            return True
        if not moves:
            return False
        if self.most_moves is not None and self.moved >= self.most_moves:
            return True
        return self.most_paid is not None and self.paid + self.cost[i] > self.most_paid

    def _visit(self, i: int, better: Any) -> bool:
        """Decide the position `i` and all after it; return False to stop."""
        group = self.group
        if i == len(group.work):
            self.best = self.chosen.copy()
            return bool(better(self.loads, self.paid))
        self.branches += 1
        if self.branches > BRANCHES:
            return False
        if self._hopeless(i):
            return True
        work, home, loads, need = group.work[i], self.home[i], self.loads, self.need
        seen = set()
        if home != UNASSIGNED:
            self.decided[home] += 1
        before, on = need[home] if home != UNASSIGNED else 0.0, True
        for m in sorted(group.able[i], key=lambda m: (m != home, (loads[m] + work) / group.cap[m], m)):
            moves = home not in (UNASSIGNED, m)
            if loads[m] + work > self.limit[m] or self._dearer(i, m, moves=moves):
                continue
            if self.decided[m] == len(self.own_left[m]) - 1:
                same = self.alike[m], loads[m]
                if same in seen and m != home:
                    continue
                seen.add(same)
            price = self.cost[i] if moves else 0
            loads[m] += work
            self.chosen[i], was = m, need[m]
            self.paid += price
            self.moved += moves
            self.distance += group.far[i][m]
            if home != UNASSIGNED:
                need[home] = self._needed(home)
            need[m] = self._needed(m)
            on = self._visit(i + 1, better)
            loads[m] -= work
            self.paid -= price
            self.moved -= moves
            self.distance -= group.far[i][m]
            if home != UNASSIGNED:
                need[home] = before
            if m != home:
                need[m] = was
            if not on or any(load > most for load, most in zip(loads, self.limit, strict=True)):
                break  # the end; or narrower limits than those under which this branch began
        if home != UNASSIGNED:
            self.decided[home] -= 1
            need[home] = self._needed(home)
        return on
