"""The check of a plan by work: it accepts what is so, and names each claim that is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafka_assignors.core.group import Group, Member
from kafka_assignors.plans import Plan, plan
from kafka_assignors.plans.work_proof import check

WEIGHTS = {("t", p): w for p, w in enumerate([9.0, 8.0, 7.0, 4.0, 3.0, 2.0, 2.0, 1.0])}
STATE = {("t", p): float(p + 1) for p in range(8)}
CAPS = {"c": 30.0}
GROUP = Group(
    [
        Member("a", {"t"}, owned=[("t", p) for p in range(6)], generation=1, rack="x"),
        Member("b", {"t"}, owned=[("t", 6), ("t", 7)], generation=1, rack="y"),
        Member("c", {"t"}, rack="z"),
    ],
    {"t": 8},
    racks={"t": [{"x", "y"}, {"y"}, {"z"}, {"x"}, {"y"}, {"z"}, {"x"}, {"w"}]},
)


def made(state: bool) -> Plan:
    options: dict[str, Any] = {"state": STATE} if state else {}
    return plan(GROUP, "weighted", weights=WEIGHTS, max_work=CAPS, **options)


def laws(decision: Plan, state: dict[tuple[str, int], float] | None) -> set[str]:
    return {each.law for each in check(GROUP, WEIGHTS, {}, decision, None, CAPS, state)}


@pytest.mark.parametrize("state", [False, True])
def test_a_true_plan_is_proven(state: bool) -> None:
    decision = made(state)
    load = decision.load
    assert load is not None
    assert load.remote is not None
    assert len(load.frontier) > 2
    assert laws(decision, STATE if state else None) == set()


DAMAGES: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    "less work": ("work", lambda load: {"work": {**load.work, "a": load.work["a"] - 1}}),
    "a lower greatest": ("greatest", lambda load: {"greatest": load.greatest * 0.99}),
    "a higher bound": ("bound", lambda load: {"bound": load.bound * 1.01}),
    "another witness": ("bound", lambda _: {"why": "heaviest", "witness": ("t", 7)}),
    "a higher limit": ("limit", lambda load: {"limit": load.limit * 1.2}),
    "fewer moves": ("moves", lambda load: {"moves": load.moves - 1}),
    "more moves needed": ("moves", lambda load: {"least_moves": load.least_moves + 1}),
    "a cheaper state": ("state", lambda load: {"state": (load.state[0] - 1, load.state[1])}),
    "a dearer least state": ("state", lambda load: {"state": (load.state[0], load.state[0] + 1)}),
    "no state": ("state", lambda _: {"state": None}),
    "less from other racks": ("racks", lambda load: {"remote": (load.remote[0] - 1, load.remote[1])}),
    "more needed from other racks": ("racks", lambda load: {"remote": (load.remote[0], load.remote[1] + 1)}),
    "no racks": ("racks", lambda _: {"remote": None}),
    "a frontier that is too good": ("frontier", lambda load: {"frontier": ((0, 1.0), *load.frontier[1:])}),
    "a frontier that rises": (
        "frontier",
        lambda load: {"frontier": (load.frontier[0], (1, load.frontier[0][1] + 1), *load.frontier[1:])},
    ),
    "a frontier that ends elsewhere": ("frontier", lambda load: {"frontier": load.frontier[:-1]}),
    "no frontier": ("frontier", lambda _: {"frontier": ()}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_false_claim_is_named(damage: str) -> None:
    law, change = DAMAGES[damage]
    decision = made(state=True)
    load = decision.load
    assert load is not None
    assert law in laws(replace(decision, load=replace(load, **change(load))), STATE)


def test_a_cap_that_is_not_kept_is_named() -> None:
    decision = made(state=False)
    found = check(GROUP, WEIGHTS, {}, decision, None, {"a": decision.load.work["a"] / 2})  # type: ignore[union-attr]
    assert "cap" in {each.law for each in found}


def test_least_costs_beyond_counting_are_tried_in_a_small_group() -> None:
    """Counting allows parts of partitions, so only trying every assignment proves the least cost."""
    decision = made(state=True)
    load = decision.load
    assert load is not None
    assert load.state is not None
    assert load.state[0] == pytest.approx(load.state[1], rel=1e-3)
    assert laws(decision, STATE) == set()
