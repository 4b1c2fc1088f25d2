"""Local search for the least cost of moves within limits: single partitions change owner, or two are exchanged.

The sum of two things falls: the cost of the moves, and the work above the limits, at a price per unit of work for each
member. Where no step lowers it, members above their limits get dearer, so that the search leaves by another way; the
prices fall again while all limits hold. A partition does not return to an owner that it just left.

Source: Morris 1993, "The Breakout Method for Escaping from Local Minima"; Glover 1986 (tabu search).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...group.indexed import UNASSIGNED, Bools, Ints
from ..model import Floats, Model

PAIRS, POSITIONS = 20_000, 1_000
"""Maximum pairs of partition and member, and partitions, of a group that is searched like this."""
STALE, DEARER = 400, 1.4
"""Steps without a better assignment after which a search ends, and the factor by which a member's price changes."""
WAYS = ((DEARER, STALE), (2.0, STALE), (1.15, STALE), (1.3, STALE), (2.0, 5 * STALE), (DEARER, 5 * STALE))
"""Factor and steps of successive searches: together they find more than one search of their whole length."""
DEAREST = 1e12
"""Limit of a price, in prices of the beginning."""
STAYS = 6
"""Least steps until a partition may return to an owner."""
STEP = 5_000
"""Work of a step beside what it looks at; see `search.EFFORT`."""


@dataclass(frozen=True)
class Traded:
    """What the search found: `owner` is int[P], within all limits; None, at an infinite cost, if none was found.

    `effort` is what was spent of `search.EFFORT`.
    """

    owner: Ints | None
    cost: float
    effort: int


def tradable(model: Model) -> bool:
    """Whether a group is small enough."""
    positions = int((model.of != UNASSIGNED).sum())
    return positions <= POSITIONS and positions * int((model.capacity > 0).sum()) <= PAIRS


