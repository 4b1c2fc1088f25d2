"""The assignors for kafka-python: members and cluster metadata in, ConsumerProtocolAssignments out.

`core` makes all decisions. ``partition_assignment_strategy`` takes each class as a class, an instance, a
``functools.partial`` or a `factory`:

>>> consumer_options = {"partition_assignment_strategy": [CooperativeStickyAssignor.factory(rack="eu-1a")]}

`assign` never raises for data that other members send. It ignores garbage user data, wrong claims and missing topics,
and logs each once, as a warning of the logger ``kafka_assignors``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .adapter import Assignor  # first: its ImportError says what to install if kafka-python is missing

# isort: split
from ...core.declaration import MemberOptions
from ...core.sticky import GOALS, Matrix, objective
from ...errors import UnknownName
from .adapter import PROTOCOLS as PROTOCOLS  # noqa: PLC0414 (exported)
from .adapter import Cooperative, WithoutOptions


class RangeAssignor(WithoutOptions):
    """``range``: see `kafka_assignors.core.stateless.range.assign`."""

    name = "range"
    _java = MemberOptions


class RoundRobinAssignor(WithoutOptions):
    """``roundrobin``: see `kafka_assignors.core.stateless.roundrobin.assign`."""

    name = "roundrobin"
    _java = MemberOptions


class _Sticky(Assignor):
    """Base class of the two eager sticky assignors.

    Args:
        parity: ``"java"`` returns exactly the assignment of Java's assignor of the same name, including its hash order.
            If subscriptions differ, this assignment is often less balanced or moves more partitions, and it is slow in
            large groups. If Java's algorithm throws, does not terminate, or returns an invalid assignment, the optimal
            assignment is used instead, and a warning is logged. None, the default: always the optimal assignment.
        rack_costs: The cost of reading from another rack: ``"replica"`` (the default), ``"leader"``, ``"none"`` or a
            matrix {member rack: {replica rack: cost}}; see `core.sticky.objective.Objective`. All members should use
            the same; `kafka_assignors.core.group.options` resolves differences.
        goals: ``("balance", "racks", "moves")`` (the default), or with spread first ``("spread", "balance", "racks",
            "moves")``: every subscriber has its share of each topic, rounded down or up, before loads count. In both,
            racks and moves can be swapped.

    Raises:
        ConfigError: `rack` is not a string, or another argument is invalid; the message names it.
    """

    def __init__(
        self,
        *,
        rack: str | None = None,
        parity: str | None = None,
        rack_costs: str | Matrix = "replica",
        goals: Sequence[str] = GOALS[0],
    ) -> None:
        super().__init__(rack=rack, parity=parity, rack_costs=rack_costs, goals=goals)


class StickyAssignor(_Sticky):
    """``sticky``: see `kafka_assignors.core.sticky.sticky.assign`. Members send their claims in Java's user data V1.

    ``parity="java"`` returns Java's exact assignment: see `kafka_assignors.core.java.sticky.assign`.
    """

    name = "sticky"
    _java = objective.StickyOptions


class CompactStickyAssignor(_Sticky):
    """``compact-sticky``: as `StickyAssignor`, with user data a tenth as large (`kafka_assignors.core.wire.compact`).

    Use it for groups whose metadata, at four bytes per partition in Java's user data, do not fit into one record of the
    coordinator's log. All members must use it, because no other client has an assignor of this name.
    """

    name = "compact-sticky"


class CoPartitionedAssignor(Assignor):
    """``copartitioned``: see `kafka_assignors.core.copartitioned.assign`. Eager, and all members must have it.

    `CooperativeCoPartitionedAssignor` is the same without a stop of the group.

    >>> consumer_options = {"partition_assignment_strategy": [
    ...     CoPartitionedAssignor.factory(topics=[["orders", "payments"], ["users", "visits"]])]}

    Args:
        rack: See `Assignor`.
        topics: Sets of co-partitioned topics, for example ``[["orders", "payments"]]``; other topics are placed alone.
            None (the default): topics with the same partition count and the same subscribers are co-partitioned.
        rack_costs, goals: As for `StickyAssignor`, about bundles of partitions; spread first by default.

    Raises:
        ConfigError: An argument is invalid; the message names it.
    """

    name = "copartitioned"

    def __init__(
        self,
        *,
        rack: str | None = None,
        topics: Sequence[Sequence[str]] | None = None,
        rack_costs: str | Matrix = "replica",
        goals: Sequence[str] = GOALS[2],
    ) -> None:
        super().__init__(rack=rack, topics=topics, rack_costs=rack_costs, goals=goals)


class CooperativeCoPartitionedAssignor(Cooperative):
    """``cooperative-copartitioned``: as `CoPartitionedAssignor`; members keep their partitions during a rebalance.

    A bundle that moves is withheld for one rebalance, until its owner has revoked it. A running group of
    `CoPartitionedAssignor` changes in two rolling restarts, as for `CooperativeStickyAssignor`: first with
    ``[CooperativeCoPartitionedAssignor, CoPartitionedAssignor]``, then with the first one alone. aiokafka's consumers
    are eager and can't have it.

    Args:
        topics, rack_costs, goals: See `CoPartitionedAssignor`.
        rack, protocol: See `Cooperative`.

    Raises:
        ConfigError: An argument is invalid; the message names it.
    """

    name = "cooperative-copartitioned"

    def __init__(
        self,
        *,
        rack: str | None = None,
        topics: Sequence[Sequence[str]] | None = None,
        rack_costs: str | Matrix = "replica",
        goals: Sequence[str] = GOALS[2],
        protocol: str = "auto",
    ) -> None:
        super().__init__(rack=rack, protocol=protocol, topics=topics, rack_costs=rack_costs, goals=goals)


class CooperativeStickyAssignor(Cooperative):
    """``cooperative-sticky``: see `core.sticky.cooperative.assign`; ``parity="java"`` as for `StickyAssignor`.

    With cooperative assignors alone in the list, the consumer rebalances incrementally (COOPERATIVE). With an eager
    assignor in the list, the consumer stays EAGER: it revokes all partitions before each join and claims none. A
    rolling change relies on this (KIP-429): restart every member with ``[CooperativeStickyAssignor, old]``, then
    restart every member with ``[CooperativeStickyAssignor]``.

    A false claim would leave a partition unassigned. So the assignor claims only partitions that the consumer holds at
    that moment, and none once the consumer is fenced.

    Args:
        parity, rack_costs, goals: See `StickyAssignor`.
        rack, protocol: See `Cooperative`.

    Raises:
        ConfigError: `rack` is not a string, `protocol` is invalid, or an option is invalid as in `StickyAssignor`.
    """

    name = "cooperative-sticky"
    _java = objective.CooperativeStickyOptions

    def __init__(
        self,
        *,
        rack: str | None = None,
        parity: str | None = None,
        rack_costs: str | Matrix = "replica",
        goals: Sequence[str] = GOALS[0],
        protocol: str = "auto",
    ) -> None:
        super().__init__(rack=rack, protocol=protocol, parity=parity, rack_costs=rack_costs, goals=goals)


_CLASSES: tuple[type[Assignor], ...] = (
    RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor, CompactStickyAssignor,
    CoPartitionedAssignor, CooperativeCoPartitionedAssignor,
)  # fmt: skip
ASSIGNORS: Mapping[str, type[Assignor]]
"""Protocol name -> assignor class; built on first access, because it needs every assignor's modules."""


def __getattr__(name: str) -> Any:
    if name != "ASSIGNORS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import stateless, weighted

    by_work: tuple[type[Assignor], ...] = (weighted.WeightedAssignor, weighted.LagAssignor)
    every = globals()["ASSIGNORS"] = {cls.name: cls for cls in (*_CLASSES, *stateless.CLASSES, *by_work)}
    return every


def assignor(name: str) -> type[Assignor]:
    """The assignor class of a protocol name; raises `UnknownName`, which lists the known ones."""
    for cls in _CLASSES:
        if cls.name == name:
            return cls
    every: Mapping[str, type[Assignor]] = __getattr__("ASSIGNORS")
    if name not in every:
        raise UnknownName("assignor", name, every)
    return every[name]
