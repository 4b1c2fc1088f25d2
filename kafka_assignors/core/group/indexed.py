"""A group as integers: members, topics and partitions are numbers, ownership is one array."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .assignment import Assignment
from .order import lasting, utf16
from .values import Group, Member, TopicPartition

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

UNASSIGNED = -1
"""Owner index of an unassigned partition."""


def narrowed(numbers: NDArray[np.integer], end: int) -> NDArray[np.integer]:
    """Cast numbers in [-1, end) to 16 bits if they fit: NumPy's stable radix sort is fast on these."""
    return numbers.astype(np.int16) if end <= 1 << 15 else numbers


class Indexed:
    """Integer encoding of a group's members, topics and partitions.

    Attributes:
        members: Members in an order that survives restarts (`order.lasting`); the index is the member's number.
        lasting: Their lasting names, in that order.
        topics: Topics with partitions, in Java's string order.
        number: topic -> its number.
        first: int[T + 1], the position of each topic's partition 0; partition p of topic t is at ``first[t] + p``.
        subscriptions: The distinct subscriptions.
        subscription: int[M], the number of each member's subscription.
        reads: bool[S, T], whether a subscription contains a topic.

    Cost: O(M log M + T log T + size of the distinct subscriptions).
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self.members, self.lasting = lasting(group.members)
        self.topics = sorted((topic for topic, count in group.partitions.items() if count > 0), key=utf16)
        self.number = {topic: t for t, topic in enumerate(self.topics)}
        self.first = np.zeros(len(self.topics) + 1, np.int64)
        self.first[1:] = np.cumsum([group.partitions[topic] for topic in self.topics])
        topics = [member.topics for member in self.members]
        different = {subscription: s for s, subscription in enumerate(dict.fromkeys(topics))}
        self.subscription = np.array(list(map(different.__getitem__, topics)), np.int64)
        self.subscriptions = list(different)
        reads = np.zeros((len(different), len(self.topics) + 1), bool)  # the last column stands for unknown topics
        sizes = list(map(len, self.subscriptions))
        numbers = map(self.number.get, chain.from_iterable(self.subscriptions), repeat(len(self.topics)))
        reads[np.repeat(np.arange(len(sizes)), sizes), np.fromiter(numbers, np.int64, sum(sizes))] = True
        self.reads = reads[:, :-1]

    @property
    def size(self) -> int:
        """Number of partitions."""
        return int(self.first[-1])

    def readers(self, key: Callable[[Member], Any]) -> tuple[Ints, list[Ints]]:
        """The subscribers of each topic, in the order of a sort key.

        Returns int[M], member numbers in that order; and per topic, the ascending indices of its subscribers in it.
        """
        order = np.array(sorted(range(len(self.members)), key=lambda m: key(self.members[m])), np.int64)
        reads = self.reads[self.subscription[order]] if len(order) else np.zeros((0, len(self.topics)), bool)
        columns = [column.tobytes() for column in np.ascontiguousarray(self.reads.T)]
        first = {column: t for t, column in reversed(list(enumerate(columns)))}  # shared by topics with equal readers
        places = {column: np.flatnonzero(reads[:, t]) for column, t in first.items()}
        return order, [places[column] for column in columns]

    def topic_of(self) -> Ints:
        """int[P], the topic of each position."""
        return np.repeat(np.arange(len(self.topics)), np.diff(self.first))

    def names(self, positions: Ints) -> list[TopicPartition]:
        """Topic-partitions at the given positions."""
        topic = np.searchsorted(self.first, positions, side="right") - 1
        ids = positions - self.first[topic]
        return [TopicPartition(self.topics[t], p) for t, p in zip(topic.tolist(), ids.tolist(), strict=True)]

    def assignment(self, owner: NDArray[np.integer]) -> Assignment:
        """Convert owners, int[P] of member numbers or `UNASSIGNED`, to an assignment by name, in the group's order."""
        assignment: Assignment = {member.member_id: {} for member in self.group.members}
        topic = self.topic_of()
        order = np.argsort(owner, kind="stable")
        order = order[np.searchsorted(owner[order], 0) :]
        if not len(order):
            return assignment
        ids = order - self.first[topic[order]]
        ids = np.arange(ids.max() + 1).astype(object)[ids].tolist()  # equal numbers share one object
        run = owner[order].astype(np.int64) * len(self.topics) + topic[order]  # one list per member and topic
        start = np.concatenate([[0], np.flatnonzero(np.diff(run)) + 1])
        having, of = np.divmod(run[start], len(self.topics))
        entries = [assignment[member.member_id] for member in self.members]
        ends = [*start[1:].tolist(), len(ids)]
        for m, t, begin, end in zip(having.tolist(), of.tolist(), start.tolist(), ends, strict=True):
            entries[m][self.topics[t]] = ids[begin:end]
        return assignment
