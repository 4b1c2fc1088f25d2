"""Sticky and cooperative on cases one can check by hand, and how the work grows."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from kafka_assignors.core.group import Group, Member, TopicPartition, claims
from kafka_assignors.core.group.assignment import moves, owners
from kafka_assignors.core.sticky import cooperative, levels, maxflow, sticky
from kafka_assignors.operator.plans import plan


def loads(assignment):
    return {m: sum(map(len, topics.values())) for m, topics in assignment.items()}


def claiming(member_id, topics, *owned, generation=1, rack=None):
    return Member(member_id, topics, rack=rack, owned=owned, generation=generation)


@pytest.mark.source("KIP-54, example 1")
def test_kip54_a_member_leaves_and_the_others_keep_what_they_have():
    topics = {"t0", "t1", "t2", "t3"}
    partitions = dict.fromkeys(topics, 2)
    before = sticky.assign(Group([Member(f"C{i}", topics) for i in range(3)], partitions))
    assert sorted(loads(before).values()) == [2, 3, 3]

    staying = [claiming(m, topics, *((t, p) for t, ids in before[m].items() for p in ids)) for m in before if m != "C1"]
    after = sticky.assign(Group(staying, partitions))

    assert loads(after) == {"C0": 4, "C2": 4}
    left = {tp for tp, m in owners(before).items() if m == "C1"}
    assert set(moves(owners(before), owners(after))) == left


@pytest.mark.source("KIP-54, example 2")
def test_kip54_unequal_subscriptions_move_nothing_that_can_stay():
    subscriptions = {"C0": {"t0"}, "C1": {"t0", "t1"}, "C2": {"t0", "t1", "t2"}}
    partitions = {"t0": 1, "t1": 2, "t2": 3}
    before = sticky.assign(Group([Member(m, topics) for m, topics in subscriptions.items()], partitions))
    assert before == {"C0": {"t0": [0]}, "C1": {"t1": [0, 1]}, "C2": {"t2": [0, 1, 2]}}

    staying = [
        claiming(m, subscriptions[m], *((t, p) for t, ids in before[m].items() for p in ids)) for m in ("C1", "C2")
    ]
    after = sticky.assign(Group(staying, partitions))

    assert after == {"C1": {"t0": [0], "t1": [0, 1]}, "C2": {"t2": [0, 1, 2]}}


def test_racks_outweigh_moves_and_balance_outweighs_racks():
    racks = {"t": [{"r1"}, {"r1"}, {"r1"}, {"r2"}]}
    a = claiming("a", {"t"}, ("t", 0), ("t", 3), rack="r1")
    b = claiming("b", {"t"}, ("t", 1), ("t", 2), rack="r2")

    assignment = sticky.assign(Group([a, b], {"t": 4}, racks))

    assert loads(assignment) == {"a": 2, "b": 2}
    assert 3 in assignment["b"]["t"]
    assert 0 in assignment["a"]["t"]


def test_unknown_racks_move_nothing():
    a = claiming("a", {"t"}, ("t", 0), ("t", 1), rack="r1")
    assert sticky.assign(Group([a, claiming("b", {"t"})], {"t": 3})) == {"a": {"t": [0, 1]}, "b": {"t": [2]}}


def test_who_gives_up_partitions_keeps_some_of_each_topic():
    everything = [(t, p) for t in "tuv" for p in range(4)]
    group = Group([claiming("a", set("tuv"), *everything), Member("b", set("tuv"))], dict.fromkeys("tuv", 4))
    assert {t: len(ids) for t, ids in sticky.assign(group)["a"].items()} == {"t": 2, "u": 2, "v": 2}


def shares(assignment, topic):
    return sorted(len(topics.get(topic, ())) for topics in assignment.values())


def rejoining(assignment, topics, *gone):
    return [
        claiming(m, topics, *((t, p) for t, ids in has.items() for p in ids))
        for m, has in assignment.items()
        if m not in gone
    ]


@pytest.mark.source("franz-go#602, librdkafka#4044, KAFKA-16277")
def test_topics_stay_spread_when_members_come_and_go():
    """Equal loads are not enough: who joins gets some of each topic, for no more moves than it takes."""
    partitions = {"orders": 12, "payments": 6, "audit": 3}
    three = sticky.assign(Group([Member(m, partitions) for m in "abc"], partitions))
    assert [shares(three, t) for t in partitions] == [[4, 4, 4], [2, 2, 2], [1, 1, 1]]

    four = sticky.assign(Group([*rejoining(three, partitions), Member("d", partitions)], partitions))
    assert len(moves(owners(three), owners(four))) == 5
    assert [shares(four, t) for t in partitions] == [[3, 3, 3, 3], [1, 1, 2, 2], [0, 1, 1, 1]]

    again = sticky.assign(Group(rejoining(four, partitions, "a"), partitions))
    assert set(moves(owners(four), owners(again))) == {tp for tp, m in owners(four).items() if m == "a"}
    assert [shares(again, t) for t in partitions] == [[4, 4, 4], [2, 2, 2], [1, 1, 1]]


def test_two_that_join_at_once_share_every_topic():
    partitions = dict.fromkeys("tuvwxy", 8)
    two = sticky.assign(Group([Member(m, partitions) for m in "ab"], partitions))

    four = sticky.assign(
        Group([*rejoining(two, partitions), Member("c", partitions), Member("d", partitions)], partitions)
    )

    assert [shares(four, t) for t in partitions] == [[2, 2, 2, 2]] * 6
    assert len(moves(owners(two), owners(four))) == 24


def test_withheld_names_who_must_give_it_up_first():
    group = Group([claiming("a", {"t"}, ("t", 0), ("t", 1)), Member("b", {"t"})], {"t": 2})
    assert plan(group, "cooperative-sticky").withheld == {TopicPartition("t", 1): ("a",)}

    disputed = Group([claiming(m, {"t"}, ("t", 0)) for m in "ab"], {"t": 1})
    assert cooperative.assign(disputed) == {"a": {}, "b": {}}
    assert plan(disputed, "cooperative-sticky").withheld == {TopicPartition("t", 0): ("a", "b")}


def dropped(*partitions):
    return claims.Dropped(len(partitions), partitions)


def test_claims_are_believed_by_generation_and_partition():
    t = [TopicPartition("t", p) for p in range(6)]
    group = Group(
        [
            claiming("old", {"t"}, t[0], t[1], t[5], generation=3),
            claiming("new", {"t"}, t[1], t[2], t[2], generation=4),
            claiming("twin", {"t"}, t[2], generation=4),
            claiming("left", {"u"}, t[3], t[0], generation=5),
            claiming("late", {"t"}, t[3], t[4], TopicPartition("gone", 0), generation=2),
            claiming("as-late", {"u"}, t[4], generation=2),
        ],
        {"t": 5, "u": 1},
    )

    found = claims.resolve(group)

    assert found.held_by == {t[1]: "new", t[4]: "late"}  # "as-late" gave t-4 up when it left the topic
    assert found.disputed == {t[2]: ("new", "twin")}
    assert found.disputed_by == {("new", "twin"): dropped(t[2])}
    assert found.nonexistent == {"late": dropped(TopicPartition("gone", 0)), "old": dropped(t[5])}
    assert found.unsubscribed == {"left": dropped(t[0], t[3]), "as-late": dropped(t[4])}
    assert found.stale == {"late": dropped(t[3]), "old": dropped(t[0], t[1])}
    assert [found.holders(tp) for tp in t[:4]] == [(), ("new",), ("new", "twin"), ()]


def test_blocks_of_equal_load():
    """All may have the 2 of one class, but c is full with the 5 of another that only it may have."""
    size = np.array([2, 5])
    blocks = levels.levels(size, np.array([[True, True, True], [False, False, True]]), np.array([1, 1, 1]))
    assert sorted((b.classes.tolist(), b.kinds.tolist(), b.low, b.extras) for b in blocks) == [
        ([0], [0, 1], 1, 0),
        ([1], [2], 5, 0),
    ]


def test_a_block_keeps_every_choice_that_costs_no_balance():
    """b and c share u, e may have both topics: it keeps u and d gets w, wherever the members come in the order."""
    for names in permutations("bcde"):
        b, c, d, e = names
        group = Group(
            [Member(b, {"u"}), Member(c, {"u"}), Member(d, {"w"}), claiming(e, {"u", "w"}, ("u", 0))], {"u": 1, "w": 1}
        )
        assert sticky.assign(group) == {b: {}, c: {}, d: {"w": [0]}, e: {"u": [0]}}


def test_the_graph_does_not_grow_with_partitions(monkeypatch):
    """The same subscriptions with 2 and with 2,000 partitions a topic: equally large graphs."""
    sizes, real = [], maxflow.sent

    def counting(tail, *rest):
        sizes[-1] = max(sizes[-1], len(tail))
        return real(tail, *rest)

    monkeypatch.setattr(maxflow, "sent", counting)
    for count in (2, 2000):
        sizes.append(0)
        members = [Member(f"m{i}", {f"t{i}", f"t{i + 1}", "t0"}) for i in range(10)]
        sticky.assign(Group(members, {f"t{i}": count for i in range(11)}))

    small, large = sizes
    assert 0 < large <= 1.5 * small


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("assign", [sticky.assign, cooperative.assign])
def test_ten_thousand_partitions_and_fifty_members(assign):
    """A new member joins: the fewest moves, within a time limit that only a hang meets; benchmarks tell the speed."""
    topics = {f"t{i}": 100 for i in range(100)}
    before = sticky.assign(Group([Member(f"m{i:02}", topics) for i in range(49)], topics))
    members = [claiming(m, topics, *((t, p) for t, ids in has.items() for p in ids)) for m, has in before.items()]
    group = Group([*members, Member("new", topics)], topics)

    after = assign(group)

    assert set(moves(owners(before), owners(after)).values()) <= {(m, "new") for m in before}
    assert set(loads(sticky.assign(group)).values()) == {200}
