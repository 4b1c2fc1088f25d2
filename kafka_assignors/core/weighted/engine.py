"""The order of goals: valid, standbys last, the limit, the fewest moves, then even."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..group.indexed import UNASSIGNED, Bools, Ints
from . import exact
from .bounds import Bound, bounds, least_moves
from .hysteresis import Verdict, verdict
from .model import EPSILON, Model
from .search import Search

ORDERS = (("even", False), ("tight", False), ("light", False), ("even", True), ("tight", True), ("bold", False))
"""Styles of shedding, and whether what nobody has is placed first."""
LARGE = 300_000
"""Partitions beyond which only the first is tried."""
NEAR = 1e-9
"""Limits are whole numbers; what a float lost doesn't make one too small."""


@dataclass(frozen=True)
class Options:
    """How to place.

    Args:
        epsilon: How far above the bound the greatest work / capacity may be.
        move_budget: The most partitions that may leave an owner that could keep them; None for any number.
        hysteresis: Whether moves need a reason (`hysteresis.verdict`).
        checks: For that: checks in a row before this one that found the group above 1.10 of the bound.
    """

    epsilon: float = EPSILON
    move_budget: int | None = None
    hysteresis: bool = False
    checks: int = 0


@dataclass(frozen=True, eq=False)
class Solution:
    """An assignment and what is known about it.

    Args:
        owner: int[P]; `UNASSIGNED` where nobody subscribes.
        bounds: The greatest work / capacity is at least the first one; in units of the model, per capacity.
        greatest: What it is.
        limit: What it may be.
        moves: Partitions that left a holder, forced ones included.
        least: How many must, if nobody may be above `limit`; a proof if `exact` is not among the bounds, too.
        fewest: Whether `moves` is proven to be the fewest.
        frontier: (moves, greatest work / capacity) step by step from keeping all.
        verdict: Of the hysteresis, if it was asked.
    """

    owner: Ints
    bounds: tuple[Bound, ...]
    greatest: float
    limit: float
    moves: int
    least: int
    fewest: bool
    frontier: tuple[tuple[int, float], ...]
    verdict: Verdict | None = None

    @property
    def bound(self) -> float:
        """The largest lower bound; 0 if there is nothing to assign."""
        return self.bounds[0].value if self.bounds else 0.0


def solve(model: Model, options: Options) -> Solution:
    """Place a group.

    Cost: O(P log P), steps of the search that are bounded by the size of the group, and in small groups HiGHS.
    Deterministic in its inputs.
    """
    known = bounds(model)
    if not known:
        return Solution(np.full(len(model.of), UNASSIGNED), (), 0.0, 0.0, 0, 0, True, ())
    program = exact.Exact(model) if exact.small(model) else None
    known = _sharpened(model, known, program)
    bound = known[0].value
    allowed = max((1 + options.epsilon) * bound, bound + model.floor)
    budget = options.move_budget
    best = _searched(model, allowed, budget)
    owner = best.owner
    forced, least = _forced(model), None
    if program is not None:
        if budget is not None:
            owner, allowed = _within(model, program, allowed, budget, owner)
        owner, least = _fewest(model, program, limits(model, allowed), budget, owner)
    allowed = max(allowed, _ratio(model, owner))
    limit = limits(model, allowed)
    least = least_moves(model, limit) if least is None else least + forced
    judged = None
    if options.hysteresis:
        still = _kept(model)
        judged = verdict(still.ratio(), _ratio(model, owner), bound, checks=options.checks, of_capacity=0.0)
        if not judged.act:
            owner, limit = still.owner, np.maximum(limit, still.loads)
    last = _evened(model, owner, limit)
    greatest = last.ratio()
    moves = last.moves + forced
    return Solution(
        last.owner, tuple(known), greatest, allowed, moves, least, moves <= least, _frontier(model, last.owner), judged
    )


def limits(model: Model, ratio: float) -> Ints:
    """int[M], the most work of each member at a greatest work / capacity."""
    return np.floor(ratio * model.capacity * (1 + NEAR)).astype(np.int64)


def _sharpened(model: Model, known: list[Bound], program: exact.Exact | None) -> list[Bound]:
    """With the least possible itself where the group is small and the bounds are not met anyway."""
    if program is None:
        return known
    plain = Search(model, limits(model, known[0].value))
    plain.place()
    if plain.ratio() <= known[0].value * (1 + NEAR):
        return known
    found = program.least_maximum(plain.owner, known[0].value)
    if found is None or not found.proven:
        return known
    value = _ratio(model, found.owner)
    return [Bound("exact", value), *known] if value > known[0].value * (1 + NEAR) else known


