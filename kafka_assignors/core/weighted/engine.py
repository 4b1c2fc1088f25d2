"""The order of goals: validity, hard caps, standbys last, the limit, the fewest moves (or their least cost), racks,
evenness, spread of topics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..group.indexed import UNASSIGNED, Bools, Ints
from . import exact
from .bounds import Bound, bounds, least_cost, least_moves
from .finish import LARGE, even_out, finish
from .hysteresis import Verdict, verdict
from .model import EPSILON, NEAR, NO_CAP, Model
from .search import EFFORT, Search

ORDERS = (("even", False), ("tight", False), ("light", False), ("even", True), ("tight", True), ("bold", False))
"""Styles of shedding, and whether unassigned partitions are placed first."""
DROP, ANEW = ("drop", True), ("anew", True)
"""Overloaded members give what they must at once, heaviest first, and its receivers make room; all is placed anew. They
are for partitions that weigh about as much as a member may have.
"""
MANY = 200
"""Number of moves from which all overloaded members are relieved at once first."""
HALVINGS = 16
"""Limits tried for a budget of moves."""
RAISED = (1.0, 1.1, 1.25, 1.5, 2.0, math.inf)
"""Multiples of the hard caps that are tried one after the other, until all work fits."""
POINTS = 12
"""Limits, or budgets in a small group, for which a frontier is computed."""


@dataclass(frozen=True)
class Options:
    """Options of the placement.

    Args:
        epsilon: Allowed excess of the greatest work / capacity over the bound.
        move_budget: Maximum partitions that may leave an owner that could keep them; None for any number.
        hysteresis: Whether moves need a reason (`hysteresis.verdict`).
        checks, since_s, of_capacity: Inputs of the hysteresis; see there.
    """

    epsilon: float = EPSILON
    move_budget: int | None = None
    hysteresis: bool = False
    checks: int = 0
    since_s: float | None = None
    of_capacity: float = 0.0


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
        cost: Cost of the moves, and its lower bound, in units of the model.
        caps: Multiple of the hard caps that holds; infinite if they had to be ignored.
        verdict: The verdict of the hysteresis, if it was consulted.
    """

    owner: Ints
    bounds: tuple[Bound, ...]
    greatest: float
    limit: float
    moves: int
    least: int
    cost: tuple[int, int] = (0, 0)
    caps: float = 1.0
    verdict: Verdict | None = None

    @property
    def bound(self) -> float:
        """The largest lower bound; 0 if there is nothing to assign."""
        return self.bounds[0].value if self.bounds else 0.0


def solve(model: Model, options: Options) -> Solution:
    """Place a group.

    Cost: O(P log P), search steps bounded by the size of the group and by `search.EFFORT`, and in small groups HiGHS.
    Deterministic.
    """
    for relaxed, raised in _relaxed(model):
        known = bounds(relaxed)
        if not known:
            return Solution(np.full(len(model.of), UNASSIGNED), (), 0.0, 0.0, 0, 0)
        if known[0].value == math.inf:
            continue
        found = _solved(relaxed, options, known)
        if raised == math.inf or bool((model.loads(found.owner) <= relaxed.most).all()):
            return replace(found, caps=raised)
    raise AssertionError("without caps there is an assignment")


def _relaxed(model: Model) -> Iterator[tuple[Model, float]]:
    """The model with its hard caps raised step by step; only without caps, if it has none."""
    if not (model.most < NO_CAP).any():
        yield model, 1.0
        return
    for raised in RAISED:
        if raised == math.inf:  # no multiple of a cap of 0 is more
            yield replace(model, most=np.full_like(model.most, NO_CAP)), raised
            return
        caps = np.minimum(model.most.astype(np.float64) * raised, float(NO_CAP)).astype(np.int64)
        yield replace(model, most=np.where(model.most < NO_CAP, caps, NO_CAP)), raised


