"""Number of partitions of each topic per member when spread comes first: the exact optimum.

With spread as the first goal, every subscriber of a topic has its share of it, rounded down or up: ``q`` or ``q + 1``
of its partitions. It remains to decide which subscribers have one more of which topic. The optimum minimizes, in this
order: the sum of squared loads, the cost of units on other racks, and the units that leave their owner; or with the
last two swapped. Three steps find it:

1. `_dealt` deals the extra units and `_evened` moves them along chains of members until no chain lowers the sum.
2. `_face` finds a price of a unit at each member that proves this, and from it the pairs of topic and member in which
   *every* optimum has one more, those in which none has, and the loads that a member has in any optimum.
3. `transport.send` decides the rest at minimum cost, starting from the old assignment.

Example: orders and payments have 5 partitions each, ann, bob and cat read both. Each has 1 or 2 of each, and loads are
3 or 4. Extra units: 2 of orders, 2 of payments, for 3 members; one has both kinds, the others one.

Source: Frank & Murota 2022, "Decreasing minimization on M-convex sets" (what the optima have in common); for step 3 see
`transport`. KAFKA-16277 and confluentinc/librdkafka#4044 ask for this order of goals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..group.indexed import UNASSIGNED, Bools, Ints
from . import maxflow, transport
from .flow import Problem, Units, entrances, matched

_FAR = 1 << 60


@dataclass(frozen=True)
class _Pairs:
    """Pairs of a topic and a subscriber, sorted by topic, then member.

    Args:
        topic, member: int[E], numbers from 0.
        share: int[T], the partitions of each topic per subscriber, rounded down.
        extra: int[T], partitions beyond that.
        first: int[T + 1], first pair of each topic, then E.
    """

    topic: Ints
    member: Ints
    share: Ints
    extra: Ints
    first: Ints
    members: int

    def loads(self, more: Bools) -> Ints:
        """int[M], loads when the pairs in `more` have one more."""
        return np.bincount(self.member, self.share[self.topic] + more, self.members).astype(np.int64)


def optimum(problem: Problem, topic_of: Ints) -> Units:
    """The optimal units; see the module. No class may have partitions of two topics.

    `topic_of` is int[G], the topic of each class; its classes have the same subscribers.

    Cost: O(topics * members) per pass; a handful of passes and maximum flows where subscriptions are equal and racks do
    not matter. Terminates. Deterministic.
    """
    topics, topic_of = np.unique(topic_of, return_inverse=True)
    pairs = _pairs(problem, topic_of, len(topics))
    more = _evened(pairs, _dealt(pairs))
    free, low, high = _face(pairs, more)
    return _placed(problem, topic_of, pairs, _Choice(more, free, low, high))


def _pairs(problem: Problem, topic_of: Ints, topics: int) -> _Pairs:
    some = np.zeros(topics, np.int64)
    some[topic_of] = np.arange(len(topic_of))  # any class of the topic: all have the same subscribers
    of = problem.classes
    topic, member = np.nonzero(of.may()[of.readers[some]][:, of.kind])
    readers = np.bincount(topic, minlength=topics)
    share, extra = np.divmod(np.bincount(topic_of, of.size, topics).astype(np.int64), readers)
    return _Pairs(topic, member, share, extra, np.append(0, np.cumsum(readers)), len(of.kind))


def _dealt(pairs: _Pairs) -> Bools:
    """bool[E], a first choice: each topic's extra units go to its subscribers with the lowest loads."""
    more = np.zeros(len(pairs.topic), bool)
    load = pairs.loads(more)
    for t in np.flatnonzero(pairs.extra).tolist():
        begin, end = pairs.first[t], pairs.first[t + 1]
        here = pairs.member[begin:end]
        least = np.argsort(load[here], kind="stable")[: pairs.extra[t]]
        more[begin + least] = True
        load[here[least]] += 1
    return more


