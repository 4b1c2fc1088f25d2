"""The optimal assignment of a small group: least maximum by branch and bound, fewest moves by HiGHS (`milp`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..group.indexed import UNASSIGNED, Ints
from .model import Model

PAIRS = 100
"""Maximum pairs of partition and member of a small group."""
NODES = 2_000
"""Branches before HiGHS gives up: a count and not a time, so that answers are the same on every machine."""
BRANCHES = 30_000
"""Branches that `Exact.least_maximum` explores before it hands over to HiGHS."""
NEAR = 1e-6
"""HiGHS's tolerance; results are recomputed in integers."""


def load() -> None:
    """Import slow modules now, so that it does not happen during a join."""
    import scipy.optimize  # noqa: F401


def small(model: Model) -> bool:
    """Whether a group is small enough for an exact search."""
    return int((model.of != UNASSIGNED).sum()) * int((model.capacity > 0).sum()) <= PAIRS


@dataclass(frozen=True)
class Found:
    """A solution of HiGHS.

    Args:
        owner: int[P].
        proven: Whether it is proven optimal.
    """

    owner: Ints
    proven: bool


class Exact:
    """The group as an integer program: one binary variable per partition and member that may have it.

    Args:
        model: A small group.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.at = np.flatnonzero(model.of != UNASSIGNED)
        row, self.member = np.nonzero(model.allowed[model.of[self.at]])
        self.position = self.at[row]
        self.row = row
        self.scale = float(model.work.max(initial=1))
        self.weight = model.work[self.position] / self.scale
        self.moved = ((model.kept[self.position] != UNASSIGNED) & (model.kept[self.position] != self.member)).astype(
            float
        )

    def least_maximum(self, start: Ints, least: float) -> Found | None:
        """The assignment that minimizes the greatest work / capacity.

        Args:
            start: int[P], any assignment.
            least: A lower bound; a solution that meets it ends the search.
        """
        model = self.model
        cap = model.capacity.tolist()
        order = self.at[np.argsort(-model.work[self.at], kind="stable")].tolist()
        work = model.work[order].tolist()
        able = [model.subscribers[g].tolist() for g in model.of[order].tolist()]
        alike = [(cap[m], model.allowed[:, m].tobytes()) for m in range(len(cap))]
        left = [*np.cumsum(work[::-1])[::-1].tolist(), 0]
        loads = [0] * len(cap)
        used = [m for m in range(len(cap)) if cap[m]]
        best = start[order].tolist()
        greatest = max(load / cap[m] for m, load in enumerate(model.loads(start).tolist()) if cap[m])
        chosen = [UNASSIGNED] * len(order)
        branches = 0

        def limits() -> list[int]:
            return [int(greatest * each * (1 - 1e-9)) for each in cap]

        limit = limits()

        def visit(i: int) -> bool:
            """Return False to stop: the search gave up, or found a solution that meets `least`."""
            nonlocal greatest, limit, best, branches
            if i == len(order):
                greatest = max(loads[m] / cap[m] for m in used)
                best, limit = chosen.copy(), limits()
                return bool(greatest > least * (1 + 1e-9))
            branches += 1
            if branches > BRANCHES:
                return False
            if left[i] > sum(limit[m] - loads[m] for m in used if limit[m] > loads[m]):
                return True
            seen = set()
            for m in sorted(able[i], key=lambda m: (loads[m] + work[i]) / cap[m]):
                same = alike[m], loads[m]
                if loads[m] + work[i] > limit[m] or same in seen:
                    continue
                seen.add(same)
                loads[m] += work[i]
                chosen[i] = m
                on = visit(i + 1)
                loads[m] -= work[i]
                if not on:
                    return False
            return True

        visit(0)
        owner = np.full(len(model.of), UNASSIGNED)
        owner[order] = best
        if branches <= BRANCHES:
            return Found(owner, True)
        return self._least_maximum()

    def _least_maximum(self, budget: int | None = None) -> Found | None:
        """As `least_maximum`, by HiGHS, within a budget of moves."""
        n, members = len(self.position), len(self.model.capacity)
        cost = np.zeros(n + 1)
        cost[-1] = 1.0
        used = np.flatnonzero(self.model.capacity > 0)
        loads = np.zeros((members, n + 1))
        loads[self.member, np.arange(n)] = self.weight
        loads[:, -1] = -self.model.capacity
        rows = [(loads[used], np.full(len(used), -np.inf), np.zeros(len(used)))]
        return self._solved(cost, [*rows, *self._budget(budget, 1)], extra=1)

    def within(self, budget: int) -> Found | None:
        """The assignment with the least greatest work / capacity within a budget of moves."""
        return self._least_maximum(budget)

    def fewest_moves(self, limit: Ints, budget: int | None = None) -> Found | None:
        """The assignment with the fewest moves in which no member exceeds its limit; None if none was found."""
        n, members = len(self.position), len(self.model.capacity)
        loads = np.zeros((members, n))
        loads[self.member, np.arange(n)] = self.weight
        for slack in (0.0, 2 * NEAR):  # retry a little tighter if a limit is exceeded within the tolerance
            most = limit / self.scale * (1 - slack)
            rows = [(loads, np.full(members, -np.inf), most), *self._budget(budget, 0)]
            found = self._solved(self.moved, rows)
            if found is None or bool((self.model.loads(found.owner) <= limit).all()):
                return found
        return None

    def _budget(self, budget: int | None, extra: int) -> list[Any]:
        if budget is None:
            return []
        return [(np.append(self.moved, np.zeros(extra))[None], np.array([-np.inf]), np.array([budget + 0.5]))]

    def _solved(self, cost: Any, rows: Sequence[Any], extra: int = 0) -> Found | None:
        from scipy.optimize import Bounds, LinearConstraint, milp

        n = len(self.position)
        once = np.zeros((len(self.at), n + extra))
        once[self.row, np.arange(n)] = 1
        answer = milp(
            cost,
            integrality=np.append(np.ones(n), np.zeros(extra)),
            bounds=Bounds(0, np.append(np.ones(n), np.full(extra, np.inf))),
            constraints=[LinearConstraint(once, 1, 1), *(LinearConstraint(*each) for each in rows)],
            options={"mip_rel_gap": 0, "node_limit": NODES},
        )
        if answer.x is None:
            return None
        owner = np.full(len(self.model.of), UNASSIGNED)
        chosen = answer.x[:n] > 0.5
        owner[self.position[chosen]] = self.member[chosen]
        if (owner[self.at] == UNASSIGNED).any():
            return None
        return Found(owner, answer.status == 0)
