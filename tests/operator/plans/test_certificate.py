"""The proof of an optimum: it is there for each, and no worse assignment and no wrong prices pass."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from benchmarks import workloads
from kafka_assignors.core.fewest import least_moves
from kafka_assignors.core.group import Group, Member, TopicPartition
from kafka_assignors.core.group.assignment import owners
from kafka_assignors.core.group.claims import resolve
from kafka_assignors.core.sticky import GOALS, sticky
from kafka_assignors.core.sticky.objective import Objective
from kafka_assignors.core.strategies import strategy
from kafka_assignors.operator.plans import prices
from kafka_assignors.operator.plans.certificate import LARGEST, Certificate, bound, check, positions, score
from kafka_assignors.operator.plans.plan import Plan, plan
from kafka_assignors.operator.plans.prices import certify
from tests.support.assignors import fuzz, golden
from tests.support.assignors.objectives import drawn, worth

SMALL = {
    "W1": workloads.Parameters(1, 200, 20, 1),
    "W2": workloads.Parameters(50, 20, 20, 1),
    "W3": workloads.Parameters(20, 10, 50, 5, subscription_sets=55),
    "W4": workloads.Parameters(60, (1, 64), 30, 5, subscription_sets=20),
    "W5": workloads.Parameters(10, 30, 30, 2, racks=3),
    "W6": workloads.Parameters(60, (1, 50), 60, 5, topics_each=(1, 4)),
    "W7": workloads.Parameters(50, 40, 40, 1, subscription_sets=20),
}


def grown(name, monkeypatch, scale=1):
    """The group of a workload when others join; partitions times `scale`."""
    p = SMALL[name]
    count = p.partitions if isinstance(p.partitions, tuple) else p.partitions * scale
    small = workloads.Parameters(p.topics, count, p.members, p.joining, p.subscription_sets, p.topics_each, p.racks)
    monkeypatch.setitem(workloads.WORKLOADS, name, small)
    made = workloads.make(name)
    members = [
        Member(
            member_id,
            subscription,
            rack=f"r{i % made.racks}" if made.racks else None,
            owned=[(t, p) for t, ids in made.owned[i].items() for p in ids],
            generation=5,
        )
        for i, (member_id, subscription) in enumerate(zip(made.members, made.subscriptions, strict=True))
    ]
    if not made.racks:
        return Group(members, made.topics)
    on = [{f"r{(p + i) % made.racks}" for i in range(2)} for p in range(max(made.topics.values()))]
    return Group(members, made.topics, {topic: on[:count] for topic, count in made.topics.items()})


def proven(group, objective=sticky.DEFAULT):
    claims = resolve(group)
    owner = sticky.owners(claims, objective)
    certificate = certify(claims, owner, objective)
    assert certificate is not None
    return claims.indexed.assignment(owner), certificate


@pytest.mark.slow
@pytest.mark.parametrize("goals", GOALS)
@pytest.mark.parametrize("name", SMALL)
def test_workloads_are_proven(name, goals, monkeypatch):
    group = grown(name, monkeypatch)
    assert check(group, *proven(group, Objective(goals=goals))) == []


@pytest.mark.slow
def test_vectors_are_proven():
    files = [("sticky", "sticky"), ("cooperative_sticky", "cooperative-sticky"), ("java_defects", "")]
    steps = [step for file, name in files for step in golden.steps(file, name)][::8]
    for step in steps:
        group = golden.reading(step).group
        assert check(group, *proven(group)) == [], step.name
    assert len(steps) > 200


@pytest.mark.slow
def test_random_groups_are_proven_in_every_mode_and_order():
    for seed in range(200):
        group, matrix = drawn(seed)
        objective = Objective(("replica", "leader", matrix, "none")[seed % 4], GOALS[seed // 4 % len(GOALS)])
        assignment, certificate = proven(group, objective)
        assert check(group, assignment, certificate) == [], seed
        goals = dict(zip(objective.goals, bound(resolve(group), certificate), strict=True))
        goals["racks"] *= objective.unit
        assert tuple(goals[name] for name in objective.goals) == worth(group, objective, assignment)


@pytest.mark.slow
def test_the_least_moves_without_a_proof_are_those_of_the_proof():
    for seed in range(100):
        group, _ = drawn(seed)
        if group.members:
            (due,) = (goal.least for goal in plan(group, "cooperative-sticky").goals if goal.name == "moves")
            assert least_moves(group) == due, seed


@pytest.mark.slow
def test_any_prices_bound_every_assignment_from_below():
    """Weak duality: prices drawn at random prove less, never too much."""
    draw, lower = Random(1), 0
    for seed in range(150):
        group = fuzz.draw(seed).reading("sticky").group
        claims = resolve(group)
        arbitrary = {m.member_id: tuple(draw.randint(-3, 12) for _ in range(3)) for m in group.members}
        least = bound(claims, Certificate(Objective(), arbitrary))
        for name in ("sticky", "range", "roundrobin"):
            goals = score(claims, positions(claims.indexed, strategy(name).place(group)), Objective())
            assert least <= goals, (seed, name, arbitrary)
            lower += least < goals
    assert lower > 300


def swapped(assignment, tp, new):
    """The assignment with one partition at another member."""
    moved = {m: {t: [p for p in ids if (t, p) != tp] for t, ids in topics.items()} for m, topics in assignment.items()}
    moved[new][tp.topic] = sorted([*moved[new].get(tp.topic, []), tp.partition])
    return {m: {t: ids for t, ids in topics.items() if ids} for m, topics in moved.items()}


def test_every_damage_to_an_assignment_is_found():
    """One unbalanced, one partition on the wrong rack, one moved for nothing, one given to nobody or to two."""
    a = Member("a", {"t", "u"}, rack="r1", owned=[("t", 0), ("u", 0)], generation=1)
    b = Member("b", {"t", "u"}, rack="r2", owned=[("t", 1), ("u", 1)], generation=1)
    group = Group([a, b], {"t": 2, "u": 2}, {"t": [["r1"], ["r2"]]})
    assignment, certificate = proven(group)
    assert assignment == {"a": {"t": [0], "u": [0]}, "b": {"t": [1], "u": [1]}}

    def found(damaged):
        return [violation.law for violation in check(group, damaged, certificate)]

    assert found(assignment) == []
    assert found({"a": {"t": [0], "u": [0, 1]}, "b": {"t": [1]}}) == ["balance"]
    assert found({"a": {"t": [1], "u": [0]}, "b": {"t": [0], "u": [1]}}) == ["racks"]
    assert found({"a": {"t": [0], "u": [1]}, "b": {"t": [1], "u": [0]}}) == ["moves"]
    assert found({"a": {"t": [0], "u": [0]}, "b": {"t": [1]}}) == ["covered"]
    assert found({"a": {"t": [0], "u": [0, 1]}, "b": {"t": [1], "u": [1]}}) == ["single-owner"]


@pytest.mark.slow
def test_one_step_away_from_an_optimum_is_told_from_it():
    """Each single move is accepted exactly when it is worth as much; nothing else passes or fails."""
    worse = equal = 0
    for seed in range(40):
        group = fuzz.draw(seed, "small").reading("sticky").group
        assignment, certificate = proven(group)
        best = worth(group, certificate.objective, assignment)
        for tp, owner in list(owners(assignment).items())[:12]:
            for member in group.members:
                if tp.topic in member.topics and member.member_id != owner:
                    other = swapped(assignment, tp, member.member_id)
                    as_good = worth(group, certificate.objective, other) == best
                    assert (check(group, other, certificate) == []) == as_good, (seed, tp)
                    worse, equal = worse + (not as_good), equal + as_good
    assert worse > 300
    assert equal > 15


def test_damaged_prices_prove_nothing():
    group = grown_pair()
    assignment, certificate = proven(group)
    lowered = 0
    for member, price in certificate.prices.items():
        for part in range(3):
            for change in (-7, 7):
                damaged = tuple(each + (change if i == part else 0) for i, each in enumerate(price))
                broken = check(
                    group, assignment, Certificate(certificate.objective, {**certificate.prices, member: damaged})
                )
                lowered += bool(broken)
                assert all(violation.law in ("balance", "racks", "moves") for violation in broken)
    assert lowered >= 10
    gone = {m: p for m, p in certificate.prices.items() if m != "a"}
    assert [v.law for v in check(group, assignment, Certificate(certificate.objective, gone))] == ["price"]
    huge = {**certificate.prices, "a": (LARGEST + 1, 0, 0)}
    assert [v.law for v in check(group, assignment, Certificate(certificate.objective, huge))] == ["price"]
    short = {**certificate.prices, "a": (1, 2)}
    assert [v.law for v in check(group, assignment, Certificate(certificate.objective, short))] == ["price"]


def grown_pair():
    """Some members may have only some, so that loads differ, racks cost and moves are needed."""
    every = [("t", p) for p in range(6)] + [("u", p) for p in range(3)]
    members = [
        Member("a", {"t", "u"}, rack="r1", owned=every, generation=1),
        Member("b", {"t"}, rack="r2"),
        Member("c", {"u"}, rack="r1"),
    ]
    return Group(members, {"t": 6, "u": 3}, {"t": [["r1"], ["r2"]] * 3, "u": [["r2"]] * 3})


@pytest.mark.slow
def test_only_the_best_gets_a_certificate():
    refused = 0
    for seed in range(60):
        group = fuzz.draw(seed).reading("sticky").group
        claims = resolve(group)
        best = worth(group, Objective(), sticky.assign(group))
        for name in ("range", "roundrobin"):
            answer = strategy(name).place(group)
            certificate = certify(claims, positions(claims.indexed, answer), Objective())
            assert (certificate is not None) == (worth(group, Objective(), answer) == best), (seed, name)
            refused += certificate is None
    assert refused > 30


@pytest.mark.slow
def test_where_64_bits_are_too_short_prices_are_pythons_integers(monkeypatch):
    """Large groups with finely graded costs need that; here the limit comes down to the groups."""
    for seed in range(40):
        group, matrix = drawn(seed)
        objective = Objective(matrix)
        assignment, certificate = proven(group, objective)
        with monkeypatch.context() as patch:
            patch.setattr(prices, "_FAR", 1)
            again, exact = proven(group, objective)
        assert (again, exact) == (assignment, certificate), seed


def test_the_graph_of_the_proof_does_not_grow_with_partitions(monkeypatch):
    """Ten times the partitions: as many classes and kinds, and pairs of class and member."""
    sizes, real = [], prices._cells

    def counting(*args):
        cells = real(*args)
        sizes.append(len(cells[0]))
        return cells

    monkeypatch.setattr(prices, "_cells", counting)
    for scale in (1, 10):
        group = grown("W3", monkeypatch, scale)
        claims = resolve(group)
        classes = sticky.classify(claims.indexed, sticky.position_costs(claims.indexed, Objective()))
        sizes.append((len(classes.size), len(classes.rack), len(classes.kind)))
        proven(group)
    assert sizes[0] == sizes[2] == (20, 55, 55)
    assert max(sizes[1], sizes[3]) <= 20 * 55


def test_positions_turn_an_assignment_round():
    group = Group([Member("a", {"t"}), Member("b", {"t"})], {"t": 3})
    indexed = resolve(group).indexed
    owner = positions(indexed, {"a": {"t": [2]}, "b": {"t": [0]}})
    assert owner.tolist() == [1, -1, 0]
    assert indexed.names(np.flatnonzero(owner == 0)) == [TopicPartition("t", 2)]


@pytest.mark.parametrize("price", [2**33, 2**33 + 1, 2**34, LARGEST, -LARGEST])
def test_no_price_however_large_proves_a_worse_assignment(price):
    """A member's load is bounded by the partitions there are, and sums are exact: 64 bits would wrap around."""
    group = Group([Member("a", {"t"}), Member("b", {"t"})], {"t": 4})
    unfair = {"a": {"t": [0, 1, 2, 3]}, "b": {}}
    for other in (price, -price, 0, 7):
        forged = Certificate(Objective(), {"a": (price, 0, 0), "b": (other, 0, 0)})
        assert [violation.law for violation in check(group, unfair, forged)] == ["balance"]
        made = replace(plan(group, "sticky"), assignment=unfair, target=unfair, certificate=forged)
        read = Plan.from_json(made.to_json())
        assert read.certificate is not None
        assert check(read.group, read.target, read.certificate) != []


@pytest.mark.parametrize(
    "price", [("x", 0, 0), (0, 0), None, 5, "abc", (0.5, 0, 0), (True, 0, 0), (None, None, None), (2**80, 0, 0)]
)
def test_what_is_no_price_is_told(price):
    group = Group([Member("a", {"t"})], {"t": 1})
    found = check(group, {"a": {"t": [0]}}, Certificate(Objective(), {"a": price}))
    assert [violation.law for violation in found] == ["price"]
    assert repr(price) in found[0].text
