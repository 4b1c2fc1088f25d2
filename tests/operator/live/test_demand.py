"""How many members a live group needs, from its descriptions and offsets."""

from __future__ import annotations

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.operator.live.demand import Demand, planned_as, shares_of
from kafka_assignors.operator.live.group import LiveGroup, LiveMember, LiveTopics
from kafka_assignors.operator.live.silence import Position
from kafka_assignors.operator.scaling import Rules

TOPICS = LiveTopics({"t": 12})


def group(members: int, protocol: str = "cooperative-sticky") -> LiveGroup:
    owned = [tuple(TopicPartition("t", p) for p in range(n, 12, members)) for n in range(members)]
    return LiveGroup(
        "g", "Stable", "classic", protocol,
        tuple(LiveMember(f"m{n}-id", f"m{n}", "h", frozenset({"t"}), tps) for n, tps in enumerate(owned)),
    )  # fmt: skip


def positions(at_s: float, rate: float, read: float, backlog: int = 0) -> dict[TopicPartition, Position]:
    """Each of 12 partitions gets `rate` records a second, of which `read` are committed."""
    return {TopicPartition("t", p): Position(int(read * at_s), int(rate * at_s) + backlog) for p in range(12)}


def test_a_busy_group_is_told_to_grow_to_the_next_step() -> None:
    demand, live = Demand(Rules(30), at_once=True), group(4)
    for at_s in range(0, 65, 5):
        demand.add(live, positions(at_s, 12.0, 10.0, backlog=400), at_s)

    scaled = demand.scaled(live, TOPICS, 60)

    assert scaled is not None
    assert (scaled.pace, scaled.measured, scaled.assignor) == (30, True, "cooperative-sticky")
    assert [(size.members, size.partitions) for size in scaled.sizes] == [
        (1, 12),
        (2, 6),
        (3, 4),
        (4, 3),
        (6, 2),
        (12, 1),
    ]
    now = scaled.sizes[3]
    assert now.load == 1.2
    assert (scaled.answer.members, scaled.answer.now) == (12, 4)


def test_a_group_of_which_nobody_was_busy_is_unmeasured_unless_a_pace_is_given() -> None:
    live = group(4)
    for pace, expected in ((None, (30.0, False, 4)), (300.0, (300.0, True, 1))):
        demand = Demand(Rules(30), pace=pace, at_once=True)
        for at_s in range(0, 65, 5):
            demand.add(live, positions(at_s, 10.0, 10.0), at_s)
        scaled = demand.scaled(live, TOPICS, 60)
        assert scaled is not None
        assert (scaled.pace, scaled.measured, scaled.answer.members) == expected


def test_a_group_that_reads_nothing_or_has_no_members_has_no_answer() -> None:
    demand = Demand(Rules(30))
    for at_s in (0, 30):
        demand.add(group(2), positions(at_s, 10.0, 0.0), at_s)

    assert demand.scaled(group(2), TOPICS, 30) is None
    assert Demand(Rules(30), pace=10).scaled(LiveGroup("g", "Empty", "classic", "", ()), TOPICS, 30) is None
    assert Demand(Rules(30), pace=10).scaled(group(2), LiveTopics({}), 30) is None


def test_shares_are_those_of_the_assignor_and_else_of_one_by_count() -> None:
    topics = LiveTopics({"t": 3, "u": 3})
    members = tuple(LiveMember(f"m{n}", f"m{n}", "h", frozenset({"t", "u"})) for n in range(2))

    def sizes(protocol: str) -> list[int]:
        return sorted(shares_of(LiveGroup("g", "Stable", "classic", protocol, members), topics))

    assert sizes("range") == [1, 2, 3]
    assert sizes("sticky") == [1, 2, 3, 6]
    assert planned_as(LiveGroup("g", "Stable", "classic", "myteam", members)) == "cooperative-sticky"
    assert sizes("myteam") == [1, 2, 3, 6]


def test_a_group_of_many_partitions_is_looked_at_around_its_size() -> None:
    topics = LiveTopics({"t": 1000})
    owned = [tuple(TopicPartition("t", p) for p in range(n, 1000, 100)) for n in range(100)]
    members = tuple(LiveMember(f"m{n:03}", f"m{n:03}", "h", frozenset({"t"}), tps) for n, tps in enumerate(owned))
    live = LiveGroup("g", "Stable", "classic", "sticky", members)

    sizes = sorted(shares_of(live, topics))

    assert 100 in sizes
    assert len(sizes) <= 25
    assert sizes[0] < 100 < sizes[-1]
