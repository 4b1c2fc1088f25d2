"""The goals of the optimal assignment, their order, and the prices of racks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a member imports this file before it joins, and only a matrix of costs needs fractions
    from fractions import Fraction

from ...errors import ConfigError
from ..declaration import CooperativeOptions as Cooperative
from ..declaration import MemberOptions, Option, among, optional
from ..group.options import finite
from . import GOALS, Matrix

MODES = ("replica", "leader", "none")
_COSTS = f"one of {MODES} or {{member rack: {{replica rack: cost}}}}"
_ORDERS = " or ".join(map(str, GOALS))
FINEST = 1_000_000
"""The largest scaled cost of a matrix, so that sums along any path of the flow stay exact."""


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
    unit: Fraction | int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.goals, list | tuple) or tuple(self.goals) not in GOALS:
            raise ConfigError(f"goals must be {_ORDERS}, not {self.goals!r}")
        object.__setattr__(self, "goals", tuple(self.goals))
        table, unit = _scaled(self.rack_costs) if isinstance(self.rack_costs, Mapping) else ({}, 1)
        if not isinstance(self.rack_costs, Mapping) and self.rack_costs not in MODES:
            raise ConfigError(f"rack_costs must be {_COSTS}, not {self.rack_costs!r}")
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


class StickyOptions(MemberOptions):
    """The options of the sticky assignors."""

    parity = Option(
        "str | None", None, "'java' or None", "`java`: exactly the assignment of Java's assignor.",
        optional(among("java")),
    )  # fmt: skip
    rack_costs = Option(
        "str | Matrix", "replica", _COSTS, "The cost of reading from another rack.",
        lambda costs: Objective(costs).rack_costs,
    )  # fmt: skip
    goals = Option(
        "Sequence[str]", GOALS[0], _ORDERS, "The goals of the optimum, in their order.",
        lambda goals: Objective(goals=goals).goals,
    )  # fmt: skip

    objective: Objective

    def validate(self) -> None:
        """``parity="java"`` has Java's own goals."""
        self.objective = Objective(self.rack_costs, self.goals)
        if self.parity == "java" and self.objective != Objective():
            raise ConfigError(
                f"parity='java' uses Java's own goals; rack_costs={self.rack_costs!r}, goals={self.goals!r} need "
                "parity=None"
            )


class CooperativeStickyOptions(StickyOptions, Cooperative):
    """The options of ``cooperative-sticky``."""


def _scaled(matrix: Mapping[Any, Any]) -> tuple[dict[tuple[str, str], int], Fraction]:
    """The matrix in integer multiples of a unit, so that sums of costs compare exactly."""
    from fractions import Fraction

    exact: dict[tuple[str, str], Fraction] = {}
    for member_rack, row in matrix.items():
        if not isinstance(row, Mapping):
            raise ConfigError(f"rack_costs[{member_rack!r}] must be {{replica rack: cost}}, not {row!r}")
        for replica_rack, cost in row.items():
            name = f"rack_costs[{member_rack!r}][{replica_rack!r}]"
            if not isinstance(member_rack, str) or not isinstance(replica_rack, str):
                raise ConfigError(f"{name}: rack names are strings")
            number = finite(cost)
            if number is None or number < 0:
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
