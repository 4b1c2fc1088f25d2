"""Number of partitions of each class per member: the exact optimum, on a graph that does not grow with partitions.

Partitions that the same members may have at the same cost form a class. Members with the same subscription and rack
form a kind. The unknown is the number of units of each class per member, kept and new units apart. The optimum
minimizes, in this order: the sum of squared loads, the cost of units on other racks, and the units that leave their
owner; or with the last two swapped. Two steps find it:

1. `levels` splits classes and kinds into blocks. In every assignment with the least sum of squares, all loads inside a
   block are ``q`` or ``q + 1`` with a fixed number of the latter, and nothing can flow between blocks. (Loads form the
   bases of a polymatroid; this is the decomposition algorithm for separable convex costs on them.)
2. `cheapest.send` solves the blocks as a minimum cost flow with these loads. It starts from the old assignment and
   sends only units out of place, so the work is proportional to the changes. A class has direct edges to its owners,
   which keep units, and edges through kinds to all other members.

docs/optimum.md shows both steps on one group, with a picture.

Source: Groenevelt 1991, "Two algorithms for maximizing a separable concave function over a polymatroid feasible
region" (step 1); Ford & Fulkerson 1962, the primal-dual method (step 2). twmb/franz-go v1.22.2 uses another exact
method, cycle cancelling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..group.indexed import Bools, Ints
from . import cheapest
from .levels import Block, levels


@dataclass(frozen=True)
class Problem:
    """The assignment problem in units of classes.

    Args:
        size: int[G], partitions in each class.
        allowed: bool[G, K], which kinds may have the class; at least one per class.
        cost: int[G, K], rack cost of a unit, 0 or above; only differences within a class matter.
        kind: int[M], each member's kind.
        cells: The current holdings as parallel arrays: classes, members and units. Each pair is allowed and occurs
            once; per class the units do not exceed its size. Sorted by class, then member.
        racks_first: Whether one unit of cost outweighs all moves, or one move outweighs all cost.
    """

    size: Ints
    allowed: Bools
    cost: Ints
    kind: Ints
    cells: tuple[Ints, Ints, Ints]
    racks_first: bool = True


@dataclass(frozen=True)
class Units:
    """The solution.

    Args:
        kept: int[], units that stay, per cell of the problem.
        dealt: New units as parallel arrays: classes, members and units.
    """

    kept: Ints
    dealt: tuple[Ints, Ints, Ints]


def optimum(problem: Problem) -> Units:
    """The optimal units; see the module.

    Cost: `levels`, then `cheapest.send`, or O(M log M + cells) for blocks of one class. Both terminate. Deterministic.
    """
    classes, kinds = problem.allowed.shape
    if classes == kinds == 1:
        return _alone(problem)
    blocks = levels(problem.size, problem.allowed, np.bincount(problem.kind, minlength=kinds))
    of_class, of_kind = np.full(classes, -1), np.full(kinds, -1)  # kinds that may have nothing are in no block
    for b, each in enumerate(blocks):
        of_class[each.classes], of_kind[each.kinds] = b, b
    class_, to = np.nonzero(problem.allowed & (of_class[:, None] == of_kind))
    # Subtract the cost of the block's cheapest kind, which is always paid, so that most units can start in place.
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


def _alone(problem: Problem) -> Units:
    """Solve a problem of one class and one kind, as `_shared` would."""
    _, member, held = problem.cells
    have = np.zeros(len(problem.kind), np.int64)
    have[member] = held
    low, extras = divmod(int(problem.size[0]), len(have))
    load = np.full(len(have), low)
    load[np.argsort(have <= low, kind="stable")[:extras]] += 1
    new = np.maximum(load - have, 0)
    having = np.flatnonzero(new)
    return Units(np.minimum(held, load[member]), (np.zeros_like(having), having, new[having]))


def _joined(parts: list[tuple[Ints, Ints, Ints]], i: int) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *(part[i] for part in parts)])


@dataclass(frozen=True)
class _Part:
    """A subset of the blocks.

    Args:
        blocks: All blocks.
        classes: bool[G], its classes.
        crew: int[N], its members.
        block: int[N], the block of each member.
        low: int[N], the smaller load of that block.
        extras: int[B], number of members per block with one more.
        cells: int[C], its cells of the problem. Units in cells between two blocks may not stay.
        place: int[C], index in `crew` of the cell's member.
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
    """bool[N], the first `count` members of each block, those with `wants` before the others."""
    order = np.lexsort((~wants, block))
    sorted_ = block[order]
    chosen = np.zeros(len(block), bool)
    chosen[order] = np.arange(len(block)) - np.searchsorted(sorted_, sorted_) < count[sorted_]
    return chosen


def _shared(problem: Problem, part: _Part) -> tuple[Ints, tuple[Ints, Ints, Ints]]:
    """Solve blocks of one class, without racks: the only choice is which members have one more.

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
    """Solve any blocks by a flow.

    Args:
        problem: The problem.
        part: The part to solve.
        pairs: Classes and kinds within a block, and the rack cost of a unit above the least; parallel arrays.
        least: int[G], the rack cost of a unit at the cheapest kind of its class's block.

    Returns:
        int[C], kept units of the part's cells; and new units, as classes, members and units.
    """
    classes, kinds = problem.allowed.shape
    class_, held = problem.cells[0][part.cells], problem.cells[2][part.cells]
    kind, (of, to, price) = problem.kind[part.crew], pairs
    racks = bool(price.any())
    here = problem.cost[class_, kind[part.place]] - least[class_] if racks else np.zeros_like(class_)
    # One unit of the first goal outweighs all of the second along a path.
    nodes = classes + kinds + len(part.crew) + len(part.blocks) + 2
    rack, move = (nodes, 1) if problem.racks_first else (1, int(price.max(initial=0)) * nodes + 1)
    # With racks first, units that cost something start as unplaced: the method needs a start that no step improves.
    stay = np.where(here > 0, 0, held) if racks and problem.racks_first else held
    load = np.bincount(part.place, stay, len(part.crew)).astype(np.int64)
    # A member that has one more anyway may keep it: no path is shorter.
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
    """Deal the new units of a class to the members of a kind, round robin over the members with room.

    Args:
        of: int[], classes.
        to: int[], kinds, parallel to `of`.
        taken: int[], new units of each pair.
        kind: int[M], each member's kind.
        new: int[M], new units per member; the sum per kind equals that of `taken`.

    Returns:
        Classes, members and units, parallel arrays.
    """
    member = np.repeat(np.arange(len(new)), new)
    turn = np.arange(len(member)) - np.repeat(np.cumsum(new) - new, new)
    member = member[np.lexsort((member, turn, kind[member]))]
    some = np.flatnonzero(taken)
    some = some[np.argsort(to[some], kind="stable")]
    class_ = np.repeat(of[some], taken[some])
    cells, count = np.unique(class_ * len(new) + member, return_counts=True)
    return cells // max(len(new), 1), cells % max(len(new), 1), count
