"""The broker's ``uniform`` assignor: even loads, then few moves; racks, weights and lag don't matter to it.

Members and topics are taken in the order of the broker's hash maps, which decides who gets the extra partitions and
which partitions a member gives up.

Source: ``UniformAssignor``, ``UniformHomogeneousAssignmentBuilder``, ``UniformHeterogeneousAssignmentBuilder`` in
``org.apache.kafka.coordinator.group.assignor`` of apache/kafka 4.3.0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from ..group import Group, Member, TopicPartition
from ..group.assignment import Assignment
from ..group.order import buckets_for, by_bucket
from .balance import Balancer
from .topics import TopicIds

_ROUNDS = 16
"""How often the broker goes over the topics of unequal subscriptions before it gives up on balance."""


def assign(group: Group, order: Sequence[Member], ids: TopicIds, alike: bool | None = None) -> Assignment:
    """Balance the loads of members, keeping as much of their current target as their quotas allow.

    Args:
        group: The group. A member's ``owned`` are those of its current target, in the order of its record in the log.
        order: The members in the order of the broker's map.
        ids: The ids of all topics of the group.
        alike: Whether the broker counts the subscriptions as equal (`alike_subscribed`). None: whether they are.

    Cost: O(P log P + M * T) with equal subscriptions; else up to 16 times that.
    """
    if len({member.topics for member in order}) <= 1 if alike is None else alike:
        target = _alike(group, order, ids)
    else:
        target = _Unlike(group, order, ids).assign()
    assignment: Assignment = {}
    for member in order:
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(target[member.member_id]):
            topics.setdefault(topic, []).append(partition)
        assignment[member.member_id] = topics
    return assignment


def alike_subscribed(subscriptions: Iterable[tuple[Collection[str], str | None]]) -> bool:
    """Whether the broker counts members' subscriptions as equal, and computes their assignment in the simpler way.

    It compares what members ask for (the topics that each one names, and its pattern or None), not the topics that they
    get: a list and a pattern that matches the same topics differ, and a member that has both differs from itself.

    Source: ``ConsumerGroup.subscriptionType`` of apache/kafka 4.3.1.
    """
    distinct = {(frozenset(names), pattern or None) for names, pattern in subscriptions}
    return len(distinct) <= 1 and not any(names and pattern for names, pattern in distinct)


def _alike(group: Group, order: Sequence[Member], ids: TopicIds) -> dict[str, set[TopicPartition]]:
    """The assignment of members with equal subscriptions.

    Each member may keep its quota; members in front get the extra partitions. A member with fewer partitions leaves its
    extra one to those behind it, as long as there are enough of them.
    """
    subscribed = [topic for topic in order[0].topics if topic in group.partitions]
    topics = ids.in_set(subscribed)
    taken = {tp for member in order for tp in member.owned}
    every = (TopicPartition(topic, p) for topic in topics for p in range(group.partitions[topic]))
    free = [tp for tp in every if tp not in taken]
    share, extra = divmod(sum(group.partitions[topic] for topic in topics), len(order))
    target: dict[str, set[TopicPartition]] = {}
    room: list[tuple[str, int]] = []
    for i, member in enumerate(order):
        quota, longer = share + (extra > 0), extra > 0
        kept: set[TopicPartition] = set()
        for topic, partitions in _owned_by_topic(member, ids):
            if topic not in subscribed:
                continue
            kept |= set(partitions[:quota])
            free += partitions[quota:]
            quota -= min(quota, len(partitions))
        if quota > 0 and longer and len(order) - i > extra:
            quota, longer = quota - 1, False
        if quota > 0:
            room.append((member.member_id, quota))
        extra -= longer
        target[member.member_id] = kept
    rest = iter(free)
    for member_id, quota in room:
        target[member_id] |= {tp for _, tp in zip(range(quota), rest, strict=False)}
    return target


def _owned_by_topic(member: Member, ids: TopicIds) -> Iterator[tuple[str, list[TopicPartition]]]:
    """A member's partitions by topic, both in the order of the broker's map and sets."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in member.owned:
        by_topic.setdefault(topic, []).append(partition)
    for topic in ids.in_map(by_topic):
        partitions = by_topic[topic]
        in_set = by_bucket(partitions, buckets_for(len(partitions)))
        yield topic, [TopicPartition(topic, partitions[i]) for i in in_set]


class _Unlike:
    """The assignment of members with different subscriptions."""

    def __init__(self, group: Group, order: Sequence[Member], ids: TopicIds) -> None:
        self._order = order
        self._counts = {t: n for t, n in group.partitions.items() if any(t in member.topics for member in order)}
        self._readers = {t: [m for m, reader in enumerate(order) if t in reader.topics] for t in self._counts}
        self._owner = {t: [-1] * n for t, n in self._counts.items()}  # topic -> partition -> member; -1: nobody
        self._load = [0] * len(order)
        self._topics = sorted(
            self._counts, key=lambda t: (-self._counts[t] / len(self._readers[t]), len(self._readers[t]), ids.rank(t))
        )

    def assign(self) -> dict[str, set[TopicPartition]]:
        for m, member in enumerate(self._order):
            for topic, partition in member.owned:
                if topic in self._counts and topic in member.topics:
                    self._owner[topic][partition] = m
                    self._load[m] += 1
        for topic in self._topics:
            self._fill(topic)
        self._balance()
        target: dict[str, set[TopicPartition]] = {member.member_id: set() for member in self._order}
        for topic, owners in self._owner.items():
            for partition, m in enumerate(owners):
                if m >= 0:
                    target[self._order[m].member_id].add(TopicPartition(topic, partition))
        return target

    def _fill(self, topic: str) -> None:
        balancer = Balancer(self._load, self._readers[topic])
        for partition, owner in enumerate(self._owner[topic]):
            if owner < 0:
                self._give(topic, partition, balancer.next_least())

    def _balance(self) -> None:
        topics = [topic for topic in self._topics if len(self._readers[topic]) > 1]
        changed = -1  # index of the topic that was changed last, at first of the first topic
        for _ in range(_ROUNDS):
            for i, topic in enumerate(topics):
                if i == changed:
                    return
                if self._even(topic) or changed < 0:
                    changed = i

    def _even(self, topic: str) -> int:
        """Move partitions of a topic from its most to its least loaded readers; returns how many moved."""
        balancer = Balancer(self._load, self._readers[topic])
        if balancer.imbalance <= 1:
            return 0
        left: dict[int, list[int]] = defaultdict(
            list
        )  # member -> the partitions that it can still give, the last first
        for partition, owner in enumerate(self._owner[topic]):
            left[owner].append(partition)
        moved = 0
        while not balancer.is_balanced():
            while (giver := balancer.next_most()) >= 0 and not left[giver]:
                balancer.exclude_most()
            if giver < 0:
                break
            partition = left[giver].pop()
            taker = balancer.next_least()
            if balancer.is_balanced():
                break
            self._give(topic, partition, taker)
            moved += 1
        return moved

    def _give(self, topic: str, partition: int, member: int) -> None:
        if (old := self._owner[topic][partition]) >= 0:
            self._load[old] -= 1
        self._owner[topic][partition] = member
        self._load[member] += 1
