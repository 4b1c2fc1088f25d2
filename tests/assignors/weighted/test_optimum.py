"""Bound, greatest load and moves of small groups against a program of their own; laws that hold for any group."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.core.group import Group, Member, TopicPartition
from kafka_assignors.operator.plans.plan import Plan, plan
from tests.support.examples import examples

from .oracle import NEAR, Case, differences, drawn, wished

CHUNK, SHORT, LONG = 25, examples(150), 2_000


def planned(case: Case, **options: object) -> Plan:
    return plan(case.group, "weighted", weights=case.weights, capacity=case.capacity, **{**case.options, **options})


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SHORT, CHUNK))
def test_bound_and_moves_are_those_of_an_independent_program(first: int) -> None:
    """Up to 12 partitions and 4 members, unequal subscriptions and capacities, standbys, owners that may not keep."""
    for seed in range(first, first + CHUNK):
        agrees(drawn(seed), seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SHORT, CHUNK))
def test_racks_priorities_caps_and_state_are_those_of_an_independent_program(first: int) -> None:
    for seed in range(first, first + CHUNK):
        agrees(wished(seed), seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(SHORT, LONG, CHUNK))
def test_many_more_are_those_of_an_independent_program(first: int) -> None:
    for seed in range(first, first + CHUNK):
        agrees(drawn(seed), seed)
        agrees(wished(seed), seed)


def agrees(case: Case, seed: int) -> None:
    """Bound, limit, caps, moves or their cost, and work from other racks are the program's, and are proven."""
    assert differences(case, planned(case)) == [], seed


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 32))
def test_the_order_of_members_makes_no_difference(seed: int) -> None:
    case = drawn(seed)
    members = list(case.group.members)
    random.Random(seed).shuffle(members)
    other = replace(case, group=Group(members, dict(reversed(case.group.partitions.items()))))

    assert planned(case).assignment == planned(other).assignment


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 32), epsilons=st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)))
def test_a_larger_epsilon_never_takes_more_moves(seed: int, epsilons: tuple[float, float]) -> None:
    case = drawn(seed)
    small, large = (planned(case, epsilon=each).load for each in sorted(epsilons))

    assert small is not None
    assert large is not None
    assert large.moves <= small.moves
    assert large.bound == small.bound


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 32), budget=st.integers(0, 6))
def test_a_budget_is_kept_and_more_of_it_is_never_worse(seed: int, budget: int) -> None:
    case = drawn(seed)
    standby = {m for m, capacity in case.capacity.items() if not capacity}
    forced = sum(len(member.owned) for member in case.group.members if member.member_id in standby)
    less, more = (planned(case, move_budget=each).load for each in (budget, budget + 1))

    assert less is not None
    assert more is not None
    assert less.moves <= budget + forced
    assert more.greatest <= max(less.greatest, more.limit) * (1 + NEAR)


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 32))
def test_a_plan_is_whole_as_json_and_again(seed: int) -> None:
    made = planned(drawn(seed))

    assert Plan.from_json(made.to_json()) == made
    assert made.replay() == made


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_planted_optimum_is_found(seed: int) -> None:
    """Works are cut from 8 equal bars: all members can have the mean exactly, and the gap is what is missed."""
    rng = np.random.default_rng(seed)
    cuts = [
        np.diff(np.concatenate([[0], np.sort(rng.choice(np.arange(1, 1000), 15, replace=False)), [1000]]))
        for _ in range(8)
    ]
    works = rng.permutation(np.concatenate(cuts))
    group = Group([Member(f"m{i}", {"t"}) for i in range(8)], {"t": len(works)})
    load = plan(group, "weighted", weights={"t": works.tolist()}).load

    assert load is not None
    assert load.gap <= 0.001


def jittered(rng: np.random.Generator, weights: list[float]) -> list[float]:
    return (np.array(weights) * rng.uniform(0.8, 1.2, len(weights))).tolist()


@pytest.mark.slow
def test_jitter_moves_nothing_under_hysteresis() -> None:
    """An hour of checks each 30 s, every weight 20 % up or down at each."""
    rng = np.random.default_rng(3)
    base = rng.lognormal(0, 1, 200).tolist()
    ids = [f"m{i}" for i in range(8)]
    start = plan(Group([Member(m, {"t"}) for m in ids], {"t": 200}), "weighted", weights={"t": base})
    members = [
        Member(m, {"t"}, owned=[TopicPartition("t", p) for p in start.target[m]["t"]], generation=1) for m in ids
    ]
    group = Group(members, {"t": 200})

    for _ in range(120):
        made = plan(group, "weighted", weights={"t": jittered(rng, base)}, hysteresis=True)
        assert made.moves == ()


@pytest.mark.slow
def test_drift_is_followed_with_few_moves_and_longest_first_is_not() -> None:
    rng = np.random.default_rng(4)
    log = rng.normal(0, 1, 300)
    ids = [f"m{i}" for i in range(10)]
    owned: dict[str, list[TopicPartition]] = {m: [] for m in ids}
    moves = least = 0
    for step in range(12):
        group = Group([Member(m, {"t"}, owned=owned[m], generation=step) for m in ids], {"t": 300})
        load = (made := plan(group, "weighted", weights={"t": np.exp(log).tolist()})).load
        assert load is not None
        assert load.greatest <= load.limit * (1 + NEAR)
        moves, least = moves + load.moves, least + load.least_moves
        owned = {m: [TopicPartition("t", p) for p in topics.get("t", ())] for m, topics in made.target.items()}
        log = 0.954 * log + 0.3 * rng.normal(0, 1, 300)

    assert 0 < moves <= 1.5 * least
