"""Minimum cost flow with bounds on every arc, on arrays: the primal-dual method for any network.

`cheapest` solves the network of one class of problems and knows its shape. This module knows arcs only. Both use
`Steps` where paths are long.

Source: Ford & Fulkerson 1962; Ahuja, Magnanti & Orlin 1993, "Network Flows", 9.8 (the primal-dual method). For `Steps`:
Johnson 1977, "Efficient algorithms for shortest paths in sparse networks" (distances as potentials); Dial 1969,
"Algorithm 360: shortest-path forest with topological ordering" (nodes of equal distance at once).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..group.indexed import Bools, Ints
from . import maxflow

FAR = 1 << 60
NEAR = FAR >> 1
"""A reachable node is nearer."""
_DENSE = 200_000
"""Arcs times passes over all of them in a round; if paths are longer, each node has its turn (`Steps`)."""


@dataclass
class Arcs:
    """The arcs of a network, as parallel arrays; nodes are numbered from 0.

    Args:
        tail, head: int[E], start and end nodes. Arcs with the same ones have different costs; no arc has an opposite.
        low, high: int[E], least and greatest flow.
        cost: int[E], cost per unit.
        flow: int[E], the flow to begin with, within the bounds: `high` where the cost is negative, `low` where it is
            positive, anything where it is zero.
    """

    tail: Ints
    head: Ints
    low: Ints
    high: Ints
    cost: Ints
    flow: Ints


def send(arcs: Arcs, supply: Ints) -> Ints:
    """Compute a flow of minimum cost, int[E]. The flow to begin with need not match the supply.

    `supply` is int[N], units that each node sends (above 0) or receives (below 0); their sum is 0.

    Raises:
        AssertionError: The bounds permit no flow.

    Cost: one round per distinct distance between a node with too many units and one with too few. A round takes a pass
    over the arcs per hop of the longest path, and one maximum flow. Deterministic.
    """
    arcs = Arcs(arcs.tail, arcs.head, arcs.low, arcs.high, arcs.cost, arcs.flow.copy())
    outgoing, incoming = np.argsort(arcs.tail, kind="stable"), np.argsort(arcs.head, kind="stable")
    steps: Steps | None = None
    distance: Ints | None = None
    while True:
        excess = supply + _sums(arcs.head, arcs.flow, len(supply)) - _sums(arcs.tail, arcs.flow, len(supply))
        if not excess.any():
            return arcs.flow
        ahead, back = outgoing[_room(arcs, outgoing) > 0], incoming[_given(arcs, incoming) > 0]
        near = None if steps else _distances(arcs, ahead, back, excess < 0)
        if near is None:
            ends = np.concatenate([arcs.tail, arcs.head]), np.concatenate([arcs.head, arcs.tail])
            steps = steps or Steps(len(supply), *ends, np.concatenate([arcs.cost, -arcs.cost]))
            open_ = np.concatenate([arcs.high > arcs.flow, arcs.flow > arcs.low])
            near = distance = steps.distances(open_, excess < 0, distance)
        if not (near[excess > 0] < NEAR).any():
            raise AssertionError("the bounds of the network permit no flow")
        _augment(arcs, ahead, back, excess, near)


def _sums(of: Ints, what: Ints, count: int) -> Ints:
    return np.bincount(of, what, count).astype(np.int64)


def _room(arcs: Arcs, some: Ints) -> Ints:
    room: Ints = (arcs.high - arcs.flow)[some]
    return room


def _given(arcs: Arcs, some: Ints) -> Ints:
    given: Ints = (arcs.flow - arcs.low)[some]
    return given


def _distances(arcs: Arcs, ahead: Ints, back: Ints, wanting: Bools) -> Ints | None:
    """Cost of the cheapest path from each node to a wanting one: Bellman-Ford, all arcs relaxed at once.

    None if paths are long. `ahead` are arcs with room, sorted by tail; `back` arcs with flow to take back, sorted by
    head; `wanting` is bool[N], nodes with too few units.
    """
    distance = np.where(wanting, 0, FAR)
    steps = []
    for begin, end, some, sign in ((arcs.tail, arcs.head, ahead, 1), (arcs.head, arcs.tail, back, -1)):
        if len(some):
            first = np.flatnonzero(np.diff(begin[some], prepend=-1))
            steps.append((begin[some[first]], first, end[some], sign * arcs.cost[some]))
    for _ in range(max(_DENSE // len(arcs.tail), 6)):
        before = distance.copy()
        for nodes, first, ends, cost in steps:
            distance[nodes] = np.minimum(distance[nodes], np.minimum.reduceat(distance[ends] + cost, first))
        if (np.where(distance < NEAR, distance, FAR) == np.where(before < NEAR, before, FAR)).all():
            return distance
    return None


def _augment(arcs: Arcs, ahead: Ints, back: Ints, excess: Ints, distance: Ints) -> None:
    """Send as many units as possible along shortest paths."""
    source, sink = len(excess), len(excess) + 1
    ahead = ahead[distance[arcs.tail[ahead]] == distance[arcs.head[ahead]] + arcs.cost[ahead]]
    ahead = ahead[distance[arcs.tail[ahead]] < NEAR]
    back = back[distance[arcs.head[back]] == distance[arcs.tail[back]] - arcs.cost[back]]
    back = back[distance[arcs.head[back]] < NEAR]
    many, few = np.flatnonzero((excess > 0) & (distance < NEAR)), np.flatnonzero((excess < 0) & (distance == 0))
    tail = np.concatenate([arcs.tail[ahead], arcs.head[back]])
    head = np.concatenate([arcs.head[ahead], arcs.tail[back]])
    room = np.concatenate([_room(arcs, ahead), _given(arcs, back)])
    from_, to, units = maxflow.sent(
        np.concatenate([tail, np.full(len(many), source), few]),
        np.concatenate([head, many, np.full(len(few), sink)]),
        np.concatenate([room, excess[many], -excess[few]]),
        source,
        sink,
    )
    inner = (from_ != source) & (to != sink)
    key = tail * (sink + 1) + head
    order = np.argsort(key)
    at = order[np.searchsorted(key[order], from_[inner] * (sink + 1) + to[inner])]
    arc, sign = np.concatenate([ahead, back])[at], np.where(at < len(ahead), 1, -1)
    arcs.flow[arc] += sign * units[inner]


class Steps:
    """The steps of a network whose flow changes, grouped by where they end: distances to the nearest free places.

    From round to round of the primal-dual method, distances only grow. A node's turn comes in the order of the growth
    of its distance: no step lowers a distance of a node that had its turn, and every step is taken once a round.

    The arrays are int[E]. No circle of open steps has a negative cost.
    """

    def __init__(self, nodes: int, tail: Ints, head: Ints, cost: Ints) -> None:
        self._order = np.argsort(head, kind="stable")
        self._tail, self._cost = tail[self._order], cost[self._order]
        self._first = np.searchsorted(head[self._order], np.arange(nodes + 1))

    def distances(self, open_: Bools, free: Bools, before: Ints | None = None) -> Ints:
        """int[N], cost of the cheapest path from each node to a free place; `FAR` if there is none.

        `open_` is bool[E], steps that can be taken; `free` bool[N]. `before` has the distances of the round before, if
        since then units were sent along shortest paths alone.

        Cost: O(steps) and a few array operations per hop of the longest path and distinct growth of a distance; without
        `before`, steps are taken again when the distance of their end falls.
        """
        open_ = open_[self._order]
        distance = np.where(free, 0, FAR)
        waiting = free.copy()
        while len(at := np.flatnonzero(waiting)):
            if before is not None:
                growth = distance[at] - before[at]
                at = at[growth == growth.min()]
            waiting[at] = False
            begin, count = self._first[at], self._first[at + 1] - self._first[at]
            ends = np.cumsum(count)
            step = np.arange(int(ends[-1])) + np.repeat(begin - ends + count, count)
            cost = np.repeat(distance[at], count) + self._cost[step]
            tail = self._tail[step]
            nearer = np.flatnonzero(open_[step] & (cost < distance[tail]))
            np.minimum.at(distance, tail[nearer], cost[nearer])
            waiting[tail[nearer]] = True
        return distance
