"""Number of partitions of each class per member (`Problem` to `Units`): the optimum, on a graph of classes and kinds.

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

from ..group.indexed import UNASSIGNED, Bools, Ints
from . import cheapest
from .levels import Block, levels

_DEAREST = 1 << 60
_APART = 4_000
"""Pairs of a class and a kind up to which classes have stalls of their own: there is nothing to save."""


@dataclass(frozen=True)
class Classes:
    """Classes: partitions that the same members may have at the same cost. Kinds: members that are alike.

    Who may have a class depends on subscriptions, and what it costs on racks. The two are kept apart, because a table
    of classes and kinds has racks times distinct rack sets as many entries.

    Args:
        of: int[P], class of each position, `UNASSIGNED` if nobody subscribes.
        size: int[G], partitions per class.
        readers: int[G], row of `allowed` per class. Every row has a class.
        allowed: bool[N, S], which subscriptions may have a class with these readers; at least one.
        cost: int[G, R], cost of a partition on each rack, 0 or above; only differences within a class matter.
        subscription: int[K], column of `allowed` per kind. Every column has a kind.
        rack: int[K], column of `cost` per kind.
        kind: int[M], each member's kind.
    """

    of: Ints
    size: Ints
    readers: Ints
    allowed: Bools
    cost: Ints
    subscription: Ints
    rack: Ints
    kind: Ints

    def may(self) -> Bools:
        """bool[N, K], which kinds may have a class with these readers."""
        return self.allowed[:, self.subscription]

    def price(self, class_: Ints, member: Ints) -> Ints:
        """The cost of classes at members, parallel arrays."""
        return self.cost[class_, self.rack[self.kind[member]]]


@dataclass(frozen=True)
class Problem:
    """The assignment problem in units of classes.

    Args:
        cells: The current holdings as parallel arrays: classes, members and units. Each pair is allowed and occurs
            once; per class the units do not exceed its size. Sorted by class, then member.
        racks_first: Whether one unit of cost outweighs all moves, or one move outweighs all cost.
    """

    classes: Classes
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
    of = problem.classes
    if len(of.size) == len(of.rack) == 1:
        return _alone(problem)
    # Racks have no part in balance: classes with the same readers count as one, and kinds with the same subscription.
    sets, subscriptions = of.allowed.shape
    size = np.bincount(of.readers, of.size, sets).astype(np.int64)
    blocks = levels(size, of.allowed, np.bincount(of.subscription[of.kind], minlength=subscriptions))
    of_readers, of_subscription = np.full(sets, -1), np.full(subscriptions, -1)  # -1: may have nothing
    for b, block in enumerate(blocks):
        of_readers[block.classes], of_subscription[block.kinds] = b, b
    of_class, of_kind = of_readers[of.readers], of_subscription[of.subscription]
    readers, to = np.nonzero(of.may() & (of_readers[:, None] == of_kind))
    # Subtract the cost of the block's cheapest kind, which is always paid, so that most units can start in place.
    near = np.zeros((sets, of.cost.shape[1]), bool)
    near[readers, of.rack[to]] = True
    least = np.where(near[of.readers], of.cost, _DEAREST).min(axis=1)
    price = np.where(near[of.readers], of.cost - least[:, None], 0)

    simple = np.bincount(of_class, minlength=len(blocks)) == 1
    simple[of_class[price.any(axis=1)]] = False
    kept = np.zeros(len(problem.cells[0]), np.int64)
    dealt = []
    for mine in (simple, ~simple):
        if not mine.any():
            continue
        part = _part(problem, blocks, of_class, of_kind, mine)
        if mine is simple:
            only = np.zeros(len(blocks), np.int64)
            only[of_class] = np.arange(len(of_class))
            kept[part.cells], new = _shared(problem, part, only)
        else:
            pairs = np.flatnonzero(mine[of_readers[readers]])
            ways = _ways(of, part.classes, (readers[pairs], to[pairs]), near, price)
            kept[part.cells], new = _sent(problem, part, ways, price)
        dealt.append(new)
    return Units(kept, (_joined(dealt, 0), _joined(dealt, 1), _joined(dealt, 2)))


def _alone(problem: Problem) -> Units:
    """`_shared` for a problem of one class and one kind."""
    _, member, cell_units = problem.cells
    have = np.zeros(len(problem.classes.kind), np.int64)
    have[member] = cell_units
    low, extras = divmod(int(problem.classes.size[0]), len(have))
    load = np.full(len(have), low)
    load[np.argsort(have <= low, kind="stable")[:extras]] += 1
    new = np.maximum(load - have, 0)
    having = np.flatnonzero(new)
    return Units(np.minimum(cell_units, load[member]), (np.zeros_like(having), having, new[having]))


def _joined(parts: list[tuple[Ints, Ints, Ints]], i: int) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *(part[i] for part in parts)])


@dataclass(frozen=True)
class _Part:
    """A subset of the blocks.

    Args:
        blocks: All blocks.
        classes, crew: bool[G] and int[N], its classes and members.
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
    block = of_kind[problem.classes.kind]
    block = np.where(mine[block], block, -1)
    inside = block >= 0
    crew = np.flatnonzero(inside)
    stays = of_class[classes] == block[members]
    cells = slice(None) if stays.all() else np.flatnonzero(stays)
    place = members[cells] if inside.all() else (np.cumsum(inside) - 1)[members[cells]]
    block = block[crew]
    low = np.array([block_.low for block_ in blocks], np.int64)[block]
    extras = np.where(mine, [block_.extras for block_ in blocks], 0)
    return _Part(blocks, mine[of_class], crew, block, low, extras, cells, place)


