"""Maximum flow, computed by SciPy."""

from __future__ import annotations

import numpy as np

from ..group.indexed import Ints


def load() -> None:
    """Import SciPy's max-flow now: 0.4 s that must not fall into a join, when kafka-python sends no heartbeats."""
    import scipy.sparse.csgraph  # noqa: F401


def sent(tail: Ints, head: Ints, room: Ints, source: int, sink: int) -> tuple[Ints, Ints, Ints]:
    """Compute a maximum flow (Dinic 1970).

    Args:
        tail: int[E], start node of each edge; nodes, including source and sink, are numbered from 0.
        head: int[E], end node. No two edges have the same tail and head.
        room: int[E], capacity, below 2^31.
        source: Source node.
        sink: Sink node.

    Returns:
        The edges with flow, as tails, heads and units. Of two opposite edges at most one has flow.
    """
    from scipy.sparse import csr_array  # see `load`; only unequal subscriptions or racks need it
    from scipy.sparse.csgraph import maximum_flow

    nodes = max(source, sink) + 1
    order = np.argsort(tail * nodes + head)
    rows = np.concatenate([[0], np.cumsum(np.bincount(tail, minlength=nodes))]).astype(np.int32)
    capacity = csr_array((room[order].astype(np.int32), head[order].astype(np.int32), rows), shape=(nodes, nodes))
    flow = maximum_flow(capacity, source, sink).flow
    along = np.flatnonzero(flow.data > 0)  # the matrix has an entry for each edge and its opposite
    tails = np.searchsorted(flow.indptr, along, side="right") - 1
    return tails, flow.indices[along].astype(np.int64), flow.data[along].astype(np.int64)
