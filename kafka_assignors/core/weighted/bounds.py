"""Lower bounds of the greatest work / capacity, and of the moves below a limit.

==========  ===========================================================================================================
mean        all work / all capacity; more if hard caps keep members below that
heaviest    a partition at the fastest member that subscribes to it
together    of k * M + 1 partitions some member of M has k + 1, at least the lightest of them
whole       the k heaviest partitions, if each of them weighed only as much as the lightest of them
topics      (Hall) the work of some topics / the capacity of all who subscribe to any of them
exact       found by exhaustive search in small groups (`optimum.branching`)
==========  ===========================================================================================================

Each witness proves its bound without this module: see `plans.work_proof`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..group.indexed import UNASSIGNED, Bools, Ints, narrowed
from ..sticky.maxflow import sent
from .model import NO_CAP, Floats, Model

WHOLE = 100_000
"""Maximum partitions for which the bound ``whole`` is computed: it is far below the others in large groups."""
LOOKED_AT = 2_000_000
"""Maximum pairs of partition and member that are compared with the members' caps, the heaviest first."""
EDGES = 1_000_000
"""Maximum pairs of class and member kind for which the bound by topics is computed."""
NEWTON = 30


@dataclass(frozen=True)
class Bound:
    """A lower bound of the greatest work / capacity.

    Args:
        kind: One of the table above.
        value: In multiples of the model's unit, per capacity.
        classes: For ``topics`` and ``whole`` the classes that prove it, for ``together`` the one class; none for all.
        position: For ``heaviest`` the partition.
    """

    kind: str
    value: float
    classes: tuple[int, ...] = ()
    position: int = UNASSIGNED


def bounds(model: Model) -> list[Bound]:
    """The largest bound of each kind, the largest first; empty if no member may have anything.

    Cost: O(P log P); with unequal subscriptions also a few maximum flows over classes and member kinds.
    """
    if not len(model.allowed):
        return []
    cap = model.capacity
    everybody = np.flatnonzero(cap > 0)
    best_bounds = [
        Bound("mean", level(float(model.work.sum()), cap[everybody], model.most[everybody])),
        _heaviest(model),
    ]
    best_bounds += _together(model)
    best_bounds += _topics(model, max(bound.value for bound in best_bounds))
    if len(model.of) <= WHOLE:
        best_bounds.append(_whole(model, [bound.classes for bound in best_bounds if bound.kind == "topics"]))
    return sorted(best_bounds, key=lambda bound: (-bound.value, bound.kind))


def level(work: float, capacity: Floats, most: Ints) -> float:
    """The least work / capacity at which members take some work within their caps; infinite if they cannot."""
    if float(most.min()) >= NO_CAP:
        return work / float(capacity.sum())
    order = np.argsort(most / capacity, kind="stable")
    cap, top = capacity[order], most[order].astype(np.float64)
    rest = float(cap.sum()) - np.concatenate([[0], np.cumsum(cap)])[:-1]  # capacity of all whose cap isn't reached yet
    taken = np.concatenate([[0], np.cumsum(top)])[:-1]
    ratio = (work - taken) / rest
    fits = np.flatnonzero(ratio <= top / cap)
    return float(ratio[fits[0]]) if len(fits) else np.inf


