"""The assignors for kafka-python: members and cluster metadata in, ConsumerProtocolAssignments out.

Thin: what is decided is decided in `core`. Each class goes into ``partition_assignment_strategy`` as a class, an
instance, a ``functools.partial`` or a `factory`:

>>> consumer_options = {"partition_assignment_strategy": [CooperativeStickyAssignor.factory(rack="eu-1a")]}

What `assign` drops or cannot place (garbage user data, wrong claims, missing topics) is logged once, as a warning of
the logger ``kafka_assignors``; it never raises for what other members send.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .adapter import Assignor  # first: it says what to install where kafka-python is missing

# isort: split
from ..core.sticky.objective import GOALS, Matrix
from ..core.strategies import strategy
from ..errors import UnknownName
from . import stateless
from .cooperative import PROTOCOLS as PROTOCOLS  # noqa: PLC0414 (exported)
from .cooperative import Cooperative
from .guard import guard as guard  # noqa: PLC0414 (exported)
from .weighted import WeightedAssignor as WeightedAssignor  # noqa: PLC0414 (exported)


class RangeAssignor(Assignor):
    """``range``: see `kafka_assignors.core.stateless.range.assign`."""

    name = "range"
    _strategy = strategy("range")

    def __init__(self, *, rack: str | None = None) -> None:
        super().__init__(rack=rack)


class RoundRobinAssignor(Assignor):
    """``roundrobin``: see `kafka_assignors.core.stateless.roundrobin.assign`."""

    name = "roundrobin"
    _strategy = strategy("roundrobin")

    def __init__(self, *, rack: str | None = None) -> None:
        super().__init__(rack=rack)


class _Sticky(Assignor):
    """What the two eager sticky assignors share.

    Args:
        rack: See `Assignor`.
        parity: ``"java"`` answers exactly what Java's assignor of the same name answers, its hash order included. It is
            often less balanced or moves more where subscriptions differ, and slow in large groups. If Java's algorithm
            throws, does not terminate, or returns an invalid assignment, the optimal assignment is used instead, and a
            warning says so. None, the default, always answers the optimal assignment.
        rack_costs: What it costs to read from another rack: ``"replica"`` (the default), ``"leader"``, ``"none"`` or a
            matrix {member rack: {replica rack: cost}}; see `core.sticky.objective.Objective`. All members
            should have the same; `kafka_assignors.core.group.options` says what holds where they differ.
        goals: ``("balance", "racks", "moves")`` (the default) or ``("balance", "moves", "racks")``.

    Raises:
        ConfigError: `rack` is no string, or another argument is not one of these; the message names it.
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
    """``sticky``: see `kafka_assignors.core.sticky.sticky.assign`. Claims travel in user data V1, as Java writes it.

    ``parity="java"`` is there for those who need Java's very answer: see `kafka_assignors.core.java.sticky.assign`.
    """

    name = "sticky"
    _strategy = strategy("sticky")


class CompactStickyAssignor(_Sticky):
    """``compact-sticky``: as `StickyAssignor`, with user data that take a tenth (`kafka_assignors.core.wire.compact`).

    For groups so large that Java's user data, four bytes a partition, do not fit into one record of the coordinator's
    log. All members must have it: it is no name of Java's, and no other client knows it.
    """

    name = "compact-sticky"
    _strategy = strategy("compact-sticky")


class CooperativeStickyAssignor(Cooperative):
    """``cooperative-sticky``: see `core.sticky.cooperative.assign`; ``parity="java"`` as for `StickyAssignor`.

    Alone, or beside other cooperative assignors, its consumer rebalances incrementally (COOPERATIVE). Beside an eager
    one the consumer stays EAGER: it revokes all before each join, so it claims nothing. That is what a rolling change
    needs (KIP-429): bounce every member from ``[old]`` to ``[CooperativeStickyAssignor, old]``, then every member to
    ``[CooperativeStickyAssignor]``.

    What it claims to hold is true, or a partition would stay unassigned: what the consumer holds at that moment, and
    nothing once it was fenced.

    Args:
        rack: See `Assignor`.
        parity, rack_costs, goals: See `StickyAssignor`.
        protocol: ``"auto"`` supports both rebalance protocols and does as its consumer does. ``"cooperative"`` and
            ``"eager"`` support that one alone, so that kafka-python refuses a list that would mean the other.

    Raises:
        ConfigError: `rack` is no string, `protocol` none of the three, or an option as for `StickyAssignor`.
    """

    name = "cooperative-sticky"
    _strategy = strategy("cooperative-sticky")

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
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    CooperativeStickyAssignor,
    CompactStickyAssignor,
    *stateless.CLASSES,
    WeightedAssignor,
)
ASSIGNORS: Mapping[str, type[Assignor]] = {cls.name: cls for cls in _CLASSES}
"""Protocol name -> assignor class."""


def assignor(name: str) -> type[Assignor]:
    """The assignor class of a protocol name.

    Raises:
        UnknownName: No assignor has that name; the message lists the known ones.
    """
    if name not in ASSIGNORS:
        raise UnknownName("assignor", name, ASSIGNORS)
    return ASSIGNORS[name]
