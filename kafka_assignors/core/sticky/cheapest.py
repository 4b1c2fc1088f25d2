"""Place every unit at minimum cost when loads are fixed up to one: the second step of `flow`.

A minimum cost flow by the primal-dual method. It starts with every unit at its old member, which no exchange can
improve. Two things are then out of place: units without a member, and members with too many units. Each round computes
the shortest distance from every node to a free place, then sends as much as possible along all shortest paths at once.
After each round the remaining distances are longer, and there are few distinct distances.

    class --enter--> stall --take--> kind --deal--> member --may have one more--> spare (one a block) --> place
      |                                               | ^                                                   ^
      +------------------keep-------------------------+-+----------------has less than it must--------------+

A stall is shared by classes that the same kinds may have, or some of these kinds (`flow`).

Each edge has a reverse edge at the negative cost. Distances are measured to free places, so all displaced units move
in one round, each on its own shortest path. Edges of the source may have negative reduced costs: all become full.

Source: Ford & Fulkerson 1962; Ahuja, Magnanti & Orlin 1993, "Network Flows", 9.8 (the primal-dual method).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..group.indexed import Bools, Ints
from . import maxflow
from .transport import FAR, NEAR, Steps

# Initial number of units that a member offers for each one it must give up. Neighbours offer different classes, which
# also spreads the moves over classes.
_FEW = 2

_DENSE = 200_000
"""Edges times passes over all of them in a round; if paths are longer, each node has its turn (`transport.Steps`)."""

_CLASS, _STALL, _KIND, _MEMBER, _SPARE, _SOURCE, _SINK = range(7)


@dataclass
class Network:
    """Current units per member, and the units still out of place.

    Args:
        classes, stalls, kinds: Their numbers.
        kind, block: int[M], each member's kind and block.
        cells: Parallel arrays: classes, members, units held before, and the cost to keep a unit.
        doors: Parallel arrays: classes, stalls, and the cost to let a unit in; sorted, each pair once.
        pairs: Parallel arrays: stalls, kinds, and the cost to take a unit; sorted, each pair once.
        kept: int[], units that stay, per cell.
        entered, taken: int[], new units, per door and per pair.
        new: int[M], new units.
        more: int[M], 1 if the member has one more than the lower load, else 0.
        unplaced: int[G], units without a member.
        over, under: int[M], surplus units, and units missing to the lower load.
        extras: int[B], number of members of the block that may still have one more.
    """

    classes: int
    stalls: int
    kinds: int
    kind: Ints
    block: Ints
    cells: tuple[Ints, Ints, Ints, Ints]
    doors: tuple[Ints, Ints, Ints]
    pairs: tuple[Ints, Ints, Ints]
    kept: Ints
    entered: Ints
    taken: Ints
    new: Ints
    more: Ints
    unplaced: Ints
    over: Ints
    under: Ints
    extras: Ints

    @cached_property
    def first(self) -> Ints:
        """Node number of the first class, stall, kind, member and spare, and of the source and sink."""
        return np.cumsum([0, self.classes, self.stalls, self.kinds, len(self.kind), len(self.extras), 1])


@dataclass(frozen=True)
class Distances:
    """Cost of the cheapest path to a free place from each class, stall, kind, member and spare; `FAR` if none."""

    class_: Ints
    stall: Ints
    kind: Ints
    member: Ints
    spare: Ints


def send(network: Network) -> None:
    """Place everything at minimum cost, in place; see the module.

    There must be room for all units, and no exchange of placed units may lower the cost.

    Cost: one round per distinct distance, a handful. Each round takes some passes over cells and pairs, and one or two
    maximum flows on classes, kinds and members. Terminates because the distances grow. Deterministic.
    """
    *_, source, sink = network.first.tolist()
    steps: Steps | None = None
    before: Ints | None = None
    while network.unplaced.any() or network.over.any():
        distances = None if steps else _distances(network)
        if distances is None:
            steps = steps or _steps(network)
            before = steps.distances(*_open(network), before)
            distances = Distances(*np.split(before, network.first[1:-2]))
        if not _ways(network, distances):
            raise AssertionError("the loads of a block leave no room for its partitions")
        for offers in (_FEW, None):
            (tail, head, room), everything = _edges(network, distances, offers)
            _settle(network, *maxflow.sent(tail, head, room, source, sink))
            if everything or not _ways(network, distances):
                break


def _ways(net: Network, d: Distances) -> bool:
    """Whether any unit out of place has a path."""
    return bool(net.unplaced[d.class_ < NEAR].any() or net.over[d.member < NEAR].any())


def _steps(net: Network) -> Steps:
    """All edges and their reverse edges, by the types of `_open`."""
    class_0, stall_0, kind_0, member_0, spare_0, *_ = net.first.tolist()
    class_, member, _, keeping = net.cells
    all_ = np.arange(len(net.kind))
    edges = (
        (net.doors[0] + class_0, net.doors[1] + stall_0, net.doors[2]),
        (net.pairs[0] + stall_0, net.pairs[1] + kind_0, net.pairs[2]),
        (net.kind + kind_0, all_ + member_0, np.zeros_like(all_)),
        (class_ + class_0, member + member_0, keeping),
        (all_ + member_0, net.block + spare_0, np.zeros_like(all_)),
    )
    tail, head, cost = (np.concatenate(column) for column in zip(*edges, strict=True))
    return Steps(spare_0 + len(net.extras), *map(np.concatenate, ((tail, head), (head, tail), (cost, -cost))))


def _open(net: Network) -> tuple[Bools, Bools]:
    """Which edges have room, in the order of `_steps`, and which nodes are free places."""
    any_ = np.ones(len(net.doors[0]) + len(net.pairs[0]) + len(net.kind), bool)
    ahead = any_, net.kept < net.cells[2], net.more == 0
    back = net.entered > 0, net.taken > 0, net.new > 0, net.kept > 0, net.more > 0
    none = np.zeros(net.classes + net.stalls + net.kinds, bool)
    return np.concatenate([*ahead, *back]), np.concatenate([none, net.under > 0, net.extras > 0])


def _distances(net: Network) -> Distances | None:
    """Bellman-Ford, with all edges of one type relaxed at once; None if paths are long."""
    _, _, cell_units, _ = net.cells
    of, to, price = net.pairs
    give, regain = _some(net.kept > 0, *net.cells), _some(net.kept < cell_units, *net.cells)
    classes, stalls, fee = net.doors
    door, pair = (np.flatnonzero(np.diff(sorted_, prepend=-1)) for sorted_ in (classes, of))
    undone, unlet = np.flatnonzero(net.taken), np.flatnonzero(net.entered)
    undo = of[undone], to[undone], price[undone]
    dealt, extra = np.flatnonzero(net.new), np.flatnonzero(net.more)

    d = Distances(
        np.full(net.classes, FAR),
        np.full(net.stalls, FAR),
        np.full(net.kinds, FAR),
        np.where(net.under > 0, 0, FAR),
        np.where(net.extras > 0, 0, FAR),
    )
    for _ in range(max(_DENSE // (len(of) + len(cell_units)), 6)):
        before = d.class_.copy(), d.stall.copy(), d.kind.copy(), d.member.copy()
        np.minimum.at(d.spare, net.block[extra], d.member[extra])
        np.minimum(d.member, np.where(net.more == 0, d.spare[net.block], FAR), out=d.member)
        np.minimum.at(d.kind, net.kind, d.member)
        np.minimum.at(d.kind, undo[1], d.stall[undo[0]] - undo[2])
        d.stall[of[pair]] = np.minimum(d.stall[of[pair]], np.minimum.reduceat(d.kind[to] + price, pair))
        np.minimum.at(d.stall, stalls[unlet], d.class_[classes[unlet]] - fee[unlet])
        at = classes[door]
        d.class_[at] = np.minimum(d.class_[at], np.minimum.reduceat(d.stall[stalls] + fee, door))
        np.minimum.at(d.class_, regain[0], d.member[regain[1]] + regain[3])
        d.member[dealt] = np.minimum(d.member[dealt], d.kind[net.kind[dealt]])
        if (d.class_ != before[0]).any():
            np.minimum.at(d.member, give[1], d.class_[give[0]] - give[3])
        if all((now == then).all() for now, then in zip((d.class_, d.stall, d.kind, d.member), before, strict=True)):
            return d
    return None


def _some(which: Bools, *columns: Ints) -> tuple[Ints, ...]:
    """Select rows; without a copy if all are selected."""
    if which.all():
        return columns
    rows = np.flatnonzero(which)
    return tuple(column[rows] for column in columns)


def _edges(net: Network, d: Distances, offers: int | None) -> tuple[tuple[Ints, Ints, Ints], bool]:
    """The edges on shortest paths: tails, heads and capacities; and whether members offer all that they may.

    A member offers `offers` units for each one it must give up; None: all that it may. Most members must give up one or
    two and can choose from hundreds. A flow on few offers nearly always sends as much, at a fraction of the cost.
    Neighbours offer different classes, so the flow takes some units of many classes rather than all of one.
    """
    class_, member, cell_units, keeping = net.cells
    of, to, price = net.pairs
    doors, stalls, fee = net.doors
    _, stall_0, kind_0, member_0, spare_0, source, sink = net.first.tolist()

    give = np.flatnonzero((d.member[member] == d.class_[class_] - keeping) & (net.kept > 0))
    possible = len(give)
    if offers is not None:
        by = member[give]
        stride = np.maximum(np.bincount(by, minlength=len(net.kind)) // (offers * (net.over + 2)), 1)
        give = give[(class_[give] + by) % stride[by] == 0]
    regain = np.flatnonzero(net.kept < cell_units)
    regain = regain[d.class_[class_[regain]] == d.member[member[regain]] + keeping[regain]]
    enter = np.flatnonzero(d.class_[doors] == d.stall[stalls] + fee)
    exit_ = np.flatnonzero(net.entered)
    exit_ = exit_[d.stall[stalls[exit_]] == d.class_[doors[exit_]] - fee[exit_]]
    take = np.flatnonzero(d.stall[of] == d.kind[to] + price)
    back = np.flatnonzero(net.taken)
    back = back[d.kind[to[back]] == d.stall[of[back]] - price[back]]
    near = d.member == d.kind[net.kind]
    deal, undeal = np.flatnonzero(near), np.flatnonzero(near & (net.new > 0))
    near = d.member == d.spare[net.block]
    more, fewer = np.flatnonzero(near & (net.more == 0)), np.flatnonzero(near & (net.more > 0))
    less, spare = np.flatnonzero((net.under > 0) & (d.member == 0)), np.flatnonzero((net.extras > 0) & (d.spare == 0))
    lost, many = (
        np.flatnonzero((net.unplaced > 0) & (d.class_ < NEAR)),
        np.flatnonzero((net.over > 0) & (d.member < NEAR)),
    )

    any_ = net.unplaced.sum() + net.over.sum()
    edges = (
        (member_0 + member[give], class_[give], net.kept[give]),
        (class_[regain], member_0 + member[regain], cell_units[regain] - net.kept[regain]),
        (doors[enter], stall_0 + stalls[enter], any_),
        (stall_0 + stalls[exit_], doors[exit_], net.entered[exit_]),
        (stall_0 + of[take], kind_0 + to[take], any_),
        (kind_0 + to[back], stall_0 + of[back], net.taken[back]),
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
    doors = net.doors[0] * net.stalls + net.doors[1]
    pairs = net.pairs[0] * net.kinds + net.pairs[1]
    member, class_, count = along(_MEMBER, _CLASS)
    net.kept[np.searchsorted(cells, class_ * len(net.kind) + member)] -= count
    class_, member, count = along(_CLASS, _MEMBER)
    net.kept[np.searchsorted(cells, class_ * len(net.kind) + member)] += count
    class_, stall, count = along(_CLASS, _STALL)
    net.entered[np.searchsorted(doors, class_ * net.stalls + stall)] += count
    stall, class_, count = along(_STALL, _CLASS)
    net.entered[np.searchsorted(doors, class_ * net.stalls + stall)] -= count
    stall, kind, count = along(_STALL, _KIND)
    net.taken[np.searchsorted(pairs, stall * net.kinds + kind)] += count
    kind, stall, count = along(_KIND, _STALL)
    net.taken[np.searchsorted(pairs, stall * net.kinds + kind)] -= count
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