def _evened(pairs: _Pairs, more: Bools) -> Bools:
    """bool[E], the choice with the least sum of squared loads.

    A maximum flow moves extra units from all members above a level to members below it. Afterwards no chain leads from
    one side to the other, and each side is solved alone, at half the range of levels.
    """
    load = pairs.loads(more)
    open_ = np.flatnonzero(pairs.extra[pairs.topic])
    parts: list[tuple[Ints, Ints, int]] = [(open_, np.unique(pairs.member[open_]), 0)] if len(open_) else []
    while parts:
        some, members, floor = parts.pop()
        least, most = max(floor, int(load[members].min())), int(load[members].max())
        if most - least < 2:
            continue
        level = (least + most) // 2
        high = _levelled(pairs, more, load, some, members, level)
        above = high[pairs.member[some]]
        # A topic is on the upper side if units of it can still leave a member there.
        upper = np.zeros(len(pairs.share), bool)
        upper[pairs.topic[some[above & more[some]]]] = True
        same = above == upper[pairs.topic[some]]
        for side in (True, False):
            inside, of = some[same & (above == side)], members[high[members] == side]
            if len(inside) and len(of) > 1:
                parts.append((inside, of, level if side else 0))
    return more


def _levelled(pairs: _Pairs, more: Bools, load: Ints, some: Ints, members: Ints, level: int) -> Bools:
    """Move extra units of the pairs `some` from members above a level to members below; changes `more` and `load`.

    Returns bool[M], the members that are still above, and those that could take units from them.
    """
    topics, of = np.unique(pairs.topic[some], return_inverse=True)
    number = np.zeros(pairs.members, np.int64)
    number[members] = np.arange(len(members))
    by = number[pairs.member[some]] + len(topics)
    source, sink = len(topics) + len(members), len(topics) + len(members) + 1
    gives, takes = np.flatnonzero(more[some]), np.flatnonzero(~more[some])
    over, under = load[members] - level, level - load[members]
    many, few = np.flatnonzero(over > 0), np.flatnonzero(under > 0)
    one = np.ones(len(some), np.int64)
    tail, head, _ = maxflow.sent(
        np.concatenate([by[gives], of[takes], np.full(len(many), source), few + len(topics)]),
        np.concatenate([of[gives], by[takes], many + len(topics), np.full(len(few), sink)]),
        np.concatenate([one, over[many], under[few]]),
        source,
        sink,
    )
    inner = np.flatnonzero((tail != source) & (head != sink))
    topic, member = np.minimum(tail, head)[inner], np.maximum(tail, head)[inner]
    changed = some[np.searchsorted(of * sink + by, topic * sink + member)]
    more[changed] = ~more[changed]
    load[members] = (
        load[members]
        - np.bincount(pairs.member[changed[~more[changed]]], minlength=pairs.members)[members]
        + np.bincount(pairs.member[changed[more[changed]]], minlength=pairs.members)[members]
    )
    high = np.zeros(pairs.members, bool)
    high[members[load[members] > level]] = True
    while True:
        reached = np.zeros(len(pairs.share), bool)
        reached[pairs.topic[some[more[some] & high[pairs.member[some]]]]] = True
        also = high.copy()
        also[pairs.member[some[~more[some] & reached[pairs.topic[some]]]]] = True
        if (also == high).all():
            return high
        high = also


def _face(pairs: _Pairs, more: Bools) -> tuple[Bools, Ints, Ints]:
    """The common part of all choices with the least sum of squared loads.

    The price of a unit at a member with load L is between 2 L - 1, what its last unit added to the sum of squares, and
    2 L + 1, what another one would add. No subscriber without an extra unit of a topic asks for less than one with it.
    A choice is optimal if and only if it agrees with these prices (complementary slackness).

    Returns bool[E], pairs in which both choices agree with the prices; and int[M], the least and the greatest loads.
    """
    load = pairs.loads(more)
    price = 2 * load + 1
    by_member = np.flatnonzero(more)[np.argsort(pairs.member[more], kind="stable")]
    first = np.flatnonzero(np.diff(pairs.member[by_member], prepend=-1))
    having = pairs.member[by_member[first]]
    while True:
        asked = np.minimum.reduceat(np.where(more, _FAR, price[pairs.member]), pairs.first[:-1])
        fallen = price.copy()
        if len(having):
            fallen[having] = np.minimum(price[having], np.minimum.reduceat(asked[pairs.topic[by_member]], first))
        if (fallen == price).all():
            break
        price = fallen
    free = (price[pairs.member] == asked[pairs.topic]) & (pairs.extra[pairs.topic] > 0)
    return free, load - (price == 2 * load - 1), load + (price == 2 * load + 1)


