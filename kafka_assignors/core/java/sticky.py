"""The answers of Java's sticky assignors, including hash order, for groups that must agree with a Java leader.

Java's answer is at best as good as that of `sticky.assign`. With unequal subscriptions it is often less balanced or has
more moves, and it depends on the order in which Java's hash maps list the members. It is an option for comparisons and
for migrations without surprises. If Java throws or does not terminate, there is no answer.

Members' bytes are decoded as elsewhere in this package. This matches Java except for bytes that Java's own members
never send: user data that Java cannot decode and we can (kafka-python's own, or truncated in the generation);
generations below -1; a subscription that names a topic twice, which Java treats as a different subscription.

This module resolves claims; `builders` places partitions.

Source: ``AbstractStickyAssignor``, ``StickyAssignor``, ``CooperativeStickyAssignor`` of apache/kafka 4.3.0.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..group import Group, Member, TopicPartition
from ..group.assignment import Assignment
from ..group.order import hash_order, utf16
from .builders import MAX_STEPS, Constrained, General, Lists, NoAnswer, Racks

__all__ = ["MAX_STEPS", "NoAnswer", "assign"]


def assign(group: Group, *, cooperative: bool, sent: Mapping[str, int] | None = None) -> Assignment:
    """Compute Java's assignment. Not always valid: Java may assign nonexistent partitions that members claim.

    Args:
        group: Members in the order of the JoinGroup response, which matters if hash codes collide.
        cooperative: Withhold partitions that move, as ``CooperativeStickyAssignor`` does.
        sent: member id -> generation in its subscription, if it differs from that of its claims: Java compares one
            member's generation from its user data with the other's from its subscription.

    Raises:
        NoAnswer: Java throws, or moves partitions in an endless cycle; or a member claims more than twice the existing
            partitions, which would take too long here.

    Cost: O(P log P + P * M) with equal subscriptions; otherwise as many passes over the partitions as Java makes,
    bounded by `MAX_STEPS`. The order of members matters only if hash codes collide.
    """
    most = 1000 + 2 * sum(max(count, 0) for count in group.partitions.values())
    for member in group.members:
        if len(member.owned) > most:
            raise NoAnswer(f"member {member.member_id!r} claims {len(member.owned):,} partitions, more than exist")
    try:
        lists = _decide(group, sent or {}, cooperative)
    except (LookupError, ZeroDivisionError) as error:  # Java: NullPointerException, ArithmeticException
        raise NoAnswer(f"Java throws on this group ({type(error).__name__})") from error
    assignment: Assignment = {member.member_id: {} for member in group.members}
    for member_id, partitions in lists.items():
        for topic, partition in sorted(partitions, key=lambda tp: (utf16(tp.topic), tp.partition)):
            assignment[member_id].setdefault(topic, []).append(partition)
    return assignment


def _decide(group: Group, sent: Mapping[str, int], cooperative: bool) -> Lists:
    if not group.members:
        return {}
    members = {m.member_id: m for m in group.members}
    members = {member_id: members[member_id] for member_id in hash_order(members)}
    topics = {t: group.partitions[t] for m in members.values() for t in m.topics if group.partitions.get(t, 0) > 0}
    racks = Racks(group, members, topics)
    equal, owned, doubled = _claims(members, topics, sent)
    if equal:
        lists, transferred = Constrained(topics, racks, owned, doubled).build()
    else:
        lists = General(topics, racks, owned, members).build()
        transferred = _moving(members, lists) if cooperative else {}
    if cooperative:
        for member_id, given in lists.items():
            lists[member_id] = [tp for tp in given if transferred.get(tp) != member_id]
    return lists


def _claims(
    members: Mapping[str, Member], topics: Mapping[str, int], sent: Mapping[str, int]
) -> tuple[bool, Lists, set[TopicPartition]]:
    """Whether all subscribe alike; the winning claims; partitions that two members claim with the same generation."""
    equal, subscribed = True, frozenset[str]()
    owned: dict[str, dict[TopicPartition, None]] = {}  # dicts, for removal from the middle
    doubled: set[TopicPartition] = set()
    claimant: dict[TopicPartition, str] = {}
    for member_id, member in members.items():
        if not subscribed:
            subscribed = member.topics
        elif member.topics != subscribed:
            equal = False
        owned[member_id] = {}
        for partition in member.owned:
            if partition.topic not in topics:
                continue
            other = claimant.get(partition)
            theirs = None if other is None else sent.get(other, members[other].generation)
            if theirs is not None and member.generation < theirs:
                continue
            same = theirs == member.generation
            # Java appends it to the list first, then removes it from its other claimant, even if that is the member
            # itself.
            gets = not same and (other != member_id or partition in owned[member_id])
            if other is not None:
                owned[other].pop(partition, None)
            if gets:
                owned[member_id][partition] = None
            if same:
                doubled.add(partition)
            claimant[partition] = member_id
    return equal, {member_id: [*claims] for member_id, claims in owned.items()}, doubled


def _moving(members: Mapping[str, Member], lists: Lists) -> dict[TopicPartition, str]:
    """Partitions that a member receives and another one must revoke first."""
    owned = {member_id: set(members[member_id].owned) for member_id in lists}
    added = {tp: member_id for member_id, given in lists.items() for tp in given if tp not in owned[member_id]}
    revoked = set[TopicPartition]().union(*(owned[member_id].difference(given) for member_id, given in lists.items()))
    return {tp: member_id for tp, member_id in added.items() if tp in revoked}
