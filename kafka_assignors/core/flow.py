"""How many partitions of each class each member gets: the exact optimum, on a graph that does not grow with partitions.

Partitions that the same members may have, at the same cost, form one class; members with the same subscription and rack
form one kind. The unknown is how many units of a class each member has, kept and new ones apart. The best answer has,
in this order, the least sum of squared loads, the least cost of units on other racks, and the most units that stay with
their owner; or the last two the other way round. Two steps find it:

1. `levels` splits classes and kinds into blocks. Inside a block every load is ``q`` or ``q + 1``, with a fixed number
   of the latter, in every answer of least sum of squares; between blocks nothing can flow. (Loads form the bases of a
   polymatroid; this is the decomposition algorithm for separable convex costs on them.)
2. `_cheapest` solves each block as a minimum cost flow with those loads. It starts with everything where it is and
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

from .indexed import Bools, Ints


@dataclass(frozen=True)
class Problem:
    """What is to be given out.

    Args:
        size: int[G], partitions in each class.
        allowed: bool[G, K], which kinds may have the class; at least one each.
        cost: int[G, K], what a unit costs there in racks, 0 or above; only differences within a class matter.
        kind: int[M], each member's kind.
        cells: Which members have something now: classes, members and units, parallel, each pair once and allowed; per
            class the units are at most its size.
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

    Cost: two maximum flows on G + K nodes per depth of nested splits, at most min(G, K) deep; per block as many flows
    as there are different path costs (a handful), on G + K + M nodes and the allowed pairs, cells and members as edges;
    O(M log M + cells) for a block with one class. Terminates: a split makes both parts smaller, and the shortest path
    cost grows from one flow to the next up to a bound. Deterministic.
    """
    classes, members, _ = problem.cells
    kept = np.zeros(len(classes), np.int64)
    dealt = []
    for block in levels(problem.size, problem.allowed, np.bincount(problem.kind, minlength=problem.allowed.shape[1])):
        inside = np.zeros(len(problem.size), bool)
        inside[block.classes] = True
        cells = np.flatnonzero(inside[classes])
        mine = np.zeros(problem.allowed.shape[1], bool)
        mine[block.kinds] = True
        crew = np.flatnonzero(mine[problem.kind])
        cells = cells[mine[problem.kind[members[cells]]]]  # what lies outside the block may not stay
        kept[cells], new = _block(problem, block, cells, crew)
        dealt.append(new)
    return Units(kept, (_joined(dealt, 0), _joined(dealt, 1), _joined(dealt, 2)))


def _joined(parts: list[tuple[Ints, Ints, Ints]], i: int) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *(part[i] for part in parts)])


@dataclass(frozen=True)
class Block:
    """Classes and kinds among whose members loads are as equal as can be.

    Args:
        classes: int[], rows.
        kinds: int[], columns.
        low: The smaller load; all members have this or one more.
        extras: How many have one more.
    """

    classes: Ints
    kinds: Ints
    low: int
    extras: int


def levels(size: Ints, allowed: Bools, crew: Ints) -> list[Block]:
    """Split into blocks of equal load; see the module. Kinds that may have nothing are in no block.

    Args:
        size: int[G], partitions in each class.
        allowed: bool[G, K], which kinds may have the class.
        crew: int[K], how many members are of the kind.
    """
    blocks: list[Block] = []
    todo = [(np.arange(len(size)), np.flatnonzero(allowed.any(axis=0)))]
    while todo:
        open_: list[tuple[Ints, Ints]] = []
        inside = np.zeros_like(allowed)
        low, high = np.zeros(len(crew), np.int64), np.zeros(len(crew), np.int64)
        for classes, kinds in todo:
            if not len(kinds):
                continue
            mean, extras = divmod(int(size[classes].sum()), int(crew[kinds].sum()))
            at = np.ix_(classes, kinds)
            if allowed[at].all():
                blocks.append(Block(classes, kinds, mean, extras))
                continue
            open_.append((classes, kinds))
            inside[at] = allowed[at]
            low[kinds], high[kinds] = mean * crew[kinds], (mean + (extras > 0)) * crew[kinds]
        todo = []
        if not open_:
            break
        # One flow for all that is still to be split: they have no pair in common.
        most, least = _fill(size, inside, high), _fill(size, inside, low)
        for classes, kinds in open_:
            at = np.ix_(classes, kinds)
            split = _split(size[classes], allowed[at], most[at], least[at], low[kinds])
            if split is None:
                mean, extras = divmod(int(size[classes].sum()), int(crew[kinds].sum()))
                blocks.append(Block(classes, kinds, mean, extras))
            else:
                crowded, busy = split
                todo += [(classes[crowded], kinds[busy]), (classes[~crowded], kinds[~busy])]
    return blocks


def _split(size: Ints, allowed: Bools, most: Ints, least: Ints, low: Ints) -> tuple[Bools, Bools] | None:
    """Classes that need more room than the mean load, and the only kinds that may have them; None when all are equal.

    Both tests are strict. Where a class could do with the mean, an unlucky choice of who has one more must not count as
    crowded: the split would forbid moves that cost no balance.

    Args:
        size: int[G], partitions in each class.
        allowed: bool[G, K], which kinds may have the class.
        most: int[G, K], `_fill` with the mean load rounded up.
        least: int[G, K], `_fill` with the mean load rounded down.
        low: int[K], the room of each kind at that.
    """
    crowded = most.sum(axis=1) < size
    if crowded.any():
        while True:  # who has what a crowded class may also have is crowded as well
            busy = np.asarray(allowed[crowded].any(axis=0))
            more = crowded | (most[:, busy] > 0).any(axis=1)
            if (more == crowded).all():
                return crowded, busy
            crowded = more
    idle = least.sum(axis=0) < low
    if idle.any():
        while True:  # who has something that an idle kind may have is idle as well
            spare = np.asarray(allowed[:, idle].any(axis=1))
            more = idle | (least[spare] > 0).any(axis=0)
            if (more == idle).all():
                return ~spare, ~idle
            idle = more
    return None


def _fill(size: Ints, allowed: Bools, room: Ints) -> Ints:
    """As many units as can be given out with no kind above its room: int[G, K]."""
    groups, kinds = allowed.shape
    source, sink = groups + kinds, groups + kinds + 1
    group, kind = np.nonzero(allowed)
    tail = np.concatenate([np.full(groups, source), group, groups + np.arange(kinds)])
    head = np.concatenate([np.arange(groups), groups + kind, np.full(kinds, sink)])
    limit = np.concatenate([size, size[group], room])
    units = np.zeros((groups, kinds), np.int64)
    units[group, kind] = _max_flow(tail, head, limit, source, sink)[groups : groups + len(group)]
    return units


def _block(problem: Problem, block: Block, cells: Ints, crew: Ints) -> tuple[Ints, tuple[Ints, Ints, Ints]]:
    """Units of one block: kept, of `cells`, and new ones as (classes, members, units). `crew`: its members."""
    allowed = problem.allowed[np.ix_(block.classes, block.kinds)]
    cost = problem.cost[np.ix_(block.classes, block.kinds)]
    # What even the cheapest kind of the block pays is paid in any case; without it most units can start where they are.
    cost = np.where(allowed, cost - np.min(cost, axis=1, where=allowed, initial=_FAR)[:, None], 0)
    group = np.searchsorted(block.classes, problem.cells[0][cells])
    member = np.searchsorted(crew, problem.cells[1][cells])
    units = problem.cells[2][cells]
    size = problem.size[block.classes]
    if len(block.classes) == 1 and not cost.any():
        # Nothing to choose but who has one more: who has it already, then in order.
        have = np.bincount(member, units, len(crew)).astype(np.int64)
        load = np.full(len(crew), block.low)
        load[np.argsort(have <= block.low, kind="stable")[: block.extras]] += 1
        kept = np.minimum(units, load[member])
        new = np.maximum(load - have, 0)
        having = np.flatnonzero(new)
        return kept, (np.full(len(having), block.classes[0]), crew[having], new[having])
    kind = np.searchsorted(block.kinds, problem.kind[crew])
    kept, taken, new = _cheapest(block, size, allowed, cost, kind, (group, member, units), problem.racks_first)
    at, having, count = _dealt(taken, kind, new)
    return kept, (block.classes[at], crew[having], count)


def _cheapest(
    block: Block,
    size: Ints,
    allowed: Bools,
    price: Ints,
    kind: Ints,
    cells: tuple[Ints, Ints, Ints],
    racks_first: bool,
) -> tuple[Ints, Ints, Ints]:
    """Loads `low` or `low + 1`, then least cost in racks, then fewest moves; or moves, then racks.

    Returns:
        int[], kept units of each cell; int[G, K], new units by class and kind; int[M], new units by member.
    """
    (groups, kinds), members = allowed.shape, len(kind)
    group, member, held = cells
    here = price[group, kind[member]]
    # With racks first, what costs something starts as unplaced. No step of such a start can be improved: the method
    # needs that.
    stay = np.where(here > 0, 0, held) if racks_first else held
    load = np.bincount(member, stay, members).astype(np.int64)
    unplaced = size - np.bincount(group, stay, groups).astype(np.int64)

    one, some = np.nonzero(allowed)
    everybody = groups + kinds + np.arange(members)
    spare = groups + kinds + members
    source, sink = spare + 1, spare + 2
    # One of the first outweighs all of the second along a path.
    rack, move = (sink + 2, 1) if racks_first else (1, int(price.max(initial=0)) * (sink + 2) + 1)
    # Edges in order: keep, take, deal, unplaced, overload, may have one more, underload, the extras there are.
    tail = np.concatenate(
        [group, one, groups + kind, np.full(groups + members, source), everybody, everybody, [spare]]
    )  # fmt: skip
    head = np.concatenate(
        [everybody[member], groups + some, everybody, np.arange(groups), everybody, np.full(members, spare),
         np.full(members, sink), [sink]]
    )  # fmt: skip
    room = np.concatenate(
        [held, size[one], np.full(members, block.low + 1), unplaced, np.maximum(load - block.low, 0),
         np.ones(members, np.int64), np.maximum(block.low - load, 0), [block.extras]]
    )  # fmt: skip
    cost = np.zeros(len(tail), np.int64)
    keep, take, deal = len(group), len(group) + len(one), len(group) + len(one) + members
    cost[:keep] = here * rack - move
    cost[keep:take] = price[one, some] * rack
    flow = np.zeros(len(tail), np.int64)
    flow[:keep] = stay
    _send_cheaply(tail.astype(np.int64), head.astype(np.int64), room, cost, flow, source, sink)
    taken = np.zeros((groups, kinds), np.int64)
    taken[one, some] = flow[keep:take]
    return flow[:keep], taken, flow[take:deal]


def _dealt(taken: Ints, kind: Ints, new: Ints) -> tuple[Ints, Ints, Ints]:
    """Who gets the new units of a class among the members of a kind: each class goes round the members with room.

    Args:
        taken: int[G, K], new units by class and kind.
        kind: int[M], each member's kind.
        new: int[M], new units by member; per kind as many as `taken` says.

    Returns:
        Classes, members and units, parallel.
    """
    member = np.repeat(np.arange(len(new)), new)
    turn = np.arange(len(member)) - np.repeat(np.cumsum(new) - new, new)
    member = member[np.lexsort((member, turn, kind[member]))]
    of_kind = taken.T.ravel()
    group = np.repeat(np.tile(np.arange(len(taken)), taken.shape[1]), of_kind)
    pairs, count = np.unique(group * len(new) + member, return_counts=True)
    return pairs // max(len(new), 1), pairs % max(len(new), 1), count


def _send_cheaply(tail: Ints, head: Ints, room: Ints, cost: Ints, flow: Ints, source: int, sink: int) -> None:
    """Raise `flow`, which no cycle may improve, to a maximum flow of least cost; the primal-dual method.

    Each round sends all it can along shortest paths (edges without reduced cost); after it shortest paths are longer.
    """
    potential = np.zeros(sink + 1, np.int64)
    both_tail, both_head = np.concatenate([tail, head]), np.concatenate([head, tail])
    both_cost = np.concatenate([cost, -cost])
    edges = len(tail)
    while True:
        left = np.concatenate([room - flow, flow])
        open_ = np.flatnonzero(left > 0)
        reduced = both_cost[open_] + potential[both_tail[open_]] - potential[both_head[open_]]
        distance = _distances(both_tail[open_], both_head[open_], reduced, source, sink + 1)
        if distance[sink] == _FAR:
            return
        # Beyond the sink distances do not matter; capping them keeps all reduced costs at 0 or above.
        distance = np.minimum(distance, distance[sink])
        potential += distance
        tight = open_[reduced + distance[both_tail[open_]] - distance[both_head[open_]] == 0]
        sent = _max_flow(both_tail[tight], both_head[tight], left[tight], source, sink)
        forward = tight < edges
        flow[tight[forward]] += sent[forward]
        flow[tight[~forward] - edges] -= sent[~forward]


_FAR = np.iinfo(np.int64).max // 4


def _distances(tail: Ints, head: Ints, cost: Ints, source: int, nodes: int) -> Ints:
    """Shortest distances from the source, costs 0 or above (Bellman-Ford over all edges at once)."""
    distance = np.full(nodes, _FAR)
    distance[source] = 0
    while True:
        before = distance.copy()
        np.minimum.at(distance, head, np.minimum(distance[tail] + cost, _FAR))
        if (distance == before).all():
            return distance


def load() -> None:
    """Import SciPy's max-flow now: 0.4 s that must not fall into a join, where kafka-python's heartbeats stop."""
    import scipy.sparse.csgraph  # noqa: F401


def _max_flow(tail: Ints, head: Ints, room: Ints, source: int, sink: int) -> Ints:
    """Flow on each edge of a maximum flow. No two edges may have the same tail and head."""
    from scipy.sparse import csr_array  # see `load`; only unequal subscriptions or racks need it
    from scipy.sparse.csgraph import maximum_flow

    nodes = max(source, sink) + 1
    capacity = csr_array((room.astype(np.int32), (tail, head)), shape=(nodes, nodes))
    flow = maximum_flow(capacity, source, sink).flow.tocoo()
    # Its entries come row by row; looking ours up there is many times faster than indexing the matrix.
    place = flow.row.astype(np.int64) * nodes + flow.col
    order = np.argsort(place, kind="stable")
    entry = order[np.searchsorted(place[order], tail * nodes + head)]
    sent: Ints = np.maximum(flow.data[entry].astype(np.int64), 0)
    return sent
