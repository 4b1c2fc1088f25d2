"""Random KIP-848 groups to the broker's own classes and to ours: equal, partition by partition.

250 groups in CI, 10,000 in the long form; ``FUZZ_FIRST=20000`` draws others.
"""

from __future__ import annotations

import os
import random
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from kafka_assignors import Group, Member, plan
from kafka_assignors.core.broker_side import map_order
from kafka_assignors.core.group.assignment import Assignment
from kafka_assignors.core.strategies import strategy
from kafka_assignors.integration.broker.java import LiveJava
from tests.support.assignors.broker_side import Broker, Cluster, Target

FIRST = int(os.environ.get("FUZZ_FIRST", "0"))
SHARED = 125
"""Groups per cluster; their topic ids are the same."""


@pytest.fixture(scope="module")
def java() -> Iterator[LiveJava]:
    with LiveJava() as live:
        yield live


def drawn(rng: random.Random, cluster: Cluster) -> tuple[Group, Member | None]:
    """A group with a current target, perhaps an outdated one; and perhaps a member that joins it."""
    topics = rng.sample(sorted(cluster.counts), rng.randint(1, 5))
    absent = ["absent"] if rng.random() < 0.1 else []
    size = rng.choice((1, 2, 3, 4, 5, 6, 8, 13, 20, 40))
    alike = rng.random() < 0.5

    def member(i: int) -> Member:
        reads = topics if alike else rng.sample(topics, rng.randint(0 if i else 1, len(topics)))
        instance = f"i-{rng.randrange(10**6)}-{i}" if rng.random() < 0.3 else None
        return Member(f"m-{uuid.UUID(int=rng.getrandbits(128))}", [*reads, *absent], instance)

    members = [member(i) for i in range(size)]
    every = [(topic, p) for topic in sorted(cluster.counts) for p in range(cluster.counts[topic])]
    of_group = [tp for tp in every if tp[0] in topics or rng.random() < 0.1]
    how = rng.choice(("none", "chance", "few", "settled"))
    held: dict[str, list[tuple[str, int]]] = {m.member_id: [] for m in members}
    if how == "settled":  # what the assignor itself gave, before members came and went
        before = [*members, *(Member(f"m-gone-{i}", topics) for i in range(rng.randint(0, 2)))]
        before = before[rng.randint(0, len(before) - 1) :]
        counts = {t: rng.randint(1, n) for t, n in cluster.counts.items()}
        given = strategy("uniform", protocol="consumer", topic_ids=cluster.printed).place(Group(before, counts))
        for m, by_topic in given.items():
            if m in held:
                held[m] = [(t, p) for t, ids in by_topic.items() for p in ids]
    elif how != "none":
        owners = rng.sample(members, rng.randint(1, len(members)))
        for tp in of_group:
            if rng.random() < (0.9 if how == "chance" else 0.3):
                held[rng.choice(owners).member_id].append(tp)
    if rng.random() < 0.3:
        for owned in held.values():
            rng.shuffle(owned)
            owned.sort(key=lambda tp: tp[0])
    made = [Member(m.member_id, m.topics, m.instance_id, owned=held[m.member_id]) for m in members]
    return Group(made, cluster.counts), member(1) if rng.random() < 0.3 else None


def ours(name: str, group: Group, cluster: Cluster, joins: Member | None) -> Assignment:
    order = {}
    if name == "uniform" and joins is not None:
        order = {"order": map_order((m.member_id for m in group.members), [joins.member_id])}
    made = strategy(name, protocol="consumer", topic_ids=cluster.printed, **order)
    return made.place(Group([*group.members, *([joins] if joins else [])], group.partitions))


def same(assignment: Assignment, target: Target) -> bool:
    return {m: t for m, t in assignment.items() if t} == {m: t for m, t in target.items() if t}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("groups", [250, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.source("apache/kafka 4.3.0, live")
def test_random_groups_are_assigned_as_the_broker_assigns_them(groups: int, java: LiveJava) -> None:
    broker, seen = Broker(java), Counter[str]()
    for seed in range(FIRST, FIRST + groups):
        rng = random.Random(seed)
        if seed % SHARED == 0 or seed == FIRST:
            counts = {f"t{i}": rng.choice((1, 2, 3, 5, 7, 12, 20, 40)) for i in range(12)}
            cluster = Cluster(java, counts, rng)
        group, joins = drawn(rng, cluster)
        for name in ("uniform", "range"):
            assignment, target = ours(name, group, cluster, joins), broker.target(name, group, cluster, joins)
            assert same(assignment, target), f"seed {seed}, {name}: ours {assignment}, the broker's {target}"
            alike = len({m.topics for m in group.members}) == 1
            seen[f"{name} {'alike' if alike else 'unlike'}{' moved' if moved(group, assignment) else ''}"] += 1
    print(dict(seen))
    assert all(seen[kind] >= groups // 20 for kind in ("uniform alike moved", "uniform unlike moved", "range unlike"))


def moved(group: Group, assignment: Assignment) -> bool:
    return any(
        p not in assignment[member.member_id].get(topic, ()) for member in group.members for topic, p in member.owned
    )


def test_the_plan_is_the_assignors(java: LiveJava) -> None:
    cluster = Cluster(java, {"a": 5, "b": 4}, random.Random(1))
    group = Group([Member("m1", {"a", "b"}, owned=[("a", p) for p in range(5)]), Member("m2", {"a"})], cluster.counts)

    made = plan(group, "uniform", protocol="consumer", topic_ids=cluster.printed)

    assert same(made.target, Broker(java).target("uniform", group, cluster))
    assert made.replay() == made
