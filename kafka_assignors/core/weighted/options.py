"""The options of placement by work and by lag."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ...errors import ConfigError
from ..declaration import (
    CooperativeOptions,
    Figure,
    Needs,
    Of,
    OfPartitions,
    Option,
    among,
    flag,
    number,
    optional,
    whole,
)
from .hysteresis import GROUP_S, PARTITION_S
from .model import EPSILON, FASTEST, SLOWEST, checked, is_partition

KINDS = ("work", "records", "lag")
"""Kinds of measured work: seconds per second; records per second, for equal processing times; records behind."""
FARTHEST = 1 << 31
"""The greatest priority, and the least one if negative."""
Partitions = Collection[tuple[str, int]] | Mapping[str, Collection[int]]
"""As ``[("orders", 0)]``, or by topic: ``{"orders": [0]}``."""


def _capacity(value: Any) -> float:
    given = number(0)(value)
    if given and not SLOWEST <= given <= FASTEST:
        raise ValueError
    return given


def _path(value: Any) -> Any:
    if not isinstance(value, str) and not hasattr(value, "__fspath__"):
        raise ValueError
    return value


def _eager(value: Any) -> bool | frozenset[str]:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) or not isinstance(value, Collection) or not all(isinstance(m, str) for m in value):
        raise ValueError
    return frozenset(value)


def _state(given: Any) -> Mapping[str, Any]:
    try:
        return checked(given)
    except ConfigError as error:
        raise ConfigError(f"state, which is given like weights: {error}") from error


def _resting(given: Any) -> dict[str, list[int]]:
    """Topic -> ascending partition ids."""
    if isinstance(given, Mapping):
        given = [(topic, p) for topic, ids in given.items() for p in (ids if isinstance(ids, Iterable) else [None])]
    by_topic: dict[str, set[int]] = {}
    if given is not None and (isinstance(given, str) or not isinstance(given, Iterable)):
        raise ValueError
    for pair in given or ():
        named = isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)
        if not named or not is_partition(pair[1]):
            raise ConfigError(f"resting: {pair!r} is no (topic, partition)")
        by_topic.setdefault(pair[0], set()).add(int(pair[1]))
    return {topic: sorted(ids) for topic, ids in sorted(by_topic.items())}


_FORM = "a mapping like {('orders', 0): 12.5} or {'orders': [12.5, None]}, or None"


class ByWorkOptions(CooperativeOptions):
    """What both families share."""

    weights = OfPartitions(
        "Weights | None", _FORM, "Work per second of partitions, in any unit that all members share.", checked
    )
    epsilon = Option(
        "float", EPSILON, f"a number above 0, like {EPSILON}",
        "How far the greatest work / capacity may be above the bound, if that saves moves.",
        number(0, above=True),
    )  # fmt: skip
    move_budget = Option(
        "int | None", None, "a number of moves from 0, or None",
        "The most partitions that may leave an owner that could keep them, until the group rests.",
        optional(whole(0)),
    )  # fmt: skip
    hysteresis = Option("bool", False, "True or False", "Whether moves need a reason, in every rebalance.", flag)
    capacity = Figure(
        "float", 1.0, "0 (standby) or a number from 1e-6 to 1e6",
        "This member's share of the work, compared with other members' capacities; 0 for a hot standby.",
        _capacity,
    )  # fmt: skip
    check_every_s = Option(
        "float | None", None, "a number of seconds above 0, or None",
        "Seconds between checks whether this member's work stands out, so that it asks for a rebalance; None: never.",
        optional(number(0, above=True)), of=Of.CONSUMER, needs=Needs.REQUEST,
    )  # fmt: skip
    rest_s = Option(
        "float", GROUP_S, "a number of seconds above 0",
        "Seconds after a rebalance in which this member doesn't ask for another.",
        number(0, above=True), of=Of.CONSUMER, needs=Needs.REQUEST,
    )  # fmt: skip
    partition_rest_s = Option(
        "float", PARTITION_S, "a number of seconds from 0",
        "With `hysteresis`, seconds that a partition stays after it moved to this member.",
        number(0), of=Of.CONSUMER,
    )  # fmt: skip
    eager = Option(
        "bool | Collection[str]", False, "True, False or a list of member ids",
        "Members that revoked everything before they joined, or True for all.",
        _eager, of=Of.PLAN, json=lambda value: value if isinstance(value, bool) else sorted(value),
    )  # fmt: skip
    checks = Option(
        "int", 0, "a number of checks from 0",
        "With `hysteresis`, consecutive checks before that found the group above 1.10 of the bound.",
        whole(0), of=Of.PLAN,
    )  # fmt: skip
    resting = Option(
        "Partitions | None", None, "a list of (topic, partition), or topic -> partitions",
        "With `hysteresis`, partitions that moved recently; they stay.",
        _resting, of=Of.PLAN, json=_resting,
    )  # fmt: skip


class WeightedOptions(ByWorkOptions):
    """The options of ``weighted``."""

    weights_file = Option(
        "str | PathLike[str] | None", None, "a path, or None",
        "The pipeline's weights file, read at each join.",
        optional(_path), of=Of.CONSUMER,
    )  # fmt: skip
    meter = Option(
        "str | None", None, f"{', '.join(map(repr, KINDS))} or None",
        "Measure the weights while the consumer polls.",
        optional(among(*KINDS)), of=Of.CONSUMER, needs=Needs.METER,
    )  # fmt: skip
    priority = Figure(
        "int", 0, "an integer of at most 2**31",
        "Each topic goes to its subscribers of the highest priority; the others get it when those are gone.",
        whole(-FARTHEST, FARTHEST),
    )  # fmt: skip
    max_work = Figure(
        "float | None", None, "a number above 0 in the unit of the weights",
        "The most work that this member may have. Caps that cannot hold are raised.",
        number(0, above=True),
    )  # fmt: skip
    state = OfPartitions(
        "Weights | None", _FORM, "Cost of moving a partition: the least cost is the goal, instead of the fewest moves.",
        _state,
    )  # fmt: skip
    since_s = Option(
        "float | None", None, "seconds from 0, or None",
        "With `hysteresis`, seconds since the group moved something; None if it never did.",
        optional(number(0)), of=Of.PLAN,
    )  # fmt: skip
    seconds = Option(
        "bool", False, "True or False",
        "With `hysteresis`, whether weights are seconds per second, so that moves must gain 1 % of a member's time.",
        flag, of=Of.PLAN,
    )  # fmt: skip


class LagOptions(ByWorkOptions):
    """The options of ``lag``."""

    weights = OfPartitions(
        "Weights | None", _FORM, "Records behind per partition. A consumer's `lag=None`: members measure it.", checked,
        called="lag",
    )  # fmt: skip
    parity = Option(
        "str | None", None, "'grantneale' or None", "`grantneale`: the rule of kafka-lag-based-assignor.",
        optional(among("grantneale")),
    )  # fmt: skip
