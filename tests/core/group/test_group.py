"""A group that cannot be is refused where it is made, with a word about what to change."""

from __future__ import annotations

import pytest

from kafka_assignors import Group, Member, Plan, plan
from kafka_assignors.core import strategies
from kafka_assignors.core.group.claims import resolve
from kafka_assignors.core.group.facts import of_claims
from kafka_assignors.core.reading import decoded
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
