"""Spread first on a real broker: every member has its share of each topic, whoever comes, goes or dies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup, Stable

pytestmark = pytest.mark.broker

OPTIONS = json.dumps({"goals": ["spread", "balance", "racks", "moves"]})


def shares(stable: Stable) -> dict[str, list[int]]:
    """topic -> the members' numbers of partitions, ascending."""
    topics = sorted({topic for owned in stable.owned.values() for topic in owned})
    return {topic: sorted(len(owned.get(topic, ())) for owned in stable.owned.values()) for topic in topics}


# long: core/sticky/test_spread.py proves the goal; an option, whose group is otherwise that of test_lives.py
@pytest.mark.long
# long: the eager one has the same goals
@pytest.mark.parametrize("name", ["cooperative-sticky", pytest.param("sticky", marks=pytest.mark.long)])
def test_each_topic_is_shared_evenly_through_join_leave_and_kill(
    name: str, unjudged_group: Callable[..., MemberGroup], kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topics, group, assignor = [kafka_topic(partitions=4), kafka_topic(partitions=5)], unjudged_group(), name + OPTIONS
    four, five = sorted(topics, key=lambda topic: topic != topics[0])

    for member in ("m1", "m2", "m3"):
        group.start(member, topics, [assignor])
    three = group.wait_stable()
    group.start("m4", topics, [assignor])
    joined = group.wait_stable()
    group.stop("m1")
    left = group.wait_stable()
    group.kill("m3")
    killed = group.wait_stable()
    group.close()

    assert shares(three) == {four: [1, 1, 2], five: [1, 2, 2]}
    assert shares(joined) == {four: [1, 1, 1, 1], five: [1, 1, 1, 2]}
    assert shares(left) == {four: [1, 1, 2], five: [1, 2, 2]}
    assert shares(killed) == {four: [2, 2], five: [2, 3]}
    # Loads are even too, and nothing moves that need not.
    for stable in (three, joined, left, killed):
        loads = [sum(map(len, owned.values())) for owned in stable.owned.values()]
        assert max(loads) - min(loads) <= 1
    assert [len(stable.moves) for stable in (joined, left, killed)] == [2, len_of(joined, "m1"), len_of(left, "m3")]

    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    assert verdict.checked["A1"] >= 1


def len_of(stable: Stable, member: str) -> int:
    return sum(map(len, stable.owned[member].values()))
