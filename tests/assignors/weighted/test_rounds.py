"""From one rebalance to the next: targets that stay, budgets that hold until the group rests, caps in every round."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from kafka_assignors.core.group import Group, Member
from kafka_assignors.operator.plans import work_proof
from kafka_assignors.operator.plans.plan import Plan, plan
from tests.support.examples import examples

from .every_option import middle

Assignment = Mapping[str, Mapping[str, Sequence[int]]]


def holding(group: Group, assignment: Assignment, generation: int) -> Group:
    """The group after its members got this."""
    members = [
        replace(m, owned=[(t, p) for t, ids in assignment[m.member_id].items() for p in ids], generation=generation)
        for m in group.members
    ]
    return replace(group, members=members)


def until_rest(group: Group, **options: Any) -> tuple[list[Plan], Group]:
    """The plans of all rebalances that follow from one, and the group at rest: nothing is withheld any more."""
    plans: list[Plan] = []
    while not plans or plans[-1].withheld:
        assert len(plans) < 20, "the group never rests"
        plans.append(plan(group, "weighted", **options))
        group = holding(group, plans[-1].assignment, len(plans) + 5)
    return plans, group


def drawn(seed: int, partitions: tuple[int, int] = (40, 120)) -> tuple[Group, dict[str, Any]]:
    """A group of 40 or more partitions, all owned, many by few members."""
    rng = random.Random(seed)
    ids = [f"m{i:02d}" for i in range(rng.randint(3, 15))]
    topics = {f"t{i}": 0 for i in range(rng.randint(1, 4))}
    for _ in range(rng.randint(*partitions)):
        topics[rng.choice(list(topics))] += 1
    names = [(t, p) for t, n in topics.items() for p in range(n)]
    sigma = rng.choice([0.3, 0.6, 1.0])
    owned: dict[str, list[tuple[str, int]]] = {m: [] for m in ids}
    for name in names:
        owned[ids[int(len(ids) * rng.random() ** 2)]].append(name)
    group = Group([Member(m, set(topics), owned=owned[m], generation=3) for m in ids], topics)
    options: dict[str, Any] = {"weights": {name: rng.lognormvariate(0, sigma) for name in names}}
    if rng.random() < 0.3:
        options["capacity"] = {m: rng.choice([0.5, 1.0, 2.0]) for m in ids}
    return group, options


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(20)))
def test_the_second_rebalance_assigns_the_target_and_no_third_follows(seed: int) -> None:
    group, options = drawn(seed)

    (first, *rest), group = until_rest(group, **options)

    assert len(rest) <= 1
    assert all(each.assignment == first.target for each in rest)
    again = plan(group, "weighted", **options)
    assert (again.target, again.moves) == (first.target, ())


# long: half a minute of integer programs; the tests above have caps and budgets, with few groups each
@pytest.mark.long
@pytest.mark.slow
def test_caps_so_tight_that_no_search_finds_the_same_again_leave_nothing_unread() -> None:
    """34 partitions fill 13 members to 95 % of their caps: each search from what is held finds another way to do so."""
    case = middle(275)

    (first, *rest), group = until_rest(case.group, **case.options)

    assert [each.assignment for each in rest] == [first.target]
    assert {tuple(tp) for m in group.members for tp in m.owned} == set(case.options["weights"])


@pytest.mark.parametrize("seed", range(examples(20)))
@pytest.mark.parametrize("budget", [1, 3])
def test_a_budget_holds_until_the_group_rests(seed: int, budget: int) -> None:
    """All partitions that change their owner on the way count, in every rebalance; and the plan says how many."""
    group, options = drawn(seed)
    before = {tuple(tp): m.member_id for m in group.members for tp in m.owned}

    plans, group = until_rest(group, move_budget=budget, **options)

    after = {tuple(tp): m.member_id for m in group.members for tp in m.owned}
    assert sum(len(each.moves) - len(each.withheld) for each in plans[:1]) == 0
    assert len(plans) <= 2
    assert sum(after[name] != m for name, m in before.items()) == len(plans[0].withheld) <= budget
    assert plans[0].load is not None
    assert plans[0].load.moves == len(plans[0].withheld)
    assert f"budget: {plans[0].load.moves} of {budget} moves, until the group rests" in str(plans[0])
    assert {m: dict(topics) for m, topics in plans[0].target.items()} == {
        m.member_id: {t: sorted(p for topic, p in m.owned if topic == t) for t in sorted({t for t, _ in m.owned})}
        for m in group.members
    }


def test_with_a_budget_nothing_moves_while_partitions_have_no_owner() -> None:
    """They may be on their way, and counted: the leader of the next rebalance can't know."""
    members = [Member("a", {"t"}, owned=[("t", p) for p in range(6)], generation=1), Member("b", {"t"})]
    made = plan(Group(members, {"t": 8}), "weighted", move_budget=3)
    assert [(str(move.partition), move.kind) for move in made.moves] == [("t-6", "unowned"), ("t-7", "unowned")]
    assert made.loads == {"a": 6, "b": 2}


