"""What moves buy, and what they are needed for: the frontier, and lower bounds of their number and cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..group.indexed import Ints
from . import engine
from .bounds import least_cost, least_moves
from .engine import Solution
from .finish import LARGE
from .model import Model
from .optimum.branching import Branching, provable, small
from .search import EFFORT

POINTS = 12
"""Limits, or budgets in a small group, for which a frontier is computed."""


def frontier(model: Model, solution: Solution) -> tuple[tuple[int, float], ...]:
    """Pairs of moves and the least greatest work / capacity found with that many, from no moves to the solution's.

    Forced moves are not counted, hard caps not regarded. In a small group each pair is the best that is below the
    solution's limit, or the solution itself, if the search comes to its end; in larger ones the best of `POINTS`
    searches.
    """
    if not solution.bounds:
        return ((0, solution.greatest),)
    model = replace(model, most=engine.uncapped(model))
    moves = engine.moves(model, solution.owner)
    still = engine.kept(model, model.limits(solution.limit))
    pairs = {moves: solution.greatest}
    if moves:
        pairs[0] = still.ratio()
    if moves and small(model):
        owner = still.owner
        for budget in range(min(moves, POINTS)):
            optimum = Branching(model).least_maximum(owner, solution.limit, budget)
            owner = owner if optimum.owner is None else optimum.owner
            pairs[engine.moves(model, owner)] = engine.ratio(model, owner)
    elif moves:
        points = POINTS if len(model.of) <= LARGE else 4
        for part in range(1, points):
            allowed = solution.limit + (still.ratio() - solution.limit) * (part / points) ** 2
            search = engine.once(model, allowed, EFFORT // POINTS)
            pairs[search.moves] = min(search.ratio(), pairs.get(search.moves, math.inf))
    return tuple(_envelope(pairs, moves))


def _envelope(pairs: dict[int, float], most: int) -> Iterator[tuple[int, float]]:
    """Pairs that are better than all with fewer moves; the solution's own last."""
    lowest = math.inf
    for moves, ratio in sorted(pairs.items()):
        if moves <= most and (ratio < lowest or moves == most):
            lowest = min(lowest, ratio)
            yield moves, ratio


@dataclass(frozen=True)
class Least:
    """Lower bounds on the moves of every assignment within a limit, forced moves included.

    `cost` is in units of the model; the number of moves if these are counted.
    """

    moves: int
    cost: int


def least(model: Model, solution: Solution) -> Least:
    """Lower bounds on moves within a solution's limit and hard caps: by counting, and by trying all in small groups."""
    forced = engine.forced_at(model)
    model = engine.raised(model.with_holders(model.holder, np.zeros_like(model.pinned)), solution.caps)
    limit, owner = model.limits(solution.limit), solution.owner
    counted = replace(model, cost=np.ones_like(model.cost), cost_unit=0.0)
    moves = least_moves(model, limit)
    if moves < engine.moves(model, owner) + int(forced.sum()):
        moves = max(moves, _branched(counted, limit, owner) + int(forced.sum()))
    if not model.cost_unit:
        return Least(moves, moves)
    more, cheapest = int(model.cost[forced].sum()), least_cost(model, limit)
    if cheapest < engine.cost(model, owner) + more:
        cheapest = max(cheapest, _branched(model, limit, owner) + more)
    return Least(moves, cheapest)


def _branched(model: Model, limit: Ints, owner: Ints) -> int:
    """The least cost that branch and bound proves, in groups that are not too large for it; 0 if none."""
    if not provable(model):
        return 0
    paid = engine.cost(model, owner)
    optimum = Branching(model).least_cost(limit, paid)
    if not optimum.proven:
        return 0
    return paid if optimum.owner is None else engine.cost(model, optimum.owner)