def _heaviest(model: Model) -> Bound:
    per = np.zeros(len(model.of))
    at = np.flatnonzero(model.of != UNASSIGNED)
    per[at] = model.work[at] / np.where(model.allowed, model.capacity, 0).max(axis=1)[model.of[at]]
    order = model.heaviest_first[: LOOKED_AT // len(model.most)]
    above = order[(model.of[order] != UNASSIGNED) & (model.work[order] > model.most.min())]
    if len(above):  # a member whose cap is below a partition's work is no fast member for it
        may = model.allowed[model.of[above]] & (model.work[above][:, None] <= model.most)
        with np.errstate(divide="ignore"):
            per[above] = model.work[above] / np.where(may, model.capacity, 0).max(axis=1)
    heaviest = int(per.argmax())
    return Bound("heaviest", float(per[heaviest]), (), heaviest)


def _together(model: Model) -> list[Bound]:
    best: list[Bound] = []
    order = model.heaviest_first
    order = order[model.of[order] != UNASSIGNED]
    value = _pigeonhole(model.work[order], int((model.capacity > 0).sum()), float(model.capacity.max()))
    if value:
        best.append(Bound("together", value))
    if len(model.allowed) > 1:
        by_class = order[np.argsort(narrowed(model.of[order], len(model.allowed)), kind="stable")]
        starts = np.searchsorted(model.of[by_class], np.arange(len(model.allowed) + 1))
        for g, subscribers in enumerate(model.subscribers):
            works = model.work[by_class[starts[g] : starts[g + 1]]]
            value = _pigeonhole(works, len(subscribers), float(model.capacity[subscribers].max()))
            if value:
                best.append(Bound("together", value, (g,)))
    return [max(best, key=lambda bound: bound.value)] if best else []


def _pigeonhole(works: Ints, members: int, fastest: float) -> float:
    """The bound ``together``. Works are sorted heaviest first; 0 if there are no more of them than members."""
    k = np.arange(1, (len(works) - 1) // members + 1) if len(works) else np.zeros(0, np.int64)
    if not len(k):
        return 0.0
    total = np.concatenate([[0], np.cumsum(works)])
    return float((total[k * members + 1] - total[k * members - k]).max()) / fastest


def _whole(model: Model, sets: Sequence[tuple[int, ...]]) -> Bound:
    """The bound ``whole``: a member that has j partitions, each of at least some work, has j times that work.

    Looks at `sets` of classes, beside all classes and each of them.
    """
    best = Bound("whole", 0.0)
    order = model.heaviest_first[model.of[model.heaviest_first] != UNASSIGNED]
    by_class = order[np.argsort(narrowed(model.of[order], len(model.allowed)), kind="stable")]
    starts = np.searchsorted(model.of[by_class], np.arange(len(model.allowed) + 1)).tolist()
    singles = [((g,), by_class[starts[g] : starts[g + 1]]) for g in range(len(model.allowed))]
    for classes, some in [((), order), *singles, *((these, order[np.isin(model.of[order], these)]) for these in sets)]:
        who = model.allowed[list(classes)].any(axis=0) if classes else model.capacity > 0
        cap = model.capacity[who]
        top = min((len(some) + len(cap)) / float(cap.sum()), len(some) / float(cap.max()))  # all have room below
        steps = np.ceil(top * cap).astype(np.int64)
        step = np.arange(int(steps.sum())) - np.repeat(np.cumsum(steps) - steps, steps) + 1
        height = np.sort(step / np.repeat(cap, steps))[: len(some)]  # where the first, the second, ... ends
        value = float((model.work[some] * height).max())
        if value > best.value:
            best = Bound("whole", value, classes)
    return best


def _topics(model: Model, least: float) -> list[Bound]:
    """Newton's method: the cut of a flow that does not fit below a bound yields classes with a larger one."""
    classes = len(model.allowed)
    if classes < 2 or least == np.inf:
        return []
    works = np.zeros(classes, np.int64)
    np.add.at(works, model.of[model.of != UNASSIGNED], model.work[model.of != UNASSIGNED])
    columns: dict[bytes, int] = {}
    kind = np.array([columns.setdefault(c.tobytes(), len(columns)) for c in np.ascontiguousarray(model.allowed.T)])
    reads = np.array([np.frombuffer(column, bool) for column in columns]).T  # classes x kinds
    if int(reads.sum()) > EDGES:
        return []
    best: Bound | None = None
    for _ in range(NEWTON):
        room = np.zeros(len(columns))
        np.add.at(room, kind, np.minimum(least * model.capacity, model.most))
        short = _cut(works, reads, room)
        if not short.any():
            break
        who = reads[short].any(axis=0)[kind] & (model.capacity > 0)
        value = level(float(works[short].sum()), model.capacity[who], model.most[who])
        if not value > least * (1 + 1e-12):
            break
        best = Bound("topics", value, tuple(np.flatnonzero(short).tolist()))
        least = value
        if value == np.inf:
            break
    return [best] if best else []


def _cut(works: Ints, reads: Bools, most: Floats) -> Bools:
    """bool[G], classes on the source side of a minimum cut if members of a kind have at most `most` together."""
    classes, kinds = reads.shape
    scale = (1 << 30) / max(float(works.sum()), 1.0)
    supply = np.floor(works * scale).astype(np.int64)
    room = np.minimum(np.ceil(most * scale), 1 << 30).astype(np.int64)
    g, k = np.nonzero(reads)
    source, sink = classes + kinds, classes + kinds + 1
    tail = np.concatenate([np.full(classes, source), g, classes + np.arange(kinds)])
    head = np.concatenate([np.arange(classes), classes + k, np.full(kinds, sink)])
    tails, heads, units = sent(tail, head, np.concatenate([supply, supply[g], room]), source, sink)
    out = tails == source
    through = np.zeros(classes, np.int64)
    through[heads[out]] = units[out]
    if int(through.sum()) == int(supply.sum()):
        return np.zeros(classes, bool)
    # Reachable in the residual graph: from unsatisfied classes to their kinds, and back along flow.
    along = (tails < classes) & (heads >= classes) & (heads < source)
    flow_g, flow_k = tails[along], heads[along] - classes
    reach_g: Bools = through < supply
    reach_k: Bools = np.zeros(kinds, bool)
    while True:
        now_k = reach_k | reads[reach_g].any(axis=0)
        now_g = reach_g.copy()
        now_g[flow_g[now_k[flow_k]]] = True
        if (now_k == reach_k).all() and (now_g == reach_g).all():
            return reach_g
        reach_g, reach_k = now_g, now_k


def least_moves(model: Model, limit: Ints) -> int:
    """Lower bound on the moves after which every member is within its limit, int[M].

    Each member above its limit must lose partitions, at best its heaviest ones. A partition that fits nowhere costs
    more moves, because its receiver must lose some of its own. This is counted once per group, at its maximum, because
    one member's losses may make room for several partitions.

    Cost: O(P log P), and `GIANTS` partitions * M.
    """
    forced = (model.holder != UNASSIGNED) & (model.of != UNASSIGNED) & (model.kept == UNASSIGNED)
    loads = model.loads(model.kept)
    order, starts = by_member(model, model.kept)
    works = [model.work[order[starts[m] : starts[m + 1]]] for m in range(len(limit))]
    sums_ = [np.cumsum(member_works) for member_works in works]
    excess = (loads - limit).tolist()
    least = [_fewest(total, over) for total, over in zip(sums_, excess, strict=True)]
    room = limit - loads
    widest = [int(room[who].max()) for who in model.subscribers]

    def extra(at: int, m: int) -> int:
        """Moves that the receiver of a partition must make beyond those it must make anyway."""
        work = int(model.work[at])
        if widest[model.of[at]] >= work:  # its owner is above its limit and has no room
            return 0
        who = model.subscribers[int(model.of[at])]
        who = who[who != m]
        if not len(who):
            return NEVER
        needed: list[int] = [_fewest(sums_[r], work - int(room[r])) - least[r] for r in who.tolist()]
        return min(needed)

    more = 0
    for m in [m for m, over in enumerate(excess) if over > 0]:
        mine = order[starts[m] : starts[m + 1]]
        extras = np.zeros(len(mine), np.int64)
        for i, at in enumerate(mine[:GIANTS].tolist()):
            extras[i] = extra(at, m)
        ways = [e + _fewest(np.cumsum(works[m][extras <= e]), excess[m]) for e in np.unique(extras).tolist()]
        more = max(more, min(ways) - least[m])
    unowned = ((model.kept == UNASSIGNED) & (model.of != UNASSIGNED))[model.heaviest_first]
    for at in model.heaviest_first[unowned][:GIANTS].tolist():
        more = max(more, extra(at, UNASSIGNED))
    return int(forced.sum()) + sum(least) + (more if more < NEVER else 0)


def least_cost(model: Model, limit: Ints) -> int:
    """Lower bound on the cost of the moves after which every member is within its limit.

    Each member above its limit must lose partitions that cover its excess, at the least cost of any that do.
    """
    loads = model.loads(model.kept)
    order, starts = by_member(model, model.kept)
    forced = (model.holder != UNASSIGNED) & (model.of != UNASSIGNED) & (model.kept == UNASSIGNED)
    total = int(model.cost[forced].sum())
    for m in np.flatnonzero(loads > limit).tolist():
        mine = order[starts[m] : starts[m + 1]]
        total += _least_cover(model.work[mine], model.cost[mine], int(loads[m] - limit[m]))
    return total


def _least_cover(work: Ints, cost: Ints, excess: int) -> int:
    """The least cost of works that cover an excess, or a little less: costs are rounded down to a `STEPS`-th of it."""
    cheapest = np.argsort(cost / work, kind="stable")
    covered = np.concatenate([[0], np.cumsum(work[cheapest])])
    paid = np.concatenate([[0], np.cumsum(cost[cheapest])])
    parts = math.ceil(float(np.interp(float(excess), covered, paid)) * (1 - 1e-9))  # if works could be divided
    enough = min(int(np.searchsorted(covered, excess)), len(work))
    if len(work) > COVERED:
        return parts
    step = max(int(paid[enough]) // STEPS, 1)
    most = np.full(int(paid[enough]) // step + 1, 0)  # the most work for each cost
    for w, c in zip(work.tolist(), (cost // step).tolist(), strict=True):
        if c < len(most):
            np.maximum(most[c:], most[: len(most) - c] + w, out=most[c:])
    return max(parts, int(np.searchsorted(most, excess)) * step)


STEPS, COVERED = 4_096, 1_000
"""Steps of the costs of a member's partitions, and the most partitions of a member, for which they are added up."""
GIANTS = 20
"""Number of partitions per member that are examined one by one."""
NEVER = 1 << 40


def _fewest(total: Ints, excess: int) -> int:
    """The fewest works that cover an excess, given cumulative sums heaviest first; `NEVER` if all do not suffice."""
    if excess <= 0:
        return 0
    return int(np.searchsorted(total, excess)) + 1 if len(total) and total[-1] >= excess else NEVER


def by_member(model: Model, owner: Ints) -> tuple[Ints, Ints]:
    """Positions by owner, heaviest first; and the start of each member's positions, then the end (M + 1 entries)."""
    members = len(model.capacity)
    given = model.heaviest_first[owner[model.heaviest_first] != UNASSIGNED]
    order = given[np.argsort(narrowed(owner[given], members), kind="stable")]
    return order, np.searchsorted(owner[order], np.arange(members + 1))
