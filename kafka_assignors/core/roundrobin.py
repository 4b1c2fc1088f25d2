"""The roundrobin assignor: all partitions dealt in turn, exactly as Java deals them."""

from __future__ import annotations

from .assignment import Assignment
from .group import Group
from .order import static_first, utf16


def assign(group: Group) -> Assignment:
    """Deal the partitions of all topics in order, each to the next member in the circle that subscribes to its topic.

    Args:
        group: Members in any order; claims and racks play no part.

    Returns:
        member id -> topic -> ascending partition ids; every member has an entry. Equal subscriptions give loads that
        differ by at most 1. Unequal ones can give much worse: the turn passes on from the member that took.

    Cost: O(P * M) time in the worst case, O(P) when all subscribe alike. Deterministic.
    Source: ``RoundRobinAssignor`` of apache/kafka 4.3.0, static members first (KIP-345).

    >>> from kafka_assignors.core.group import Member
    >>> assign(Group([Member("b", {"t"}), Member("a", {"t", "u"})], {"t": 2, "u": 2}))
    {'b': {'t': [1]}, 'a': {'t': [0], 'u': [0, 1]}}
    """
    assignment: Assignment = {member.member_id: {} for member in group.members}
    circle = sorted(group.members, key=static_first)
    topics = {topic for member in circle for topic in member.topics if group.partitions.get(topic, 0) > 0}
    turn = 0
    for topic in sorted(topics, key=utf16):
        for partition in range(group.partitions[topic]):
            while topic not in circle[turn % len(circle)].topics:
                turn += 1
            assignment[circle[turn % len(circle)].member_id].setdefault(topic, []).append(partition)
            turn += 1
    return assignment
