"""The order of goals: validity, hard caps, standbys last, the limit, the fewest moves (or their least cost), racks,
evenness, spread of topics.

`Engine.solve` is one rebalance. `Engine.settled` is what all rebalances lead to that follow from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from ..group.indexed import UNASSIGNED, Bools, Ints
from .bounds import Bound, bounds, least_cost, least_moves
from .finish import LARGE, even_out, finish
from .hysteresis import Judgement, verdict
from .model import EPSILON, NEAR, NO_CAP, Model
from .optimum.branching import Branching, Found, small
from .optimum.trading import WAYS, Trading, tradable
from .search import EFFORT, Search

ORDERS = (("even", False), ("tight", False), ("light", False), ("even", True), ("tight", True), ("bold", False))
"""Styles of shedding, and whether unassigned partitions are placed first."""
DROP, ANEW = ("drop", True), ("anew", True)
"""Overloaded members give what they must at once, heaviest first, and its receivers make room; all is placed anew. They
are for partitions that weigh about as much as a member may have."""
MANY = 200
"""Number of moves from which all overloaded members are relieved at once first."""
HALVINGS, CLOSE = 7, 2e-3
"""How many limits are tried if the allowed one can't be kept, and how closely the least possible one is to be known."""
BRIEF = EFFORT // 40
"""Effort of the local search at one of these limits."""
NEARLY = 1.03
"""Local searches end at a cost of so many times its lower bound."""
RAISED = (1.0, 1.1, 1.25, 1.5, 2.0, math.inf)
"""Multiples of the hard caps that are tried one after the other, until all work fits."""
WORTH = 0.99
"""A complete assignment above the limit stays, unless one is found that is within it, or lower than this part of it."""
ROUNDS = 6
"""Rebalances looked ahead, until nothing changes."""


@dataclass(frozen=True)
class PlacementOptions:
    """Options of the placement.

    Args:
        epsilon: Allowed excess of the greatest work / capacity over the bound.
        move_budget: Maximum partitions that may leave an owner that could keep them, until the group rests; None for
            any number.
        hysteresis: Whether moves need a reason: `hysteresis.verdict`, whose inputs are the fields below.
    """

    epsilon: float = EPSILON
    move_budget: int | None = None
    hysteresis: bool = False
    checks: int = 0
    since_s: float | None = None
    of_capacity: float = 0.0


@dataclass(frozen=True, eq=False)
class Solution:
    """An assignment and its figures, in units of the model.

    Args:
        owner: int[P]; `UNASSIGNED` if nobody subscribes. The target, if members must revoke positions first.
        now: int[P], the same without the positions that are withheld for a round; see `Engine.settled`.
        bounds: Lower bounds of the greatest work / capacity, largest first.
        greatest, limit: The greatest work / capacity, and its limit.
        caps: Multiple of the hard caps that holds; infinite if they had to be ignored.
        caps_why: Why it is not 1: ``work`` (no assignment is within the multiple before), ``moves`` (none with the
            moves that are allowed) or ``unknown`` (none was found); "" if it is.
        verdict: None if the hysteresis was not consulted.
    """

    owner: Ints
    now: Ints
    bounds: tuple[Bound, ...] = ()
    greatest: float = 0.0
    limit: float = 0.0
    caps: float = 1.0
    caps_why: str = ""
    verdict: Judgement | None = None

    @property
    def bound(self) -> float:
        """The largest lower bound; 0 if there is nothing to assign."""
        return self.bounds[0].value if self.bounds else 0.0


