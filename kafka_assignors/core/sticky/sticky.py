"""The sticky assignor: optimal balance, then racks, then the fewest moves (KIP-54).

docs/optimum.md shows on one small group how the optimum is found and proven.
"""

from __future__ import annotations

import numpy as np

from ..group import Group
from ..group.assignment import Assignment
from ..group.claims import Claims, resolve
from ..group.indexed import UNASSIGNED, Bools, Indexed, Ints
from . import flow, quotas, spread
from .flow import Classes
from .objective import Objective
from .racks import RackCosts, distinct, position_costs

DEFAULT = Objective()


def assign(group: Group, claims: Claims | None = None, *, objective: Objective = DEFAULT) -> Assignment:
    """Assign every partition to a subscriber; the optimal assignment in this order of goals.

    1. Balance: the least sum of squared loads, which is also the least maximum and the fairest vector of loads.
    2. Racks: the least cost of reading from other racks; by default the fewest partitions whose member's rack has no
       replica. Unknown racks cost nothing.
    3. Stickiness: the fewest moves away from undisputed owners (`claims.resolve`).
    4. Spread: each topic over many members, as far as the goals above permit. With ``goals=("spread", ...)`` this goal
       comes first, and is exact: every subscriber has its share of each topic, rounded down or up.
    5. Names: ties depend only on instance ids, client ids and topics (`rendezvous`). Members that restart without
       claims get most of their old partitions, or all of them if every member returns.

    Invalid claims are dropped. `claims` is `resolve(group)`, if the caller has it.

    Cost: see `flow.optimum`, or `quotas.optimum` with spread first, plus O(P log P) to choose the partitions.
    Deterministic under any order of members.
    Source: KIP-54, KIP-881; the goals of Java's ``StickyAssignor``, whose answer can be less balanced or move more.

    >>> from kafka_assignors.core.group import Member
    >>> assign(Group([Member("a", {"t"}, owned=[("t", 0), ("t", 1), ("t", 2)], generation=1), Member("b", {"t"})],
    ...              {"t": 3}))
    {'a': {'t': [0, 1]}, 'b': {'t': [2]}}
    """
    claims = claims or resolve(group)
    return claims.indexed.assignment(owners(claims, objective))


def owners(claims: Claims, objective: Objective = DEFAULT) -> Ints:
    """`assign` as an array: int[P], the number of each position's new owner; `UNASSIGNED` if nobody subscribes."""
    indexed, before = claims.indexed, claims.holder
    classes = _classes(claims, objective)
    if not len(classes.size):
        return np.full(indexed.size, UNASSIGNED)
    had = holdings(classes, before, len(indexed.members))
    return spread.chosen(indexed, classes.of, before, had, _units(claims, objective, classes, had))


def changes(claims: Claims, objective: Objective = DEFAULT) -> tuple[int, int]:
    """Changes of owner by `assign`: partitions that leave their holder, and partitions without one that get an owner.

    Cost: less than `owners`, because partitions of one class are only counted.
    """
    classes = _classes(claims, objective)
    if not len(classes.size):
        return 0, 0
    had = holdings(classes, claims.holder, len(claims.indexed.members))
    holding = int(had[2].sum())
    kept = int(_units(claims, objective, classes, had).kept.sum())
    return holding - kept, int(classes.size.sum()) - holding


def _classes(claims: Claims, objective: Objective) -> Classes:
    return classify(claims.indexed, position_costs(claims.indexed, objective), by_topic=objective.spread_first)


def _units(claims: Claims, objective: Objective, classes: Classes, had: tuple[Ints, Ints, Ints]) -> flow.Units:
    problem = flow.Problem(classes, had, objective.racks_first)
    if objective.spread_first:
        return quotas.optimum(problem, topics_of(classes, claims.indexed))
    return flow.optimum(problem)


def holdings(classes: Classes, owner: Ints, members: int) -> tuple[Ints, Ints, Ints]:
    """Units of each class per member as parallel, sorted arrays: classes, members and units."""
    having = np.flatnonzero((owner != UNASSIGNED) & (classes.of != UNASSIGNED))
    cell = classes.of[having] * members + owner[having]
    if len(classes.size) * members <= 4 * len(owner):
        count = np.bincount(cell, minlength=len(classes.size) * members)
        cells = np.flatnonzero(count)
        count = count[cells]
    else:
        cells, count = np.unique(cell, return_counts=True)
    return cells // members, cells % members, count