def fits(works: Sequence[float], caps: Sequence[float]) -> bool:
    """Whether partitions that all members may have fit below their caps, by an integer program."""
    n, m = len(works), len(caps)
    once = [[float(i // m == p) for i in range(n * m)] for p in range(n)]
    loads = [[works[i // m] if i % m == k else 0.0 for i in range(n * m)] for k in range(m)]
    rows = [LinearConstraint(once, 1, 1), LinearConstraint(loads, -1e30, caps)]
    return bool(milp([0.0] * (n * m), integrality=[1] * (n * m), bounds=Bounds(0, 1), constraints=rows).status == 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(40)))
def test_caps_that_can_hold_are_not_raised(seed: int) -> None:
    rng = random.Random(seed)
    ids = [f"m{i}" for i in range(rng.randint(2, 5))]
    works = [rng.choice([1.0, 2.0, 3.5, 10.0]) * rng.uniform(0.9, 1.1) for _ in range(rng.randint(4, 14))]
    caps = {m: sum(works) / len(ids) * rng.uniform(0.8, 1.6) for m in ids}
    owned = [("t", p) for p in range(len(works)) if rng.random() < 0.8]
    members = [Member(m, {"t"}, owned=owned if m == "m0" else (), generation=1) for m in ids]
    made = plan(Group(members, {"t": len(works)}), "weighted", weights={"t": works}, max_work=caps)
    assert made.load is not None

    assert (made.load.caps == 1.0) == fits(works, list(caps.values()))
    assert made.load.caps_why == ("" if made.load.caps == 1.0 else "work")
    assert all(made.load.work[m] <= cap * (made.load.caps or 1e30) * (1 + 1e-9) for m, cap in caps.items())
    assert work_proof.verify(made) == []


def test_a_cap_that_only_some_members_have_is_no_reason_to_raise_it() -> None:
    """b has no cap, so everything fits, whatever a may have and however heavy a partition is."""
    group = Group([Member("a", {"t"}, owned=[("t", p) for p in range(5)], generation=1), Member("b", {"t"})], {"t": 5})
    made = plan(group, "weighted", weights={"t": [50.0, 4.0, 3.0, 2.0, 1.0]}, max_work={"a": 0.5})
    assert made.load is not None
    assert (made.load.caps, made.load.work["a"]) == (1.0, 0.0)


def test_a_cap_is_not_kept_for_want_of_moves_and_the_plan_says_so() -> None:
    group = Group([Member("a", {"t"}, owned=[("t", p) for p in range(5)], generation=1), Member("b", {"t"})], {"t": 5})
    made = plan(group, "weighted", weights={"t": [10.0] * 5}, max_work={"a": 20.0}, move_budget=1)
    assert made.load is not None
    assert (made.load.work["a"], made.load.caps, made.load.caps_why) == (40.0, 2.0, "moves")
    assert "raised to 200%: it takes more moves than are allowed to get below them" in str(made)
    assert work_proof.verify(made) == []


def test_a_member_above_its_cap_is_a_reason_to_move_under_hysteresis() -> None:
    group = Group(
        [
            Member("a", {"t"}, owned=[("t", p) for p in range(5)], generation=1),
            Member("b", {"t"}, owned=[("t", p) for p in range(5, 10)], generation=1),
        ],
        {"t": 10},
    )
    made = plan(group, "weighted", weights={"t": [1.0] * 10}, max_work={"a": 4.0}, hysteresis=True, since_s=1.0)
    assert made.load is not None
    assert (made.load.work, made.load.caps) == ({"a": 4.0, "b": 6.0}, 1.0)
    assert made.load.verdict == (True, "a member is above its hard cap")