def _solved(model: Model, options: Options, known: list[Bound]) -> Solution:
    small = exact.small(model)
    if small:
        known = _sharpened(replace(model, pinned=np.zeros_like(model.pinned)), known)
    bound, budget = known[0].value, options.move_budget
    # The floor is work: only work / capacity may be added to the bound, else other units would give another limit.
    allowed = max((1 + options.epsilon) * bound, bound + model.floor / float(model.capacity.max()))
    best = _searched(model, allowed, budget)
    owner = best.owner
    forced, least = _forced(model), None
    program = exact.Exact(model) if small else None
    if program is not None:
        if budget is not None:
            owner, allowed = _within(model, program, allowed, budget, owner)
        owner, least = _fewest(model, program, model.limits(allowed), budget, owner)
    allowed = max(allowed, _ratio(model, owner))
    limit = model.limits(allowed)
    judged = None
    if options.hysteresis:
        still = _kept(model)
        judged = verdict(
            still.ratio() * model.unit,
            _ratio(model, owner) * model.unit,
            bound * model.unit,
            checks=options.checks,
            since_s=options.since_s,
            of_capacity=options.of_capacity,
        )
        if not judged.act:
            owner, limit = still.owner, np.maximum(limit, still.loads)
    if program is not None and model.has_racks and (judged is None or judged.act):
        near = program.nearest(limit, owner)
        if near is not None and model.remote(near.owner) < model.remote(owner):
            owner = near.owner
    last = _finished(model, owner, limit)
    lowest = least_moves(model, model.limits(allowed))
    counted = max(lowest, least + forced) if least is not None and not model.cost_unit else lowest
    paid = last.cost() + int(model.cost[_forced_at(model)].sum())
    cheapest = least_cost(model, model.limits(allowed)) if model.cost_unit else counted
    if least is not None and model.cost_unit:
        cheapest = max(cheapest, least + int(model.cost[_forced_at(model)].sum()))
    return Solution(
        last.owner,
        tuple(known),
        last.ratio(),
        allowed,
        last.moves + forced,
        counted,
        (paid, cheapest),
        verdict=judged,
    )


def _sharpened(model: Model, known: list[Bound]) -> list[Bound]:
    """Add the exact minimum if the known bounds are not met already."""
    plain = Search(model, model.limits(known[0].value))
    plain.place()
    if not plain.exceeding() and plain.ratio() <= known[0].value * (1 + NEAR):
        return known
    found = exact.Exact(model).least_maximum(plain.owner, known[0].value)
    if found is None or not found.proven:
        return known
    value = _ratio(model, found.owner)
    return [Bound("exact", value), *known] if value > known[0].value * (1 + NEAR) else known


def _searched(model: Model, allowed: float, budget: int | None) -> Search:
    best = _once(model, allowed, EFFORT)
    if best.ratio() > allowed * (1 + NEAR):
        # Infeasible, or not found: any feasible solution then needs no more moves than this.
        again = _once(model, best.ratio(), EFFORT)
        if again.cost() <= best.cost() and again.ratio() <= best.ratio() * (1 + NEAR):
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
    """An assignment of a small group with the fewest moves, or the least cost, below a limit; that, if it is proven."""
    fits = bool((model.loads(owner) <= limit).all())
    if fits and not model.cost_unit and _moves(model, owner) <= least_moves(model, limit) - _forced(model):
        return owner, _moves(model, owner)
    found = program.fewest_moves(limit, budget)
    if found is None:
        return owner, None
    if not fits or _cost(model, found.owner) < _cost(model, owner):
        owner = found.owner
    return owner, _cost(model, found.owner) if found.proven and not model.pinned.any() else None


def _once(model: Model, allowed: float, effort: int) -> Search:
    limit = model.limits(allowed)
    least = least_moves(model, limit)
    found: list[Search] = []
    steps = 20 * len(model.capacity) + 200
    for style, place_first in (DROP, *ORDERS) if least > MANY or model.cost_unit else (*ORDERS, DROP, ANEW):
        if style == "anew" and min(each.ratio() for each in found) <= allowed * (1 + NEAR):
            break
        search = Search(model, limit, style, effort)
        if style in ("drop", "anew"):
            search.drop(everything=style == "anew")
        if place_first:
            search.place()
        search.shed(steps)
        if not place_first and len(search.pool):
            search.place()
            if (search.loads > limit).any():
                even_out(search, 2 * len(model.capacity) + 50)
                search.shed(steps)
        search.take_back()
        found.append(search)
        effort = search.effort
        met = search.ratio() <= allowed * (1 + NEAR) and not search.exceeding()
        best_of_all = search.moves <= least and not model.cost_unit
        if effort <= 0 or (met and (best_of_all or len(model.of) > LARGE)):
            break
    return min(
        found,
        key=lambda each: (each.exceeding(), max(each.ratio(), allowed * (1 + NEAR)), each.cost(), each.ratio()),
    )


