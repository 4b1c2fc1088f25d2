"""Random joins and leaves: ours moves what balance needs and nothing more, and never more than Java's own class.

Members subscribe alike, so that the fewest moves are known in closed form. Ours and Java's lead a group each through
the same sequence: who leaves is told by its rank in load, as it is not the same members that have the extra partitions.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.group.assignment import Assignment
from kafka_assignors.integration.checker.transitions import most_kept
from tests.support.assignors import model
from tests.support.assignors.live import JavaLeader, metadata
from tests.support.assignors.model import Counts, Live, Model

SLACK = 0
"""Moves beyond the fewest that ours may take."""
MOST = 9  # members


def live_java(leader: JavaLeader):
    def assign(group: Model, counts: Counts, random: Random) -> Assignment:
        answer = leader.assign(
            "cooperative-sticky", group.sent(), metadata({t: [[0]] * n for t, n in counts.items()}, {0: None})
        )
        assert answer.assignment is not None, answer
        return answer.assignment

    return assign


def owned(group: Model) -> dict[TopicPartition, str]:
    return {tp: member_id for member_id, member in group.members.items() for tp in member.holds}


def settled(group: Model, leader: str) -> int:
    """Rebalances until nothing is revoked any more; how many partitions changed hands."""
    before = owned(group)
    for _ in range(3):
        group.rebalances(leader)
        if not group.all_follow(Random(0)):
            break
    group.everything_is_owned()
    after = owned(group)
    return sum(before[tp] != after[tp] for tp in before)


def leaver(group: Model, rank: int) -> str:
    loaded = sorted(group.members, key=lambda m: (-len(group.members[m].holds), m))
    return loaded[rank % len(loaded)]


class Economy(RuleBasedStateMachine):
    """Two groups that live the same life, one led by ours, one by Java's."""

    @initialize(topics=st.lists(st.integers(1, 12), min_size=1, max_size=4))
    def begins(self, topics):
        counts = {f"t{i}": n for i, n in enumerate(topics)}
        self.groups = {"ours": Model(**counts), "live java": Model(**counts)}
        self.changes(joins=1)

    @precondition(lambda self: len(self.groups["ours"].members) < MOST)
    @rule(count=st.integers(1, 3))
    def joins(self, count):
        self.changes(joins=count)

    @precondition(lambda self: len(self.groups["ours"].members) > 1)
    @rule(rank=st.integers(0, MOST))
    def leaves(self, rank):
        self.changes(leaves=[rank])

    @precondition(lambda self: len(self.groups["ours"].members) > 2)
    @rule(rank=st.integers(0, MOST), count=st.integers(1, 3))
    def one_leaves_while_others_join(self, rank, count):
        self.changes(joins=count, leaves=[rank])

    def changes(self, joins=0, leaves=()):
        moved, fewest = {}, {}
        for leader, group in self.groups.items():
            staying = dict(group.members)
            gone = {leaver(group, rank) for rank in leaves}
            before = owned(group)
            for member_id in gone:
                staying.pop(member_id)
                group.leaves(member_id)
            for _ in range(joins):
                group.enters(Live(frozenset(group.topics)))
            held = Counter(before.values())
            kept = most_kept([held[m] for m in staying], len(group.members), sum(group.topics.values()))
            fewest[leader] = len(before) - kept
            moved[leader] = settled(group, leader) + sum(before[tp] in gone for tp in before if tp not in owned(group))
        assert fewest["ours"] == fewest["live java"], "the two groups have the same loads"
        assert moved["ours"] <= fewest["ours"] + SLACK
        assert moved["ours"] <= moved["live java"]


@pytest.mark.parametrize("sequences", [12, pytest.param(400, marks=pytest.mark.long)])
def test_no_more_moves_than_balance_needs_nor_than_java(sequences, leader, monkeypatch):
    """Draws are the same in every run (`conftest`); a sequence that fails is shown shortened."""
    monkeypatch.setitem(model.LEADERS, "live java", live_java(leader))
    run_state_machine_as_test(Economy, settings=settings(max_examples=sequences, stateful_step_count=15))
