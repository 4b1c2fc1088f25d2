"""Prices that prove an assignment optimal when spread comes first; `quota_bound` says what they prove."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.group.claims import Claims
from ...core.group.indexed import UNASSIGNED, Bools, Ints
from ...core.sticky.flow import Classes
from ...core.sticky.objective import Objective
from ...core.sticky.racks import position_costs
from ...core.sticky.sticky import classify, topics_of
from .certificate import Certificate, Price

_FAR = 1 << 61


@dataclass(frozen=True)
class Scale:
    """The three parts of a price as one number: one unit of a part outweighs the sum of the next over any path.

    The fields are one unit of squared load, of the second part and of rack cost, and one move.
    """

    square: int
    second: int
    rack: int
    move: int

    @classmethod
    def of(cls, nodes: int, dearest: int, racks_first: bool) -> Scale:
        """The scale for paths of at most so many nodes, and costs up to `dearest`."""
        second = nodes * (1 if racks_first else dearest)
        square = second * nodes * (dearest if racks_first else 1)
        return cls(square, second, second if racks_first else 1, 1 if racks_first else second)

    def parts(self, price: int) -> Price:
        """A price as a vector; its lower parts may be negative."""
        squares = (price + self.square // 2) // self.square
        rest = price - squares * self.square
        middle = (rest + self.second // 2) // self.second
        return squares, middle, rest - middle * self.second


def certify(claims: Claims, owner: Ints, objective: Objective) -> Certificate | None:
    """Prices of an assignment: shortest distances in its residual graph, as in `prices.certify`.

    `owner` is int[P], the number of each position's owner; `UNASSIGNED` only for topics without subscribers. Spread is
    the first goal of `objective`. None if a better assignment exists.

    Cost: O(P), then O(pairs of topic and subscriber, and of class and subscriber where topics have several) per round.
    """
    classes = classify(claims.indexed, position_costs(claims.indexed, objective), by_topic=True)
    if not len(classes.size):
        return Certificate(objective, {member.member_id: (0, 0, 0) for member in claims.indexed.members})
    graph = _Graph(claims, owner, classes)
    if not graph.sound:
        return None
    nodes = 4 * (len(classes.size) + len(graph.member) + 2 * len(claims.indexed.members) + 2)
    scale = Scale.of(nodes, int(classes.cost.max(initial=0)) or 1, objective.racks_first)
    settled = graph.settle(scale, nodes)
    if settled is None:
        return None
    price, inside = settled
    ids = [member.member_id for member in claims.indexed.members]
    cells: dict[str, dict[str, Price]] = {}
    for i in np.flatnonzero(~graph.plain).tolist():
        topic = claims.indexed.topics[graph.topic_name[graph.topic[i]]]
        cells.setdefault(topic, {})[ids[graph.member[i]]] = scale.parts(int(inside[i]))
    prices = {member_id: scale.parts(int(p)) for member_id, p in zip(ids, price.tolist(), strict=True)}
    return Certificate(objective, prices, cells)


class _Graph:
    """The units of each topic, class and member.

    Attributes:
        topic: int[E], topic of each pair of a topic and a subscriber, numbered from 0; ascending.
        member: int[E], its member.
        plain: bool[E], whether all partitions of the topic are of one class.
        topic_name: int[T], number of each topic in the group.
        sound: Whether every pair has its share, rounded down or up, and, where all partitions of the topic are alike,
            keeps as much of it as it can.
    """

    def __init__(self, claims: Claims, owner: Ints, classes: Classes) -> None:
        members = len(claims.indexed.members)
        self.classes = classes
        self.topic_name, topic_of = np.unique(topics_of(classes, claims.indexed), return_inverse=True)
        some = np.zeros(len(self.topic_name), np.int64)
        some[topic_of] = np.arange(len(topic_of))
        self.topic, self.member = np.nonzero(classes.may()[classes.readers[some]][:, classes.kind])
        readers = np.bincount(self.topic)
        share, extra = np.divmod(np.bincount(topic_of, classes.size).astype(np.int64), readers)
        self.plain = (np.bincount(topic_of) == 1)[self.topic]
        given, had = owner != UNASSIGNED, (claims.holder != UNASSIGNED) & (classes.of != UNASSIGNED)
        self.load = np.bincount(owner[given], minlength=members)
        keys = self.topic * members + self.member

        def pair(at: Bools, who: Ints) -> Ints:
            return np.searchsorted(keys, topic_of[classes.of[at]] * members + who[at])

        units = np.bincount(pair(given, owner), minlength=len(keys))
        holdings = np.bincount(pair(had, claims.holder), minlength=len(keys))
        # 0: must have exactly its share; -1, 1: has it rounded down, up.
        kept = given & (owner == claims.holder)
        stay = np.bincount(pair(kept, owner), minlength=len(keys))
        even = (units == share[self.topic]) | (units == (share + (extra > 0))[self.topic])
        self.sound = bool((even & (~self.plain | (stay == np.minimum(units, holdings)))).all())
        self.side = np.where(extra[self.topic] > 0, np.where(units > share[self.topic], 1, -1), 0)
        self.keeps = holdings > share[self.topic]  # one more is one that stays
        # Pairs of a class and a subscriber, in topics with several classes.
        several = (np.bincount(topic_of) > 1)[topic_of]
        begin, count = np.searchsorted(self.topic, topic_of[several]), readers[topic_of[several]]
        at = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        self.class_, self.cell = np.repeat(np.flatnonzero(several), count), np.repeat(begin, count) + at
        codes = self.class_ * members + self.member[self.cell]
        self.stays, self.dealt, self.leaves = (
            np.isin(codes, np.unique(classes.of[at] * members + who[at]))
            for at, who in ((kept, owner), (given & ~kept, owner), (had & ~kept, claims.holder))
        )
        self.class_of = np.zeros(len(self.topic_name), np.int64)
        self.class_of[topic_of] = np.arange(len(topic_of))

    def settle(self, scale: Scale, rounds: int) -> tuple[Any, Any] | None:
        """Prices of members and of cells: arrays of integers; None if they fall below their least.

        Topic with one class: a subscriber without an extra unit has at least the price of one with it. With several
        classes: cells that may get or keep a unit of a class have at least the price of cells that have one. A cell's
        price is at least its member's if it has an extra unit, and at most its member's if it has none.
        """
        classes, load = self.classes, self.load
        exact = np.int64 if scale.square * (2 * int(load.max(initial=0)) + 5) < _FAR // 4 else object
        far = scale.square * (2 * int(load.max(initial=0)) + 4)
        price = (2 * load + 1).astype(exact) * scale.square
        least = np.where(load > 0, (2 * load - 1).astype(exact) * scale.square, -far)
        inside = np.full(len(self.topic), far, exact)
        rack = classes.cost.astype(exact) * scale.rack
        plain, cells = np.flatnonzero(self.plain & (self.side != 0)), np.flatnonzero(~self.plain)
        topic, member = self.topic[plain], self.member[plain]
        here = rack[self.class_of[topic], classes.rack[classes.kind[member]]] - scale.move * self.keeps[plain]
        more, fewer = np.flatnonzero(self.side[plain] > 0), np.flatnonzero(self.side[plain] < 0)
        down, up = cells[self.side[cells] < 0], cells[self.side[cells] > 0]
        there = rack[self.class_, classes.rack[classes.kind[self.member[self.cell]]]]
        for _ in range(rounds):
            before = price.copy(), inside.copy()
            asked = np.full(len(self.topic_name), far + scale.square, exact)
            np.minimum.at(asked, topic[fewer], (price[member] + here)[fewer])
            np.minimum.at(price, member[more], (asked[topic] - here)[more])
            value = np.full(len(classes.size), far + scale.square, exact)
            np.minimum.at(value, self.class_, inside[self.cell] + there)
            np.minimum.at(value, self.class_[self.leaves], (inside[self.cell] + there - scale.move)[self.leaves])
            np.minimum.at(inside, self.cell[self.dealt], (value[self.class_] - there)[self.dealt])
            np.minimum.at(inside, self.cell[self.stays], (value[self.class_] - there + scale.move)[self.stays])
            inside[down] = np.minimum(inside[down], price[self.member[down]])
            np.minimum.at(price, self.member[up], inside[up])
            if (price < least).any():
                return None
            if (price == before[0]).all() and (inside == before[1]).all():
                return price, inside
        return None