def _within(model: Model, program: exact.Exact, allowed: float, budget: int, owner: Ints) -> tuple[Ints, float]:
    """The best assignment of a small group within a budget of moves."""
    if _ratio(model, owner) <= allowed * (1 + NEAR):
        return owner, allowed
    found = program.least_maximum(owner, allowed, budget)
    if found is None:
        return owner, allowed
    return found.owner, max(allowed, _ratio(model, found.owner))


def _kept(model: Model) -> Search:
    """Keep everything in place, and place unassigned partitions."""
    search = Search(model, model.most)
    search.place()
    even_out(search, 20 * len(model.capacity) + 100)
    return search


def _finished(model: Model, owner: Ints, limit: Ints) -> Search:
    """Reach the later goals without further moves."""
    search = Search(model, limit)
    search.pool = search.pool[:0]
    changed = bool((owner != search.owner).any())
    search.owner = owner.copy()
    search.moves = _moves(model, owner)
    search.loads = model.loads(owner)
    search._listed()
    if changed:
        finish(search, 20 * len(model.capacity) + 200)
    return search


def _forced_at(model: Model) -> Bools:
    """bool[P], positions whose holder may not keep them."""
    found: Bools = (model.holder != UNASSIGNED) & (model.of != UNASSIGNED) & (model.kept == UNASSIGNED)
    return found


def _forced(model: Model) -> int:
    return int(_forced_at(model).sum())


def _moves(model: Model, owner: Ints) -> int:
    return int(((model.kept != UNASSIGNED) & (owner != model.kept)).sum())


def _cost(model: Model, owner: Ints) -> int:
    return int(model.cost[(model.kept != UNASSIGNED) & (owner != model.kept)].sum())


def _ratio(model: Model, owner: Ints) -> float:
    used: Bools = model.capacity > 0
    return float((model.loads(owner)[used] / model.capacity[used]).max())


def frontier(model: Model, solution: Solution) -> tuple[tuple[int, float], ...]:
    """Pairs of moves and the least greatest work / capacity found with that many, from no moves to the solution's.

    Forced moves are not counted. In a small group each pair is the best that exists, below the solution's limit or at
    the solution itself; in larger ones the best of `POINTS` searches.
    """
    moves = _moves(model, solution.owner)
    still = _kept(model)
    if not moves or not solution.bounds:
        return ((0, solution.greatest),)
    pairs = {0: still.ratio(), moves: solution.greatest}
    if exact.small(model):
        program, owner = exact.Exact(model), still.owner
        for budget in range(min(moves, POINTS)):
            found = program.least_maximum(owner, solution.limit, budget)
            if found is not None:
                owner = found.owner
                pairs[budget] = min(_ratio(model, owner), pairs.get(budget, math.inf))
    else:
        for part in range(1, POINTS if len(model.of) <= LARGE else 4):
            share = part / (POINTS if len(model.of) <= LARGE else 4)
            found_ = _once(model, solution.limit + (still.ratio() - solution.limit) * share**2, EFFORT // POINTS)
            if not found_.exceeding():
                pairs[found_.moves] = min(found_.ratio(), pairs.get(found_.moves, math.inf))
    return tuple(_envelope(pairs, moves))


def _envelope(pairs: dict[int, float], most: int) -> Iterator[tuple[int, float]]:
    """Pairs that are better than all with fewer moves; the solution's own last."""
    lowest = math.inf
    for moves, ratio in sorted(pairs.items()):
        if moves <= most and (ratio < lowest or moves == most):
            lowest = min(lowest, ratio)
            yield moves, ratio