@dataclass
class _Level:
    """The group at one multiple of its hard caps. What it has does not depend on who holds what."""

    model: Model
    raised: float

    @cached_property
    def fits(self) -> bool | None:
        """Whether all work fits below the caps; None if this is not known."""
        if not self.bounds or not (self.model.most < NO_CAP).any():
            return True
        return False if self.bounds[0].value == math.inf else self._packed

    @cached_property
    def bounds(self) -> list[Bound]:
        """Lower bounds, largest first; infinite if a flow shows that work does not fit."""
        return bounds(self.model)

    @cached_property
    def sharpened(self) -> list[Bound]:
        """`bounds`, with the optimum of a small group."""
        bounds = self.bounds
        if not bounds or bounds[0].value == math.inf or not small(self.model):
            return bounds
        plain = placed(self.model, self.model.limits(bounds[0].value))
        optimum = Branching(self.model).least_maximum(plain.owner, bounds[0].value)
        owner = plain.owner if optimum.owner is None else optimum.owner
        value = ratio(self.model, owner)
        if (
            not optimum.proven
            or not within(self.model, owner, self.model.most)
            or value <= bounds[0].value * (1 + NEAR)
        ):
            return bounds
        return [Bound("exact", value), *bounds]

    @cached_property
    def _packed(self) -> bool | None:
        """`fits`, found by a search among the partitions that only members with a cap may have."""
        model = self.model
        free = (model.allowed & (model.most == NO_CAP)).any(axis=1)  # per class
        captive = (model.of != UNASSIGNED) & ~free[model.of]
        if not captive.any():
            return True
        some = replace(model, of=np.where(captive, model.of, UNASSIGNED), work=np.where(captive, model.work, 0))
        start = placed(some, some.most).owner
        if within(some, start, some.most):
            return True
        if tradable(some) and Trading(some).search(some.most, start, EFFORT, least=math.inf).owner is not None:
            return True
        if small(some):
            packing = Branching(some).least_maximum(start, math.inf)
            return packing.owner is not None or (None if not packing.proven else False)
        return None


class Engine:
    """A group, whose assignment is computed for one or several states of ownership; `model` has no holders.

    Cost: O(P log P), search steps bounded by the size of the group and by `search.EFFORT`, and in groups of a few
    thousand pairs of partition and member local searches. Deterministic.
    """

    def __init__(self, model: Model, options: PlacementOptions) -> None:
        self.model, self.options = model, options
        bare = model.with_holders(np.full(len(model.of), UNASSIGNED), np.zeros_like(model.pinned))
        capped = (model.most < NO_CAP).any()
        self._levels = [_Level(raised(bare, multiple), multiple) for multiple in (RAISED if capped else RAISED[:1])]

    def settled(self, holder: Ints, withholds: Bools, disputed: Ints) -> Solution:
        """The assignment after the last rebalance, if each one finds these works and capacities.

        The first one withholds what moves, and the next one assigns it; each starts from what is held then. The target
        is an assignment to which all of them lead, and which stays: computed from there, it is the same again.

        Args:
            holder: int[P]; `UNASSIGNED` if there is none.
            withholds: bool[M], whether a member holds its partitions until it is told to revoke them.
            disputed: int[], positions that several members may still hold.
        """
        first = solution = self.solve(holder)
        now, later = handed_over(holder, solution.owner, withholds, disputed), None
        for _ in range(ROUNDS if solution.bounds else 0):
            rests = bool((now == solution.owner).all())
            if (now == holder).all() or (rests and self.options.move_budget is not None):
                break  # from rest, a budget may be used again
            again = self.solve(now)
            if not rests and self.options.move_budget is None and (again.owner == solution.owner).all():
                again = self.solve(solution.owner)
            if (again.owner == solution.owner).all():
                break
            if later is None and self._assigns(now, again):
                later = replace(again, now=now)
            solution, now = again, handed_over(holder, again.owner, withholds, disputed)
        else:
            if later is not None:  # a position that stays may be withheld, too; but no rebalance more follows
                solution, now = later, later.now
        return replace(solution, now=now, verdict=first.verdict)

    def _assigns(self, holder: Ints, solution: Solution) -> bool:
        """Whether an assignment moves nothing, and stays."""
        stays = bool(((holder == solution.owner) | (holder == UNASSIGNED)).all())
        return stays and bool((self.solve(solution.owner).owner == solution.owner).all())

    def solve(self, holder: Ints) -> Solution:
        """The target of one rebalance. `holder` is int[P]; `UNASSIGNED` if there is none."""
        why = ""
        for level in self._levels:
            bounds = level.sharpened
            if not bounds:
                nothing = np.full(len(holder), UNASSIGNED)
                return Solution(nothing, nothing)
            if level.fits is False:
                why = why or "work"
                continue
            model = level.model.with_holders(holder, self.model.pinned)
            budget = _budget(model, self.options)
            stays = model.kept if budget == 0 else np.where(model.pinned, model.kept, UNASSIGNED)
            if level.raised < math.inf and not within(model, stays, model.most):
                why = "moves" if level.fits else "unknown"
                continue
            owner, judged = _decided(model, self.options, bounds)
            if level.raised == math.inf or within(model, owner, model.most):
                greatest = ratio(model, owner)
                limit = max((1 + self.options.epsilon) * bounds[0].value, greatest)
                return Solution(owner, owner, tuple(bounds), greatest, limit, level.raised, why, judged)
            why = "moves" if level.fits else "unknown"
        raise AssertionError("without caps there is an assignment")


