"""The checker of assignments is worth what it rejects: each law meets its damage."""

from __future__ import annotations

import pytest

from kafka_assignors.core.group import Group, Member, TopicPartition
from kafka_assignors.core.group.invariants import violations

GROUP = Group([Member("a", {"t", "u"}), Member("b", {"t"})], {"t": 3, "u": 1, "unread": 2})
SOUND = {"a": {"t": [0], "u": [0]}, "b": {"t": [1, 2]}}


def test_a_sound_assignment_passes():
    assert violations(GROUP, SOUND) == []
    assert violations(GROUP, SOUND, cooperative=True) == []


@pytest.mark.parametrize(
    ("damaged", "law", "members", "partition"),
    [
        ({**SOUND, "b": {"t": [1]}}, "covered", (), ("t", 2)),
        ({**SOUND, "a": {"t": [0]}}, "covered", (), ("u", 0)),
        ({**SOUND, "a": {"t": [0, 1], "u": [0]}}, "single-owner", ("a", "b"), ("t", 1)),
        ({**SOUND, "b": {"t": [1, 2, 2]}}, "single-owner", ("b", "b"), ("t", 2)),
        ({"a": {"t": [0]}, "b": {"t": [1, 2], "u": [0]}}, "subscribed", ("b",), ("u", 0)),
        ({**SOUND, "b": {"t": [1, 2], "unread": [0]}}, "subscribed", ("b",), ("unread", 0)),
        ({**SOUND, "b": {"t": [1, 2, 3]}}, "exists", ("b",), ("t", 3)),
        ({**SOUND, "b": {"t": [1, 2, -1]}}, "exists", ("b",), ("t", -1)),
        ({"a": {"t": [0, 1, 2], "u": [0]}}, "every-member", ("b",), None),
        ({**SOUND, "ghost": {}}, "known-member", ("ghost",), None),
    ],
)
@pytest.mark.parametrize("cooperative", [False, True])
def test_each_damage_breaks_its_law_and_no_other(damaged, law, members, partition, cooperative):
    found = violations(GROUP, damaged, cooperative=cooperative)

    assert [(v.law, v.members, v.partition) for v in found] == [(law, members, partition)]
    assert str(found[0]).startswith(f"{law}: ")


def test_a_topic_that_does_not_exist_is_named():
    found = violations(GROUP, {**SOUND, "a": {"t": [0], "u": [0], "gone": [0]}})
    assert [v.law for v in found] == ["exists", "subscribed"]
    assert "no topic 'gone'" in found[0].text


def owning(a=(), b=(), a_generation=5, b_generation=5):
    return Group(
        [
            Member("a", {"t"}, owned=[("t", p) for p in a], generation=a_generation),
            Member("b", {"t"}, owned=[("t", p) for p in b], generation=b_generation),
        ],
        {"t": 2},
    )


def test_giving_away_what_is_still_held_breaks_the_hand_over():
    group, moved = owning(a=[0, 1]), {"a": {"t": [0]}, "b": {"t": [1]}}

    assert violations(group, moved) == []
    (found,) = violations(group, moved, cooperative=True)
    assert (found.law, found.members, found.partition) == ("hand-over", ("a", "b"), TopicPartition("t", 1))
    assert "given to 'b' while 'a' may still hold it" in found.text


def test_a_held_partition_may_be_withheld_for_a_cooperative_round_alone():
    group, withheld = owning(a=[0, 1]), {"a": {"t": [0]}, "b": {}}

    assert violations(group, withheld, cooperative=True) == []
    assert [v.law for v in violations(group, withheld)] == ["covered"]


def test_an_unclaimed_partition_may_not_be_withheld():
    found = violations(owning(a=[0]), {"a": {"t": [0]}, "b": {}}, cooperative=True)
    assert [(v.law, v.partition) for v in found] == [("covered", ("t", 1))]


def test_a_stale_claim_protects_nobody():
    group = owning(a=[0, 1], b=[1], b_generation=4)

    assert violations(group, {"a": {"t": [0, 1]}, "b": {}}, cooperative=True) == []
    found = violations(group, {"a": {"t": [0]}, "b": {"t": [1]}}, cooperative=True)
    assert [v.law for v in found] == ["hand-over"]


def test_a_disputed_partition_goes_to_neither_claimant():
    group = owning(a=[0, 1], b=[1])

    assert violations(group, {"a": {"t": [0]}, "b": {}}, cooperative=True) == []
    for taker in "ab":
        assignment = {"a": {"t": [0]}, "b": {}}
        assignment[taker] = {"t": [*assignment[taker].get("t", []), 1]}
        assert [v.law for v in violations(group, assignment, cooperative=True)] == ["hand-over"]


def test_every_breach_is_reported_in_order():
    found = violations(GROUP, {"a": {"t": [7, 0], "nope": [0]}, "x": {"t": [0]}})
    laws = "covered covered covered every-member exists exists known-member single-owner subscribed"
    assert [v.law for v in found] == laws.split()