class Trading:
    """A group, prepared for several searches. Pinned positions stay where they are."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.at = np.flatnonzero(model.of != UNASSIGNED)
        home = model.kept[self.at]
        able = model.allowed[model.of[self.at]]
        rests = np.flatnonzero(model.pinned[self.at] & (home != UNASSIGNED))
        able[rests] = False
        able[rests, home[rests]] = True
        away: Bools = (home[:, None] != UNASSIGNED) & (home[:, None] != np.arange(able.shape[1]))
        price = model.cost[self.at].astype(np.float64)
        self.able, self.moved = able, away.astype(np.float64)
        self.price = np.where(able, np.where(away, price[:, None], 0.0), np.inf)
        self.work = model.work[self.at].astype(np.float64)  # whole numbers: sums are exact below 2**53
        self.first = float(np.median(price)) / max(float(self.work.mean()), 1.0) if len(price) else 1.0

    def search(  # long: one loop, whose steps share their state
        self,
        limit: Ints,
        start: Ints,
        effort: int,
        least: float = 0.0,
        budget: int | None = None,
        dearer: float = DEARER,
        stale: int = STALE,
    ) -> Traded:
        """The assignment of least cost that is found within the limits, int[M], from a complete one, `start`.

        It ends at an assignment that costs `least`, a lower bound (infinite: at any one), after `stale` steps without a
        better one, or when `effort` (see `search.EFFORT`) is spent. At most `budget` positions may leave an owner. A
        member's price changes by the factor `dearer`.

        Cost: O(P * M) per step, and O(P²) if no single partition improves.
        """
        most = limit.astype(np.float64)
        owner, work, price = start[self.at].copy(), self.work, self.price
        rows, members = np.arange(len(owner)), len(most)
        loads = np.bincount(owner, work, minlength=members)
        over = np.maximum(loads - most, 0.0)
        cost, moves = float(price[rows, owner].sum()), float(self.moved[rows, owner].sum())
        dear = np.full(members, self.first)
        dear_move = float(np.median(price[np.isfinite(price)])) + 1.0 if budget is not None else 0.0
        until = np.zeros(price.shape, np.int64)
        best, best_owner, spent, idle, step = math.inf, None, 0, 0, 0

        def excess(more: Floats | float) -> Floats | float:
            return np.maximum(moves + more - budget, 0.0) if budget is not None else 0.0

        while spent < effort and idle < stale and (best_owner is None or best > least):
            if not over.any() and not excess(0.0) and cost < best:
                best, best_owner, idle = cost, owner.copy(), 0
                continue
            step, idle = step + 1, idle + 1
            spent += STEP + price.size
            lost = np.maximum(loads[owner] - work - most[owner], 0.0) - over[owner]
            gained = np.maximum(loads + work[:, None] - most, 0.0) - over
            more = price - price[rows, owner][:, None]
            delta = more + dear * gained + (dear[owner] * lost)[:, None]
            left = float(over.sum())
            barred = until > step
            ends = (gained + lost[:, None] <= -left) & (cost + more < best)
            if budget is not None:
                away = self.moved - self.moved[rows, owner][:, None]
                delta += dear_move * (excess(away) - excess(0.0))
                ends &= excess(away) == 0
            delta[barred & ~ends] = np.inf
            delta[rows, owner] = np.inf
            k = int(delta.argmin())
            least_delta, steps = float(delta.flat[k]), [divmod(k, members)]
            if least_delta >= 0:
                if budget is None:
                    looked, change, p, q = self._pair(owner, loads, most, over, dear, barred, cost, best)
                    spent += looked
                    if change < least_delta:
                        least_delta, steps = change, [(p, int(owner[q])), (q, int(owner[p]))]
                if over.any() or excess(0.0):
                    dear[over > 0] *= dearer if dear.max() < self.first * DEAREST else 1.0
                    dear_move *= dearer if excess(0.0) and dear_move < DEAREST else 1.0
                else:
                    dear /= dearer
                    dear_move /= dearer
                if least_delta == math.inf:
                    continue
            for p, to in steps:
                was = int(owner[p])
                cost += float(price[p, to] - price[p, was])
                moves += float(self.moved[p, to] - self.moved[p, was])
                loads[was] -= work[p]
                loads[to] += work[p]
                owner[p] = to
                until[p, was] = step + STAYS + step * 7 % 5
            over = np.maximum(loads - most, 0.0)
        if best_owner is None:
            return Traded(None, math.inf, spent)
        whole = np.full(len(self.model.of), UNASSIGNED)
        whole[self.at] = best_owner
        return Traded(whole, best, spent)

    def _pair(  # one parameter per part of the state of `search`
        self, owner: Ints, loads: Any, most: Floats, over: Any, dear: Floats, barred: Bools, cost: float, best: float
    ) -> tuple[int, float, int, int]:
        """The best exchange of two positions: what was spent, the change, and both; the change is infinite if none is.

        One of the two is at a member above its limit, or has moved; an exchange of two others only costs.
        """
        price, work = self.price, self.work
        rows = np.arange(len(owner))
        here = np.flatnonzero((over[owner] > 0) | (self.moved[rows, owner] > 0))
        if not len(here):
            return 0, math.inf, 0, 0
        a, b = owner[here][:, None], owner[None, :]
        change = work[None, :] - work[here][:, None]
        gain_a = np.maximum(loads[a] + change - most[a], 0.0) - over[a]
        gain_b = np.maximum(loads[b] - change - most[b], 0.0) - over[b]
        now = price[rows, owner]
        more = price[here][:, owner] - now[here][:, None] + price[rows[None, :], a] - now[None, :]
        delta = more + dear[a] * gain_a + dear[b] * gain_b
        ends = (gain_a + gain_b <= -float(over.sum())) & (cost + more < best)
        delta[((barred[here][:, owner] | barred[rows[None, :], a]) & ~ends) | (a == b)] = np.inf
        k = int(delta.argmin())
        p, q = divmod(k, len(owner))
        return delta.size, float(delta.flat[k]), int(here[p]), q
