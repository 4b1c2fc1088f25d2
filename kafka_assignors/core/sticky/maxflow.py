"""Maximum flow: Dinic's method, in Python and NumPy, or in SciPy if it is installed and the graph is large.

A graph can have many maximum flows, and every leader must find the same one. It is defined by an order: units take the
shortest open path from source to sink, and of these the first by the numbers of its nodes. Dinic's method finds all
paths of one length by a search in depth, if it tries the next nodes in ascending order. SciPy's ``dinic`` does: it
sorts the heads of each tail. It finds the same flow, unit by unit, in less time.

Example: edges 3 -> 0 -> 2 -> 4 and 3 -> 1 -> 2 -> 4, and 2 -> 4 takes one unit. It comes through node 0.

Source: Dinic 1970, "Algorithm for solution of a problem of maximum flow in networks with power estimation".
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

import numpy as np

from ..group.indexed import Bools, Ints, narrowed

SMALL = 300
"""Edges of a graph up to which we are as fast as SciPy, some tenths of a millisecond."""
LARGE = 3_000
"""Edges up to which SciPy is not imported, if we did not yet: we take 10 ms, its import takes 200 ms and 28 MB."""

_LONG = 8
"""Steps from the sink that are taken for all nodes at once."""


def load() -> None:
    """Import SciPy's maximum flow now, if there is one, so that a large graph does not import it inside a join."""
    _scipy()


def sent(tail: Ints, head: Ints, room: Ints, source: int, sink: int) -> tuple[Ints, Ints, Ints]:
    """Compute the maximum flow of the module: the edges with flow, as tails, heads and units, sorted.

    `tail` and `head` are int[E], of nodes numbered from 0, source and sink among them; no two edges have the same tail
    and head. `room` is int[E], capacities below 2^31. Of two opposite edges at most one has flow.
    """
    enough = SMALL if _scipy.cache_info().currsize else LARGE
    by_scipy = len(tail) > enough and _scipy() is not None
    return (_by_scipy if by_scipy else _by_us)(tail, head, room, source, sink)


@cache
def _scipy() -> tuple[Any, Any] | None:
    """SciPy's class of a sparse matrix and its maximum flow; None if it is not installed."""
    try:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import maximum_flow
    except ImportError:
        return None
    return csr_array, maximum_flow


def _by_scipy(tail: Ints, head: Ints, room: Ints, source: int, sink: int) -> tuple[Ints, Ints, Ints]:
    scipy = _scipy()
    assert scipy is not None
    csr_array, maximum_flow = scipy
    nodes = max(source, sink) + 1
    order = np.argsort(tail * nodes + head)
    rows = np.concatenate([[0], np.cumsum(np.bincount(tail, minlength=nodes))]).astype(np.int32)
    capacity = csr_array((room[order].astype(np.int32), head[order].astype(np.int32), rows), shape=(nodes, nodes))
    flow = maximum_flow(capacity, source, sink, method="dinic").flow
    along = np.flatnonzero(flow.data > 0)  # the matrix has an entry for each edge and its opposite
    tails = np.searchsorted(flow.indptr, along, side="right") - 1
    return tails, flow.indices[along].astype(np.int64), flow.data[along].astype(np.int64)


