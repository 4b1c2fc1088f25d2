"""Proof that an assignment is optimal, which can be checked without trusting the code that found it.

A certificate has a price per partition for each member. Prices prove a lower bound on the goals of *every* assignment
of the group (weak duality): an assignment costs

    sum over members (load² - price * load) + sum over partitions (price of its owner + its cost there)

and each term is at least its own minimum for any prices. So `bound` takes any prices: wrong prices make the bound
lower, never too high. An assignment whose goals equal the bound is optimal; `check` compares the two.

Worked example: a may read t (3 partitions) and u (1), b reads only t; no member holds a partition. With price 3 for a
and 3 for b, a member's term load² - 3 load has its minimum, -2, at a load of 1 or 2; each of the 4 partitions costs 3.
The bound is -2 - 2 + 4 * 3 = 8: no assignment has a sum of squares below 8, and loads of 2 and 2 reach it.

Prices, like goals, are vectors compared from left to right, in the order of the objective: balance outweighs the rest.

Source: Bertsekas, "Network Optimization", duality for separable convex costs. See docs/optimum.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...core import copartitioned
from ...core.group import Group
from ...core.group.claims import Claims, resolve
from ...core.group.indexed import UNASSIGNED, Bools, Indexed, Ints
from ...core.group.invariants import Breach, violations
from ...core.sticky.objective import Objective
from ...core.sticky.racks import RackCosts, position_costs
from .quota_bound import TopicBounds

LARGEST = 1 << 40
"""Upper bound on the parts of a price, so that a price plus a cost is exact in 64 bits. Sums are Python integers."""

Price = tuple[int, int, int]
"""Its parts are the goals after spread: sum of squared loads, then rack cost (in multiples of the objective's unit) and
moves, in the objective's order."""
Goals = tuple[int, ...]
"""The cost of an assignment: one number per goal of the objective, in its order."""


@dataclass(frozen=True)
class Certificate:
    """Prices that prove an optimum.

    Args:
        prices: member id -> price of a partition there: three parts, one per goal in the objective's order. Spread
            as the first goal needs none.
        cells: With spread first, topic -> member id -> price of one of the topic's partitions there, in topics whose
            partitions differ in rack cost; see `quota_bound`.
    """

    objective: Objective
    prices: Mapping[str, Price]
    cells: Mapping[str, Mapping[str, Price]] = field(default_factory=dict)


def check(
    group: Group,
    assignment: Mapping[str, Mapping[str, Sequence[int]]],
    certificate: Certificate,
    topics: copartitioned.Sets = (),
) -> list[Breach]:
    """Check that a certificate, from any source, proves an assignment optimal.

    The assignment, member id -> topic -> partition ids, is complete: it is no round that withholds partitions. With
    sets of co-partitioned `topics`, the prices are of their bundles.

    Returns:
        Empty if the assignment is proven optimal. Otherwise the violations of `invariants.violations`; if there are
        none, a ``price`` violation of a member that has no price or one with parts beyond `LARGEST`; if there is none,
        a ``bundle`` that has several owners; if there is none, the first goal (such as ``balance``) that is not at the
        bound. Then either the assignment is not optimal, or the prices are not those of an optimal one.

    Cost: O(P) to read the assignment, then O(M + classes * kinds + pairs of class and holder). Never raises.
    """
    broken = violations(group, assignment)
    if broken:
        return broken
    for member in group.members:
        price = certificate.prices.get(member.member_id)
        if not _is_price(price):
            text = f"member {member.member_id!r} needs a price of three integers up to {LARGEST}, not {price!r}"
            return [Breach("price", (member.member_id,), None, text)]
    for topic, cells in certificate.cells.items():
        for member_id, price in cells.items():
            if not _is_price(price):
                text = f"topic {topic!r} needs prices of three integers up to {LARGEST}, not {price!r}"
                return [Breach("price", (member_id,), None, text)]
    claims = resolve(group)
    owner = positions(claims.indexed, assignment)
    if topics:
        bundles = copartitioned.bundled(claims, topics, certificate.objective)
        if len(split := bundles.split(owner)):
            first = next(iter(bundles.claims.indexed.names(split)))
            return [Breach("bundle", (), None, f"bundle {first.topic}-{first.partition} has several owners")]
        claims, owner = bundles.claims, bundles.owners(owner)
    goals = score(claims, owner, certificate.objective)
    for name, value, least in zip(certificate.objective.goals, goals, bound(claims, certificate), strict=True):
        if value != least:
            return [Breach(name, (), None, f"{name}: the assignment has {value}, the prices prove {least}")]
    return []


def _is_price(price: object) -> bool:
    parts = price if isinstance(price, tuple | list) else ()
    return len(parts) == 3 and all(type(part) is int and abs(part) <= LARGEST for part in parts)


def score(claims: Claims, owner: Ints, objective: Objective) -> Goals:
    """The goals of an assignment, given as int[P]: the number of each position's owner, or `UNASSIGNED`."""
    given = np.flatnonzero(owner != UNASSIGNED)
    prices = position_costs(claims.indexed, objective)
    loads = np.bincount(owner[given], minlength=1).astype(np.int64)
    had = np.flatnonzero(claims.holder != UNASSIGNED)
    spread = 0
    if objective.spread_first:
        topic = np.repeat(np.arange(len(claims.indexed.topics)), np.diff(claims.indexed.first))
        _, units = np.unique(topic[given] * len(claims.indexed.members) + owner[given], return_counts=True)
        spread = int((units.astype(np.int64) ** 2).sum())
    goals = {
        "spread": spread,
        "balance": int((loads**2).sum()),
        "racks": int(prices.rows[prices.of[given], prices.rack[owner[given]]].sum()),
        "moves": int((owner[had] != claims.holder[had]).sum()),
    }
    return tuple(goals[name] for name in objective.goals)


def bound(claims: Claims, certificate: Certificate) -> Goals:
    """Lower bound on the goals of every assignment, compared lexicographically. Every member has a price."""
    indexed, objective = claims.indexed, certificate.objective
    if not indexed.members:
        return (0,) * len(objective.goals)
    price = np.array([certificate.prices[member.member_id] for member in indexed.members], np.int64)
    total = _loads(price.tolist(), indexed.size)

    racks = position_costs(indexed, objective)
    in_rack, per_move = np.zeros((2, 3), np.int64)
    in_rack[objective.goals[-2:].index("racks") + 1] = per_move[objective.goals[-2:].index("moves") + 1] = 1
    if objective.spread_first:
        spread, parts = TopicBounds(claims, price, certificate.cells, racks, in_rack, per_move).total()
        return spread, *(a + b for a, b in zip(total, parts, strict=True))
    columns: dict[bytes, int] = {}  # topics with equal subscribers count as one
    topic = [columns.setdefault(column.tobytes(), len(columns)) for column in np.ascontiguousarray(indexed.reads.T)]
    reads = np.array([np.frombuffer(column, bool) for column in columns], bool)
    reads = reads.reshape(len(columns), len(indexed.subscriptions))
    row = np.repeat(np.array(topic, np.int64), np.diff(indexed.first)) * len(racks.rows) + racks.of
    anybody: Bools = np.any(reads, axis=1)
    read = anybody[row // len(racks.rows)]
    size = np.bincount(row[read], minlength=len(columns) * len(racks.rows))

    best = _cheapest(price, reads, indexed, racks, in_rack)
    used = size > 0
    total = _added(total, best[used], size[used])
    # A held partition either stays at its holder's price, or goes to the best price and costs a move.
    held_positions = np.flatnonzero((claims.holder != UNASSIGNED) & read)
    cell, units = np.unique(row[held_positions] * len(price) + claims.holder[held_positions], return_counts=True)
    row, holder = cell // len(price), cell % len(price)
    stays = price[holder] + racks.rows[row % len(racks.rows), racks.rack[holder], None] * in_rack
    goes = best[row] + per_move
    least = np.where(_less(stays, goes)[:, None], stays, goes) - best[row]
    return _added(total, least, units)


def _added(total: Price, rows: Ints, times: Ints) -> Price:
    """`total` + sum of row * times over the rows; exact at any size."""
    first, second, third = total
    for (a, b, c), many in zip(rows.tolist(), times.tolist(), strict=True):
        first, second, third = first + a * many, second + b * many, third + c * many
    return first, second, third


def _loads(prices: Iterable[Price], most: int) -> Price:
    """Sum over members of the minimum of load² - price * load, for loads from 0 to `most`."""
    sums = (0, 0, 0)
    for squares, second, third in prices:
        # An odd price leaves two loads equally good in squares: the other parts decide.
        more = squares % 2 == 1 and (second, third) > (0, 0)
        load = min(max(squares // 2 + more, 0), most)
        sums = sums[0] + load * load - squares * load, sums[1] - second * load, sums[2] - third * load
    return sums


def _cheapest(price: Ints, reads: Bools, indexed: Indexed, racks: RackCosts, in_rack: Ints) -> Ints:
    """int[readers * rows, 3]: the lowest cost of a partition over all members that may have it."""
    best = np.full((len(reads), len(racks.rows), 3), LARGEST * 4)
    # Among members with the same subscription and rack, only the one with the lowest price matters.
    order = np.lexsort((*price.T[::-1], racks.rack, indexed.subscription))
    alike = indexed.subscription[order] * racks.rows.shape[1] + racks.rack[order]
    for m in order[np.flatnonzero(np.diff(alike, prepend=-1))].tolist():
        cost = price[m] + racks.rows[:, racks.rack[m], None] * in_rack
        may = reads[:, indexed.subscription[m]]
        best[may] = np.where(_less(cost, best[may])[..., None], cost, best[may])
    return best.reshape(-1, 3)


def _less(a: Ints, b: Ints) -> Bools:
    """Whether vectors (along the last axis) come before others, compared from left to right."""
    less: Bools = a[..., 2] < b[..., 2]
    for part in (1, 0):
        less = (a[..., part] < b[..., part]) | ((a[..., part] == b[..., part]) & less)
    return less


def positions(indexed: Indexed, assignment: Mapping[str, Mapping[str, Sequence[int]]]) -> Ints:
    """A valid assignment as int[P]: the number of each position's owner; `UNASSIGNED` for partitions that it lacks."""
    owner = np.full(indexed.size, UNASSIGNED)
    for m, member in enumerate(indexed.members):
        for topic, ids in assignment[member.member_id].items():
            owner[indexed.first[indexed.number[topic]] + np.array(ids, np.int64)] = m
    return owner