def _searched(model: Model, allowed: float, budget: int | None) -> Search:
    best = _once(model, allowed, budget)
    if best.ratio() > allowed * (1 + NEAR):
        # Not possible, or not found: whatever is possible then needs no more moves than this.
        again = _once(model, best.ratio(), budget)
        if again.moves <= best.moves and again.ratio() <= best.ratio() * (1 + NEAR):
            return again
    return best


def _fewest(
    model: Model, program: exact.Exact, limit: Ints, budget: int | None, owner: Ints
) -> tuple[Ints, int | None]:
    """An assignment of a small group with the fewest moves below a limit, and how many, if that is proven."""
    fits = bool((model.loads(owner) <= limit).all())
    if fits and _moves(model, owner) <= least_moves(model, limit) - _forced(model):
        return owner, _moves(model, owner)
    found = program.fewest_moves(limit, budget)
    if found is None:
        return owner, None
    if not fits or _moves(model, found.owner) < _moves(model, owner):
        owner = found.owner
    return owner, _moves(model, found.owner) if found.proven else None


def _once(model: Model, allowed: float, budget: int | None) -> Search:
    limit = limits(model, allowed)
    least = least_moves(model, limit)
    found: list[Search] = []
    steps = 20 * len(model.capacity) + 200
    for style, place_first in ORDERS:
        search = Search(model, limit, budget, style)
        if place_first:
            search.place()
        search.shed(steps)
        if not place_first and len(search.pool):
            search.place()
            search.even_out(2 * len(model.capacity) + 50)
            search.shed(steps)
        search.take_back()
        found.append(search)
        if (search.ratio() <= allowed * (1 + NEAR) and search.moves <= least) or len(model.of) > LARGE:
            break
    return min(found, key=lambda each: (max(each.ratio(), allowed * (1 + NEAR)), each.moves, each.ratio()))


def _within(model: Model, program: exact.Exact, allowed: float, budget: int, owner: Ints) -> tuple[Ints, float]:
    """With a budget of moves: the best that it buys in a small group."""
    found = program.within(budget)
    if found is None:
        return owner, allowed
    if _ratio(model, found.owner) <= allowed * (1 + NEAR):
        return (owner, allowed) if _ratio(model, owner) <= allowed * (1 + NEAR) else (found.owner, allowed)
    return found.owner, _ratio(model, found.owner)


def _kept(model: Model) -> Search:
    """Everything stays, what nobody has is placed."""
    search = Search(model, np.full(len(model.capacity), 1 << 62))
    search.place()
    search.even_out(20 * len(model.capacity) + 100)
    return search


def _evened(model: Model, owner: Ints, limit: Ints) -> Search:
    """An assignment, evened out as far as that costs no further move."""
    search = Search(model, limit)
    search.pool = search.pool[:0]
    changed = np.flatnonzero(owner != search.owner)
    search.owner = owner.copy()
    search.moves = _moves(model, owner)
    search.loads = model.loads(owner)
    search._listed()
    if len(changed):
        search.even_out(20 * len(model.capacity) + 200)
    return search


def _forced(model: Model) -> int:
    """Partitions whose holder may not keep them."""
    return int(((model.holder != UNASSIGNED) & (model.of != UNASSIGNED) & (model.kept == UNASSIGNED)).sum())


def _moves(model: Model, owner: Ints) -> int:
    return int(((model.kept != UNASSIGNED) & (owner != model.kept)).sum())


def _ratio(model: Model, owner: Ints) -> float:
    used: Bools = model.capacity > 0
    return float((model.loads(owner)[used] / model.capacity[used]).max())


def _frontier(model: Model, owner: Ints) -> tuple[tuple[int, float], ...]:
    """The moves in the order that lowers the greatest work / capacity fastest, each from whoever is highest then."""
    moved = np.flatnonzero((model.kept != UNASSIGNED) & (owner != model.kept))
    start = np.where(np.isin(np.arange(len(model.of)), moved), model.kept, owner)
    loads = model.loads(start)
    used = model.capacity > 0
    cap = np.where(used, model.capacity, 1)
    points = [(0, float((loads[used] / cap[used]).max()))]
    left = [moved[model.kept[moved] == m].tolist() for m in range(len(cap))]
    for _ in range(min(len(moved), MOST)):
        height = np.where([bool(each) for each in left], loads / cap, -1.0)
        m = int(height.argmax())
        at = max(left[m], key=lambda each: (int(model.work[each]), -each))
        left[m].remove(at)
        loads[m] -= model.work[at]
        loads[owner[at]] += model.work[at]
        points.append((len(points), float((loads[used] / cap[used]).max())))
    return tuple(points)


MOST = 200
"""Points of a frontier."""
