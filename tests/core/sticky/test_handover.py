"""Cooperative hand-over, held against the model of a group: no two owners, nothing left over, soon at rest.

Leaders are ours, Java's (which now and then hands over too early: ours must live with what it left behind) and any that
keeps to the rules.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from kafka_assignors.core.wire import protocol
from tests.support.assignors.model import Live, Model

TOPICS = ("t", "u", "v")
MOST = 5  # members
SUBSCRIPTIONS = st.frozensets(st.sampled_from(TOPICS), min_size=1)
RANDOMS = st.randoms(use_true_random=False)


class HandOver(RuleBasedStateMachine):
    """What may happen to a group, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.group = Model(t=2, u=3)

    def anybody(self, random: Random) -> str:
        return random.choice(sorted(self.group.members))

    @precondition(lambda self: len(self.group.members) < MOST)
    @rule(topics=SUBSCRIPTIONS, version=st.integers(1, protocol.VERSION))
    def joins(self, topics, version):
        self.group.enters(Live(topics, version))

    @precondition(lambda self: self.group.members)
    @rule(random=RANDOMS, fenced=st.booleans())
    def leaves(self, random, fenced):
        self.group.leaves(self.anybody(random), fenced)

    @precondition(lambda self: self.group.away and len(self.group.members) < MOST)
    @rule(forgets=st.booleans())
    def comes_back(self, forgets):
        self.group.comes_back(forgets)

    @precondition(lambda self: self.group.members)
    @rule(random=RANDOMS, topics=SUBSCRIPTIONS)
    def subscribes(self, random, topics):
        self.group.subscribes(self.anybody(random), topics)

    @rule(topic=st.sampled_from(TOPICS), more=st.integers(1, 3))
    def grows(self, topic, more):
        self.group.topics[topic] = self.group.topics.get(topic, 0) + more

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(0, 2))
    def is_made_anew(self, topic, count):
        self.group.topics[topic] = count

    @precondition(lambda self: self.group.members)
    @rule(
        leader=st.sampled_from(("ours", "ours", "java", "any")),
        unseen=st.sampled_from(((), (), (), *((topic,) for topic in TOPICS))),
        random=RANDOMS,
    )
    def rebalances(self, leader, unseen, random):
        self.group.rebalances(leader, unseen, random)

    @precondition(lambda self: any(member.told for member in self.group.members.values()))
    @rule(random=RANDOMS)
    def follows(self, random):
        told = [member_id for member_id, member in self.group.members.items() if member.told]
        self.group.follows(random.choice(sorted(told)))

    @precondition(lambda self: self.group.members)
    @rule(random=RANDOMS, misses=st.booleans())
    def is_left_alone(self, random, misses):
        self.group.is_left_alone(random, misses)

    @invariant()
    def nothing_has_two_owners(self):
        self.group.nothing_has_two_owners()


@pytest.mark.slow
@pytest.mark.parametrize("sequences", [40, pytest.param(150, marks=pytest.mark.long)])
def test_no_partition_ever_has_two_owners_and_none_is_left_over(sequences):
    run_state_machine_as_test(HandOver, settings=settings(max_examples=sequences, stateful_step_count=40))


def stale_claimant(**topics: frozenset[str]) -> Model:
    """m1 had everything of its topics, was fenced and comes back as m3 with its old claims; m2 has them now."""
    group = Model(t=2, u=1)
    group.enters(Live(topics["first"]))
    group.is_left_alone(Random(0))
    group.leaves("m1", fenced=True)
    group.enters(Live(topics["second"]))
    group.is_left_alone(Random(0))
    assert len(group.members["m2"].holds) == 3
    assert group.comes_back() == "m3"
    return group


BOTH = frozenset({"t", "u"})


@pytest.mark.parametrize(
    ("peer", "first"), [("java", frozenset({"u"})), ("kafka-python", BOTH)], ids=["java", "kafka-python"]
)
def test_a_stale_claim_takes_nothing_from_who_holds_it(peer, first):
    """Where the other leader's very answer makes two owners, ours waits until it is given up."""
    group = stale_claimant(first=first, second=BOTH)
    group.rebalances(peer)
    assert group.early
    group.follows("m3")
    taken = {tp for tp in group.early if len(group.holders(tp)) == 2}
    assert taken == group.early

    group = stale_claimant(first=first, second=BOTH)
    group.rebalances("ours")
    group.follows("m3")
    assert group.members["m3"].holds == set()
    assert group.follows("m2")
    group.is_left_alone(Random(0))
    assert len(group.members["m3"].holds) == 1


def test_two_owners_that_another_leader_made_are_parted():
    """Both claim it: the newer one keeps it, the other one gives it up."""
    group = stale_claimant(first=frozenset({"u"}), second=BOTH)
    group.rebalances("java")
    group.follows("m3")
    (doubled,) = group.early
    assert group.holders(doubled) == {"m2", "m3"}

    group.rebalances("ours")
    assert group.follows("m2")
    group.follows("m3")

    assert group.holders(doubled) == {"m3"}
    group.is_left_alone(Random(0))


def test_a_member_that_missed_its_answer_keeps_what_it_holds():
    """Its claim is of an older generation than everybody's, but the only one there is."""
    group = Model(t=2)
    for _ in range(2):
        group.enters(Live(frozenset({"t"})))
    group.is_left_alone(Random(0))
    (held,) = group.members["m1"].holds
    group.enters(Live(frozenset({"t"})))
    for _ in range(3):
        group.rebalances("ours")
        group.follows("m2")
        group.follows("m3")

    assert group.holders(held) == {"m1"}
    assert group.members["m1"].generation < group.members["m2"].generation
    assert group.members["m3"].holds == set()
