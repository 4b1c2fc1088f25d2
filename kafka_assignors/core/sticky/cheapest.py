"""Place every unit at minimum cost when loads are fixed up to one: the second step of `flow`.

A minimum cost flow by the primal-dual method. It starts with every unit at its old member, which no exchange can
improve. Two things are then out of place: units without a member, and members with too many units. Each round computes
the shortest distance from every node to a free place, then sends as much as possible along all shortest paths at once.
After each round the remaining distances are longer, and there are few distinct distances.

    class --take--> kind --deal--> member --may have one more--> spare (one a block) --> place
      |                              | ^                                                   ^
      +-----------keep---------------+-+----------------has less than it must--------------+

Each edge has a reverse edge at the negative cost. Distances are measured to free places, so all displaced units move
in one round, each on its own shortest path. Edges of the source may have negative reduced costs: all are full in the
end.

Source: Ford & Fulkerson 1962; Ahuja, Magnanti & Orlin 1993, "Network Flows", 9.8 (the primal-dual method).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..group.indexed import Bools, Ints
from . import maxflow

_FAR = 1 << 60
_NEAR = _FAR >> 1  # a reachable node is nearer

# Initial number of units that a member offers for each one it must give up. Neighbours offer different classes, which
# also spreads the moves over classes.
_FEW = 2

_CLASS, _KIND, _MEMBER, _SPARE, _SOURCE, _SINK = range(6)


@dataclass
class Network:
    """Current units per member, and the units still out of place.

    Args:
        classes: Number of classes.
        kinds: Number of kinds.
        kind: int[M], each member's kind.
        block: int[M], each member's block.
        cells: Parallel arrays: classes, members, units held before, and the cost to keep a unit.
        pairs: Parallel arrays: classes, kinds, and the cost to take a unit; sorted, each pair once.
        kept: int[], units that stay, per cell.
        taken: int[], new units, per pair.
        new: int[M], new units.
        more: int[M], 1 if the member has one more than the lower load, else 0.
        unplaced: int[G], units without a member.
        over: int[M], surplus units.
        under: int[M], units missing to the lower load.
        extras: int[B], number of members of the block that may still have one more.
    """

    classes: int
    kinds: int
    kind: Ints
    block: Ints
    cells: tuple[Ints, Ints, Ints, Ints]
    pairs: tuple[Ints, Ints, Ints]
    kept: Ints
    taken: Ints
    new: Ints
    more: Ints
    unplaced: Ints
    over: Ints
    under: Ints
    extras: Ints

    @cached_property
    def first(self) -> Ints:
        """Node number of the first class, kind, member and spare, and of the source and sink."""
        return np.cumsum([0, self.classes, self.kinds, len(self.kind), len(self.extras), 1])


@dataclass(frozen=True)
class Distances:
    """Cost of the cheapest path to a free place from each class, kind, member and block's spare; `_FAR` if none."""

    class_: Ints
    kind: Ints
    member: Ints
    spare: Ints


def send(network: Network) -> None:
    """Place everything at minimum cost; see the module.

    Args:
        network: Changed in place. There must be room for all units, and no exchange of placed units may lower the cost.

    Cost: one round per distinct distance, a handful. Each round takes some passes over cells and pairs, and one or two
    maximum flows on classes, kinds and members. Terminates because the distances grow. Deterministic.
    """
    *_, source, sink = network.first.tolist()
    while network.unplaced.any() or network.over.any():
        distances = _distances(network)
        if not _ways(network, distances):
            raise AssertionError("the loads of a block leave no room for its partitions")
        for offers in (_FEW, None):
            (tail, head, room), everything = _edges(network, distances, offers)
            _settle(network, *maxflow.sent(tail, head, room, source, sink))
            if everything or not _ways(network, distances):
                break


def _ways(net: Network, d: Distances) -> bool:
    """Whether any unit out of place has a path."""
    return bool(net.unplaced[d.class_ < _NEAR].any() or net.over[d.member < _NEAR].any())


def _distances(net: Network) -> Distances:
    """Bellman-Ford, with all edges of one type relaxed at once."""
    _, _, held, _ = net.cells
    of, to, price = net.pairs
    give, regain = _some(net.kept > 0, *net.cells), _some(net.kept < held, *net.cells)
    undone = np.flatnonzero(net.taken)
    undo = of[undone], to[undone], price[undone]
    dealt, extra = np.flatnonzero(net.new), np.flatnonzero(net.more)

    d = Distances(
        np.full(net.classes, _FAR),
        np.full(net.kinds, _FAR),
        np.where(net.under > 0, 0, _FAR),
        np.where(net.extras > 0, 0, _FAR),
    )
    while True:
        before = d.class_.copy(), d.kind.copy(), d.member.copy()
        np.minimum.at(d.spare, net.block[extra], d.member[extra])
        np.minimum(d.member, np.where(net.more == 0, d.spare[net.block], _FAR), out=d.member)
        np.minimum.at(d.kind, net.kind, d.member)
        np.minimum.at(d.kind, undo[1], d.class_[undo[0]] - undo[2])
        np.minimum.at(d.class_, of, d.kind[to] + price)
        np.minimum.at(d.class_, regain[0], d.member[regain[1]] + regain[3])
        d.member[dealt] = np.minimum(d.member[dealt], d.kind[net.kind[dealt]])
        if (d.class_ != before[0]).any():
            np.minimum.at(d.member, give[1], d.class_[give[0]] - give[3])
        if all((now == then).all() for now, then in zip((d.class_, d.kind, d.member), before, strict=True)):
            return d


