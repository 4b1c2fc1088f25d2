"""A group that cannot be is refused where it is made, with a word about what to change."""

from __future__ import annotations

import pytest

from kafka_assignors import Group, Member, Plan, plan
from kafka_assignors.core import strategies
from kafka_assignors.core.group import NO_GENERATION
from kafka_assignors.core.group.claims import resolve
from kafka_assignors.core.group.facts import of_claims
from kafka_assignors.core.group.invariants import violations
from kafka_assignors.core.reading import decoded
from kafka_assignors.core.sticky import cooperative
from kafka_assignors.errors import ConfigError
from tests.support.assignors import fuzz

A, B = Member("a", {"t"}), Member("b", {"t"})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Group([A, B, A], {"t": 4}), "2 members have the id 'a'"),
        (lambda: Member("a", "orders"), r"not the string 'orders'; did you mean \['orders'\]"),
        (lambda: Member(7, {"t"}), "member id, instance id and rack are strings"),
        (lambda: Member("a", {"t"}, rack=7), "member id, instance id and rack are strings"),
        (lambda: Member("a", {"t"}, ["i"]), "member id, instance id and rack are strings"),
        (lambda: Group([A], {"t": -1}), r"partitions\['t'\] must be a partition count of 0 or above, not -1"),
        (lambda: Group([A], {"t": 2.5}), r"partitions\['t'\] must be a partition count of 0 or above, not 2.5"),
        (lambda: Group([A], {"t": 2}, {"t": "r1"}), r"racks\['t'\] must have one entry for each partition"),
        (lambda: Group([A], {"t": 2}, {"t": ["r1", "r2"]}), "a collection, not the string 'r1'"),
        (lambda: Group([A], {"t": 2}, None, {"t": "r1"}), r"leaders\['t'\] must have one entry for each partition"),
        (lambda: plan(Group([], {"t": 2}), "sticky"), "the group has no members"),
    ],
)
def test_nonsense_is_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize("name", sorted(strategies.STRATEGIES))
def test_a_group_without_members_is_assigned_nothing(name):
    """A leader has at least itself; a replayed group may have had nobody."""
    assert strategies.strategy(name).assign(decoded(name, Group([], {"t": 3})))[0] == {}


def test_options_that_are_tuples_survive_json():
    made = plan(Group([A, B], {"t": 3}), "sticky", goals=("balance", "moves", "racks"))
    assert Plan.from_json(made.to_json()) == made
    assert Plan.from_json(made.to_json()).replay() == made


def test_who_left_a_topic_disputes_nothing():
    """Its client revoked the partition before it joined, so that the other claimant is the only one."""
    left = Member("b", {"u"}, owned=[("t", 0)], generation=3)
    group = Group([Member("a", {"t"}, owned=[("t", 0)], generation=3), left], {"t": 1, "u": 1})
    found = resolve(group)
    assert dict(found.held_by) == {("t", 0): "a"}
    assert [fact.kind for fact in of_claims(found)] == ["claim-unsubscribed"]
    assert plan(group, "cooperative-sticky").withheld == {}


def claimed(member_id, topics, *ids, generation=3):
    return Member(member_id, topics, owned=[("t", p) for p in ids], generation=generation)


def test_who_leaves_the_group_keeps_its_partitions_for_a_round():
    """It has no topics any more, and reads on until it is told to revoke: nobody else may get them before."""
    group = Group([claimed("a", {"t"}, 0, 1), claimed("b", {"t"}, 2, 3), claimed("c", (), 4, 5)], {"t": 6})
    found = resolve(group)
    assert found.leaving == {("t", 4): ("c",), ("t", 5): ("c",)}
    assert list(of_claims(found)) == []
    for name in ("cooperative-sticky", "cooperative-copartitioned", "weighted", "lag"):
        first = plan(group, name)
        assert first.assignment == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}, "c": {}}, name
        assert first.withheld == {("t", 4): ("c",), ("t", 5): ("c",)}, name
        assert {(move.old, move.kind) for move in first.moves} == {("c", "leaving")}, name
        assert violations(group, first.assignment, cooperative=True) == []
        assert sorted(map(len, (first.target[m]["t"] for m in "ab"))) == [3, 3]
    too_early = {"a": {"t": [0, 1, 4]}, "b": {"t": [2, 3, 5]}, "c": {}}
    assert {each.law for each in violations(group, too_early, cooperative=True)} == {"hand-over"}


@pytest.mark.parametrize(
    ("others", "leaver", "leaving", "kinds"),
    [
        ([0], claimed("c", (), 0, generation=2), [], ["claim-stale"]),
        ([0], claimed("c", (), 0), [], ["claim-unsubscribed"]),
        ([], claimed("c", (), 0, generation=NO_GENERATION), [], ["claim-unsubscribed"]),
        ([0], claimed("c", (), 0, generation=4), [0], ["claim-stale"]),
        ([], claimed("c", (), 0, generation=2), [0], []),
    ],
    ids=["another-got-it-since", "another-has-it", "tells-no-generation", "it-got-it-since", "is-alone"],
)
def test_whose_claim_of_a_leaving_member_counts(others, leaver, leaving, kinds):
    group = Group([claimed("a", {"t"}, *others), leaver], {"t": 1})
    found = resolve(group)
    assert [partition.partition for partition in found.leaving] == leaving
    assert [fact.kind for fact in of_claims(found)] == kinds
    withheld = cooperative.assign(group) == {"a": {}, "c": {}}
    assert withheld == bool(leaving)


@pytest.mark.slow
@pytest.mark.parametrize("parity", [None, "java"])
def test_the_target_is_what_the_second_rebalance_gives(parity):
    """Its ties are decided by what the first one left in place, so that it is computed from there."""
    withheld = 0
    for seed in range(60 if parity else 400):
        read = fuzz.draw(seed).reading("cooperative-sticky")
        made = strategies.strategy("cooperative-sticky", parity=parity)
        planned = plan(read.group, "cooperative-sticky", parity=parity)
        if not planned.withheld:
            continue
        withheld += 1
        held = [
            Member(
                m.member_id,
                m.topics,
                m.instance_id,
                m.rack,
                [(t, p) for t, ids in planned.assignment[m.member_id].items() for p in ids],
                99,
            )
            for m in read.group.members
        ]
        second = Group(held, read.group.partitions, read.group.racks)
        assert made.assign(decoded("cooperative-sticky", second))[0] == planned.target, seed
    assert withheld > 10
