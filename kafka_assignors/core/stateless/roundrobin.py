"""The roundrobin assignor: deals all partitions in turn, exactly as Java does."""

from __future__ import annotations

import numpy as np

from ..group import Group
from ..group.assignment import Assignment
from ..group.indexed import UNASSIGNED, Indexed, Ints
from ..group.order import static_first


def assign(group: Group) -> Assignment:
    """Deal the partitions of all topics in order, each to the next member in the circle that subscribes to its topic.

    With equal subscriptions, loads differ by at most 1. Unequal ones can be much worse, because the turn continues
    after the member that took last. Claims and racks are ignored.

    Cost: O(P log P + T log M + M log M) time. Deterministic.
    Source: ``RoundRobinAssignor`` of apache/kafka 4.3.0, static members first (KIP-345).

    >>> from kafka_assignors.core.group import Member
    >>> assign(Group([Member("b", {"t"}), Member("a", {"t", "u"})], {"t": 2, "u": 2}))
    {'b': {'t': [1]}, 'a': {'t': [0], 'u': [0, 1]}}
    """
    indexed = Indexed(group)
    return indexed.assignment(owners(indexed))


def owners(indexed: Indexed) -> Ints:
    """`assign` as an array: int[P], the number of each position's owner; `UNASSIGNED` if nobody subscribes."""
    circle, readers = indexed.readers(static_first)
    owner = np.full(indexed.size, UNASSIGNED)
    turn = 0
    for t, reading in enumerate(readers):
        if len(reading):
            # The turn passes to the next reader; from there all readers take part until the topic is dealt.
            start = np.searchsorted(reading, turn % len(circle))
            takers = reading[(start + np.arange(indexed.first[t + 1] - indexed.first[t])) % len(reading)]
            owner[indexed.first[t] : indexed.first[t + 1]] = circle[takers]
            turn = int(takers[-1]) + 1
    return owner
