"""A group at several sizes: loads, what they could be at least, and what moves from one size to the next."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kafka_assignors import Group, Member, plan
from kafka_assignors.errors import ConfigError
from kafka_assignors.operator.plans import Size, Sizing


def holding(*loads, rack=None):
    """Members m0, m1, … that hold so many partitions of one topic."""
    ends = [sum(loads[: i + 1]) for i in range(len(loads))]
    members = [
        Member(f"m{i}", {"t"}, None, rack, [("t", p) for p in range(end - load, end)], 1)
        for i, (load, end) in enumerate(zip(loads, ends, strict=True))
    ]
    return Group(members, {"t": sum(loads)})


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky", "weighted", "compact-sticky"])
def test_loads_and_moves_by_size(strategy):
    made = plan(holding(4, 4, 4), strategy, members=[1, 2, 3, 4, 6, 12, 13])

    assert [(size.members, size.greatest, size.least, size.idle) for size in made.sizes] == [
        (1, 12, 12, 0), (2, 6, 6, 0), (3, 4, 4, 0), (4, 3, 3, 0), (6, 2, 2, 0), (12, 1, 1, 0), (13, 1, 1, 1),
    ]  # fmt: skip
    # Down: all that the leaving member has. Up: the shares of those that come.
    assert [size.moves for size in made.sizes] == [6, 4, 0, 3, 4, 6, 0]
    assert [size.mean for size in made.sizes] == pytest.approx([12 / size.members for size in made.sizes])
    assert made.sizes[-1].spare == pytest.approx(1 / 13)
    assert made.sizes[-1].ratio == pytest.approx(13 / 12)


def test_the_current_size_moves_what_a_rebalance_now_would():
    made = plan(holding(6, 2), "sticky", members=range(2, 4))
    assert [(size.moves, size.greatest) for size in made.sizes] == [(2, 4), (2, 3)]
    # The current size is where the way starts, even if nobody asks for it.
    assert plan(holding(6, 2), "sticky", members=[3]).sizes == made.sizes[1:]


def test_how_many_members_a_group_needs():
    made = plan(holding(10, 10), "sticky", members=range(1, 30))
    assert [made.fewest(most) for most in (20, 19, 7, 1, 0)] == [1, 2, 3, 20, None]
    assert str(made).splitlines()[-1] == "more than 20 members do not lower the greatest load"
    assert str(made).splitlines()[3].split() == ["*", "2", "10", "10", "1.00", "0%", "0", "0"]


def test_a_strategy_that_is_not_optimal_is_held_against_the_best():
    """Range gives the first members one more of each topic."""
    topics = {f"t{i}": 3 for i in range(4)}
    made = plan(Group([Member("a", topics), Member("b", topics)], topics), "range", members=[2])
    assert [(size.greatest, size.least) for size in made.sizes] == [(8, 6)]


def test_work_and_capacity():
    """One partition weighs 6 of 12: beyond two members of capacity 1, it is the greatest load."""
    group = Group([Member("a", {"t"}), Member("b", {"t"})], {"t": 7})
    made = plan(group, "weighted", weights={"t": [6, 1, 1, 1, 1, 1, 1]}, members=range(1, 4))
    assert [(size.greatest, size.least) for size in made.sizes] == [(12, 12), (6, 6), (6, 6)]

    # Those that come have the capacities of a and b in turn: 1, 3, 1, 3.
    made = plan(group, "weighted", weights={"t": [6, 1, 1, 1, 1, 1, 1]}, capacity={"b": 3.0}, members=[2, 4])
    assert [size.mean for size in made.sizes] == [3.0, 1.5]


def test_members_that_come_read_what_those_there_read():
    group = Group([Member("a", {"t"}), Member("b", {"u"})], {"t": 6, "u": 6})
    made = plan(group, "sticky", members=[2, 4, 6])
    assert [(size.greatest, size.idle) for size in made.sizes] == [(6, 0), (3, 0), (2, 0)]
    # A member with the name that the first to come would have.
    group = Group([Member("added-1", {"t"})], {"t": 6})
    assert [size.greatest for size in plan(group, "sticky", members=[1, 2, 3]).sizes] == [6, 3, 2]


def test_each_way_from_the_current_size_is_walked_step_by_step():
    made = plan(holding(5, 5, 5, 5), "sticky", members=range(1, 9))
    for smaller, larger in pairwise(made.sizes):
        least = 20 // larger.members  # what must move between neighbours
        assert (larger if larger.members > 4 else smaller).moves >= least


def test_as_json():
    made = plan(holding(3, 3), "sticky", goals=["spread", "balance", "racks", "moves"], members=[1, 2])
    assert Sizing.from_json(made.to_json()) == made
    assert made.options == {"goals": ["spread", "balance", "racks", "moves"]}
    for damaged in ("[]", "{}", made.to_json().replace('"version":1', '"version":2'), made.to_json()[:-3]):
        with pytest.raises(ConfigError, match="this is not a sizing"):
            Sizing.from_json(damaged)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([], "at least one size"),
        (range(3), "1 or above, not 0"),
        ([2.0], r"1 or above, not 2\.0"),
        ([True], "1 or above, not True"),
        (5, r"sizes like range\(1, 40\), not 5"),
    ],
)
def test_wrong_sizes(sizes, message):
    with pytest.raises(ConfigError, match=message):
        plan(holding(3), "sticky", members=sizes)


def test_nothing_to_read():
    (size,) = plan(Group([Member("a", {"t"})], {}), "sticky", members=[1]).sizes
    assert size == Size(1, 0, 0, 0, 1, 0)
    assert (size.ratio, size.spare) == (1, 0)
