"""The optimal assignment of a small group: least maximum by branch and bound, fewest moves by HiGHS (`milp`)."""

from __future__ import annotations

import math
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
NODES_HALVING = 500
"""The same for one bisection: there may be several, and members wait for the answer."""
BRANCHES = 30_000
"""Branches that `Exact.least_maximum` explores before it hands over to HiGHS."""
HALVINGS = 40
"""Maximum bisections of `Exact.least_maximum` by HiGHS."""
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
        model: A small group. Pinned positions stay where they are.

    Attributes:
        closed: Whether HiGHS came to its end in its last run.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.at = np.flatnonzero(model.of != UNASSIGNED)
        able = model.allowed[model.of[self.at]]
        rests = np.flatnonzero(model.pinned[self.at] & (model.kept[self.at] != UNASSIGNED))
        able[rests] = False
        able[rests, model.kept[self.at[rests]]] = True
        row, self.member = np.nonzero(able)
        self.position = self.at[row]
        self.row = row
        self.closed = True
        self.scale = float(model.work.max(initial=1))
        self.weight = model.work[self.position] / self.scale
        self.able = [np.flatnonzero(each).tolist() for each in able]
        self.moved = ((model.kept[self.position] != UNASSIGNED) & (model.kept[self.position] != self.member)).astype(
            float
        )

    def least_maximum(  # long: one branch and bound, whose branches share their state
        self, start: Ints, least: float, budget: int | None = None
    ) -> Found | None:
        """The assignment that minimizes the greatest work / capacity, within the hard caps.

        Args:
            start: int[P], any assignment, within the budget.
            least: A lower bound; a solution that meets it ends the search.
            budget: The most positions that may leave an owner; None for any number.

        Returns:
            The assignment; None if none within the hard caps was found.
        """
        model = self.model
        cap = model.capacity.tolist()
        most: list[int] = model.most.tolist()
        order = self.at[np.argsort(-model.work[self.at], kind="stable")].tolist()
        work, home = model.work[order].tolist(), model.kept[order].tolist()
        row = {at: i for i, at in enumerate(self.at.tolist())}
        able = [self.able[row[at]] for at in order]
        # Members that are alike may be swapped, unless it matters who had what.
        alike: list[Any] = [(cap[m], most[m], model.allowed[:, m].tobytes()) for m in range(len(cap))]
        if budget is not None or model.pinned.any():
            alike = list(range(len(cap)))
        left = [*np.cumsum(work[::-1])[::-1].tolist(), 0]
        used = [m for m in range(len(cap)) if cap[m]]
        loads = model.loads(start).tolist()
        best = start[order].tolist() if all(loads[m] <= most[m] for m in used) else None
        greatest = max(loads[m] / cap[m] for m in used) if best else math.inf
        loads = [0] * len(cap)
        chosen = [UNASSIGNED] * len(order)
        branches = 0

        def limits() -> list[int]:
            if greatest == math.inf:
                return most
            return [min(int(greatest * c * (1 - 1e-9)), top) for c, top in zip(cap, most, strict=True)]

        limit = limits()

        def visit(i: int, moves: int) -> bool:
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
                cost = moves + (home[i] not in (UNASSIGNED, m))
                if loads[m] + work[i] > limit[m] or same in seen or (budget is not None and cost > budget):
                    continue
                seen.add(same)
                loads[m] += work[i]
                chosen[i] = m
                on = visit(i + 1, cost)
                loads[m] -= work[i]
                if not on:
                    return False
            return True

        visit(0, 0)
        if branches > BRANCHES:
            return self._halved(None if best is None else np.array(best), order, least, budget)
        if best is None:
            return None
        owner = np.full(len(model.of), UNASSIGNED)
        owner[order] = best
        return Found(owner, True)

    def _halved(self, best: Any, order: Sequence[int], least: float, budget: int | None) -> Found | None:
        """As `least_maximum`, by HiGHS and bisection.

        The greatest work / capacity as a variable would be one program instead of many, but with a continuous variable
        HiGHS 1.x writes to stdout when it repairs a solution, whatever its options are.
        """
        model, found = self.model, None
        used = model.capacity > 0

        def ratio(owner: Ints) -> float:
            return float((model.loads(owner)[used] / model.capacity[used]).max())

        if best is not None:
            found = np.full(len(model.of), UNASSIGNED)
            found[order] = best
        low, high = (
            least,
            ratio(found) if found is not None else float(model.work.sum()) / float(model.capacity[used].min()),
        )
        proven = True
        for _ in range(HALVINGS):
            if high <= low * (1 + 2 * NEAR):
                break
            middle = (low + high) / 2
            each = self.fewest_moves(model.limits(middle), budget, any_will_do=True)
            if each is None and not self.closed:  # what follows would take as long and prove nothing, and a join waits
                proven = False
                break
            if each is None:
                low = middle
            else:
                found, high = each.owner, min(high, ratio(each.owner))
        return None if found is None else Found(found, proven and high <= low * (1 + 2 * NEAR))

    def fewest_moves(self, limit: Ints, budget: int | None = None, *, any_will_do: bool = False) -> Found | None:
        """The assignment with the fewest moves, or the least cost, in which no member exceeds its limit.

        Args:
            limit: int[M].
            budget: The most moves; None for any number.
            any_will_do: Whether any assignment within limit and budget is enough.

        Returns:
            None if none was found; `closed` says whether there is none.
        """
        n, members = len(self.position), len(self.model.capacity)
        loads = np.zeros((members, n))
        loads[self.member, np.arange(n)] = self.weight
        for slack in (0.0, 2 * NEAR):  # retry a little tighter if a limit is exceeded within the tolerance
            most = limit / self.scale * (1 - slack)
            rows = [(loads, np.full(members, -np.inf), most), *self._budget(budget)]
            cost = self.moved * self.model.cost[self.position]
            found = self._solved(0 * cost, rows, NODES_HALVING) if any_will_do else self._solved(cost, rows)
            if found is None or bool((self.model.loads(found.owner) <= limit).all()):
                return found
        return None

    def nearest(self, limit: Ints, owner: Ints) -> Found | None:
        """The assignment with the least work read from other racks, within limits, at no more cost than another."""
        model = self.model
        loads = np.zeros((len(model.capacity), len(self.position)))
        loads[self.member, np.arange(len(self.position))] = self.weight
        paid = self.moved * model.cost[self.position]
        kept = model.kept
        most = float(model.cost[(kept != UNASSIGNED) & (owner != kept)].sum()) + 0.5
        far = self.weight * model.far.rows[model.far.of[self.position], model.far.rack[self.member]]
        rows = [
            (loads, np.full(len(limit), -np.inf), limit / self.scale),
            (paid[None], np.array([-np.inf]), np.array([most])),
        ]
        found = self._solved(far, rows)
        return found if found is not None and bool((model.loads(found.owner) <= limit).all()) else None

    def _budget(self, budget: int | None) -> list[Any]:
        return [] if budget is None else [(self.moved[None], np.array([-np.inf]), np.array([budget + 0.5]))]

    def _solved(self, cost: Any, rows: Sequence[Any], nodes: int = NODES) -> Found | None:
        from scipy.optimize import Bounds, LinearConstraint, milp

        n = len(self.position)
        once = np.zeros((len(self.at), n))
        once[self.row, np.arange(n)] = 1
        answer = milp(
            cost,
            integrality=np.ones(n),
            bounds=Bounds(0, 1),
            constraints=[LinearConstraint(once, 1, 1), *(LinearConstraint(*each) for each in rows)],
            options={"mip_rel_gap": 0, "node_limit": nodes},
        )
        self.closed = answer.status in (0, 2)  # 2: infeasible
        if answer.x is None:
            return None
        owner = np.full(len(self.model.of), UNASSIGNED)
        chosen = answer.x[:n] > 0.5
        owner[self.position[chosen]] = self.member[chosen]
        if (owner[self.at] == UNASSIGNED).any():
            return None
        return Found(owner, answer.status == 0)
