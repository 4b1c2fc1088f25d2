"""How many partitions of each class each member gets: the exact optimum, on a graph that does not grow with partitions.

Partitions that the same members may have, at the same cost, form one class. With G classes and M members the unknown is
``x: int[G, M]``, units of class g for member m. The best x has, in this order, the least sum of squared loads, the
fewest units on a foreign rack, and the most units that stay with their owner. Two steps find it:

1. `levels` splits classes and members into blocks. Inside a block every load is ``q`` or ``q + 1``, with a fixed number
   of the latter, in every x of least sum of squares; between blocks nothing can flow. (Loads form the bases of a
   polymatroid; this is the decomposition algorithm for separable convex costs on them.)
2. `cheapest` solves each block as a minimum cost flow with those loads. It starts with everything where it is and sends
   only what has no place, so it does no more work than there are changes to make.

Source: Groenevelt 1991, "Two algorithms for maximizing a separable concave function over a polymatroid feasible
region" (step 1); Ford & Fulkerson 1962, the primal-dual method (step 2); twmb/franz-go v1.22.2 has another exact
method, cycle cancelling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def optimum(size: Ints, allowed: Bools, foreign: Bools, owned: Ints) -> Ints:
    """The best units per class and member.

    Args:
        size: int[G], partitions in each class.
        allowed: bool[G, M], who may have the class; at least one member each.
        foreign: bool[G, M], whether the member would read it from another rack.
        owned: int[G, M], units each member has now; where not allowed 0, per class at most its size.

    Returns:
        int[G, M], rows sum up to `size`.

    Cost: at most 4 min(G, M) maximum flows to split, and per block as many as there are different path costs (a
    handful), on G + M + 3 nodes and the allowed pairs as edges; O(M log M) when there is one class. Terminates: a split
    makes both parts smaller, and the shortest path cost grows from one flow to the next up to a bound. Deterministic.
    """
    units = np.zeros_like(owned)
    for block in levels(size, allowed):
        at = np.ix_(block.classes, block.members)
        units[at] = cheapest(block, size[block.classes], allowed[at], foreign[at], owned[at])
    return units


@dataclass(frozen=True)
class Block:
    """Classes and members among which loads are as equal as can be.

    Args:
        classes: int[], rows.
        members: int[], columns.
        low: The smaller load; all members have this or one more.
        extras: How many have one more.
    """

    classes: Ints
    members: Ints
    low: int
    extras: int


def levels(size: Ints, allowed: Bools) -> list[Block]:
    """Split into blocks of equal load; see the module. Members that may have nothing are in no block."""
    blocks: list[Block] = []
    todo = [(np.arange(len(size)), np.flatnonzero(allowed.any(axis=0)))]
    while todo:
        classes, members = todo.pop()
        if not len(members):
            continue
        low, extras = divmod(int(size[classes].sum()), len(members))
        split = _split(size[classes], allowed[np.ix_(classes, members)], low, extras)
        if split is None:
            blocks.append(Block(classes, members, low, extras))
        else:
            crowded, busy = split
            todo += [(classes[crowded], members[busy]), (classes[~crowded], members[~busy])]
    return blocks


def _split(size: Ints, allowed: Bools, low: int, extras: int) -> tuple[Bools, Bools] | None:
    """Classes that need more room than the mean load, and the only members that may have them; None when all are equal.

    Both tests are strict. Where a class could do with the mean, an unlucky choice of who has one more must not count as
    crowded: the split would forbid moves that cost no balance.
    """
    if allowed.all():
        return None
    units = _fill(size, allowed, low + (extras > 0))
    crowded = units.sum(axis=1) < size
    if crowded.any():
        while True:  # who has what a crowded class may also have is crowded as well
            busy = np.asarray(allowed[crowded].any(axis=0))
            more = crowded | (units[:, busy] > 0).any(axis=1)
            if (more == crowded).all():
                return crowded, busy
            crowded = more
    units = _fill(size, allowed, low)
    idle = units.sum(axis=0) < low
    if idle.any():
        while True:  # who has something that an idle member may have is idle as well
            spare = np.asarray(allowed[:, idle].any(axis=1))
            more = idle | (units[spare] > 0).any(axis=0)
            if (more == idle).all():
                return ~spare, ~idle
            idle = more
    return None


def _fill(size: Ints, allowed: Bools, load: int) -> Ints:
    """As many units as can be given out with no member above `load`: int[G, M]."""
    groups, members = allowed.shape
    source, sink = groups + members, groups + members + 1
    group, member = np.nonzero(allowed)
    tail = np.concatenate([np.full(groups, source), group, groups + np.arange(members)])
    head = np.concatenate([np.arange(groups), groups + member, np.full(members, sink)])
    room = np.concatenate([size, size[group], np.full(members, load)])
    units = np.zeros((groups, members), np.int64)
    units[group, member] = _max_flow(tail, head, room, source, sink)[groups : groups + len(group)]
    return units


def cheapest(block: Block, size: Ints, allowed: Bools, foreign: Bools, owned: Ints) -> Ints:
    """The units of one block: loads `low` or `low + 1`, then fewest on foreign racks, then fewest moves."""
    groups, members = allowed.shape
    if groups == 1 and not foreign.any():
        # Nothing to choose but who has one more: who has it already, then in order.
        load = np.full((1, members), block.low)
        load[0, np.argsort(owned[0] <= block.low, kind="stable")[: block.extras]] += 1
        return load

    group, member = np.nonzero(allowed)
    kept, away = owned[group, member], foreign[group, member]
    # What is on a foreign rack starts as unplaced: then no step of the start can be improved, as the method needs.
    stay = np.where(away, 0, kept)
    load = np.bincount(member, stay, members).astype(np.int64)
    unplaced = size - np.bincount(group, stay, groups).astype(np.int64)

    spare, source, sink = groups + members, groups + members + 1, groups + members + 2
    everybody = groups + np.arange(members)
    rack = sink + 2  # one foreign rack outweighs every move along a path
    # Edges in order: keep, take, unplaced, overload, may have one more, underload, the extras there are.
    tail = np.concatenate([group, group, [source] * (groups + members), everybody, everybody, [spare]])
    head = np.concatenate(
        [groups + member, groups + member, np.arange(groups), everybody, [spare] * members, [sink] * members, [sink]]
    )
    room = np.concatenate(
        [kept, size[group], unplaced, np.maximum(load - block.low, 0), np.ones(members, np.int64),
         np.maximum(block.low - load, 0), [block.extras]]
    )  # fmt: skip
    cost = np.zeros(len(tail), np.int64)
    pairs = len(group)
    cost[:pairs] = away * rack - 1
    cost[pairs : 2 * pairs] = away * rack
    flow = np.zeros(len(tail), np.int64)
    flow[:pairs] = stay
    _send_cheaply(tail.astype(np.int64), head.astype(np.int64), room, cost, flow, source, sink)
    units = np.zeros((groups, members), np.int64)
    units[group, member] = flow[:pairs] + flow[pairs : 2 * pairs]
    return units


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
    flow: Any = maximum_flow(capacity, source, sink).flow
    return np.maximum(np.asarray(flow[tail, head]).ravel().astype(np.int64), 0)
