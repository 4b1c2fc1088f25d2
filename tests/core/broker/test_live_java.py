"""Random KIP-848 groups to the broker's own classes and to ours: equal, partition by partition.

250 groups in CI, 10,000 in the long form; ``FUZZ_FIRST=20000`` draws others.
"""

from __future__ import annotations

import os
import random
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_assignors import Group, Member, plan
from kafka_assignors.core.broker.uniform import alike_subscribed
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


Patterns = dict[str, tuple[str, frozenset[str]]]
"""Member id -> its pattern, and the topics that match."""


def drawn(rng: random.Random, cluster: Cluster) -> tuple[Group, Member | None, Patterns]:
    """A group with a current target, perhaps an outdated one; perhaps a member that joins it; and their patterns."""
    topics = rng.sample(sorted(cluster.counts), rng.randint(1, 5))
    mixed = rng.choice((0.0, 0.0, 0.3, 0.7, 1.0))  # the share of members with a pattern
    matching = [frozenset(topics), frozenset(rng.sample(topics, rng.randint(1, len(topics))))]
    matching = matching[: rng.randint(1, 2)]
    patterns: Patterns = {}
    absent = ["absent"] if rng.random() < 0.1 else []
    size = rng.choice((1, 2, 3, 4, 5, 6, 8, 13, 20, 40))
    alike = rng.random() < 0.5

    def member(i: int) -> Member:
        reads = topics if alike else rng.sample(topics, rng.randint(0 if i else 1, len(topics)))
        instance = f"i-{rng.randrange(10**6)}-{i}" if rng.random() < 0.3 else None
        name, names = f"m-{uuid.UUID(int=rng.getrandbits(128))}", [*reads, *absent]
        if rng.random() < mixed:
            which = rng.randrange(len(matching))
            patterns[name] = f"^p{which}.*", matching[which]
            names = [*matching[which], *(set(names) if rng.random() < 0.2 else ())]
        return Member(name, names, instance)

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
    return Group(made, cluster.counts), member(1) if rng.random() < 0.3 else None, patterns


def ours(name: str, group: Group, cluster: Cluster, joins: Member | None, patterns: Patterns) -> Assignment:
    options: dict[str, Any] = {}
    if name == "uniform" and joins is not None:
        options = {"order": map_order((m.member_id for m in group.members), [joins.member_id])}
    members = [*group.members, *([joins] if joins else [])]
    if patterns:
        options["alike"] = alike_subscribed(asked(member, patterns) for member in members)
    made = strategy(name, protocol="consumer", topic_ids=cluster.printed, **options)
    return made.place(Group(members, group.partitions))


def asked(member: Member, patterns: Patterns) -> tuple[frozenset[str], str | None]:
    pattern, matching = patterns.get(member.member_id, (None, frozenset()))
    return member.topics - matching, pattern


def same(assignment: Assignment, target: Target) -> bool:
    return {m: t for m, t in assignment.items() if t} == {m: t for m, t in target.items() if t}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("groups", [100, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.source("apache/kafka 4.3.0, live")
@pytest.mark.release("the golden vectors are answers of the same class")
def test_random_groups_are_assigned_as_the_broker_assigns_them(groups: int, java: LiveJava) -> None:
    broker, seen = Broker(java), Counter[str]()
    for seed in range(FIRST, FIRST + groups):
        rng = random.Random(seed)
        if seed % SHARED == 0 or seed == FIRST:
            counts = {f"t{i}": rng.choice((1, 2, 3, 5, 7, 12, 20, 40)) for i in range(12)}
            cluster = Cluster(java, counts, rng)
        group, joins, patterns = drawn(rng, cluster)
        for name in ("uniform", "range"):
            assignment = ours(name, group, cluster, joins, patterns)
            target = broker.target(name, group, cluster, joins, patterns)
            assert same(assignment, target), f"seed {seed}, {name}: ours {assignment}, the broker's {target}"
            alike = len({m.topics for m in group.members}) == 1
            kind = f"{name} {'alike' if alike else 'unlike'}{' moved' if moved(group, assignment) else ''}"
            seen[kind] += 1
            seen[f"{kind}, {'some' if len(patterns) < len(group.members) else 'all'} by pattern"] += bool(patterns)
    print(dict(seen))
    kinds = "uniform alike moved", "uniform unlike moved", "range unlike"
    assert all(seen[kind] >= groups // 20 for kind in kinds)
    assert all(seen[f"{kind}, {of} by pattern"] >= groups // 100 for kind in kinds for of in ("some", "all"))


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