def _some(which: Bools, *columns: Ints) -> tuple[Ints, ...]:
    """Select rows; without a copy if all are selected."""
    if which.all():
        return columns
    rows = np.flatnonzero(which)
    return tuple(column[rows] for column in columns)


def _edges(net: Network, d: Distances, offers: int | None) -> tuple[tuple[Ints, Ints, Ints], bool]:
    """The edges on shortest paths.

    Args:
        net: The network.
        d: Its distances.
        offers: Number of units that each member offers for each one it must give up; None for all. Most members must
            give up one or two and can choose from hundreds. A flow on few offers nearly always sends as much, at a
            fraction of the cost. Neighbours offer different classes, so the flow takes some units of many classes
            rather than all of one.

    Returns:
        Tails, heads and capacities; and whether members offer all that they may.
    """
    class_, member, held, keeping = net.cells
    of, to, price = net.pairs
    _, kind_0, member_0, spare_0, source, sink = net.first.tolist()

    give = np.flatnonzero((d.member[member] == d.class_[class_] - keeping) & (net.kept > 0))
    possible = len(give)
    if offers is not None:
        by = member[give]
        each = np.maximum(np.bincount(by, minlength=len(net.kind)) // (offers * (net.over + 2)), 1)
        give = give[(class_[give] + by) % each[by] == 0]
    regain = np.flatnonzero(net.kept < held)
    regain = regain[d.class_[class_[regain]] == d.member[member[regain]] + keeping[regain]]
    take = np.flatnonzero(d.class_[of] == d.kind[to] + price)
    back = np.flatnonzero(net.taken)
    back = back[d.kind[to[back]] == d.class_[of[back]] - price[back]]
    near = d.member == d.kind[net.kind]
    deal, undeal = np.flatnonzero(near), np.flatnonzero(near & (net.new > 0))
    near = d.member == d.spare[net.block]
    more, fewer = np.flatnonzero(near & (net.more == 0)), np.flatnonzero(near & (net.more > 0))
    less, spare = np.flatnonzero((net.under > 0) & (d.member == 0)), np.flatnonzero((net.extras > 0) & (d.spare == 0))
    lost, many = (
        np.flatnonzero((net.unplaced > 0) & (d.class_ < _NEAR)),
        np.flatnonzero((net.over > 0) & (d.member < _NEAR)),
    )

    any_ = net.unplaced.sum() + net.over.sum()
    edges = (
        (member_0 + member[give], class_[give], net.kept[give]),
        (class_[regain], member_0 + member[regain], held[regain] - net.kept[regain]),
        (of[take], kind_0 + to[take], any_),
        (kind_0 + to[back], of[back], net.taken[back]),
        (kind_0 + net.kind[deal], member_0 + deal, any_),
        (member_0 + undeal, kind_0 + net.kind[undeal], net.new[undeal]),
        (member_0 + more, spare_0 + net.block[more], 1),
        (spare_0 + net.block[fewer], member_0 + fewer, 1),
        (member_0 + less, sink, net.under[less]),
        (spare_0 + spare, sink, net.extras[spare]),
        (source, lost, net.unplaced[lost]),
        (source, member_0 + many, net.over[many]),
    )
    tail, head, room = zip(*(np.broadcast_arrays(*edge) for edge in edges), strict=True)
    return (np.concatenate(tail), np.concatenate(head), np.concatenate(room)), len(give) == possible


def _settle(net: Network, tail: Ints, head: Ints, units: Ints) -> None:
    """Apply a flow to the network."""
    parts = len(net.first)
    sort = np.searchsorted(net.first, tail, side="right") * parts + np.searchsorted(net.first, head, side="right")

    def along(begin: int, end: int) -> tuple[Ints, Ints, Ints]:
        here = np.flatnonzero(sort == begin * parts + end + parts + 1)
        return tail[here] - net.first[begin], head[here] - net.first[end], units[here]

    cells = net.cells[0] * len(net.kind) + net.cells[1]
    pairs = net.pairs[0] * net.kinds + net.pairs[1]
    member, class_, count = along(_MEMBER, _CLASS)
    net.kept[np.searchsorted(cells, class_ * len(net.kind) + member)] -= count
    class_, member, count = along(_CLASS, _MEMBER)
    net.kept[np.searchsorted(cells, class_ * len(net.kind) + member)] += count
    class_, kind, count = along(_CLASS, _KIND)
    net.taken[np.searchsorted(pairs, class_ * net.kinds + kind)] += count
    kind, class_, count = along(_KIND, _CLASS)
    net.taken[np.searchsorted(pairs, class_ * net.kinds + kind)] -= count
    _, member, count = along(_KIND, _MEMBER)
    net.new[member] += count
    member, _, count = along(_MEMBER, _KIND)
    net.new[member] -= count
    member, _, _ = along(_MEMBER, _SPARE)
    net.more[member] = 1
    _, member, _ = along(_SPARE, _MEMBER)
    net.more[member] = 0
    member, _, count = along(_MEMBER, _SINK)
    net.under[member] -= count
    block, _, count = along(_SPARE, _SINK)
    net.extras[block] -= count
    _, class_, count = along(_SOURCE, _CLASS)
    net.unplaced[class_] -= count
    _, member, count = along(_SOURCE, _MEMBER)
    net.over[member] -= count
