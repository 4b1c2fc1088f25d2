"""The order of goals: validity, standbys last, the limit, the fewest moves, then evenness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..group.indexed import UNASSIGNED, Bools, Ints
from . import exact
from .bounds import Bound, bounds, least_moves
from .hysteresis import Verdict, verdict
from .model import EPSILON, Model
from .search import EFFORT, Search

ORDERS = (("even", False), ("tight", False), ("light", False), ("even", True), ("tight", True), ("bold", False))
"""Styles of shedding, and whether unassigned partitions are placed first."""
LARGE = 300_000
"""Number of partitions above which the first style that meets the limit is taken."""
MANY = 200
"""Number of moves from which all overloaded members are relieved at once first."""
HALVINGS = 16
"""Limits tried for a budget of moves."""
NEAR = 1e-9
"""Limits are integers; this slack compensates for float rounding."""


@dataclass(frozen=True)
class Options:
    """Options of the placement.

    Args:
        epsilon: Allowed excess of the greatest work / capacity over the bound.
        move_budget: Maximum partitions that may leave an owner that could keep them; None for any number.
        hysteresis: Whether moves need a reason (`hysteresis.verdict`).
        checks: For the hysteresis: previous consecutive checks that found the group above 1.10 of the bound.
    """

    epsilon: float = EPSILON
    move_budget: int | None = None
    hysteresis: bool = False
    checks: int = 0


@dataclass(frozen=True, eq=False)
class Solution:
    """An assignment and its figures.

    Args:
        owner: int[P]; `UNASSIGNED` if nobody subscribes.
        bounds: Lower bounds of the greatest work / capacity, largest first; in units of the model, per capacity.
        greatest: The greatest work / capacity.
        limit: Its limit.
        moves: Partitions that left a holder, including forced moves.
        least: Lower bound on moves if no member may exceed `limit`; proven if `exact` is not among the bounds, too.
        fewest: Whether `moves` is proven to be minimal.
        frontier: (moves, greatest work / capacity) step by step, from keeping everything.
        verdict: The verdict of the hysteresis, if it was consulted.
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

    Cost: O(P log P), search steps bounded by the size of the group, and in small groups HiGHS. Deterministic.
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
    """int[M], the maximum work of each member at a given greatest work / capacity."""
    return np.floor(ratio * model.capacity * (1 + NEAR)).astype(np.int64)


def _sharpened(model: Model, known: list[Bound], program: exact.Exact | None) -> list[Bound]:
    """Add the exact minimum if the group is small and the known bounds are not met already."""
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
    best = _once(model, allowed, EFFORT)
    if best.ratio() > allowed * (1 + NEAR):
        # Infeasible, or not found: any feasible solution then needs no more moves than this.
        again = _once(model, best.ratio(), EFFORT)
        if again.moves <= best.moves and again.ratio() <= best.ratio() * (1 + NEAR):
            best = again
    return best if budget is None or best.moves <= budget else _affordable(model, allowed, budget)


def _affordable(model: Model, allowed: float, budget: int) -> Search:
    """The lowest limit, by bisection, under which the search stays within a budget of moves."""
    best = _kept(model)
    low, high = allowed, best.ratio()
    for _ in range(HALVINGS):
        if high <= low * (1 + 1e-4):
            break
        middle = (low + high) / 2
        found = _once(model, middle, EFFORT // HALVINGS)
        if found.moves > budget:
            low = middle
            continue
        if found.ratio() < best.ratio():
            best = found
        high = min(middle, best.ratio())
    return best


def _fewest(
    model: Model, program: exact.Exact, limit: Ints, budget: int | None, owner: Ints
) -> tuple[Ints, int | None]:
    """An assignment of a small group with the fewest moves below a limit, and that number if it is proven."""
    fits = bool((model.loads(owner) <= limit).all())
    if fits and _moves(model, owner) <= least_moves(model, limit) - _forced(model):
        return owner, _moves(model, owner)
    found = program.fewest_moves(limit, budget)
    if found is None:
        return owner, None
    if not fits or _moves(model, found.owner) < _moves(model, owner):
        owner = found.owner
    return owner, _moves(model, found.owner) if found.proven else None


def _once(model: Model, allowed: float, effort: int) -> Search:
    limit = limits(model, allowed)
    least = least_moves(model, limit)
    found: list[Search] = []
    steps = 20 * len(model.capacity) + 200
    for style, place_first in (("drop", True), *ORDERS) if least > MANY else ORDERS:
        search = Search(model, limit, style, effort)
        if style == "drop":
            search.drop()
        if place_first:
            search.place()
        search.shed(steps)
        if not place_first and len(search.pool):
            search.place()
            if (search.loads > limit).any():
                search.even_out(2 * len(model.capacity) + 50)
                search.shed(steps)
        search.take_back()
        found.append(search)
        effort = search.effort
        met = search.ratio() <= allowed * (1 + NEAR)
        if effort <= 0 or (met and (search.moves <= least or len(model.of) > LARGE)):
            break
    return min(found, key=lambda each: (max(each.ratio(), allowed * (1 + NEAR)), each.moves, each.ratio()))


def _within(model: Model, program: exact.Exact, allowed: float, budget: int, owner: Ints) -> tuple[Ints, float]:
    """The best assignment of a small group within a budget of moves."""
    found = program.within(budget)
    if found is None:
        return owner, allowed
    if _ratio(model, found.owner) <= allowed * (1 + NEAR):
        return (owner, allowed) if _ratio(model, owner) <= allowed * (1 + NEAR) else (found.owner, allowed)
    return found.owner, _ratio(model, found.owner)


def _kept(model: Model) -> Search:
    """Keep everything in place, and place unassigned partitions."""
    search = Search(model, np.full(len(model.capacity), 1 << 62))
    search.place()
    search.even_out(20 * len(model.capacity) + 100)
    return search


def _evened(model: Model, owner: Ints, limit: Ints) -> Search:
    """Even out an assignment without further moves."""
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
    """Number of partitions whose holder may not keep them."""
    return int(((model.holder != UNASSIGNED) & (model.of != UNASSIGNED) & (model.kept == UNASSIGNED)).sum())


def _moves(model: Model, owner: Ints) -> int:
    return int(((model.kept != UNASSIGNED) & (owner != model.kept)).sum())


def _ratio(model: Model, owner: Ints) -> float:
    used: Bools = model.capacity > 0
    return float((model.loads(owner)[used] / model.capacity[used]).max())


def _frontier(model: Model, owner: Ints) -> tuple[tuple[int, float], ...]:
    """Moves in the order that lowers the greatest work / capacity fastest, each from the currently highest member."""
    moved = np.flatnonzero((model.kept != UNASSIGNED) & (owner != model.kept))
    start = owner.copy()
    start[moved] = model.kept[moved]
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
"""Maximum points of a frontier."""
