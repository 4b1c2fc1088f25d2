"""MetaQ's two ways to balance a topic (Metamorphosis, RocketMQ's ancestor). Both name a partition "brokerId-partition".

Kafka's partitions move between brokers, so their names can't have a broker's id: one option replaces it for all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..declaration import MemberOptions, Option, whole
from ..group import Group, Member
from ..group.assignment import Assignment
from ..group.indexed import Indexed, Ints
from .per_topic import Allocate, contiguous
from .per_topic import owners as per_topic
from .ring import Ring, ketama, numbered

DIGESTS = 40
"""Keys per member; each gives four points on the ring."""


class MetaqOptions(MemberOptions):
    """The options of ``metaq-consistent-hash``."""

    broker_id = Option("int", 0, "an int from 0", "Replaces the broker's id in a partition's name.", whole(0))


def default(group: Group) -> Assignment:
    """Split each topic's partitions, in MetaQ's sort order, into ranges for its subscribers by identity.

    MetaQ sorts partitions as strings, "0-0", "0-1", "0-10", "0-2": with more than ten partitions, a range has gaps. If
    there are more subscribers than partitions, the last ones by identity get nothing. Counts are as with range. Claims
    and racks are ignored.

    Cost: O(P log P + T * M). Deterministic.
    Source: ``DefaultLoadBalanceStrategy`` of killme2008/Metamorphosis and the sorting in ``MetaZookeeper``; the rule is
    that of Kafka 0.7.

    >>> from kafka_assignors.core.group import Member
    >>> default(Group([Member("a", {"t"}), Member("b", {"t"})], {"t": 12}))
    {'a': {'t': [0, 1, 2, 3, 10, 11]}, 'b': {'t': [4, 5, 6, 7, 8, 9]}}
    """
    indexed = Indexed(group)
    return indexed.assignment(default_owners(indexed))


def default_owners(indexed: Indexed) -> Ints:
    """`default` as an array: int[P]."""
    return per_topic(indexed, lambda _: _as_strings)


def _as_strings(topic: str, partitions: Ints, subscribers: Ints) -> Ints:
    owner = np.empty_like(partitions)
    owner[sorted(range(len(partitions)), key=str)] = contiguous(topic, partitions, subscribers)
    return owner


def consistent_hash(group: Group, *, broker_id: int = 0) -> Assignment:
    """Put each topic's subscribers on a ketama ring of 160 points each; a partition goes to the next point clockwise.

    A member's points are the four little-endian words of the MD5 of "identity-i" for i below 40. A partition is at the
    first such word of "brokerId-partition", where `broker_id` is the same for all. The topic is not hashed, so
    partition i of every topic with the same subscribers goes to the same member: loads of topics add up.

    Claims and racks are ignored. When a member leaves, only its partitions move. The fullest member has about 1.5 times
    the mean (10 members, 100 partitions); `consistent.assign` balances better.

    Cost: O((P + M) log M + T * M). Deterministic.
    Source: ``ConsisHashStrategy``, ``HashAlgorithm.KETAMA_HASH`` of killme2008/Metamorphosis.

    >>> from kafka_assignors.core.group import Member
    >>> consistent_hash(Group([Member("a", {"t"}), Member("b", {"t"})], {"t": 6}))
    {'a': {'t': [0, 1, 2, 3, 4]}, 'b': {'t': [5]}}
    """
    indexed = Indexed(group)
    return indexed.assignment(consistent_hash_owners(indexed, broker_id=broker_id))


def consistent_hash_owners(indexed: Indexed, *, broker_id: int = 0) -> Ints:
    """`consistent_hash` as an array: int[P]."""
    # Equal for every topic, so hashed once.
    longest = int(np.diff(indexed.first).max(initial=0))
    hashes = ketama(numbered(f"{broker_id}-", range(longest)))[:, 0]

    def rule(members: Sequence[Member]) -> Allocate:
        ring = Ring.of([ketama(numbered(f"{member.identity}-", range(DIGESTS))).ravel() for member in members])
        return lambda _, partitions, subscribers: ring.among(subscribers).owners(hashes[partitions])

    return per_topic(indexed, rule)