def _first(block: Ints, wants: Bools, count: Ints) -> Bools:
    """bool[N], the first `count` members of each block, those with `wants` before the others."""
    order = np.lexsort((~wants, block))
    sorted_ = block[order]
    chosen = np.zeros(len(block), bool)
    chosen[order] = np.arange(len(block)) - np.searchsorted(sorted_, sorted_) < count[sorted_]
    return chosen


def _shared(problem: Problem, part: _Part, only: Ints) -> tuple[Ints, tuple[Ints, Ints, Ints]]:
    """Solve blocks of one class each, `only` (int[B]), without racks: the only choice is which members have one more.

    Returns int[C], kept units of the part's cells; and new units, as classes, members and units.
    """
    cell_units = problem.cells[2][part.cells]
    have = np.bincount(part.place, cell_units, len(part.crew)).astype(np.int64)
    load = part.low + _first(part.block, have > part.low, part.extras)
    new = np.maximum(load - have, 0)
    having = np.flatnonzero(new)
    return np.minimum(cell_units, load[part.place]), (only[part.block[having]], part.crew[having], new[having])


@dataclass(frozen=True)
class _Ways:
    """How new units of a class reach a kind: through doors into stalls, and from there to kinds.

    In a small group, or if no two classes have the same readers, each class has a stall of its own. Otherwise classes
    of equal readers share a stall per rack, for kinds on that rack, and one for all kinds at the cost of the dearest.

    Args:
        doors: Parallel arrays: classes, stalls, and the cost of a unit above the least. Sorted, each pair once.
        pairs: Parallel arrays: stalls, kinds, and that cost. Sorted, each pair once.
    """

    doors: tuple[Ints, Ints, Ints]
    pairs: tuple[Ints, Ints, Ints]
    stalls: int


def _ways(of: Classes, mine: Bools, pairs: tuple[Ints, Ints], near: Bools, price: Ints) -> _Ways:
    """The ways of some classes, `mine` (bool[G]); `price` is int[G, R], the cost above the least of the block.

    `pairs` are rows of `allowed` and kinds of their block, sorted. `near` is bool[N, R], racks with a kind of the block
    that may have classes with these readers.
    """
    readers, to = pairs
    sets = len(near)
    some = np.flatnonzero(mine)
    begin, count = np.searchsorted(readers, of.readers[some]), np.bincount(readers, minlength=sets)[of.readers[some]]
    if len(of.size) == sets or int(count.sum()) <= _APART:
        ends = np.cumsum(count)
        kinds = to[np.arange(int(ends[-1])) + np.repeat(begin - ends + count, count)]
        classes = np.repeat(some, count)
        return _Ways((some, some, np.zeros_like(some)), (classes, kinds, price[classes, of.rack[kinds]]), len(of.size))
    doors, stall = entrances(of.readers, some, near, price)
    beside = stall[readers, of.rack[to]]
    on = np.flatnonzero(beside != UNASSIGNED)
    on = on[np.argsort(beside[on], kind="stable")]
    from_, kinds = np.concatenate([readers, beside[on]]), np.concatenate([to, to[on]])
    return _Ways(doors, (from_, kinds, np.zeros_like(from_)), int(max(stall.max(), sets - 1)) + 1)


def entrances(readers: Ints, some: Ints, near: Bools, price: Ints) -> tuple[tuple[Ints, Ints, Ints], Ints]:
    """The stalls that classes of equal readers share, and the doors into them.

    Args:
        readers: int[G], the readers of each class: numbers below N.
        some: int[], classes.
        near: bool[N, R], the racks of the readers.
        price: int[G, R], the cost of each class on each of these racks.

    Returns:
        The doors, as parallel arrays: classes, stalls and costs; sorted. And int[N, R], the stall of a rack, or
        `UNASSIGNED` if no class is cheaper there than on its dearest rack. Stall n below N is for all racks.
    """
    dearest = np.where(near[readers[some]], price[some], 0).max(axis=1)
    at, rack = np.nonzero(near[readers[some]] & (price[some] < dearest[:, None]))
    cheap = np.zeros(near.shape, bool)
    cheap[readers[some[at]], rack] = True
    stall = np.where(cheap, (len(near) - 1 + np.cumsum(cheap)).reshape(near.shape), UNASSIGNED)
    class_ = np.concatenate([some, some[at]])
    into = np.concatenate([readers[some], stall[readers[some[at]], rack]])
    paid = np.concatenate([dearest, price[some[at], rack]])
    sort = np.argsort(class_, kind="stable")
    return (class_[sort], into[sort], paid[sort]), stall


