"""Spread first: every subscriber has its share of each topic, and nothing after that can be improved.

300 groups against every way there is, and 10,000 in the long form; ``FUZZ_GROUPS=50000`` in the environment makes that
longer, and ``FUZZ_FIRST=20000`` draws others.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors import plan
from kafka_assignors.core.group import Group, Member, TopicPartition
from kafka_assignors.core.group.assignment import owners
from kafka_assignors.core.group.claims import resolve
from kafka_assignors.core.group.invariants import violations
from kafka_assignors.core.sticky import GOALS, cooperative, sticky
from kafka_assignors.core.sticky.objective import Objective
from kafka_assignors.core.strategies import strategy
from kafka_assignors.operator.plans.certificate import Certificate, bound, check, positions, score
from kafka_assignors.operator.plans.prices import certify
from tests.support.assignors import fuzz, uniform2
from tests.support.assignors.groups import groups, reordered
from tests.support.assignors.objectives import worth
from tests.support.assignors.oracle import best_of_all

MANY = int(os.environ.get("FUZZ_GROUPS", "10000"))
FIRST = int(os.environ.get("FUZZ_FIRST", "0"))
SPREAD = [goals for goals in GOALS if goals[0] == "spread"]
FIRST_OF_ALL = Objective(goals=SPREAD[0])


def rejoined(group, assignment, generation, *, members=None):
    """The group as it joins again, claiming what it was given."""
    return Group(
        [
            Member(m.member_id, m.topics, m.instance_id, m.rack, owned, generation)
            for m in members or group.members
            for owned in [[(t, p) for t, ids in assignment.get(m.member_id, {}).items() for p in ids]]
        ],
        group.partitions,
        group.racks,
    )


@pytest.mark.slow
@pytest.mark.timeout(120 + MANY // 4)
@pytest.mark.parametrize("many", [300, pytest.param(MANY, marks=pytest.mark.long)])
def test_random_groups_get_the_best_there_is_and_it_is_proven(many):
    judged = 0
    for seed in range(FIRST, FIRST + 10 * many):
        group, goals = fuzz.draw(seed, "tiny").reading("sticky").group, SPREAD[seed % 2]
        best = best_of_all(group, goals)
        if best is None:
            continue
        objective = Objective(goals=goals)
        assignment = sticky.assign(group, objective=objective)
        claims = resolve(group)
        certificate = certify(claims, positions(claims.indexed, assignment), objective)

        assert violations(group, assignment) == [], seed
        assert worth(group, objective, assignment) == best, seed
        assert certificate is not None, seed
        assert check(group, assignment, certificate) == [], seed
        judged += 1
        if judged == many:
            return
    pytest.fail(f"only {judged} of the groups drawn are small enough")


@pytest.mark.slow
def test_two_partitions_swapped_are_certified_only_if_the_swap_costs_nothing():
    worse = 0
    for seed in range(400):
        group, draw = fuzz.draw(seed).reading("sticky").group, Random(seed)
        objective = Objective(goals=SPREAD[seed % 2])
        claims = resolve(group)
        owner = sticky.owners(claims, objective)
        other = owner.copy()
        if len(other) < 2:
            continue
        i, j = draw.sample(range(len(other)), 2)
        other[[i, j]] = other[[j, i]]
        if violations(group, claims.indexed.assignment(other)):
            continue
        same = score(claims, other, objective) == score(claims, owner, objective)
        assert (certify(claims, other, objective) is not None) == same, seed
        worse += not same
    assert worse > 50


@pytest.mark.slow
def test_any_prices_bound_every_assignment_from_below():
    """Weak duality, with spread first: prices drawn at random prove less, never too much."""
    draw, lower = Random(1), 0
    for seed in range(150):
        group = fuzz.draw(seed).reading("sticky").group
        claims, objective = resolve(group), Objective(goals=SPREAD[seed % 2])

        def arbitrary(members=group.members):
            return {m.member_id: tuple(draw.randint(-3, 12) for _ in range(3)) for m in members}

        least = bound(claims, Certificate(objective, arbitrary(), {t: arbitrary() for t in group.partitions}))
        for owner in (sticky.owners(claims, objective), positions(claims.indexed, strategy("range").place(group))):
            goals = score(claims, owner, objective)
            assert least <= goals, seed
            lower += least < goals
    assert lower > 100


@pytest.mark.slow
@given(group=groups(), goals=st.sampled_from(SPREAD))
def test_every_subscriber_has_its_share_of_each_topic(group, goals):
    assignment = sticky.assign(group, objective=Objective(goals=goals))

    assert violations(group, assignment) == []
    for topic, count in group.partitions.items():
        readers = [m.member_id for m in group.members if topic in m.topics]
        shares = [len(assignment[m].get(topic, ())) for m in readers]
        assert not shares or (sum(shares), max(shares) - min(shares) <= 1) == (count, True)


@pytest.mark.slow
@given(group=groups(), random=st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(group, random):
    assert sticky.assign(reordered(group, random), objective=FIRST_OF_ALL) == sticky.assign(
        group, objective=FIRST_OF_ALL
    )


@pytest.mark.slow
@given(group=groups())
def test_it_is_kept_when_nothing_changes(group):
    first = sticky.assign(group, objective=FIRST_OF_ALL)
    assert sticky.assign(rejoined(group, first, 10), objective=FIRST_OF_ALL) == first


@pytest.mark.slow
@given(group=groups())
def test_cooperative_settles_in_two_rounds(group):
    rounds = [cooperative.assign(group, objective=FIRST_OF_ALL)]
    for i in range(2):
        rounds.append(cooperative.assign(rejoined(group, rounds[-1], 10 + i), objective=FIRST_OF_ALL))

    assert violations(group, rounds[0], cooperative=True) == []
    assert violations(group, rounds[1]) == []
    assert rounds[2] == rounds[1]
    assert (
        worth(group, FIRST_OF_ALL, rounds[1])[:3]
        == worth(group, FIRST_OF_ALL, sticky.assign(group, objective=FIRST_OF_ALL))[:3]
    )


@pytest.mark.slow
@pytest.mark.source("apache/kafka uniform2")
def test_never_worse_than_kafkas_planned_broker_assignor():
    """By its own order: spread, balance, moves. Its balance stops where no single move helps."""
    objective, better = Objective("none", FIRST_OF_ALL.goals), 0
    for seed in range(400):
        group = fuzz.draw(seed).reading("sticky").group
        ours = worth(group, objective, sticky.assign(group, objective=objective))
        theirs = uniform2.worth(group)

        assert ours[0] == theirs[0], seed
        assert (ours[0], ours[1], ours[3]) <= theirs, seed
        better += (ours[0], ours[1], ours[3]) < theirs
    assert better == 1


@pytest.mark.source("KAFKA-16277, confluentinc/librdkafka#4044")
def test_loads_alone_may_leave_a_member_without_a_topic():
    """Each holds one of two topics: balanced, and every record of orders goes through one member."""
    topics = {"orders": 6, "payments": 6}
    members = [
        Member(m, topics, owned=[(t, p) for p in range(6)], generation=1) for m, t in zip("ab", topics, strict=True)
    ]
    group = Group(members, topics)

    assert plan(group, "sticky").goals[-1].value == 0  # no moves
    made = plan(group, "sticky", goals=SPREAD[0])
    assert {m: {t: len(ids) for t, ids in each.items()} for m, each in made.target.items()} == {
        m: {"orders": 3, "payments": 3} for m in "ab"
    }
    assert [(goal.name, goal.value, goal.reached) for goal in made.goals] == [
        ("spread", 36, True), ("balance", 72, True), ("racks", 0, True), ("moves", 6, True),
    ]  # fmt: skip
    assert Counter(move.kind for move in made.moves) == {"spread": 6}
    assert type(made).from_json(made.to_json()) == made


def test_what_prices_cannot_prove_is_told_apart():
    """A price of a cell that is none, and an assignment that gives a topic to one member."""
    group = Group([Member("a", {"t"}, rack="r1"), Member("b", {"t"}, rack="r2")], {"t": 2}, {"t": [["r1"], ["r2"]]})
    claims = resolve(group)
    certificate = certify(claims, sticky.owners(claims, FIRST_OF_ALL), FIRST_OF_ALL)
    good = sticky.assign(group, objective=FIRST_OF_ALL)

    assert check(group, good, certificate) == []
    wrong = Certificate(FIRST_OF_ALL, certificate.prices, {"t": {"a": (1, 2)}})
    assert [each.law for each in check(group, good, wrong)] == ["price"]
    assert [each.law for each in check(group, {"a": {"t": [0, 1]}, "b": {}}, certificate)] == ["spread"]
    assert [each.law for each in check(group, {"a": {"t": [1]}, "b": {"t": [0]}}, certificate)] == ["racks"]
    assert owners(good) == {TopicPartition("t", 0): "a", TopicPartition("t", 1): "b"}
