"""Co-partitioned topics: equal partition numbers at one member, and the best placement of these bundles there is."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors import CoPartitionedAssignor, Group, Member, plan
from kafka_assignors.core import copartitioned
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.group.assignment import owners
from kafka_assignors.core.group.indexed import Indexed
from kafka_assignors.core.group.invariants import violations
from kafka_assignors.core.sticky import GOALS
from kafka_assignors.core.sticky.objective import Objective
from kafka_assignors.errors import ConfigError
from kafka_assignors.operator.plans.certificate import check
from tests.support.assignors.groups import groups

PAIR = (("t", "u"),)


def bundles(group: Group, topics=None):
    """set of topics, partition number -> the topic-partitions that must be at one member."""
    found = {}
    for names in copartitioned.sets(Indexed(group), topics):
        for p in range(max(group.partitions[name] for name in names)):
            found[names, p] = [TopicPartition(name, p) for name in names if p < group.partitions[name]]
    return found


@pytest.mark.slow
@given(group=groups(), topics=st.sampled_from([None, PAIR, (("t", "u", "v"),), (("t", "u"), ("v", "w"))]))
def test_a_bundle_has_one_owner(group, topics):
    assignment = copartitioned.assign(group, topics=topics)

    assert violations(group, assignment) == []
    owner = owners(assignment)
    for tps in bundles(group, topics).values():
        assert len({owner.get(tp) for tp in tps}) == 1
    assert copartitioned.assign(holding(group, owner), topics=topics) == assignment


@pytest.mark.slow
@given(group=groups(), topics=st.sampled_from([None, PAIR, (("t", "u"), ("v", "w"))]))
def test_the_cooperative_form_gives_no_partition_that_another_may_hold_and_ends_with_whole_bundles(group, topics):
    made = plan(group, "cooperative-copartitioned", topics=topics)
    eager = plan(group, "copartitioned", topics=topics)

    assert violations(group, made.assignment, cooperative=True) == []
    assert violations(group, made.target) == []
    owner = owners(made.target)
    for tps in bundles(group, topics).values():
        assert len({owner.get(tp) for tp in tps}) == 1
    assert made.optimal == eager.optimal
    again = plan(holding(group, owner), "cooperative-copartitioned", topics=topics)
    assert again.assignment == again.target == made.target


@pytest.mark.slow
def test_the_cooperative_form_moves_a_bundle_as_a_whole_and_as_few_as_the_eager_form():
    withheld = 0
    for seed in range(150):
        group = drawn(seed)
        made, eager = plan(group, "cooperative-copartitioned"), plan(group, "copartitioned")
        held = {tp: m.member_id for m in group.members for tp in m.owned}
        now, then = owners(made.assignment), owners(made.target)
        for tps in bundles(group).values():
            before, (after,) = {held.get(tp) for tp in tps}, {then.get(tp) for tp in tps}
            if len(before) > 1:  # v may have as many partitions as t and u, and other holders
                continue
            waits = not before <= {None, after}
            assert {now.get(tp) for tp in tps} == ({None} if waits else {after}), seed
            withheld += waits
        assert [(goal.name, goal.value) for goal in made.goals] == [(goal.name, goal.value) for goal in eager.goals]
        assert check(group, made.target, made.certificate, tuple(copartitioned.sets(Indexed(group), None))) == [], seed
    assert withheld > 20


def holding(group: Group, owner) -> Group:
    """The group after its members got their partitions."""
    held = {m.member_id: [tp for tp, who in owner.items() if who == m.member_id] for m in group.members}
    members = [Member(m.member_id, m.topics, m.instance_id, m.rack, held[m.member_id], 10) for m in group.members]
    return Group(members, group.partitions, group.racks)


def drawn(seed: int) -> Group:
    """A small group whose bundles are whole at their holders; some have none."""
    draw = Random(seed)
    names = [f"m{i}" for i in range(draw.randint(1, 3))]
    topics = {"t": (n := draw.randint(1, 3)), "u": n, "v": draw.randint(0, 2)}
    read = {m: frozenset(draw.choice([("t", "u"), ("t", "u", "v"), ("v",)])) for m in names}
    racks = {
        t: [draw.sample(["r1", "r2", "r3"], draw.randint(1, 2)) for _ in range(count)] for t, count in topics.items()
    }
    held = {(t, p): draw.choice([*names, None]) for t, count in (("tu", n), ("v", topics["v"])) for p in range(count)}
    owned = {m: [(t, p) for (ts, p), who in held.items() if who == m for t in ts if t in read[m]] for m in names}
    return Group(
        [Member(m, read[m], rack=draw.choice(["r1", "r2", None]), owned=owned[m], generation=1) for m in names],
        topics,
        racks,
    )


def cost(group: Group, owner, objective: Objective):
    """The goals, counted in bundles; racks in partitions."""
    given = {key: owner[tps[0]] for key, tps in bundles(group).items() if tps[0] in owner}
    rack = {m.member_id: m.rack for m in group.members}
    before = {tp: m.member_id for m in group.members for tp in m.owned}
    goals = {
        "spread": sum(n * n for n in Counter((names, m) for (names, _), m in given.items()).values()),
        "balance": sum(n * n for n in Counter(given.values()).values()),
        "racks": sum(bool(rack[m]) and rack[m] not in group.racks[tp.topic][tp.partition] for tp, m in owner.items()),
        "moves": sum(before.get(tps[0], given.get(key)) != given.get(key) for key, tps in bundles(group).items()),
    }
    return tuple(goals[name] for name in objective.goals)


@pytest.mark.slow
@pytest.mark.parametrize("goals", GOALS)
def test_bundles_are_placed_as_well_as_can_be(goals):
    objective = Objective(goals=goals)
    for seed in range(150):
        group = drawn(seed)
        read = {m.member_id: m.topics for m in group.members}
        table = [
            (tps, [m for m, topics in read.items() if topics.issuperset(names)])
            for (names, _), tps in bundles(group).items()
        ]
        table = [(tps, able) for tps, able in table if able]
        ways = product(*(able for _, able in table))
        best = min(
            cost(group, {tp: m for (tps, _), m in zip(table, way, strict=True) for tp in tps}, objective)
            for way in ways
        )
        assert cost(group, owners(copartitioned.assign(group, objective=objective)), objective) == best, seed
        made = plan(group, "copartitioned", goals=goals)
        assert made.optimal, seed
        assert tuple((goal.value, goal.least) for goal in made.goals) == tuple((each, each) for each in best), seed
        sets = tuple(copartitioned.sets(Indexed(group), None))
        assert check(group, made.target, made.certificate, sets) == [], seed


def test_what_is_no_optimum_of_bundles_is_named():
    topics = {"t": 4, "u": 4}
    group = Group([Member("a", topics), Member("b", topics)], topics)
    made = plan(group, "copartitioned", topics=PAIR)
    whole, split = ({m: {t: list(ids) for t, ids in each.items()} for m, each in made.target.items()} for _ in "ab")
    for t in topics:
        whole["b"][t].append(whole["a"][t].pop())
    split["a"]["t"][0], split["b"]["t"][0] = split["b"]["t"][0], split["a"]["t"][0]

    assert check(group, made.target, made.certificate, PAIR) == []
    assert [each.law for each in check(group, whole, made.certificate, PAIR)] == ["spread"]
    assert [each.law for each in check(group, split, made.certificate, PAIR)] == ["bundle"]


def test_both_clients_tell_the_same_options():
    pytest.importorskip("aiokafka")
    from kafka_assignors.clients import aiokafka

    for options in ({}, {"topics": [["t", "u"]], "rack_costs": "leader", "goals": GOALS[0]}):
        told = {
            cls(**options)._strategy.user_data(None, -1)[0]
            for cls in (CoPartitionedAssignor, aiokafka.CoPartitionedAssignor)
        }
        assert len(told) == 1


def test_each_set_is_shared_evenly_by_default():
    topics = {"orders": 4, "payments": 4, "audit": 6}
    made = plan(Group([Member("a", topics), Member("b", topics)], topics), "copartitioned")
    assert {m: {t: len(ids) for t, ids in each.items()} for m, each in made.target.items()} == {
        m: {"audit": 3, "orders": 2, "payments": 2} for m in "ab"
    }
    assert all(each["orders"] == each["payments"] for each in made.target.values())


def test_one_that_holds_most_of_a_bundle_gets_the_rest():
    """Members that come from another assignor hold parts of bundles."""
    group = Group(
        [
            Member("a", {"t", "u", "v"}, owned=[("t", 0), ("t", 1)], generation=1),
            Member("b", {"t", "u", "v"}, owned=[("u", 0), ("v", 0), ("u", 1), ("v", 1)], generation=1),
            Member("c", {"t", "u", "v"}),
        ],
        {"t": 3, "u": 3, "v": 3},
    )
    target = plan(group, "copartitioned").target
    assert [each["t"] == each["u"] == each["v"] for each in target.values()] == [True] * 3
    assert target["b"]["t"] in ([0], [1])


def test_different_partition_counts_are_told_and_equal_numbers_kept_together():
    topics = {"t": 4, "u": 2}
    made = plan(Group([Member("a", topics), Member("b", topics)], topics), "copartitioned", topics=[["t", "u"]])
    owner = owners(made.target)
    assert all(owner["t", p] == owner["u", p] for p in range(2))
    assert [fact.kind for fact in made.facts] == ["copartition-counts"]
    assert "(t 4, u 2)" in str(made.facts[0])


def test_members_that_read_a_part_of_a_set_are_told():
    topics = {"t": 2, "u": 2}
    made = plan(Group([Member("a", topics), Member("b", {"t"})], topics), "copartitioned", topics=[["t", "u"]])
    assert made.target == {"a": {"t": [0, 1], "u": [0, 1]}, "b": {}}
    assert [str(fact) for fact in made.facts] == ["b: subscribe to a part of t, u, so they get none of these topics"]

    made = plan(Group([Member("a", {"u"}), Member("b", {"t"})], topics), "copartitioned", topics=[["t", "u"]])
    assert made.target == {"a": {"u": [0, 1]}, "b": {"t": [0, 1]}}
    assert [str(fact) for fact in made.facts] == ["no member subscribes to all of t, u; they are placed topic by topic"]


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ("orders", r"a list of lists like .*, not 'orders'"),
        (["orders", "payments"], r"two or more co-partitioned topics, not 'orders'"),
        ([["orders"]], r"two or more co-partitioned topics, not \['orders'\]"),
        ([["orders", 3]], "names of topics, not 3"),
        ([["t", "u"], ["u", "v"]], "'u' twice"),
    ],
)
def test_wrong_sets_of_topics(topics, message):
    with pytest.raises(ConfigError, match=message):
        CoPartitionedAssignor(topics=topics)