def matched(entering: tuple[Ints, Ints, Ints], leaving: tuple[Ints, Ints, Ints]) -> tuple[Ints, Ints, Ints]:
    """Units that enter stalls and those that leave them, paired: in each stall, the first to the first.

    `entering` has origins, stalls and units; `leaving` stalls, destinations and units, sorted by stall. Returns
    origins, destinations and units. All are parallel arrays.
    """
    some, off = np.flatnonzero(entering[2]), np.flatnonzero(leaving[2])
    some = some[np.argsort(entering[1][some], kind="stable")]
    entered, left = np.cumsum(entering[2][some]), np.cumsum(leaving[2][off])
    ends = np.union1d(entered, left)
    return (
        entering[0][some[np.searchsorted(entered, ends)]],
        leaving[1][off[np.searchsorted(left, ends)]],
        np.diff(ends, prepend=0),
    )


def _sent(problem: Problem, part: _Part, ways: _Ways, price: Ints) -> tuple[Ints, tuple[Ints, Ints, Ints]]:
    """Solve any blocks by a flow; `price` is int[G, R], the rack cost of a unit above the least of its class's block.

    Returns int[C], kept units of the part's cells; and new units, as classes, members and units.
    """
    size, rack_of = problem.classes.size, problem.classes.rack
    classes, kinds = len(size), len(rack_of)
    class_, cell_units = problem.cells[0][part.cells], problem.cells[2][part.cells]
    kind = problem.classes.kind[part.crew]
    racks = bool(price[part.classes].any())
    here = price[class_, rack_of[kind[part.place]]] if racks else np.zeros_like(class_)
    # One unit of the first goal outweighs all of the second along a path.
    nodes = classes + ways.stalls + kinds + len(part.crew) + len(part.blocks) + 2
    rack, move = (nodes, 1) if problem.racks_first else (1, int(price[part.classes].max(initial=0)) * nodes + 1)
    # With racks first, units that cost something start as unplaced: the method needs a start that no step improves.
    stay = np.where(here > 0, 0, cell_units) if racks and problem.racks_first else cell_units
    load = np.bincount(part.place, stay, len(part.crew)).astype(np.int64)
    # A member that has one more anyway may keep it: no path is shorter.
    more = _first(part.block, load > part.low, part.extras) & (load > part.low)
    network = cheapest.Network(
        classes,
        ways.stalls,
        kinds,
        kind,
        part.block,
        cells=(class_, part.place, cell_units, here * rack - move),
        doors=(*ways.doors[:2], ways.doors[2] * rack),
        pairs=(*ways.pairs[:2], ways.pairs[2] * rack),
        kept=stay.copy(),
        entered=np.zeros(len(ways.doors[0]), np.int64),
        taken=np.zeros(len(ways.pairs[0]), np.int64),
        new=np.zeros(len(part.crew), np.int64),
        more=more.astype(np.int64),
        unplaced=np.where(part.classes, size, 0) - np.bincount(class_, stay, classes).astype(np.int64),
        over=np.maximum(load - part.low - more, 0),
        under=np.maximum(part.low - load, 0),
        extras=part.extras - np.bincount(part.block[more], minlength=len(part.blocks)),
    )
    cheapest.send(network)
    class_, stall, _ = network.doors
    from_, to, _ = network.pairs
    units = matched((class_, stall, network.entered), (from_, to, network.taken))
    at, having, count = _dealt(*units, kind, network.new)
    return network.kept, (at, part.crew[having], count)


def _dealt(of: Ints, to: Ints, taken: Ints, kind: Ints, new: Ints) -> tuple[Ints, Ints, Ints]:
    """Deal the new units of a class to the members of a kind, round robin over the members with room.

    `of` and `to` are int[], classes and kinds; `taken` has the new units of each pair. `new` is int[M], new units per
    member; the sum per kind equals that of `taken`. Returns classes, members and units, parallel arrays.
    """
    member = np.repeat(np.arange(len(new)), new)
    turn = np.arange(len(member)) - np.repeat(np.cumsum(new) - new, new)
    member = member[np.lexsort((member, turn, kind[member]))]
    some = np.flatnonzero(taken)
    some = some[np.argsort(to[some], kind="stable")]
    class_ = np.repeat(of[some], taken[some])
    cells, count = np.unique(class_ * len(new) + member, return_counts=True)
    return cells // max(len(new), 1), cells % max(len(new), 1), count
