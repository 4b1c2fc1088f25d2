"""The goals of the optimal assignment, their order, and the cost of reading from another rack."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import ConfigError
from ..group import DictionaryEncoded
from ..group.indexed import Indexed, Ints

GOALS = (
    ("balance", "racks", "moves"),
    ("balance", "moves", "racks"),
    ("spread", "balance", "racks", "moves"),
    ("spread", "balance", "moves", "racks"),
)
MODES = ("replica", "leader", "none")
FINEST = 1_000_000
"""The largest scaled cost of a matrix, so that sums along any path of the flow stay exact."""

Matrix = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Objective:
    """Goals in lexicographic order: no gain in a later goal outweighs a loss in an earlier one.

    Args:
        rack_costs: The cost of reading a partition from another rack. ``"replica"``: 0 if any replica is on the
            member's rack, else 1 (consumers that fetch from followers, KIP-392). ``"leader"``: 0 if the leader is, else
            1 (consumers that fetch from leaders). ``"none"``: always 0. Or a matrix {member rack: {replica rack: cost}}
            in any unit (for example money per GB): a partition costs as much as its cheapest replica. A pair missing in
            the matrix costs 0 within one rack and the matrix's largest cost between two; an empty matrix costs nothing.
            In all modes, a member or a partition with an unknown rack costs nothing.
        goals: One of `GOALS`, such as ``("balance", "racks", "moves")`` or ``("spread", "balance", "racks", "moves")``.
            Spread is the sum, over topics and members, of the squared number of the topic's partitions that the member
            has: it is least when every subscriber has its share of each topic, rounded down or up. Balance is the sum
            of squared loads; moves are partitions that leave their undisputed owner. Racks and moves can be swapped.

    Raises:
        ConfigError: An unknown mode or order, or an invalid cost.
    """

    rack_costs: str | Matrix = "replica"
    goals: Sequence[str] = GOALS[0]
    _table: Mapping[tuple[str, str], int] = field(init=False, repr=False, compare=False)
    _dearest: int = field(init=False, repr=False, compare=False)
    unit: Fraction = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.goals, list | tuple) or tuple(self.goals) not in GOALS:
            known = " or ".join(map(str, GOALS))
            raise ConfigError(f"goals must be {known}, not {self.goals!r}")
        object.__setattr__(self, "goals", tuple(self.goals))
        table, unit = _scaled(self.rack_costs) if isinstance(self.rack_costs, Mapping) else ({}, Fraction(1))
        if not isinstance(self.rack_costs, Mapping) and self.rack_costs not in MODES:
            raise ConfigError(
                f"rack_costs must be one of {MODES} or {{member rack: {{replica rack: cost}}}}, not {self.rack_costs!r}"
            )
        object.__setattr__(self, "_table", table)
        object.__setattr__(self, "_dearest", max(table.values(), default=0))
        object.__setattr__(self, "unit", unit)

    @property
    def spread_first(self) -> bool:
        """Whether every subscriber must have its share of each topic before loads count."""
        return self.goals[0] == "spread"

    @property
    def racks_first(self) -> bool:
        """Whether racks come before moves."""
        return self.goals.index("racks") < self.goals.index("moves")

    def price(self, member_rack: str, replica_rack: str) -> int:
        """Cost for a member on one rack to read a replica on another, in multiples of `unit`."""
        if isinstance(self.rack_costs, str):
            return int(member_rack != replica_rack)
        return self._table.get((member_rack, replica_rack), 0 if member_rack == replica_rack else self._dearest)


def _scaled(matrix: Mapping[Any, Any]) -> tuple[dict[tuple[str, str], int], Fraction]:
    """The matrix in integer multiples of a unit, so that sums of costs compare exactly."""
    exact: dict[tuple[str, str], Fraction] = {}
    for member_rack, row in matrix.items():
        if not isinstance(row, Mapping):
            raise ConfigError(f"rack_costs[{member_rack!r}] must be {{replica rack: cost}}, not {row!r}")
        for replica_rack, cost in row.items():
            name = f"rack_costs[{member_rack!r}][{replica_rack!r}]"
            if not isinstance(member_rack, str) or not isinstance(replica_rack, str):
                raise ConfigError(f"{name}: rack names are strings")
            if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < math.inf:
                raise ConfigError(f"{name} must be a number of 0 or above, not {cost!r}")
            exact[member_rack, replica_rack] = Fraction(str(cost))
    denominator = math.lcm(*(cost.denominator for cost in exact.values()))
    divisor = math.gcd(*(int(cost * denominator) for cost in exact.values())) or 1
    unit = Fraction(divisor, denominator)
    table = {pair: int(cost / unit) for pair, cost in exact.items()}
    if max(table.values(), default=0) > FINEST:
        raise ConfigError(
            f"rack_costs are too fine-grained: the largest is {max(table.values())} times their common unit, above the "
            f"limit of {FINEST}; round them"
        )
    return table, unit


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


def position_costs(indexed: Indexed, objective: Objective) -> RackCosts:
    """Compute the rack costs of a group's positions. Cost: O(P), plus rows times racks."""
    if isinstance(indexed, Priced) and indexed.costs is not None:
        return indexed.costs
    group = indexed.group
    columns: dict[str | None, int] = {None: 0}
    rack = np.array([columns.setdefault(member.rack, len(columns)) for member in indexed.members], np.int64)
    by_leader = objective.rack_costs == "leader"
    places: Mapping[str, Sequence[Hashable]] = group.leaders if by_leader else group.racks
    if len(columns) == 1 or not places or objective.rack_costs == "none":
        zero = np.zeros(1, np.int64)
        return RackCosts(np.broadcast_to(zero, indexed.size), np.zeros_like(rack), zero[:, None])
    of = np.zeros(indexed.size, np.int64)
    rows: dict[tuple[int, ...], int] = {(0,) * len(columns): 0}
    seen: dict[Hashable, int] = {}
    at: Callable[[Any], Sequence[str]] = (lambda leader: (leader,) if leader else ()) if by_leader else tuple
    for t, topic in enumerate(indexed.topics):
        here = places.get(topic, ())[: int(indexed.first[t + 1] - indexed.first[t])]
        if not isinstance(here, DictionaryEncoded):
            number = {each: i for i, each in enumerate(dict.fromkeys(here))}
            here = DictionaryEncoded(list(number), np.array(list(map(number.__getitem__, here)), np.int64))
        for each in here.values:
            if each not in seen:
                row = tuple(_cheapest(objective, member_rack, at(each)) for member_rack in columns)
                seen[each] = rows.setdefault(row, len(rows))
        row_of = np.array([seen[each] for each in here.values], np.int64)
        of[indexed.first[t] : indexed.first[t] + len(here)] = row_of[here.codes]
    in_order = {row: i for i, row in enumerate(sorted(rows))}  # the result must not depend on the order of racks
    place = np.array([in_order[row] for row in rows], np.int64)
    return RackCosts(place[of], rack, np.array(list(in_order), np.int64))


def _cheapest(objective: Objective, member_rack: str | None, racks: Sequence[str]) -> int:
    if member_rack is None:
        return 0
    return min((objective.price(member_rack, rack) for rack in racks), default=0)
