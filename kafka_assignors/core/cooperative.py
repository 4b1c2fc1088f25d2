"""The cooperative sticky assignor: the sticky assignment in two rounds, so that nothing has two owners (KIP-429)."""

from __future__ import annotations

from . import sticky
from .assignment import Assignment
from .claims import Claims, resolve
from .group import Group, TopicPartition
from .order import utf16


def assign(group: Group) -> Assignment:
    """The sticky assignment without what other members must give up first.

    A partition that moves is withheld this round: its owner sees that it is gone, revokes it and joins again, and the
    next round hands it out. A disputed partition (two members claim it with the same generation) is withheld from
    everybody, its claimants too. A partition that no live, subscribed member claims is never withheld.

    Args:
        group: Members in any order. Any claims will do.

    Returns:
        member id -> topic -> ascending partition ids; every member has an entry. Applied until nothing is withheld, two
        rounds in all, it ends in the optimum of `sticky.assign`.

    Cost: as `sticky.assign`. Deterministic under any order of members.
    Source: KIP-429; ``CooperativeStickyAssignor.java``, which lets stale claims take partitions from their owner.

    >>> from kafka_assignors.core.group import Member
    >>> assign(Group([Member("a", {"t"}, owned=[("t", 0), ("t", 1)], generation=1), Member("b", {"t"})], {"t": 2}))
    {'a': {'t': [0]}, 'b': {}}
    """
    claims = resolve(group)
    target = sticky.assign(group, claims)
    return {
        member_id: {
            topic: kept
            for topic, partitions in topics.items()
            if (kept := [p for p in partitions if _may_have(claims, TopicPartition(topic, p), member_id)])
        }
        for member_id, topics in target.items()
    }


def withheld(group: Group) -> dict[TopicPartition, tuple[str, ...]]:
    """What `assign` gives to nobody this round, and the members that must give it up first."""
    claims = resolve(group)
    given = {
        TopicPartition(topic, partition)
        for topics in assign(group).values()
        for topic, partitions in topics.items()
        for partition in partitions
    }
    missing = {partition for partition in (*claims.owner, *claims.disputed) if partition not in given}
    order = sorted(missing, key=lambda partition: (utf16(partition.topic), partition.partition))
    return {partition: claims.holders(partition) for partition in order}


def _may_have(claims: Claims, partition: TopicPartition, member_id: str) -> bool:
    return partition not in claims.disputed and claims.owner.get(partition, member_id) == member_id
