"""The range assignor: per topic, contiguous ranges for the members in order; rack-aware if racks help (KIP-881)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..group import Group, Member
from ..group.assignment import Assignment
from ..group.indexed import UNASSIGNED, Indexed, Ints
from ..group.order import static_first, utf16
from .per_topic import contiguous
from .per_topic import owners as per_topic

Racks = Sequence[frozenset[str]]


def assign(group: Group) -> Assignment:
    """Split each topic's partitions into contiguous ranges, one per subscriber in order; the first ones are longer.

    When members and replicas have racks and some rack lacks a replica of some partition, members first take, within
    their fair share, the partitions with a replica on their rack. Topics with the same subscribers and the same number
    of partitions are co-partitioned: partition i of all of them goes to one member, and a rack counts only if it fits
    all of them. The rest is split as ranges again, so the ranges can have gaps.

    Per topic, subscribers' counts differ by at most 1; over many topics the first members collect the surplus of each
    (the known skew of range). Claims are ignored.

    Cost: O(P * M) time if racks count, else O(P log P + T * M). Deterministic.
    Source: ``RangeAssignor`` of apache/kafka 4.3.0, KIP-881, static members first (KIP-345).

    >>> from kafka_assignors.core.group import Member
    >>> assign(Group([Member("b", {"t"}), Member("a", {"t", "u"})], {"t": 3, "u": 2}))
    {'b': {'t': [2]}, 'a': {'t': [0, 1], 'u': [0, 1]}}
    """
    indexed = Indexed(group)
    return indexed.assignment(owners(indexed))


def owners(indexed: Indexed) -> Ints:
    """`assign` as an array: int[P], the number of each position's owner; `UNASSIGNED` if nobody subscribes."""
    group = indexed.group
    if not group.racks or all(member.rack is None for member in group.members):
        return _without_racks(indexed)
    subscribers: dict[str, list[Member]] = {}
    for member in sorted(group.members, key=static_first):
        for name in member.topics:
            if group.partitions.get(name, 0) > 0:
                subscribers.setdefault(name, []).append(member)
    topics = [
        _Topic(name, group.partitions[name], subscribers[name], group.racks.get(name, ()))
        for name in sorted(subscribers, key=utf16)
    ]
    if not any(topic.needs_racks for topic in topics):
        return _without_racks(indexed)
    for together in _copartitioned(topics):
        _match_racks(together)

    owner = np.full(indexed.size, UNASSIGNED)
    number = {member.member_id: m for m, member in enumerate(indexed.members)}
    for topic in topics:
        topic.deal_ranges()
        first = indexed.first[indexed.number[topic.name]]
        for member_id, partitions in topic.taken.items():
            owner[first + np.array(partitions, np.int64)] = number[member_id]
    return owner


def _without_racks(indexed: Indexed) -> Ints:
    return per_topic(indexed, lambda _: contiguous, static_first)


class _Topic:
    """One topic during the allocation: partitions left and taken, and members that may still get a longer share."""

    def __init__(self, name: str, count: int, subscribers: Sequence[Member], racks: Racks) -> None:
        self.name, self.count, self.subscribers = name, count, subscribers
        self.left = dict.fromkeys(range(count))  # an ordered set
        self.taken: dict[str, list[int]] = {member.member_id: [] for member in subscribers}
        self.share, self.longer = divmod(count, len(subscribers))
        member_racks = {member.rack for member in subscribers if member.rack}
        # Java ignores replica racks if no subscriber has a rack.
        self.racks: Racks = [racks[p] if p < len(racks) else frozenset() for p in range(count)] if member_racks else ()
        union: frozenset[str] = frozenset().union(*self.racks)
        self.needs_racks = bool(member_racks & union) and any(on != union for on in self.racks)

    def room(self, member: Member) -> int:
        return max(0, self.share + (self.longer > 0) - len(self.taken[member.member_id]))

    def fits(self, member: Member, partition: int) -> bool:
        """Whether the partition has a replica on the member's rack; always true for a member without a rack."""
        return not member.rack or (partition < len(self.racks) and member.rack in self.racks[partition])

    def give(self, member: Member, partitions: Sequence[int]) -> None:
        """Assign partitions, and use up one longer share if the member exceeds the plain one."""
        taken = self.taken[member.member_id]
        before = len(taken)
        taken += partitions
        self.longer -= before <= self.share < len(taken)

    def deal_ranges(self) -> None:
        left, start = list(self.left), 0
        for member in self.subscribers:
            end = start + self.room(member)
            self.give(member, left[start:end])
            start = end

    def match(self, member: Member, partitions: Sequence[int]) -> None:
        """Assign partitions by rack, before the ranges."""
        self.give(member, partitions)
        for partition in partitions:
            del self.left[partition]


def _copartitioned(topics: Sequence[_Topic]) -> list[list[_Topic]]:
    groups: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}  # member ids, partitions in the rack table
    for topic in topics:
        members = tuple(member.member_id for member in topic.subscribers)
        groups.setdefault((members, len(topic.racks)), []).append(topic)
    return list(groups.values())


def _match_racks(topics: Sequence[_Topic]) -> None:
    """Assign each member, within its share, partitions with a replica on its rack; see `assign` for co-partitioning."""
    first = topics[0]
    if len(topics) == 1:
        if first.needs_racks:
            for member in first.subscribers:
                matching = [partition for partition in first.left if first.fits(member, partition)]
                first.match(member, matching[: first.room(member)])
        return
    remaining = list(first.subscribers)
    for partition in range(len(first.racks)):
        for member in remaining:
            if all(topic.room(member) > 0 and topic.fits(member, partition) for topic in topics):
                for topic in topics:
                    topic.match(member, [partition])
                if first.room(member) == 0:
                    remaining.remove(member)
                break
