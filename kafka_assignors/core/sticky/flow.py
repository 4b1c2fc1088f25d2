"""How many partitions of each class each member gets: the exact optimum, on a graph that does not grow with partitions.

Partitions that the same members may have, at the same cost, form one class; members with the same subscription and rack
form one kind. The unknown is how many units of a class each member has, kept and new ones apart. The best answer has,
in this order, the least sum of squared loads, the least cost of units on other racks, and the most units that stay with
their owner; or the last two the other way round. Two steps find it:

1. `levels` splits classes and kinds into blocks. Inside a block every load is ``q`` or ``q + 1``, with a fixed number
   of the latter, in every answer of least sum of squares; between blocks nothing can flow. (Loads form the bases of a
   polymatroid; this is the decomposition algorithm for separable convex costs on them.)
2. `cheapest.send` solves the blocks as a minimum cost flow with those loads. It starts with everything where it is and
   sends only what has no place, so it does no more work than there are changes to make. A class reaches its owners
   directly, which is what keeping means, and anybody else through the kinds.

docs/optimum.md follows one group through both, with a picture.

Source: Groenevelt 1991, "Two algorithms for maximizing a separable concave function over a polymatroid feasible
region" (step 1); Ford & Fulkerson 1962, the primal-dual method (step 2); twmb/franz-go v1.22.2 has another exact
method, cycle cancelling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..group.indexed import Bools, Ints
from . import cheapest, maxflow
from .levels import Block, levels

load = maxflow.load


@dataclass(frozen=True)
class Problem:
    """What is to be given out.

    Args:
        size: int[G], partitions in each class.
        allowed: bool[G, K], which kinds may have the class; at least one each.
        cost: int[G, K], what a unit costs there in racks, 0 or above; only differences within a class matter.
        kind: int[M], each member's kind.
        cells: Which members have something now: classes, members and units, parallel, each pair once and allowed; per
            class the units are at most its size. Sorted by class, then member.
        racks_first: Whether one unit of cost outweighs all moves, or one move all cost.
    """

    size: Ints
    allowed: Bools
    cost: Ints
    kind: Ints
    cells: tuple[Ints, Ints, Ints]
    racks_first: bool = True


@dataclass(frozen=True)
class Units:
    """The answer.

    Args:
        kept: int[], how many units stay, of each of the problem's cells.
        dealt: The new ones: classes, members and units, parallel.
    """

    kept: Ints
    dealt: tuple[Ints, Ints, Ints]


def optimum(problem: Problem) -> Units:
    """The best units; see the module.

    Cost: `levels`, then `cheapest.send`; instead of the latter O(M log M + cells) for blocks of one class. Both
    terminate. Deterministic.
    """
    classes, kinds = problem.allowed.shape
    blocks = levels(problem.size, problem.allowed, np.bincount(problem.kind, minlength=kinds))
    of_class, of_kind = np.full(classes, -1), np.full(kinds, -1)  # kinds that may have nothing are in no block
    for b, each in enumerate(blocks):
        of_class[each.classes], of_kind[each.kinds] = b, b
    class_, to = np.nonzero(problem.allowed & (of_class[:, None] == of_kind))
    # What even the cheapest kind of the block pays is paid in any case; without it most units can start where they are.
    least = np.minimum.reduceat(problem.cost[class_, to], np.flatnonzero(np.diff(class_, prepend=-1)))
    price = problem.cost[class_, to] - least[class_]

    simple = np.bincount(of_class, minlength=len(blocks)) == 1
    simple[of_class[class_[price > 0]]] = False
    kept = np.zeros(len(problem.cells[0]), np.int64)
    dealt = []
    for mine in (simple, ~simple):
        if not mine.any():
            continue
        part = _part(problem, blocks, of_class, of_kind, mine)
        if mine is simple:
            kept[part.cells], new = _shared(problem, part)
        else:
            pairs = np.flatnonzero(mine[of_class[class_]])
            kept[part.cells], new = _sent(problem, part, (class_[pairs], to[pairs], price[pairs]), least)
        dealt.append(new)
    return Units(kept, (_joined(dealt, 0), _joined(dealt, 1), _joined(dealt, 2)))


def _joined(parts: list[tuple[Ints, Ints, Ints]], i: int) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *(part[i] for part in parts)])


@dataclass(frozen=True)
class _Part:
    """Some of the blocks.

    Args:
        blocks: All blocks.
        classes: bool[G], which are in it.
        crew: int[N], its members.
        block: int[N], the block of each.
        low: int[N], the smaller load of it.
        extras: int[B], how many members of each block have one more.
        cells: int[C], those of the problem's cells that lie in it; what lies between two blocks may not stay.
        place: int[C], the place in `crew` of the cell's member.
    """

    blocks: list[Block]
    classes: Bools
    crew: Ints
    block: Ints
    low: Ints
    extras: Ints
    cells: Ints | slice
    place: Ints


def _part(problem: Problem, blocks: list[Block], of_class: Ints, of_kind: Ints, mine: Bools) -> _Part:
    classes, members, _ = problem.cells
    block = of_kind[problem.kind]
    block = np.where(mine[block], block, -1)
    inside = block >= 0
    crew = np.flatnonzero(inside)
    stays = of_class[classes] == block[members]
    cells = slice(None) if stays.all() else np.flatnonzero(stays)
    place = members[cells] if inside.all() else (np.cumsum(inside) - 1)[members[cells]]
    block = block[crew]
    low = np.array([each.low for each in blocks], np.int64)[block]
    extras = np.where(mine, [each.extras for each in blocks], 0)
    return _Part(blocks, mine[of_class], crew, block, low, extras, cells, place)


def _first(block: Ints, wants: Bools, count: Ints) -> Bools:
    """Of the members of each block the first so many, those that want before those that do not: bool[N]."""
    order = np.lexsort((~wants, block))
    sorted_ = block[order]
    chosen = np.zeros(len(block), bool)
    chosen[order] = np.arange(len(block)) - np.searchsorted(sorted_, sorted_) < count[sorted_]
    return chosen


def _shared(problem: Problem, part: _Part) -> tuple[Ints, tuple[Ints, Ints, Ints]]:
    """Blocks of one class, without racks: there is nothing to choose but who has one more.

    Returns:
        int[C], kept units of the part's cells; and new units, as classes, members and units.
    """
    held = problem.cells[2][part.cells]
    have = np.bincount(part.place, held, len(part.crew)).astype(np.int64)
    load = part.low + _first(part.block, have > part.low, part.extras)
    new = np.maximum(load - have, 0)
    having = np.flatnonzero(new)
    only = np.array([each.classes[0] for each in part.blocks])
    return np.minimum(held, load[part.place]), (only[part.block[having]], part.crew[having], new[having])


def _sent(
    problem: Problem, part: _Part, pairs: tuple[Ints, Ints, Ints], least: Ints
) -> tuple[Ints, tuple[Ints, Ints, Ints]]:
    """Any blocks, by a flow.

    Args:
        problem: The problem.
        part: Of it.
        pairs: Classes and kinds of one block, and what a unit costs there in racks beyond the least; parallel.
        least: int[G], what a unit costs the cheapest kind of its class's block.

    Returns:
        int[C], kept units of the part's cells; and new units, as classes, members and units.
    """
    classes, kinds = problem.allowed.shape
    class_, held = problem.cells[0][part.cells], problem.cells[2][part.cells]
    kind, (of, to, price) = problem.kind[part.crew], pairs
    racks = bool(price.any())
    here = problem.cost[class_, kind[part.place]] - least[class_] if racks else np.zeros_like(class_)
    # One of the first outweighs all of the second along a path.
    nodes = classes + kinds + len(part.crew) + len(part.blocks) + 2
    rack, move = (nodes, 1) if problem.racks_first else (1, int(price.max(initial=0)) * nodes + 1)
    # With racks first, what costs something starts as unplaced. No step of such a start can be improved: the method
    # needs that.
    stay = np.where(here > 0, 0, held) if racks and problem.racks_first else held
    load = np.bincount(part.place, stay, len(part.crew)).astype(np.int64)
    # Who has one more anyway may keep it: nothing is nearer.
    more = _first(part.block, load > part.low, part.extras) & (load > part.low)
    network = cheapest.Network(
        classes,
        kinds,
        kind,
        part.block,
        cells=(class_, part.place, held, here * rack - move),
        pairs=(of, to, price * rack),
        kept=stay.copy(),
        taken=np.zeros(len(of), np.int64),
        new=np.zeros(len(part.crew), np.int64),
        more=more.astype(np.int64),
        unplaced=np.where(part.classes, problem.size, 0) - np.bincount(class_, stay, classes).astype(np.int64),
        over=np.maximum(load - part.low - more, 0),
        under=np.maximum(part.low - load, 0),
        extras=part.extras - np.bincount(part.block[more], minlength=len(part.blocks)),
    )
    cheapest.send(network)
    at, having, count = _dealt(of, to, network.taken, kind, network.new)
    return network.kept, (at, part.crew[having], count)


def _dealt(of: Ints, to: Ints, taken: Ints, kind: Ints, new: Ints) -> tuple[Ints, Ints, Ints]:
    """Who gets the new units of a class among the members of a kind: each class goes round the members with room.

    Args:
        of: int[], classes.
        to: int[], kinds, parallel.
        taken: int[], new units of such a pair.
        kind: int[M], each member's kind.
        new: int[M], new units by member; per kind as many as `taken` says.

    Returns:
        Classes, members and units, parallel.
    """
    member = np.repeat(np.arange(len(new)), new)
    turn = np.arange(len(member)) - np.repeat(np.cumsum(new) - new, new)
    member = member[np.lexsort((member, turn, kind[member]))]
    some = np.flatnonzero(taken)
    some = some[np.argsort(to[some], kind="stable")]
    class_ = np.repeat(of[some], taken[some])
    cells, count = np.unique(class_ * len(new) + member, return_counts=True)
    return cells // max(len(new), 1), cells % max(len(new), 1), count