def topics_of(classes: Classes, indexed: Indexed) -> Ints:
    """int[G], the topic of each class; of one of its partitions, unless classes are by topic."""
    topic = np.zeros(len(classes.size), np.int64)
    some = classes.of != UNASSIGNED
    topic[classes.of[some]] = indexed.topic_of()[some]
    return topic


def classify(indexed: Indexed, prices: RackCosts, *, by_topic: bool = False) -> Classes:
    """Find the classes and kinds of a group; `by_topic`: no class has partitions of different topics.

    Costs are relative to the cheapest allowed kind, because a cost that every subscriber would pay does not matter.
    Cost: O(P + T * S); in a group with racks, O(P log P), and classes times racks.
    """
    one, none = np.ones((1, 1), bool), np.zeros(1, np.int64)
    if len(indexed.subscriptions) == prices.rows.size == 1 and indexed.reads.any() and not by_topic:
        of = np.repeat(np.where(indexed.reads[0], 0, UNASSIGNED), np.diff(indexed.first))
        size = np.array([np.count_nonzero(of == 0)])
        return Classes(of, size, none, one, none[:, None], none, none, np.zeros_like(prices.rack))
    alike: dict[tuple[int, int], int] = {}
    pairs = zip(indexed.subscription.tolist(), prices.rack.tolist(), strict=True)
    kind = np.array([alike.setdefault(pair, len(alike)) for pair in pairs], np.int64)
    subscription, rack = np.array(list(alike), np.int64).reshape(-1, 2).T

    columns = np.ascontiguousarray(indexed.reads.T)
    sets: dict[tuple[int, bytes], int] = {}  # topic if it matters, readers -> row of `allowed`
    readers = np.full(len(indexed.topics), UNASSIGNED)
    for t in np.flatnonzero(columns.any(axis=1)).tolist():
        readers[t] = sets.setdefault((t if by_topic else UNASSIGNED, columns[t].tobytes()), len(sets))
    allowed = np.array([np.frombuffer(column, bool) for _, column in sets], bool).reshape(len(sets), columns.shape[1])
    if len(prices.rows) == 1:
        of = np.repeat(readers, np.diff(indexed.first))
        every, free = np.arange(len(sets)), np.zeros((len(sets), prices.rows.shape[1]), np.int64)
    else:
        of, every, free = _priced(indexed, prices, readers, _near(allowed, subscription, rack, prices.rows.shape[1]))
    size = np.bincount(of[of != UNASSIGNED], minlength=len(every))
    return Classes(of, size, every, allowed, free, subscription, rack, kind)


def _near(allowed: Bools, subscription: Ints, rack: Ints, racks: int) -> Bools:
    """bool[N, R], the racks of the readers."""
    near: Bools = np.array([allowed[:, subscription[rack == r]].any(axis=1) for r in range(racks)], bool).T
    return near


def _priced(indexed: Indexed, prices: RackCosts, readers: Ints, near: Bools) -> tuple[Ints, Ints, Ints]:
    """Split partitions with the same readers, int[T] or `UNASSIGNED`, by cost; `near` is bool[N, R], the readers'
    racks.

    Returns int[P], the class of each position; int[G], its readers; int[G, R], its costs above the least of these.
    """
    rows = len(prices.rows)
    code = indexed.topic_of() * rows + prices.of
    code, inverse = np.unique(code[readers[indexed.topic_of()] != UNASSIGNED], return_inverse=True)
    who, row = readers[code // rows], code % rows
    cost = np.where(near[who], prices.rows[row], 0)
    least = np.where(near[who], cost, cost.max(initial=0)).min(axis=1, initial=cost.max(initial=0))
    cost = np.where(near[who], cost - least[:, None], 0)
    # Equal costs at the same readers are one class; classes are in the order of their first partition.
    first, same = distinct(np.column_stack([who, cost]))
    of = np.full(indexed.size, UNASSIGNED)
    of[readers[indexed.topic_of()] != UNASSIGNED] = same[inverse]
    return of, who[first], cost[first]
