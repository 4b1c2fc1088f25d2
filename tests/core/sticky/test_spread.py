"""Each topic over all its members, while they come and go: next to Java's live sticky assignor."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafka_assignors.core import strategies
from kafka_assignors.core.group.assignment import Assignment, moves, owners
from tests.support.assignors import fuzz
from tests.support.assignors.live import JavaLeader, metadata

TOPICS = {"topic1": ((0,),) * 18, "topic2": ((0,),) * 18}


def java(leader: JavaLeader, case: fuzz.Case) -> Assignment:
    answer = leader.assign("sticky", case.sent("sticky"), metadata(case.topics, case.brokers))
    assert answer.assignment is not None, answer
    return answer.assignment


def ours(_: JavaLeader, case: fuzz.Case) -> Assignment:
    return strategies.strategy("sticky").assign(case.reading("sticky"))[0]


def joining(member_id: str, held: Assignment, generation: int) -> fuzz.Joining:
    if member_id not in held:
        return fuzz.Joining(member_id, tuple(TOPICS))
    owned = tuple((topic, p) for topic, ids in held[member_id].items() for p in ids)
    return fuzz.Joining(member_id, tuple(TOPICS), owned=owned, generation=generation)


def life(assign, leader: JavaLeader, crews: Sequence[range]) -> list[tuple[Assignment, int]]:
    """Each crew takes over from the one before: its assignment, and how many partitions moved."""
    steps: list[tuple[Assignment, int]] = []
    held: Assignment = {}
    for generation, crew in enumerate(crews):
        members = tuple(joining(f"consumer{n}", held, generation) for n in crew)
        before = {tp: m for tp, m in owners(held).items() if m in {member.member_id for member in members}}
        held = assign(leader, fuzz.Case(members, TOPICS))
        steps.append((held, len(moves(before, owners(held)))))
    return steps


def unevenness(assignment: Assignment) -> tuple[int, int]:
    """The widest gap between two members' shares of a topic, and all shares squared."""
    shares = [[len(given.get(topic, ())) for given in assignment.values()] for topic in TOPICS]
    return max(max(each) - min(each) for each in shares), sum(share**2 for each in shares for share in each)


@pytest.mark.source("librdkafka#4044; apache/kafka 4.3.0 StickyAssignor, live")
def test_a_ninth_member_makes_it_two_of_each_topic_for_everybody(leader):
    crews = [range(1, 9), range(1, 10)]
    _, (mine, moved) = life(ours, leader, crews)
    _, (theirs, moved_by_java) = life(java, leader, crews)

    assert (moved, unevenness(mine)) == (4, (0, 2 * 9 * 2**2))
    assert (moved, unevenness(mine)) <= (moved_by_java, unevenness(theirs))


@pytest.mark.source("librdkafka#4044, KAFKA-16277; apache/kafka 4.3.0 StickyAssignor, live")
def test_topics_stay_better_spread_than_javas_while_nine_come_and_go(leader):
    """They join one by one and leave in the same order; equally many moves at every step."""
    crews = [*(range(1, 1 + n) for n in range(1, 10)), *(range(n, 10) for n in range(2, 10))]
    steps = list(zip(life(ours, leader, crews), life(java, leader, crews), strict=True))

    for (mine, moved), (theirs, moved_by_java) in steps:
        assert moved == moved_by_java
        assert unevenness(mine) <= unevenness(theirs), f"{mine}\nJava: {theirs}"
    assert sum(unevenness(mine) < unevenness(theirs) for (mine, _), (theirs, _) in steps) >= 8
