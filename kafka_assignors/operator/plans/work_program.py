"""A plan by work as an integer program, for proofs: what no assignment can do. Independent of the search.

One binary variable per partition and member that may have it, and a row per member, divided by its limit. HiGHS allows
rows an error of 1e-6. So its answer is computed again in fractions; one above a limit is excluded, and another sought.

HiGHS comes with SciPy, the extra `EXTRA`. Without it, what asks it raises `ImportError`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

EXTRA = "solver"

PAIRS = 6_000
"""Maximum pairs of partition and member of a program."""
NODES = 50_000
"""Branches before HiGHS gives up; what it could not prove is unproven then."""

CUTS = 30
"""Assignments that are excluded before a proof is given up."""

Name = tuple[str, int]


@dataclass(frozen=True)
class Program:
    """Partitions and the members that may have them.

    Args:
        able: (topic, partition) -> the members that may have it.
        work: Their work.
        holder: (topic, partition) -> the member that holds it; absent if none does.
    """

    able: Mapping[Name, Sequence[str]]
    work: Mapping[Name, Fraction]
    holder: Mapping[Name, str]

    @property
    def pairs(self) -> int:
        """Number of variables: one for each partition and member that may have it."""
        return sum(map(len, self.able.values()))

    def possible(self, limit: Mapping[str, Fraction], moves: int | None = None) -> bool | None:
        """Whether an assignment is within limits, with so many moves away from a holder that may keep its partition.

        `limit`: member id -> the most work. `moves`: None for any number. The answer is None if it is not known.
        """
        answer = self._solved(limit, dict.fromkeys(self.able, 1.0) if moves is not None else {})
        if answer is None or (answer.status == 1 and answer.x is None):
            return None
        if answer.status == 2:
            return False
        return moves is None or (True if round(answer.fun) <= moves else None if answer.status == 1 else False)

    def least(self, limit: Mapping[str, Fraction], price: Mapping[Name, float]) -> float:
        """Lower bound on the price of the moves of an assignment within limits; infinite if there is none."""
        answer = self._solved(limit, price)
        if answer is None or answer.mip_dual_bound is None:
            return math.inf if answer is not None and answer.status == 2 else 0.0
        return float(answer.mip_dual_bound)

    def _solved(self, limit: Mapping[str, Fraction], price: Mapping[Name, float]) -> Any:
        """HiGHS's answer; None if the program is too large."""
        if self.pairs > PAIRS:
            return None
        pairs = [(tp, m) for tp, able in self.able.items() for m in able if self.work[tp] <= limit[m]]
        if len({tp for tp, _ in pairs}) < len(self.able):
            return SimpleNamespace(status=2, x=None, fun=None, mip_dual_bound=None)  # one fits nowhere
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_matrix

        row = {tp: i for i, tp in enumerate(self.able)}
        column = {m: i for i, m in enumerate(limit)}
        n = len(pairs)
        at = np.arange(n)
        once = csr_matrix((np.ones(n), ([row[tp] for tp, _ in pairs], at)), (len(row), n))
        shares = [float(self.work[tp] / limit[m]) for tp, m in pairs]
        loads = csr_matrix((shares, ([column[m] for _, m in pairs], at)), (len(column), n))
        costs = np.array([price.get(tp, 0.0) if self._moves(tp, m) else 0.0 for tp, m in pairs])
        dearest = float(costs.max(initial=0.0)) or 1.0
        rows = [LinearConstraint(once, 1, 1), LinearConstraint(loads, -np.inf, 1)]
        for _ in range(CUTS):
            answer = milp(
                costs / dearest,
                integrality=np.ones(n),
                bounds=Bounds(0, 1),
                constraints=rows,
                options={"mip_rel_gap": 0, "node_limit": NODES},
            )
            if answer.x is None or self._within([pairs[i] for i in np.flatnonzero(answer.x > 0.5)], limit):
                break
            solution = (answer.x > 0.5).astype(float)
            rows.append(LinearConstraint(solution[None], -np.inf, solution.sum() - 1))
        else:
            return None
        for name in ("fun", "mip_dual_bound"):
            if answer.get(name) is not None:
                answer[name] *= dearest
        return answer

    def _within(self, assigned: Sequence[tuple[Name, str]], limit: Mapping[str, Fraction]) -> bool:
        loads = dict.fromkeys(limit, Fraction(0))
        for tp, m in assigned:
            loads[m] += self.work[tp]
        return all(loads[m] <= limit[m] for m in loads)

    def _moves(self, tp: Name, m: str) -> bool:
        """Whether a partition leaves a holder that may keep it."""
        holder = self.holder.get(tp, m)
        return holder != m and holder in self.able[tp]


def cheapest_cover(items: Sequence[tuple[Fraction, Fraction]], excess: Fraction) -> Fraction:
    """Lower bound on the cost of items, each given as work and cost, whose works cover an excess above 0."""
    if sum((work for work, _ in items), Fraction(0)) < excess:
        return sum((cost for _, cost in items), Fraction(0))
    from scipy.optimize import Bounds, LinearConstraint, milp

    dearest = max(cost for _, cost in items)
    answer = milp(
        [float(cost / dearest) for _, cost in items],
        integrality=np.ones(len(items)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint([[min(float(work / excess), 1.0) for work, _ in items]], 1, np.inf),
        options={"mip_rel_gap": 0, "node_limit": NODES},
    )
    return Fraction(answer.mip_dual_bound or 0.0) * dearest