def solve(model: Model, options: PlacementOptions) -> Solution:
    """The target of one rebalance of a group with its holders."""
    return Engine(model, options).solve(model.holder)


def raised(model: Model, by: float) -> Model:
    """The group with a multiple of its hard caps."""
    if by == 1 or not (model.most < NO_CAP).any():
        return model
    if by == math.inf:
        return replace(model, most=uncapped(model))
    caps = np.minimum(model.most.astype(np.float64) * by, float(NO_CAP - 1)).astype(np.int64)
    return replace(model, most=np.where(model.most < NO_CAP, caps, NO_CAP))


def handed_over(holder: Ints, target: Ints, withholds: Bools, disputed: Ints) -> Ints:
    """A target without the positions that members must revoke first; the arrays are those of `Engine.settled`."""
    now: Ints = target.copy()
    withholding = holder != UNASSIGNED
    withholding[withholding] = withholds[holder[withholding]]
    now[withholding & (holder != target)] = UNASSIGNED
    now[disputed] = UNASSIGNED
    return now


def _decided(model: Model, options: PlacementOptions, bounds: list[Bound]) -> tuple[Ints, Judgement | None]:
    """The assignment of one rebalance at one multiple of the caps, and the verdict of the hysteresis."""
    allowed, budget = (1 + options.epsilon) * bounds[0].value, _budget(model, options)
    limit = model.limits(allowed)
    start = kept(model, limit)
    still = owner = start.owner
    if not within(model, start.owner, limit):
        owner = _Searching(model, start, allowed, budget).best()
    judge, judged = None, None
    if options.hysteresis:
        if not within(model, still, limit):
            still = owner if budget == 0 else _Searching(model, start, allowed, 0).best()
        judge = partial(
            verdict, bound=bounds[0].value * model.ratio_unit, checks=options.checks, since_s=options.since_s,
            of_capacity=options.of_capacity,
        )  # fmt: skip
        now, then = ratio(model, still) * model.ratio_unit, ratio(model, owner) * model.ratio_unit
        judged = judge(now, then)
        if within(model, owner, model.most) and not within(model, still, model.most):
            judge, judged = None, Judgement(True, "a member is above its hard cap")
        if not judged.act:
            owner, budget = still, 0
    limit = model.limits(max(allowed, ratio(model, owner)))
    if small(model) and model.has_racks and within(model, owner, model.most):
        near = Branching(model).nearest(limit, cost(model, owner), model.remote(owner), budget)
        owner = owner if near.owner is None else near.owner
    owner = _finished(model, owner, limit)
    if judge is not None and judged is not None:  # what was found on the way has other figures than what is assigned
        made = ratio(model, owner) * model.ratio_unit
        final = judge(now, made) if judged.act else judge(made, then)
        judged = final if final.act == judged.act else judged
    return owner, judged


def _budget(model: Model, options: PlacementOptions) -> int | None:
    """The most positions that may leave an owner now: none while one has no owner, as it may be counted already."""
    unowned = (model.holder == UNASSIGNED) & (model.of != UNASSIGNED)
    return 0 if options.move_budget is not None and unowned.any() else options.move_budget


