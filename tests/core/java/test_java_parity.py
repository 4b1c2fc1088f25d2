"""``parity="java"``: Java's own answer, hash order and all; ours where Java has none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given

from benchmarks.clusters import cluster
from kafka_assignors.clients.kafka_python import CooperativeStickyAssignor, StickyAssignor
from kafka_assignors.core import strategies
from kafka_assignors.core.group.claims import resolve
from kafka_assignors.core.group.invariants import violations
from kafka_assignors.core.group.order import HashedSet, hash_order
from kafka_assignors.core.java import sticky
from kafka_assignors.core.strategy import Decoded
from kafka_assignors.errors import ConfigError
from tests.support.assignors import golden
from tests.support.assignors.groups import groups


def as_java(name, decoded):
    return strategies.strategy(name, parity="java").assign(decoded)


FILES = [("sticky", "sticky", 847, 0), ("cooperative_sticky", "cooperative-sticky", 970, 9)]

# J1-J3: worse than need be. J4 has no end, J5 and J7 throw, J6, J8 and J9 assign what they must not, J10 hands over.
KINDS = {
    **{f"J{n}-{name}#0": {"no-parity"} for n in range(4, 10) for name in ("sticky", "cooperative-sticky")},
    "J10-cooperative-sticky#0": {"as-java"},
}


@pytest.mark.slow
@pytest.mark.source("apache/kafka 4.3.0 StickyAssignor, CooperativeStickyAssignor")
@pytest.mark.parametrize(("file", "name", "rounds", "unsafe"), FILES)
def test_every_round_is_javas(file, name, rounds, unsafe):
    """The exact ones, and those where Java's answer depends on its hash order or the order of members.

    Also the few where Java withholds what its claimant left long ago, with a word about it.
    """
    differing, told, compared = [], 0, 0
    for step in golden.steps(file, name):
        if step.row["determinism"] != "defect":
            compared += 1
            expected = step.row["expected"]
            java = expected["assignment"] if step.row["determinism"] == "exact" else expected["java_sample"]
            assignment, facts = as_java(name, golden.reading(step))
            told += bool(facts)
            if golden.canonical(assignment) != golden.canonical(java):
                differing.append(step.name)

    assert differing == []
    assert (compared, told) == (rounds, unsafe)


@pytest.mark.parametrize("step", [*golden.steps("java_defects")], ids=lambda step: step.name)
def test_where_java_fails_the_answer_is_sound_and_comes_in_time(step):
    reading = golden.reading(step)
    assignment, facts = as_java(step.protocol, reading)

    broken = violations(reading.group, assignment, cooperative=step.protocol == "cooperative-sticky")
    kinds = {fact.kind for fact in facts}
    assert {violation.law for violation in broken} <= {"hand-over", "covered"}
    assert len(broken) == sum(fact.kind == "as-java" for fact in facts)
    if "no-parity" in kinds:
        assert assignment == strategies.strategy(step.protocol).assign(reading)[0]
    assert kinds == KINDS.get(step.name, set())


def test_java_moves_partitions_in_a_circle_for_ever():
    """J4: 91 partitions and 13 members; Java's ``assign`` never returns."""
    step = next(s for s in golden.steps("java_defects") if s.name.startswith("J4") and s.protocol == "sticky")
    with pytest.raises(sticky.NoAnswer, match="circle"):
        sticky.assign(golden.reading(step).group, cooperative=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@given(group=groups())
def test_any_group_has_a_sound_answer(name, group):
    reading = Decoded(group, (), resolve(group))
    assignment, facts = as_java(name, reading)
    broken = violations(group, assignment, cooperative=name == "cooperative-sticky")
    assert [f"as Java: {each.text}" for each in broken] == [f.text for f in facts if f.kind == "as-java"]
    assert {each.law for each in broken} <= {"hand-over", "covered"}


@pytest.mark.parametrize("cls", [StickyAssignor, CooperativeStickyAssignor])
def test_parity_is_an_option_of_the_adapter(cls, caplog):
    """J1: Java leaves 2/1/0 where 1/1/1 exists."""
    topics = {"c0": ["t1"], "c1": ["t0", "t1"], "c2": ["t0"]}
    members = [
        SimpleNamespace(member_id=m, group_instance_id=None, metadata=cls().metadata(set(ts)))
        for m, ts in topics.items()
    ]

    def loads(assignor):
        answer = assignor.assign(cluster({"t0": 1, "t1": 2}), members)
        return sorted(len(assignment.partitions()) for assignment in answer.values())

    assert loads(cls(parity="java")) == [0, 1, 2]
    assert loads(cls.factory(parity="java")()) == [0, 1, 2]
    assert loads(cls()) == [1, 1, 1]
    with pytest.raises(ConfigError, match="parity must be 'java' or None, not 'Java'"):
        cls.factory(parity="Java")


@pytest.mark.source("java.util.HashMap, java.util.HashSet of OpenJDK 17")
def test_hash_orders():
    assert hash_order(["range", "roundrobin", "sticky", "cooperative-sticky"]) == [
        "sticky", "range", "roundrobin", "cooperative-sticky",
    ]  # fmt: skip
    assert hash_order(["BB", "Aa", "C"]) == ["BB", "Aa", "C"] != hash_order(["Aa", "BB", "C"])  # equal hash codes
    held = HashedSet()
    for partition in range(13):
        held.add(golden.TopicPartition("t", partition))
    first = held.first()
    held.remove(first)
    assert held.first() != first
    assert len(held) == 12
