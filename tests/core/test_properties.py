"""Laws that hold for any group, whatever its members claim."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from kafka_assignors.core import strategies
from kafka_assignors.core.group import Group, Member, TopicPartition
from kafka_assignors.core.group.assignment import owners
from kafka_assignors.core.group.claims import resolve
from kafka_assignors.core.group.invariants import violations
from kafka_assignors.core.reading import decode, replay
from kafka_assignors.core.sticky import cooperative, sticky
from kafka_assignors.core.wire import protocol
from kafka_assignors.operator.plans import plan
from tests.support.assignors.golden import Score, kip54_unbalanced, previous_owners
from tests.support.assignors.groups import groups, reordered
from tests.support.assignors.oracle import cost, foreign
from tests.support.examples import examples

NAMES = list(strategies.STRATEGIES)
HANDS_OVER = ("cooperative-sticky", "cooperative-copartitioned", "weighted", "lag")
"""Strategies that withhold a partition for a round before another member gets it."""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(group=groups())
def test_always_sound(name, group):
    assignment = strategies.strategy(name).place(group)
    assert violations(group, assignment, cooperative=name in HANDS_OVER) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(group=groups(), random=st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(name, group, random):
    assign = strategies.strategy(name).place
    assert assign(reordered(group, random)) == assign(group)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(
    user_data=st.lists(st.none() | st.binary(max_size=40), min_size=1, max_size=4),
    owned=st.lists(st.tuples(st.sampled_from("tuv"), st.integers(-(2**31), 2**31 - 1)), max_size=5),
    generation=st.integers(-(2**31), 2**31 - 1),
    version=st.integers(0, protocol.VERSION),
)
def test_any_bytes_of_other_members_leave_it_sound(name, user_data, owned, generation, version):
    """The claims that can be read from the bytes count as claims, the rest as none; nothing raises."""
    topics, counts = ("t", "u", "gone"), {"t": 4, "u": 2, "v": 1}
    claimed = tuple(TopicPartition(*tp) for tp in owned)
    sent = [
        (f"m{i}", None, protocol.encode_subscription(protocol.Subscription(topics, data, claimed, generation), version))
        for i, data in enumerate(user_data)
    ]

    assignment = replay(name, sent, counts)

    decoded = [(m, i, protocol.decode_subscription(data)) for m, i, data in sent]
    group = decode(name, decoded, counts).group
    assert violations(group, assignment, cooperative=name in HANDS_OVER) == []


def optimum(group):
    """The same, solved as an assignment of partitions to (member, how many it has before) slots."""
    before = previous_owners(group)
    readers = {t: [m for m in group.members if t in m.topics] for t in group.partitions}
    tps = [TopicPartition(t, p) for t, n in group.partitions.items() if readers[t] for p in range(n)]
    slots = list(product(group.members, range(len(tps))))
    step = len(tps) + 1
    table = np.full((len(tps), len(slots)), 1e15)
    for (i, tp), (j, (member, load)) in product(enumerate(tps), enumerate(slots)):
        if tp.topic in member.topics:
            moved = before.get(tp, member.member_id) != member.member_id
            table[i, j] = ((2 * load + 1) * step + foreign(group, tp, member.rack)) * step + moved
    total = int(table[linear_sum_assignment(table)].sum())
    return Score(total // step // step, total // step % step, total % step)


@pytest.mark.slow
@settings(max_examples=examples(250))
@given(group=groups())
def test_sticky_is_optimal(group):
    """Balance, then racks, then moves, against a solver that shares nothing with it."""
    assignment = sticky.assign(group)

    assert cost(group, assignment) == optimum(group)
    assert kip54_unbalanced(group, assignment) == []


@settings(max_examples=examples(30))
@given(group=groups(max_members=7, max_partitions=12))
def test_sticky_is_optimal_in_larger_groups(group):
    assert cost(group, sticky.assign(group)) == optimum(group)


def rejoined(group, assignment, generation):
    """The group as it joins again, claiming what it was given."""
    return Group(
        [
            Member(m.member_id, m.topics, m.instance_id, m.rack, owned, generation)
            for m in group.members
            for owned in [[(t, p) for t, ids in assignment[m.member_id].items() for p in ids]]
        ],
        group.partitions,
        group.racks,
    )


@pytest.mark.slow
@given(group=groups())
def test_a_sticky_assignment_is_kept_when_nothing_changes(group):
    first = sticky.assign(group)
    assert sticky.assign(rejoined(group, first, 10)) == first


@pytest.mark.slow
@given(group=groups())
def test_cooperative_settles_in_two_rounds_with_one_owner_at_every_instant(group):
    """Members start what they get at once and stop what they lose when they learn of it, in whatever order."""
    rounds = [cooperative.assign(group)]
    holding = resolve(group)
    for i in range(2):
        rounds.append(cooperative.assign(rejoined(group, rounds[-1], 10 + i)))

    for member in group.members:
        for topic, ids in rounds[0][member.member_id].items():
            for partition in ids:
                assert set(holding.holders(TopicPartition(topic, partition))) <= {member.member_id}
    for before, after in pairwise(rounds):
        had, has = owners(before), owners(after)
        assert all(had[tp] == m for tp, m in has.items() if tp in had)
    assert violations(group, rounds[1]) == []
    assert rounds[2] == rounds[1]
    assert cost(group, rounds[1])[:2] == optimum(group)[:2]
    assert set(plan(group, "cooperative-sticky").withheld) == owners(rounds[1]).keys() - owners(rounds[0]).keys()


@pytest.mark.slow
@given(group=groups(racks=False), data=st.data())
def test_fresh_topics_spread_over_equal_subscribers(group, data):
    """Without claims, members that all subscribe alike get each topic in even shares."""
    everybody = Group([Member(m.member_id, group.partitions) for m in group.members], group.partitions)
    assignment = sticky.assign(everybody)
    for topic in group.partitions:
        shares = [len(topics.get(topic, ())) for topics in assignment.values()]
        assert max(shares) - min(shares) <= 1
