"""Lower bound on goals when spread comes first: the part of the topics, one at a time.

Spread needs no prices: n partitions over k subscribers have their least sum of squares when each subscriber has
``n // k`` or one more. Among these assignments, prices prove the rest as in `certificate`: a topic's part is the least
sum, over its partitions, of the owner's price and of what the partition costs there.

* If all partitions of a topic cost the same at each member, this is exact: all have their share, the cheapest one more.
* Otherwise the certificate also prices the *cells* of the topic, one per subscriber. A partition pays the price of a
  cell and its cost there; the cell passes its partitions on at the member's price. Both sums have their own least
  value, and the sum of these is a bound for any prices of cells.

Worked example: a and b read t (3 partitions), a holds all of them, prices are 2 and 2. Each has 1, which costs 2 + 2;
with 1 it gives up 2. One more costs 2 at either, and saves a move at a: the bound is 6 and one move.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...core.group.claims import Claims
from ...core.group.indexed import UNASSIGNED, Ints
from ...core.sticky.racks import RackCosts

Vector = tuple[int, int, int]


def least_spread(readers: int, count: int) -> int:
    """The least sum of squares of a topic's partitions per subscriber."""
    share, extra = divmod(count, readers)
    return readers * share**2 + extra * (2 * share + 1)


class TopicBounds:
    """The lower bound of every topic, and their sum.

    Args:
        price: int[M, 3], a price per member.
        cells: topic -> member id -> price of a partition there, where its partitions differ in cost; else the member's.
        in_rack: int[3], one unit of rack cost as a vector.
        per_move: int[3], a move as a vector.
    """

    def __init__(  # the parts of one sum
        self,
        claims: Claims,
        price: Ints,
        cells: Mapping[str, Mapping[str, Vector]],
        racks: RackCosts,
        in_rack: Ints,
        per_move: Ints,
    ) -> None:
        self._claims, self._price, self._cells, self._racks = claims, price, cells, racks
        self._in_rack, self._per_move = in_rack, per_move
        self._ids = [member.member_id for member in claims.indexed.members]

    def total(self) -> tuple[int, Vector]:
        """The least spread, and the least of the vectors among assignments that have it."""
        indexed, spread, sums = self._claims.indexed, 0, [0, 0, 0]
        readers_of: dict[bytes, Ints] = {}
        columns = np.ascontiguousarray(indexed.reads.T)
        for t, column in enumerate(columns):
            key = column.tobytes()
            if key not in readers_of:
                readers_of[key] = np.flatnonzero(column[indexed.subscription])
            readers = readers_of[key]
            if len(readers):
                at = slice(*indexed.first[t : t + 2].tolist())
                spread += least_spread(len(readers), at.stop - at.start)
                for i, part in enumerate(self._topic(indexed.topics[t], readers, at)):
                    sums[i] += part
        return spread, (sums[0], sums[1], sums[2])

    def _topic(self, topic: str, readers: Ints, at: slice) -> Vector:
        holder = self._claims.holder[at]
        rows, row_of = np.unique(self._racks.of[at], return_inverse=True)
        cost = self._racks.rows[rows][:, self._racks.rack[readers]]
        surplus = cost - cost.min(axis=1, keepdims=True)
        place = np.full(len(self._ids) + 1, UNASSIGNED)
        place[readers] = np.arange(len(readers))
        share, extra = divmod(len(holder), len(readers))
        price = self._price[readers]
        if (surplus == surplus[0]).all():
            # A constant per partition, for any owner; the rest depends only on the number.
            always = int((cost.min(axis=1) * np.bincount(row_of, minlength=len(rows))).sum())
            holdings = np.bincount(place[holder[holder != UNASSIGNED]], minlength=len(readers))
            unit = price + surplus[0][:, None] * self._in_rack
            more = unit - (holdings > share)[:, None] * self._per_move
            gone = int(np.maximum(holdings - share, 0).sum())
            dearer = _first(more)[:extra].sum(axis=0)
            return _sum([(self._in_rack, always), (self._per_move, gone), (unit.sum(axis=0), share), (dearer, 1)])
        cell_prices = self._cells.get(topic, {})
        inside = np.array([cell_prices.get(self._ids[m], tuple(self._price[m])) for m in readers.tolist()], np.int64)
        beyond = price - inside
        parts: list[tuple[Ints | Vector, int]] = [(beyond.sum(axis=0), share), (_first(beyond)[:extra].sum(axis=0), 1)]
        for row in range(len(rows)):
            unit = inside + cost[row][:, None] * self._in_rack
            best = _first(unit)[0]
            mine = holder[row_of == row]
            holdings = np.bincount(place[mine[mine != UNASSIGNED]], minlength=len(readers))
            parts.append((best, len(mine) - int(holdings.sum())))
            goes = best + self._per_move
            for stays, units in zip(unit[holdings > 0].tolist(), holdings[holdings > 0].tolist(), strict=True):
                parts.append((min(tuple(stays), tuple(goes.tolist())), units))
        return _sum(parts)


def _first(vectors: Ints) -> Ints:
    """Vectors in ascending order, compared from left to right."""
    ordered: Ints = vectors[np.lexsort(vectors.T[::-1])]
    return ordered


def _sum(parts: list[tuple[Ints | Vector, int]]) -> Vector:
    """The sum of vector * number; exact at any size."""
    a = b = c = 0
    for vector, times in parts:
        if times:
            x, y, z = (int(component) for component in vector)
            a, b, c = a + x * times, b + y * times, c + z * times
    return a, b, c
