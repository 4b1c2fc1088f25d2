"""The cost of reading each partition from another rack, per member."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..group import DictionaryEncoded
from ..group.indexed import Indexed, Ints
from .objective import Objective


@dataclass(frozen=True)
class RackCosts:
    """The cost of each position for each member: ``rows[of[position], rack[member]]``, in multiples of the unit.

    Args:
        of: int[P], row of each position. Row 0 is free for all members.
        rack: int[M], column of each member. Column 0 is always free.
        rows: int[W, R], the distinct cost rows.
    """

    of: Ints
    rack: Ints
    rows: Ints


class Priced(Indexed):
    """A group whose units are several partitions each, with the rack costs of the units."""

    costs: RackCosts | None = None


def distinct(table: Ints) -> tuple[Ints, Ints]:
    """The first of each kind of equal rows, ascending; and each row's kind. Cost: O(rows log rows) comparisons."""
    table = np.ascontiguousarray(table)
    whole = table.view(np.dtype((np.void, table.dtype.itemsize * table.shape[1]))).ravel()
    _, first, same = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return first[order], number[same.ravel()]


def position_costs(indexed: Indexed, objective: Objective) -> RackCosts:
    """Compute the rack costs of a group's positions. Cost: O(P), plus rows times racks."""
    if isinstance(indexed, Priced) and indexed.costs is not None:
        return indexed.costs
    group = indexed.group
    by_leader = objective.rack_costs == "leader"
    places: Mapping[str, Sequence[Hashable]] = group.leaders if by_leader else group.racks
    columns: dict[str | None, int] = {None: 0}
    if places and objective.rack_costs != "none":
        rack = np.array([columns.setdefault(member.rack, len(columns)) for member in indexed.members], np.int64)
    if len(columns) == 1:
        zero = np.zeros(1, np.int64)
        nowhere = np.zeros(len(indexed.members), np.int64)
        return RackCosts(np.broadcast_to(zero, indexed.size), nowhere, zero[:, None])
    of = np.zeros(indexed.size, np.int64)
    rows: dict[tuple[int, ...], int] = {(0,) * len(columns): 0}
    seen: dict[Hashable, int] = {}
    at: Callable[[Any], Sequence[str]] = (lambda leader: (leader,) if leader else ()) if by_leader else tuple
    for t, topic in enumerate(indexed.topics):
        here = places.get(topic, ())[: int(indexed.first[t + 1] - indexed.first[t])]
        if not isinstance(here, DictionaryEncoded):
            number = {location: i for i, location in enumerate(dict.fromkeys(here))}
            here = DictionaryEncoded(list(number), np.array(list(map(number.__getitem__, here)), np.int64))
        for location in here.values:
            if location not in seen:
                row = tuple(_cheapest(objective, member_rack, at(location)) for member_rack in columns)
                seen[location] = rows.setdefault(row, len(rows))
        row_of = np.array([seen[location] for location in here.values], np.int64)
        of[indexed.first[t] : indexed.first[t] + len(here)] = row_of[np.asarray(here.codes)]
    in_order = {row: i for i, row in enumerate(sorted(rows))}  # the result must not depend on the order of racks
    place = np.array([in_order[row] for row in rows], np.int64)
    return RackCosts(place[of], rack, np.array(list(in_order), np.int64))


def _cheapest(objective: Objective, member_rack: str | None, racks: Sequence[str]) -> int:
    if member_rack is None:
        return 0
    return min((objective.price(member_rack, rack) for rack in racks), default=0)
