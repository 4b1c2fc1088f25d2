"""Range where its rack rules are easy to get wrong."""

from __future__ import annotations

import pytest

from kafka_assignors.core.group import Group, Member
from kafka_assignors.core.stateless import range as range_assignor


@pytest.mark.source("KIP-881; apache/kafka 4.3.0 RangeAssignor: without a subscriber's rack the rack table is empty")
def test_topics_whose_subscribers_have_no_rack_stay_contiguous():
    """`near` is dealt by racks; x and y are not, though they share their subscribers and differ in size."""
    group = Group(
        [
            Member("a", {"near"}, rack="r1"),
            Member("b", {"near"}, rack="r2"),
            Member("d", {"x", "y"}),
            Member("e", {"x", "y"}),
        ],
        {"near": 2, "x": 2, "y": 3},
        {"near": [{"r2"}, {"r1"}], "x": [{"r1"}, {"r2"}], "y": [{"r1"}, {"r2"}, {"r1"}]},
    )

    assert range_assignor.assign(group) == {
        "a": {"near": [1]},
        "b": {"near": [0]},
        "d": {"x": [0], "y": [0, 1]},
        "e": {"x": [1], "y": [2]},
    }


@pytest.mark.source("KIP-881")
def test_copartitioned_topics_go_together_or_not_by_racks_at_all():
    members = [Member("a", {"t", "u"}, rack="r1"), Member("b", {"t", "u"}, rack="r2")]
    alike, crossed = [{"r2"}, {"r1"}], [{"r1"}, {"r2"}]

    together = range_assignor.assign(Group(members, {"t": 2, "u": 2}, {"t": alike, "u": alike}))
    apart = range_assignor.assign(Group(members, {"t": 2, "u": 2}, {"t": alike, "u": crossed}))

    assert together == {"a": {"t": [1], "u": [1]}, "b": {"t": [0], "u": [0]}}
    assert apart == {"a": {"t": [0], "u": [0]}, "b": {"t": [1], "u": [1]}}


@pytest.mark.source("RangeAssignor's documented skew")
def test_the_surplus_of_every_topic_goes_to_the_first_members():
    group = Group([Member(f"c{i}", {"t0", "t1"}) for i in range(3)], {"t0": 4, "t1": 4})
    assert range_assignor.assign(group) == {
        "c0": {"t0": [0, 1], "t1": [0, 1]},
        "c1": {"t0": [2], "t1": [2]},
        "c2": {"t0": [3], "t1": [3]},
    }