class _Arcs:
    """The residual graph: an arc for each edge and its opposite, sorted by tail, then head.

    Attributes:
        tail, head: int[A]. The heads of a node's arcs ascend, which is the order of the flow.
        capacity: int[A], units that it takes at first; 0 if only its opposite is an edge.
        opposite: int[A], the arc back.
        first: int[N + 1], first arc of each node, then A.
        room: list of A, units that each arc still takes.
        open: bytes of A, 1 where it takes some; `opens` is the same memory as bool[A]: a search reads it whole, and
            paths change single entries.
    """

    def __init__(self, tail: Ints, head: Ints, room: Ints, nodes: int) -> None:
        tails, heads = np.concatenate([tail, head]), np.concatenate([head, tail])
        order = np.argsort(narrowed(heads, nodes), kind="stable")
        order = order[np.argsort(narrowed(tails[order], nodes), kind="stable")]
        tails, heads = tails[order], heads[order]
        new = (np.diff(tails, prepend=-1) != 0) | (np.diff(heads, prepend=-1) != 0)  # opposite edges share two arcs
        at = np.empty(len(order), np.int64)
        at[order] = np.cumsum(new) - 1
        self.tail, self.head = tails[new], heads[new]
        self.capacity = np.zeros(len(self.tail), np.int64)
        self.capacity[at[: len(tail)]] = room
        # Every arc has an opposite: sorted by head, then tail, they are these in order.
        self.opposite = np.argsort(narrowed(self.head, nodes), kind="stable")
        self.first = np.searchsorted(self.tail, np.arange(nodes + 1))
        self.room: list[int] = self.capacity.tolist()
        self.open = bytearray((self.capacity > 0).tobytes())
        self.opens: Bools = np.frombuffer(self.open, bool)

    def depths(self, source: int, sink: int) -> Ints:
        """int[N], number of open arcs from each node to the sink; -1 if none leads there, or the source is nearer.

        Cost: O(arcs), and a few array operations per step where paths are short.
        """
        depth = np.full(len(self.first) - 1, -1)
        depth[sink] = 0
        last = np.empty(len(depth), np.int64)
        some, steps = np.array([sink]), 0
        while len(some) and depth[source] < 0:
            begin, count = self.first[some], self.first[some + 1] - self.first[some]
            ends = np.cumsum(count)
            arc = np.arange(int(ends[-1])) + np.repeat(begin - ends + count, count)
            some = self.head[arc]
            some = some[self.opens[self.opposite[arc]] & (depth[some] < 0)]
            last[some] = np.arange(len(some))
            some = some[last[some] == np.arange(len(some))]  # each once
            steps += 1
            depth[some] = steps
            if steps == _LONG:
                return self._deeper(depth, some.tolist(), source)
        return depth

    def _deeper(self, depth: Ints, queue: list[int], source: int) -> Ints:
        """`depths`, continued node by node from the last ones: where paths are long, a step has few nodes."""
        depths: list[int] = depth.tolist()
        head, opposite, first = self._lists
        for node in queue:
            if node == source:
                break
            for arc in range(first[node], first[node + 1]):
                if depths[head[arc]] < 0 and self.open[opposite[arc]]:
                    depths[head[arc]] = depths[node] + 1
                    queue.append(head[arc])
        return np.array(depths)

    @cached_property
    def _lists(self) -> tuple[list[int], list[int], list[int]]:
        return self.head.tolist(), self.opposite.tolist(), self.first.tolist()

    def fill(self, depth: Ints, source: int, sink: int) -> None:
        """Send as much as possible along shortest paths, in their order; `depth` as of `depths`."""
        arcs = np.flatnonzero(self.opens)
        near = depth[self.head[arcs]]
        arcs = arcs[(near >= 0) & (depth[self.tail[arcs]] == near + 1)]
        turn: list[int] = np.searchsorted(arcs, self.first).tolist()  # index of each node's next arc to try
        end, head, back = turn[1:], self.head[arcs].tolist(), self.opposite[arcs].tolist()
        arc: list[int] = arcs.tolist()
        room, open_ = self.room, self.open
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                units = min([room[arc[i]] for i in path])
                full = -1
                for step, i in enumerate(path):
                    room[arc[i]] -= units
                    room[back[i]] += units
                    open_[back[i]] = 1
                    if not room[arc[i]]:
                        open_[arc[i]] = 0
                        full = step if full < 0 else full
                del path[full:]
            elif turn[node] < end[node]:
                path.append(turn[node])
                node = head[turn[node]]
                continue
            elif path:  # no way on from here
                path.pop()
            else:
                return
            node = head[path[-1]] if path else source
            turn[node] += 1


def _by_us(tail: Ints, head: Ints, room: Ints, source: int, sink: int) -> tuple[Ints, Ints, Ints]:
    arcs = _Arcs(tail, head, room, max(source, sink) + 1)
    while (depth := arcs.depths(source, sink))[source] >= 0:
        arcs.fill(depth, source, sink)
    units = arcs.capacity - np.array(arcs.room, np.int64)
    along = np.flatnonzero(units > 0)
    return arcs.tail[along], arcs.head[along], units[along]
