"""Laws that hold for any group, whatever its members claim, under any weights and options."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.core.group.invariants import violations
from kafka_assignors.operator.plans import Plan, plan
from kafka_assignors.operator.plans.work_proof import check
from tests.support.assignors.groups import MEMBER_IDS, TOPICS, groups, reordered

PARTITIONS = st.tuples(st.sampled_from(TOPICS), st.integers(0, 6))
WEIGHT = st.just(0.0) | st.floats(1e-200, 1e6) | st.integers(0, 9)
"""Lighter ones are counted in units of 2**-1000, which is too coarse for the proof."""
WEIGHTS = st.dictionaries(PARTITIONS, WEIGHT, max_size=12)
MEMBERS = st.sampled_from(MEMBER_IDS)
OPTIONS = st.fixed_dictionaries(
    {"weights": WEIGHTS, "epsilon": st.floats(0.01, 0.5)},
    optional={
        "capacity": st.dictionaries(MEMBERS, st.sampled_from([0, 0.5, 1, 3.0]), max_size=4),
        "priority": st.dictionaries(MEMBERS, st.integers(-1, 1), max_size=4),
        "max_work": st.dictionaries(MEMBERS, st.floats(0.1, 50), max_size=4),
        "state": st.dictionaries(PARTITIONS, st.integers(0, 1000), max_size=6),
        "move_budget": st.integers(0, 4),
        "hysteresis": st.booleans(),
        "checks": st.integers(0, 4),
        "since_s": st.none() | st.floats(0, 100),
        "resting": st.lists(PARTITIONS, max_size=4),
        "seconds": st.booleans(),
    },
)


@pytest.mark.slow
@given(group=groups(), options=OPTIONS, random=st.randoms(use_true_random=False))
def test_any_plan_is_valid_proven_and_the_same_in_any_order(group: Any, options: dict[str, Any], random: Any) -> None:
    made = plan(group, "weighted", **options)

    assert violations(group, made.target) == []
    assert violations(group, made.assignment, cooperative=True) == []
    named = [options.get(name) for name in ("priority", "max_work", "state")]
    assert check(group, options["weights"], options.get("capacity", {}), made, *named) == []
    assert plan(reordered(group, random), "weighted", **options).assignment == made.assignment
    assert Plan.from_json(made.to_json()) == made
