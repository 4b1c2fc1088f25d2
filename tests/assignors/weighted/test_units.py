"""Units make no difference: weights in any unit, capacities in any unit within the valid range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from kafka_assignors.core.group import Group, Member
from kafka_assignors.core.group.claims import resolve
from kafka_assignors.core.weighted import engine
from kafka_assignors.core.weighted.model import Wishes, model
from kafka_assignors.errors import ConfigError
from kafka_assignors.operator.plans import work_proof
from kafka_assignors.operator.plans.plan import plan
from tests.support.examples import examples

from .every_option import Case, middle, small

FACTORS = (1e-9, 1e-6, 1e-3, 0.3, 7.0, 1e3, 1e6, 1e9)


def by(given: Mapping[Any, float], factor: float) -> dict[Any, float]:
    return {key: value * factor for key, value in given.items()}


def cases(seed: int) -> Case:
    case = middle(seed // 5) if seed % 5 == 4 else small(seed)
    return Case(case.group, {**case.options, "seconds": False})  # else weights are seconds, and their unit counts


@pytest.mark.parametrize("seed", range(examples(40)))
def test_weights_in_another_unit_lead_to_the_same_assignment(seed: int) -> None:
    case, factor = cases(seed), FACTORS[seed % len(FACTORS)]
    options = {**case.options, **{name: by(case.options.get(name, {}), factor) for name in ("weights", "max_work")}}
    if not any(case.options.get("weights", {}).values()):
        options["max_work"] = case.options.get("max_work", {})  # partitions are counted, so caps are counts

    assert plan(case.group, "weighted", **options).target == plan(case.group, "weighted", **case.options).target


@pytest.mark.parametrize("seed", range(examples(40)))
def test_capacities_in_another_unit_lead_to_the_same_assignment(seed: int) -> None:
    """Through the model, which takes capacities beyond the range that the options allow, too."""
    case, factor = cases(seed), FACTORS[seed % len(FACTORS)]
    capacity = {m.member_id: float(case.options.get("capacity", {}).get(m.member_id, 1.0)) for m in case.group.members}
    weights = plan(case.group, "weighted", **case.options).options.get("weights", {})
    also = Wishes(max_work=case.options.get("max_work", {}))
    claims = resolve(case.group)
    there, here = (model(claims, weights, by(capacity, each), also) for each in (factor, 1.0))
    options = engine.PlacementOptions(case.options.get("epsilon", 0.05))

    assert engine.solve(there, options).owner.tolist() == engine.solve(here, options).owner.tolist()
    assert there.work.tolist() == here.work.tolist()
    assert there.capacity.tolist() == here.capacity.tolist()


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_members_of_a_thousand_each_share_the_work(unit: float) -> None:
    """Twelve equal partitions at one of three members, each of which has the same capacity."""
    owned = [("t", p) for p in range(12)]
    group = Group([Member("a", {"t"}, owned=owned, generation=1), Member("b", {"t"}), Member("c", {"t"})], {"t": 12})
    capacity = dict.fromkeys("abc", unit)

    made = plan(group, "weighted", weights={"t": [1.0] * 12}, capacity=capacity)

    assert made.loads == {"a": 4, "b": 4, "c": 4}
    assert made.load is not None
    assert (made.load.moves, made.load.least_moves) == (8, 8)
    assert made.load.greatest == pytest.approx(4 / unit)
    assert made.load.limit == pytest.approx(1.05 * 4 / unit)
    assert work_proof.verify(made) == []


def test_the_proof_refuses_a_plan_that_leaves_all_to_one_of_equals() -> None:
    """The bound and the limit that were told when work was added to work / capacity."""
    owned = [("t", p) for p in range(12)]
    group = Group([Member("a", {"t"}, owned=owned, generation=1), Member("b", {"t"}), Member("c", {"t"})], {"t": 12})
    idle = plan(group, "weighted", weights={"t": [1.0] * 12}, capacity=dict.fromkeys("abc", 1000.0), move_budget=0)
    assert idle.loads == {"a": 12, "b": 0, "c": 0}
    assert not idle.optimal


def test_a_standby_that_is_needed_counts_as_the_others_do_in_their_unit() -> None:
    members = [Member("a", {"t", "u"}), Member("b", {"t"}), Member("spare", {"u", "v"})]
    group = Group(members, {"t": 8, "u": 2, "v": 4})
    targets = [
        plan(group, "weighted", capacity={"a": 2 * unit, "b": 2 * unit, "spare": 0}).target for unit in (1e-4, 1.0, 1e4)
    ]
    assert targets[0] == targets[1] == targets[2]


@pytest.mark.parametrize("capacity", [0.9e-6, 1.1e6])
def test_capacities_beyond_the_range_are_refused(capacity: float) -> None:
    with pytest.raises(ConfigError, match="from 1e-6 to 1e6"):
        plan(Group([Member("a", {"t"})], {"t": 1}), "weighted", capacity={"a": capacity})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("state", [5e-324, 1e-310, 1e-200, 1.0, 1e200, 1e308])
def test_state_of_any_finite_size_has_costs_of_at_least_one_unit(state: float) -> None:
    """Costs at the ends of what a float holds: a unit that underflows made them undefined."""
    group = Group([Member("a", frozenset("t"), owned=[("t", p) for p in range(4)], generation=1)], {"t": 4})

    made = model(resolve(group), {}, {}, Wishes(state={"t": [state, state / 2, 0.0, None]}))

    assert min(made.cost.tolist()) >= 1
    assert made.cost[0] >= made.cost[1] >= made.cost[2]
    assert made.cost_unit > 0
    assert math.isfinite(made.cost_unit * float(made.cost.sum()))
