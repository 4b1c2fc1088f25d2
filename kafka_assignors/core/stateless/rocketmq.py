"""RocketMQ's ways to allocate a topic's queues. There each client computes them locally, from sorted lists.

A queue is a topic, a broker name and a number. Kafka's partitions move between brokers, so a broker name cannot be part
of their name. One name, an option, replaces it for all partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..declaration import MemberOptions, Option, among, text
from ..group import Group, Member
from ..group.assignment import Assignment
from ..group.facts import Fact
from ..group.indexed import Indexed, Ints
from .per_topic import Allocate, Rule, contiguous
from .per_topic import owners as per_topic
from .ring import POINTS, Ring, check_virtual_nodes, md5_word, numbered

BROKER_NAME = "kafka"
VIRTUAL_NODES = 10


def average(group: Group) -> Assignment:
    """Split each topic's partitions into contiguous ranges for its subscribers by identity; the first ones are longer.

    Counts are as with range, which orders members differently: static ones first. Claims and racks are ignored.

    Cost: O(P + T * M). Deterministic.
    Source: ``AllocateMessageQueueAveragely`` of apache/rocketmq.

    >>> from kafka_assignors.core.group import Member
    >>> average(Group([Member("a", {"t"}), Member("b", {"t"})], {"t": 5}))
    {'a': {'t': [0, 1, 2]}, 'b': {'t': [3, 4]}}
    """
    indexed = Indexed(group)
    return indexed.assignment(average_owners(indexed))


def average_owners(indexed: Indexed) -> Ints:
    """`average` as an array: int[P]."""
    return per_topic(indexed, _averaging)


def average_by_circle(group: Group) -> Assignment:
    """Deal each topic's partitions in turn to its subscribers by identity; each topic starts with the first subscriber.

    Counts are as with `average`. Claims and racks are ignored.

    Cost: O(P + T * M). Deterministic.
    Source: ``AllocateMessageQueueAveragelyByCircle`` of apache/rocketmq.

    >>> from kafka_assignors.core.group import Member
    >>> average_by_circle(Group([Member("a", {"t"}), Member("b", {"t"})], {"t": 5}))
    {'a': {'t': [0, 2, 4]}, 'b': {'t': [1, 3]}}
    """
    indexed = Indexed(group)
    return indexed.assignment(average_by_circle_owners(indexed))


def average_by_circle_owners(indexed: Indexed) -> Ints:
    """`average_by_circle` as an array: int[P]."""
    return per_topic(indexed, _circling)


def _averaging(members: Sequence[Member]) -> Allocate:  # noqa: ARG001 (a `Rule`)
    return contiguous


def _circling(members: Sequence[Member]) -> Allocate:  # noqa: ARG001 (a `Rule`)
    return lambda _, partitions, subscribers: subscribers[np.arange(len(partitions)) % len(subscribers)]


class RingOptions(MemberOptions):
    """The options of ``rocketmq-consistent-hash``."""

    virtual_nodes = Option("int", VIRTUAL_NODES, POINTS, "Points per member on a topic's ring.", check_virtual_nodes)
    broker_name = Option("str", BROKER_NAME, "a string", "Replaces the broker's name in a partition's name.", text)


def consistent_hash(group: Group, *, virtual_nodes: int = VIRTUAL_NODES, broker_name: str = BROKER_NAME) -> Assignment:
    """Put each topic's subscribers on a ring of a few points each; a partition goes to the next point clockwise.

    A member's points are the MD5 of "identity-j" for j below `virtual_nodes`; a partition is at the MD5 of
    "MessageQueue [topic=T, brokerName=B, queueId=Q]", where B is `broker_name`. Both take four bytes, big-endian.

    Claims and racks are ignored. When a member leaves, only its partitions move. With 10 points, the fullest of 10
    members has about 1.8 times the mean, at worst 3 times; `consistent.assign` balances better.

    Cost: O(P log M + M * virtual_nodes + T * M). Deterministic.
    Source: ``AllocateMessageQueueConsistentHash``, ``ConsistentHashRouter`` of apache/rocketmq.

    >>> from kafka_assignors.core.group import Member
    >>> consistent_hash(Group([Member("a", {"t"}), Member("b", {"t"})], {"t": 6}))
    {'a': {'t': [1, 4]}, 'b': {'t': [0, 2, 3, 5]}}
    """
    indexed = Indexed(group)
    return indexed.assignment(consistent_hash_owners(indexed, virtual_nodes=virtual_nodes, broker_name=broker_name))


def consistent_hash_owners(indexed: Indexed, *, virtual_nodes: int, broker_name: str) -> Ints:
    """`consistent_hash` as an array: int[P]."""
    return per_topic(indexed, _hashing(virtual_nodes, broker_name))


def _hashing(virtual_nodes: int = VIRTUAL_NODES, broker_name: str = BROKER_NAME) -> Rule:
    def rule(members: Sequence[Member]) -> Allocate:
        ring = Ring.of([md5_word(numbered(f"{member.identity}-", range(virtual_nodes))) for member in members])

        def allocate(topic: str, partitions: Ints, subscribers: Ints) -> Ints:
            queues = numbered(
                f"MessageQueue [topic={topic}, brokerName={broker_name}, queueId=", partitions.tolist(), "]"
            )
            return ring.among(subscribers).owners(md5_word(queues))

        return allocate

    return rule


INNER: Mapping[str, Rule] = {
    "average": _averaging,
    "average-by-circle": _circling,
    "rocketmq-consistent-hash": _hashing(),
}
"""Strategies that `machine_room_nearby` can use within a room."""


class RoomOptions(MemberOptions):
    """The options of ``machine-room-nearby``."""

    inner = Option(
        "str", "average", f"one of {', '.join(INNER)}", "How a rack shares its partitions of a topic.", among(*INNER)
    )


def machine_room_nearby(group: Group, *, inner: str = "average") -> Assignment:
    """Share the partitions of a room among its members; share those of a room without members among all subscribers.

    A room is a rack. A member is in its own rack, and a partition in its leader's, as RocketMQ's queue is in its
    broker's. If the leader's rack is unknown, the partition number picks in turn, in string order, one of the racks
    that have both a replica and a subscriber. Without turns the first rack would get all if all racks hold replicas.

    RocketMQ rejects a client or queue without a room, which here would stop the whole group. Instead, a partition
    without a known rack is shared like one in a room without members, and a member without a rack only gets partitions
    shared among all. If no subscriber of a topic has a rack, the topic is one room.

    A room shares its partitions of a topic by `inner`, one of `INNER`. No member consumes from another rack while its
    own leads partitions, but members of small rooms have high loads: nothing balances rooms. Claims are ignored.

    Cost: O(P + T * M), and that of `inner`. Deterministic.
    Source: ``AllocateMachineRoomNearby`` of apache/rocketmq.

    >>> from kafka_assignors.core.group import Member
    >>> members = [Member("a", {"t"}, rack="r1"), Member("b", {"t"}, rack="r2")]
    >>> machine_room_nearby(Group(members, {"t": 4}, leaders={"t": ["r1", "r2", "r1", "r3"]}))
    {'a': {'t': [0, 2, 3]}, 'b': {'t': [1]}}
    """
    indexed = Indexed(group)
    return indexed.assignment(machine_room_nearby_owners(indexed, inner=inner))


def machine_room_nearby_owners(indexed: Indexed, *, inner: str = "average") -> Ints:
    """`machine_room_nearby` as an array: int[P]."""

    def rule(members: Sequence[Member]) -> Allocate:
        within = INNER[inner](members)
        racks = np.array([member.rack or "" for member in members], object)

        def allocate(topic: str, partitions: Ints, subscribers: Ints) -> Ints:
            at = racks[subscribers]
            living = set(at) - {""}
            if not living:
                return within(topic, partitions, subscribers)
            rooms = np.array([room or "" for room in _rooms(indexed.group, topic, living)], object)
            owner = np.empty_like(partitions)
            for room in set(rooms):
                here = rooms == room
                nearby = subscribers[at == room] if room in living else subscribers
                owner[here] = within(topic, partitions[here], nearby)
            return owner

        return allocate

    return per_topic(indexed, rule)


def _rooms(group: Group, topic: str, living: set[str]) -> list[str | None]:
    """The rack of each partition, None if unknown."""
    leaders, replicas = group.leaders.get(topic, ()), group.racks.get(topic, ())
    rooms: list[str | None] = []
    for partition in range(group.partitions[topic]):
        leader = leaders[partition] if partition < len(leaders) else None
        on = sorted(replicas[partition]) if leader is None and partition < len(replicas) else []
        near = [rack for rack in on if rack in living] or on
        rooms.append(leader or (near[partition % len(near)] if near else None))
    return rooms


def without_room(group: Group) -> Iterable[Fact]:
    """Facts about members and topics whose room `machine_room_nearby` does not know."""
    subscribed = frozenset().union(*{member.topics for member in group.members})
    for member in group.members:
        if member.rack is None:
            text = f"member {member.member_id!r} has no rack: it gets partitions only of racks without a subscriber"
            yield Fact("member-without-rack", member.member_id, text)
    for topic in subscribed & group.partitions.keys():
        lost = sum(room is None for room in _rooms(group, topic, set()))
        if lost:
            of = f"{lost} of {group.partitions[topic]} partitions of topic {topic!r}"
            text = f"{of} are in no known rack: all its subscribers share them"
            yield Fact("partition-without-rack", topic, text)
