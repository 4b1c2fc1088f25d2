"""Minimum cost flow with bounds on every arc, on arrays: the primal-dual method for any network.

`cheapest` solves the network of one class of problems and knows its shape. This module knows arcs only.

Source: Ford & Fulkerson 1962; Ahuja, Magnanti & Orlin 1993, "Network Flows", 9.8 (the primal-dual method).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..group.indexed import Bools, Ints
from . import maxflow

_FAR = 1 << 60
_NEAR = _FAR >> 1  # a reachable node is nearer


@dataclass
class Arcs:
    """The arcs of a network, as parallel arrays; nodes are numbered from 0.

    Args:
        tail: int[E], start nodes.
        head: int[E], end nodes. Arcs with the same tail and head have different costs, and no arc has an opposite.
        low: int[E], least flow.
        high: int[E], greatest flow.
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
    """Compute a flow of minimum cost.

    Args:
        arcs: The arcs. The flow to begin with need not match the supply.
        supply: int[N], units that each node sends (above 0) or receives (below 0); their sum is 0.

    Returns:
        int[E], the flow.

    Raises:
        AssertionError: The bounds permit no flow.

    Cost: one round per distinct distance between a node with too many units and one with too few. A round takes a pass
    over the arcs per hop of the longest path, and one maximum flow. Deterministic.
    """
    arcs = Arcs(arcs.tail, arcs.head, arcs.low, arcs.high, arcs.cost, arcs.flow.copy())
    outgoing, incoming = np.argsort(arcs.tail, kind="stable"), np.argsort(arcs.head, kind="stable")
    while True:
        excess = supply + _sums(arcs.head, arcs.flow, len(supply)) - _sums(arcs.tail, arcs.flow, len(supply))
        if not excess.any():
            return arcs.flow
        ahead, back = outgoing[_room(arcs, outgoing) > 0], incoming[_given(arcs, incoming) > 0]
        distance = _distances(arcs, ahead, back, excess < 0)
        if not (distance[excess > 0] < _NEAR).any():
            raise AssertionError("the bounds of the network permit no flow")
        _augment(arcs, ahead, back, excess, distance)


def _sums(of: Ints, what: Ints, count: int) -> Ints:
    return np.bincount(of, what, count).astype(np.int64)


def _room(arcs: Arcs, some: Ints) -> Ints:
    room: Ints = (arcs.high - arcs.flow)[some]
    return room


def _given(arcs: Arcs, some: Ints) -> Ints:
    given: Ints = (arcs.flow - arcs.low)[some]
    return given


def _distances(arcs: Arcs, ahead: Ints, back: Ints, wanting: Bools) -> Ints:
    """Cost of the cheapest path from each node to a wanting one: Bellman-Ford, all arcs relaxed at once.

    Args:
        arcs: The arcs.
        ahead: Arcs with room, sorted by tail.
        back: Arcs with flow to take back, sorted by head.
        wanting: bool[N], nodes with too few units.
    """
    distance = np.where(wanting, 0, _FAR)
    steps = []
    for begin, end, some, sign in ((arcs.tail, arcs.head, ahead, 1), (arcs.head, arcs.tail, back, -1)):
        if len(some):
            first = np.flatnonzero(np.diff(begin[some], prepend=-1))
            steps.append((begin[some[first]], first, end[some], sign * arcs.cost[some]))
    while True:
        before = distance.copy()
        for nodes, first, ends, cost in steps:
            distance[nodes] = np.minimum(distance[nodes], np.minimum.reduceat(distance[ends] + cost, first))
        if (np.where(distance < _NEAR, distance, _FAR) == np.where(before < _NEAR, before, _FAR)).all():
            return distance


def _augment(arcs: Arcs, ahead: Ints, back: Ints, excess: Ints, distance: Ints) -> None:
    """Send as many units as possible along shortest paths."""
    source, sink = len(excess), len(excess) + 1
    ahead = ahead[distance[arcs.tail[ahead]] == distance[arcs.head[ahead]] + arcs.cost[ahead]]
    ahead = ahead[distance[arcs.tail[ahead]] < _NEAR]
    back = back[distance[arcs.head[back]] == distance[arcs.tail[back]] - arcs.cost[back]]
    back = back[distance[arcs.head[back]] < _NEAR]
    many, few = np.flatnonzero((excess > 0) & (distance < _NEAR)), np.flatnonzero((excess < 0) & (distance == 0))
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
