"""Maximum flow: Dinic's method, in Python on small graphs and in SciPy on large ones.

The two may find different maximum flows. Every leader still decides alike, because the size of the graph chooses.
"""

from __future__ import annotations

import numpy as np

from ..group.indexed import Ints

SMALL = 300
"""Edges of a graph up to which Python is used: 1 ms, where importing SciPy takes 200 ms and 28 MB."""


def load() -> None:
    """Import SciPy's maximum flow now, so that a large graph does not import it inside a join."""
    import scipy.sparse.csgraph  # noqa: F401


def sent(tail: Ints, head: Ints, room: Ints, source: int, sink: int) -> tuple[Ints, Ints, Ints]:
    """Compute a maximum flow (Dinic 1970): the edges with flow, as tails, heads and units.

    `tail` and `head` are int[E], of nodes numbered from 0, source and sink among them; no two edges have the same tail
    and head. `room` is int[E], capacities below 2^31. Of two opposite edges at most one has flow.
    """
    return (_by_python if len(tail) <= SMALL else _by_scipy)(tail, head, room, source, sink)


def _by_scipy(tail: Ints, head: Ints, room: Ints, source: int, sink: int) -> tuple[Ints, Ints, Ints]:
    from scipy.sparse import csr_array  # see `load`; most groups need no flow of this size
    from scipy.sparse.csgraph import maximum_flow

    nodes = max(source, sink) + 1
    order = np.argsort(tail * nodes + head)
    rows = np.concatenate([[0], np.cumsum(np.bincount(tail, minlength=nodes))]).astype(np.int32)
    capacity = csr_array((room[order].astype(np.int32), head[order].astype(np.int32), rows), shape=(nodes, nodes))
    flow = maximum_flow(capacity, source, sink).flow
    along = np.flatnonzero(flow.data > 0)  # the matrix has an entry for each edge and its opposite
    tails = np.searchsorted(flow.indptr, along, side="right") - 1
    return tails, flow.indices[along].astype(np.int64), flow.data[along].astype(np.int64)


def _by_python(tail: Ints, head: Ints, room: Ints, source: int, sink: int) -> tuple[Ints, Ints, Ints]:
    """Dinic's method. Arc 2e is edge e, and arc 2e + 1 takes its flow back."""
    to: list[int] = np.stack([head, tail], 1).ravel().tolist()
    left: list[int] = np.stack([room, np.zeros_like(room)], 1).ravel().tolist()
    arcs: list[list[int]] = [[] for _ in range(max(source, sink) + 1)]
    for arc, node in enumerate(np.stack([tail, head], 1).ravel().tolist()):
        arcs[node].append(arc)
    while (depth := _depths(arcs, to, left, source))[sink] >= 0:
        turn = [0] * len(arcs)  # index of the next arc to try
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                least = min(left[arc] for arc in path)
                for arc in path:
                    left[arc] -= least
                    left[arc ^ 1] += least
                full = next(i for i, arc in enumerate(path) if not left[arc])
                node = to[path[full] ^ 1]
                del path[full:]
            elif turn[node] < len(arcs[node]):
                arc = arcs[node][turn[node]]
                if left[arc] and depth[to[arc]] == depth[node] + 1:
                    path.append(arc)
                    node = to[arc]
                else:
                    turn[node] += 1
            elif path:  # no way on from here
                node = to[path.pop() ^ 1]
                turn[node] += 1
            else:
                break
    units = np.array(left[1::2], np.int64)
    along = np.flatnonzero(units)
    return tail[along], head[along], units[along]


def _depths(arcs: list[list[int]], to: list[int], left: list[int], source: int) -> list[int]:
    """Number of arcs with room left from the source to each node; -1 if there is no way."""
    depth = [-1] * len(arcs)
    depth[source] = 0
    queue = [source]
    for node in queue:
        for arc in arcs[node]:
            if left[arc] and depth[to[arc]] < 0:
                depth[to[arc]] = depth[node] + 1
                queue.append(to[arc])
    return depth