@dataclass(frozen=True)
class _Choice:
    """The choices of least sum of squared loads.

    Args:
        more: bool[E], one of them: the pairs with an extra unit.
        free: bool[E], pairs that may also be the other way in others.
        low, high: int[M], the least and the greatest load of each member.
    """

    more: Bools
    free: Bools
    low: Ints
    high: Ints


def _placed(problem: Problem, topic_of: Ints, pairs: _Pairs, choice: _Choice) -> Units:
    """Solve racks and moves among the choices of least sum of squared loads.

    The network, with the bounds of its arcs; a topic of one class needs no cells, as its base is the same anywhere:

        class --0..1: one more-----------------------------> member --loads of the optima--> sink
        class --0..units: keep----------> cell (topic, member) --share..share + 1--> member
              --enter--> stall --deal--->
    """
    one = np.bincount(topic_of, minlength=len(pairs.share)) == 1
    simple = one[pairs.topic]
    network = _Network(problem, topic_of, pairs, choice, simple)
    flow = transport.send(network.arcs, network.supply)
    extra, kept, entered, given = np.split(flow[: network.ends[3]], network.ends[:3])
    class_of, stalls, _ = network.doors
    from_, to = network.deals
    given_class, given_pair, given_units = matched((class_of, stalls, entered), (from_, to, given))

    class_, _, cell_units = problem.cells
    units = (pairs.share[pairs.topic] + (choice.more & ~choice.free)).astype(np.int64)
    units[network.open] += extra
    stays = np.zeros(len(cell_units), np.int64)
    stays[network.kept] = kept
    plain = np.flatnonzero(one[topic_of[class_]])
    stays[plain] = np.minimum(cell_units[plain], units[network.pair_of_cell[plain]])

    new = np.where(simple, units, 0)
    np.subtract.at(new, network.pair_of_cell[plain], stays[plain])
    some = np.flatnonzero(new)
    classes = np.concatenate([network.class_of[pairs.topic[some]], given_class])
    members = np.concatenate([pairs.member[some], pairs.member[given_pair]])
    cells, at = np.unique(classes * pairs.members + members, return_inverse=True)
    units_ = np.bincount(at, np.concatenate([new[some], given_units]), len(cells)).astype(np.int64)
    return Units(stays, (cells // pairs.members, cells % pairs.members, units_))


class _Network:
    """The network of `_placed`.

    Attributes:
        class_of: int[T], a class of each topic: the only one, if it has one.
        pair_of_cell: int[C], the pair of each cell of the problem.
        open: int[], pairs with an arc of their own: one more or not.
        kept: int[], cells of the problem with an arc of their own.
        doors: Classes, stalls and costs, parallel arrays; see `flow.entrances`.
        deals: Stalls and pairs that may be dealt units from there, parallel arrays.
        arcs: Arcs of `open`, then of `kept`, `doors` and `deals`, then the others.
        ends: Ends of the first four kinds in `arcs`.
        supply: int[N], per node: classes, members, the sink, cells, stalls.
    """

    def __init__(  # long: one table of arcs, kind by kind
        self, problem: Problem, topic_of: Ints, pairs: _Pairs, choice: _Choice, simple: Bools
    ) -> None:
        class_, member, cell_units = problem.cells
        classes, members = len(topic_of), pairs.members
        self.class_of = np.zeros(len(pairs.share), np.int64)
        self.class_of[topic_of] = np.arange(classes)
        keys = pairs.topic * members + pairs.member
        self.pair_of_cell = np.searchsorted(keys, topic_of[class_] * members + member)
        self.open = np.flatnonzero(simple & choice.free)
        self.kept = np.flatnonzero(~simple[self.pair_of_cell]) if len(class_) else np.zeros(0, np.int64)
        self.doors, self.deals, stalls = _deals(problem, topic_of, pairs, simple)
        cells = np.flatnonzero(~simple)
        sink = classes + members
        node = np.zeros(len(simple), np.int64)
        node[cells] = sink + 1 + np.arange(len(cells))
        stall_0 = sink + 1 + len(cells)
        nodes = stall_0 + stalls
        # One unit of the first goal outweighs all of the second along a path.
        rack, move = (nodes, 1) if problem.racks_first else (1, int(problem.classes.cost.max(initial=0)) * nodes + 1)

        sure = pairs.share[pairs.topic] + (choice.more & ~choice.free)
        had = np.bincount(self.pair_of_cell, cell_units, len(simple)).astype(np.int64)
        by, of = pairs.member[self.open], self.class_of[pairs.topic[self.open]]
        extra_cost = problem.classes.price(of, by) * rack - move * (had > sure)[self.open]
        kept_cost = problem.classes.price(class_[self.kept], member[self.kept]) * rack - move

        # Without a reason to do otherwise, the units start where they were dealt.
        wanted = np.bincount(of[extra_cost < 0], minlength=classes) > 0
        extra = np.where(extra_cost == 0, choice.more[self.open] & ~wanted[of], extra_cost < 0).astype(np.int64)
        kept = np.where(kept_cost < 0, cell_units[self.kept], 0)
        into = np.bincount(self.pair_of_cell[self.kept], kept, len(simple)).astype(np.int64)[cells]
        low, high = sure[cells], sure[cells] + choice.free[cells]
        through = np.clip(into, low, high)
        base = np.bincount(pairs.member, np.where(simple, sure, 0), members).astype(np.int64)
        load = base + np.bincount(by, extra, members) + np.bincount(pairs.member[cells], through, members)

        none, enter, deal = np.zeros_like, self.doors[0], self.deals[0]
        far = np.bincount(topic_of, problem.classes.size, len(pairs.share)).astype(np.int64)[pairs.topic[self.deals[1]]]
        self.arcs = transport.Arcs(
            tail=np.concatenate(
                [of, class_[self.kept], enter, stall_0 + deal, node[cells], classes + np.arange(members)]
            ),
            head=np.concatenate(
                [
                    classes + by,
                    node[self.pair_of_cell[self.kept]],
                    stall_0 + self.doors[1],
                    node[self.deals[1]],
                    classes + pairs.member[cells],
                    np.full(members, sink),
                ]
            ),
            low=np.concatenate([none(of), none(self.kept), none(enter), none(deal), low, choice.low]),
            high=np.concatenate(
                [none(of) + 1, cell_units[self.kept], problem.classes.size[enter], far, high, choice.high]
            ),
            cost=np.concatenate([extra_cost, kept_cost, self.doors[2] * rack, none(deal), none(low), none(choice.low)]),
            flow=np.concatenate(
                [extra, kept, none(enter), none(deal), through, np.clip(load, choice.low, choice.high).astype(np.int64)]
            ),
        )
        self.ends = np.cumsum([len(of), len(self.kept), len(enter), len(deal)]).tolist()
        placed = np.bincount(pairs.topic, sure, len(pairs.share)).astype(np.int64)
        plain = simple[pairs.first[:-1]][topic_of]
        self.supply = np.zeros(nodes, np.int64)
        self.supply[:classes] = problem.classes.size - np.where(plain, placed[topic_of], 0)
        self.supply[classes:sink] = base
        self.supply[sink] = -int(problem.classes.size.sum())


def _deals(
    problem: Problem, topic_of: Ints, pairs: _Pairs, simple: Bools
) -> tuple[tuple[Ints, Ints, Ints], tuple[Ints, Ints], int]:
    """How units of topics with several classes reach members: doors, deals (`_Network`), and the number of stalls."""
    of = problem.classes
    rack = of.rack[of.kind[pairs.member]]
    near = np.zeros((len(pairs.share), of.cost.shape[1]), bool)
    near[pairs.topic, rack] = True
    several = np.flatnonzero(~simple[pairs.first[:-1]][topic_of])
    doors, stall = entrances(topic_of, several, near, of.cost)
    cells = np.flatnonzero(~simple)
    beside = stall[pairs.topic[cells], rack[cells]]
    on = np.flatnonzero(beside != UNASSIGNED)
    on = on[np.argsort(beside[on], kind="stable")]
    deals = np.concatenate([pairs.topic[cells], beside[on]]), np.concatenate([cells, cells[on]])
    return doors, deals, int(max(stall.max(), len(near) - 1)) + 1