@dataclass
class _Searching:
    """The search for one assignment with the fewest moves, or the least cost, below a limit.

    Args:
        still: All partitions where they are, and those without an owner placed.
        allowed: The greatest work / capacity that is allowed.
        budget: The most positions that may leave an owner; None for any number.
    """

    model: Model
    still: Search
    allowed: float
    budget: int | None

    def __post_init__(self) -> None:
        if self.budget == 0:  # only what has no owner is placed
            self.model, self.budget = self.model.with_holders(self.model.holder, self.model.kept != UNASSIGNED), None

    def best(self) -> Ints:
        """The assignment; the least that is found above what is allowed, if nothing below it is."""
        still: Ints = self.still.owner
        if self._all_rest():
            return still
        owner = still
        if self._affords(self.allowed):
            owner = self._cheapest(still, self.allowed)
            if self._keeps(owner, self.allowed):
                return owner
        owner = self._lowest(owner)
        now = self.still
        complete = not (now.owner != self.model.kept).any()
        lower = ratio(self.model, owner) <= WORTH * now.ratio()
        if complete and not lower and not now.exceeding():
            return still
        return self._cheapest(owner, ratio(self.model, owner))

    @cached_property
    def _resting(self) -> float:
        """The greatest work / capacity of the positions that rest."""
        model = self.model
        return ratio(model, np.where(model.pinned, model.kept, UNASSIGNED)) if model.pinned.any() else 0.0

    def _all_rest(self) -> bool:
        """Whether nothing may be placed elsewhere."""
        model = self.model
        return not ((model.of != UNASSIGNED) & ~(model.pinned & (model.kept != UNASSIGNED))).any()

    def _affords(self, allowed: float) -> bool:
        """Whether an assignment within limits is possible, as far as counting tells: what rests, and the budget."""
        if self._resting > allowed * (1 + NEAR):
            return False
        if self.budget is None:
            return True
        return least_moves(self.model, self.model.limits(allowed)) - int(forced_at(self.model).sum()) <= self.budget

    def _keeps(self, owner: Ints, allowed: float) -> bool:
        """Whether an assignment is within the limits, and within the budget."""
        fits = within(self.model, owner, self.model.limits(allowed))
        return fits and (self.budget is None or moves(self.model, owner) <= self.budget)

    def _cheapest(self, start: Ints, allowed: float) -> Ints:
        """The cheapest assignment that is found within limits; if there is none, one that comes close, or `start`."""
        model, limit = self.model, self.model.limits(allowed)
        least = least_cost(model, limit) if model.cost_unit else least_moves(model, limit)
        least -= int(model.cost[forced_at(model)].sum())  # these are no choice
        near = tradable(model)
        owner = start
        if not self._is_at(start, allowed, least):
            searched = once(model, allowed, EFFORT, quick=near).owner
            if self._better(searched, owner, allowed):
                owner = searched
        if small(model) and not self._is_at(owner, allowed, least):
            branched = self._branched(limit, owner, allowed)
            owner = owner if branched.owner is None else branched.owner
            if branched.proven:
                return owner
        effort = EFFORT if near else 0
        for dearer, stale in WAYS:
            if effort <= 0 or self._is_at(owner, allowed, math.floor(NEARLY * least)):
                break
            traded = Trading(model).search(limit, start, min(effort, EFFORT // 2), least, self.budget, dearer, stale)
            effort -= traded.effort
            if traded.owner is not None and self._better(traded.owner, owner, allowed):
                owner = traded.owner
        if small(model) and not self._is_at(owner, allowed, least):
            branched = self._branched(limit, owner, allowed)
            owner = owner if branched.owner is None else branched.owner
        return owner

    def _is_at(self, owner: Ints, allowed: float, least: int) -> bool:
        """Whether an assignment is within the limits, at the least cost."""
        return self._keeps(owner, allowed) and cost(self.model, owner) <= least

    def _branched(self, limit: Ints, owner: Ints, allowed: float) -> Found:
        """A cheaper assignment of a small group; any one within the limits, if this one is not."""
        below = cost(self.model, owner) if self._keeps(owner, allowed) else int(self.model.cost.sum()) + 1
        return Branching(self.model).least_cost(limit, below, self.budget)

    def _better(self, owner: Ints, than: Ints, allowed: float) -> bool:
        """Whether an assignment is preferred to another one."""
        return self._rank(owner, allowed) < self._rank(than, allowed)

    def _rank(self, owner: Ints, allowed: float) -> tuple[float, ...]:
        model = self.model
        beyond = 0 if self.budget is None else max(moves(model, owner) - self.budget, 0)
        excess = int(np.maximum(model.loads(owner) - model.most, 0).sum())
        greatest = ratio(model, owner)
        return beyond, excess, max(greatest, allowed * (1 + NEAR)), cost(model, owner), greatest

    def _lowest(self, start: Ints) -> Ints:
        """The assignment with the least greatest work / capacity that is found, within the caps if they can be kept."""
        model, best = self.model, start
        if self._better(self.still.owner, best, self.allowed):
            best = self.still.owner
        if small(model):
            branched = Branching(model).least_maximum(best, self.allowed, self.budget)
            return best if branched.owner is None else branched.owner
        if not within(model, best, model.most):
            owner = self._at(best, 2 * float(model.work.sum()) / float(model.capacity[model.capacity > 0].min()))
            best = best if owner is None else owner
        low, high = max(self.allowed, self._resting), ratio(model, best)
        for _ in range(HALVINGS):
            if high <= low * (1 + CLOSE) or not within(model, best, model.most):
                break
            middle = (low + high) / 2
            owner = self._at(best, middle)
            if owner is None:
                low = middle
            else:
                best, high = owner, min(middle, ratio(model, owner))
        return best

    def _at(self, start: Ints, allowed: float) -> Ints | None:
        """An assignment within limits and budget, or None."""
        model, limit = self.model, self.model.limits(allowed)
        if not self._affords(allowed):
            return None
        near = tradable(model)
        owner: Ints = once(model, allowed, EFFORT // HALVINGS, quick=near).owner
        if self._keeps(owner, allowed) or not near:
            return owner if self._keeps(owner, allowed) else None
        return Trading(model).search(limit, start, BRIEF, math.inf, self.budget).owner


def once(model: Model, allowed: float, effort: int, *, quick: bool = False) -> Search:
    """The best of several searches of all sizes of groups; of two of them, if others follow."""
    limit = model.limits(allowed)
    least = least_moves(model, limit)
    searches: list[Search] = []
    steps = 20 * len(model.capacity) + 200
    styles = (*ORDERS[:1], DROP) if quick else (*ORDERS, DROP, ANEW)
    for style, place_first in (DROP, *ORDERS) if (least > MANY or model.cost_unit) and not quick else styles:
        if style == "anew" and min(candidate.ratio() for candidate in searches) <= allowed * (1 + NEAR):
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
        searches.append(search)
        effort = search.effort
        met = search.ratio() <= allowed * (1 + NEAR) and not search.exceeding()
        best_of_all = search.moves <= least and not model.cost_unit
        if effort <= 0 or (met and (best_of_all or len(model.of) > LARGE)):
            break

    def rank(search: Search) -> tuple[float, ...]:
        return search.exceeding(), max(search.ratio(), allowed * (1 + NEAR)), search.cost(), search.ratio()

    return min(searches, key=rank)


def placed(model: Model, limit: Ints) -> Search:
    """All partitions placed, without regard to who holds them."""
    search = Search(model.with_holders(np.full(len(model.of), UNASSIGNED), model.pinned), limit)
    search.place()
    even_out(search, 20 * len(model.capacity) + 100)
    return search


def kept(model: Model, limit: Ints) -> Search:
    """Keep everything in place, and place unassigned partitions."""
    search = Search(model, limit)
    if len(search.pool):
        search.place()
        even_out(search, 20 * len(model.capacity) + 100)
    return search


def _finished(model: Model, owner: Ints, limit: Ints) -> Ints:
    """Reach the later goals without further moves."""
    if not (owner != model.kept).any():
        return owner
    search = Search(model, limit)
    search.pool = search.pool[:0]
    search.owner = owner.copy()
    search.moves = moves(model, owner)
    search.loads = model.loads(owner)
    search._listed()
    finish(search, 20 * len(model.capacity) + 200)
    final_owner: Ints = search.owner
    return final_owner


def uncapped(model: Model) -> Ints:
    """Hard caps of a group that has none."""
    return np.full_like(model.most, NO_CAP)


def forced_at(model: Model) -> Bools:
    """bool[P], positions whose holder may not keep them."""
    mask: Bools = (model.holder != UNASSIGNED) & (model.of != UNASSIGNED) & (model.kept == UNASSIGNED)
    return mask


def within(model: Model, owner: Ints, limit: Ints) -> bool:
    """Whether no member has more work than its limit."""
    return bool((model.loads(owner) <= limit).all())


def moves(model: Model, owner: Ints) -> int:
    """Partitions that leave an owner that could keep them."""
    return int(((model.kept != UNASSIGNED) & (owner != model.kept)).sum())


def cost(model: Model, owner: Ints) -> int:
    """Cost of these moves."""
    return int(model.cost[(model.kept != UNASSIGNED) & (owner != model.kept)].sum())


def ratio(model: Model, owner: Ints) -> float:
    """The greatest work / capacity."""
    used: Bools = model.capacity > 0
    return float((model.loads(owner)[used] / model.capacity[used]).max())
