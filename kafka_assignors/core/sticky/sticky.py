"""The sticky assignor: the best balance there is, then racks, then as few moves as that takes (KIP-54).

docs/optimum.md shows on one small group how the best is found, and proven.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..group import Group
from ..group.assignment import Assignment
from ..group.claims import Claims, resolve
from ..group.indexed import UNASSIGNED, Bools, Indexed, Ints
from . import flow, spread
from .objective import Objective, RackCosts, rack_costs

DEFAULT = Objective()


def assign(group: Group, claims: Claims | None = None, *, objective: Objective = DEFAULT) -> Assignment:
    """Give every partition to a subscriber; the best assignment in this order of goals.

    1. Balance: the least sum of squared loads, which is also the least maximum and the fairest vector of loads.
    2. Racks: the least cost of reading from other racks; by default the fewest partitions with a member whose rack has
       no replica of it. Unknown racks cost nothing.
    3. Stickiness: the fewest moves away from undisputed owners (`claims.resolve`).
    4. Spread: each topic over many members, as far as the above leaves it open.
    5. Names: what is still open is decided by instance ids, client ids and topics alone (`rendezvous`), so that members
       that restart without claims find what they had, all of it when all return.

    Args:
        group: Members in any order. Any claims will do: what is wrong with them is dropped.
        claims: `resolve(group)`, when the caller has it already.
        objective: What racks cost, and whether they come before moves.

    Returns:
        member id -> topic -> ascending partition ids; every member has an entry.

    Cost: see `flow.optimum`, plus O(P log P) to name the partitions. Deterministic under any order of members.
    Source: KIP-54, KIP-881; the goals of Java's ``StickyAssignor``, whose own answer can be less balanced or move more.

    >>> from kafka_assignors.core.group import Member
    >>> assign(Group([Member("a", {"t"}, owned=[("t", 0), ("t", 1), ("t", 2)], generation=1), Member("b", {"t"})],
    ...              {"t": 3}))
    {'a': {'t': [0, 1]}, 'b': {'t': [2]}}
    """
    claims = claims or resolve(group)
    return claims.indexed.assignment(owners(claims, objective))


def owners(claims: Claims, objective: Objective = DEFAULT) -> Ints:
    """`assign` as an array: int[P], the number of each position's new owner; `UNASSIGNED` where nobody subscribes."""
    indexed, before = claims.indexed, claims.holder
    classes = classify(indexed, rack_costs(indexed, objective))
    if not len(classes.size):
        return np.full(indexed.size, UNASSIGNED)
    had = held(classes, before, len(indexed.members))
    rack_first = objective.order.index("racks") < objective.order.index("moves")
    problem = flow.Problem(classes.size, classes.allowed, classes.cost, classes.kind, had, rack_first)
    return spread.chosen(indexed, classes.of, before, had, flow.optimum(problem))


def held(classes: Classes, owner: Ints, members: int) -> tuple[Ints, Ints, Ints]:
    """How many units of a class a member has: classes, members and units, parallel and sorted."""
    having = np.flatnonzero((owner != UNASSIGNED) & (classes.of != UNASSIGNED))
    cell = classes.of[having] * members + owner[having]
    if len(classes.size) * members <= 4 * len(owner):
        count = np.bincount(cell, minlength=len(classes.size) * members)
        cells = np.flatnonzero(count)
        count = count[cells]
    else:
        cells, count = np.unique(cell, return_counts=True)
    return cells // members, cells % members, count


@dataclass(frozen=True)
class Classes:
    """Partitions that the same members may have at the same cost, and members that are alike (kinds).

    Args:
        of: int[P], class of each position, `UNASSIGNED` where nobody subscribes.
        size: int[G], partitions in each.
        allowed: bool[G, K], which kinds may have them.
        cost: int[G, K], what a partition costs there in racks beyond the cheapest of the allowed kinds.
        kind: int[M], each member's kind.
    """

    of: Ints
    size: Ints
    allowed: Bools
    cost: Ints
    kind: Ints


def classify(indexed: Indexed, prices: RackCosts) -> Classes:
    """Find the classes and kinds of a group.

    What all who may have a partition would pay for it makes no difference between them, so classes know only what goes
    beyond. Cost: O(P + T * K), and in a group with racks topics times different rack sets of a topic.
    """
    alike: dict[tuple[int, int], int] = {}
    pairs = zip(indexed.subscription.tolist(), prices.rack.tolist(), strict=True)
    kind = np.array([alike.setdefault(pair, len(alike)) for pair in pairs], np.int64)
    subscription, rack = np.array(list(alike), np.int64).reshape(-1, 2).T
    reads = indexed.reads[subscription]
    price = prices.rows[:, rack]

    found: dict[tuple[bytes, bytes], int] = {}
    known: dict[tuple[bytes, int], int] = {}  # readers and row of prices -> class
    allowed: list[Bools] = []
    cost: list[Ints] = []
    of = np.full(indexed.size, UNASSIGNED)
    columns = np.ascontiguousarray(reads.T)
    free = np.zeros(len(alike), np.int64)  # what a row costs without racks
    priced = [bool(row.any()) for row in price]
    class_of = np.full(len(indexed.topics), UNASSIGNED)  # where all partitions of a topic cost the same
    for t in np.flatnonzero(columns.any(axis=1)).tolist():
        at = slice(*indexed.first[t : t + 2].tolist()) if len(price) > 1 else slice(0)
        column = columns[t]
        key = column.tobytes()
        rows = np.unique(prices.of[at]).tolist() if len(price) > 1 else [0]
        number = np.zeros(len(price), np.int64)
        for row in rows:
            if (key, row) not in known:
                beyond = np.where(column, price[row] - price[row][column].min(), 0) if priced[row] else free
                known[key, row] = found.setdefault((key, beyond.tobytes()), len(found))
                if known[key, row] == len(allowed):
                    allowed.append(column)
                    cost.append(beyond)
            number[row] = known[key, row]
        if len(price) > 1:
            of[at] = number[prices.of[at]]
        else:
            class_of[t] = number[0]
    if len(price) == 1:
        of = np.repeat(class_of, np.diff(indexed.first))
    shape = len(found), len(alike)
    size = np.bincount(of[of != UNASSIGNED], minlength=len(found))
    return Classes(of, size, np.array(allowed, bool).reshape(shape), np.array(cost, np.int64).reshape(shape), kind)
