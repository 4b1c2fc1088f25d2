"""Units make no difference: capacities in any unit within the valid range, weights in any unit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_assignors.core.group import Group, Member
from kafka_assignors.plans import plan, work_proof


def held_by_one() -> Group:
    owned = [("t", p) for p in range(12)]
    return Group([Member("a", {"t"}, owned=owned, generation=1), Member("b", {"t"}), Member("c", {"t"})], {"t": 12})


@pytest.mark.parametrize(("unit", "weight"), [(1e-6, 1e9), (1e-3, 1.0), (1.0, 1.0), (1e3, 1.0), (1e6, 1e-9)])
def test_members_of_equal_capacity_share_the_work_in_every_unit(unit: float, weight: float) -> None:
    made = plan(held_by_one(), "weighted", weights={"t": [weight] * 12}, capacity=dict.fromkeys("abc", unit))

    assert made.loads == {"a": 4, "b": 4, "c": 4}
    assert made.load is not None
    assert (made.load.moves, made.load.least_moves) == (8, 8)
    assert made.load.limit == pytest.approx(1.05 * 4 * weight / unit)


def test_the_proof_refuses_a_limit_that_adds_work_to_work_per_capacity() -> None:
    """With it, one member may keep everything."""
    group, capacity = held_by_one(), dict.fromkeys("abc", 1000.0)
    weights = {("t", p): 1.0 for p in range(12)}
    made = plan(group, "weighted", weights=weights, capacity=capacity).load
    idle = plan(group, "weighted", weights=weights, capacity=capacity, move_budget=0)
    assert made is not None
    assert idle.load is not None
    forged = replace(idle, load=replace(idle.load, limit=made.bound + 0.05))

    assert "limit" not in {each.law for each in work_proof.check(group, weights, capacity, idle)}
    forgery = {each.law for each in work_proof.check(group, weights, capacity, forged)}
    assert "limit" in forgery
