"""What Java's own sticky assignors answer, hash order and all, for groups that must agree with a Java leader.

Java's answer is at best as good as `sticky.assign`'s and often worse: less balanced or with more moves where
subscriptions differ, and depending on the order in which Java's hash maps list the members. It is an option for those
who compare, or who migrate and want no surprise. Where Java throws or never ends, there is no answer.

What members sent is read as everywhere else in this package, which is as Java reads it but for what Java's own members
never send: user data that Java cannot read and we can (kafka-python's own), or that are cut off in the generation;
generations below -1; a subscription that names a topic twice, which Java takes for another one.

What members claim is read here; `javabuilders` places it.

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
    """Java's assignment.

    Args:
        group: Members in the order of the JoinGroup response: where hash codes collide it counts.
        cooperative: Withhold what moves, as ``CooperativeStickyAssignor`` does.
        sent: member id -> generation in its subscription, where that is not the one of its claims: Java compares one
            member's generation from its user data with the other's from its subscription.

    Returns:
        member id -> topic -> ascending partition ids; every member has an entry. Not always sound: where members claim
        what does not exist, Java may assign it.

    Raises:
        NoAnswer: Java throws, or moves partitions in a circle for ever; or a member claims more than twice as much as
            there is, which would take too long here.

    Cost: O(P log P + P * M) when all subscribe alike; else as many passes over the partitions as Java makes, bounded by
    `MAX_STEPS`. Any order of members gives the same answer unless hash codes collide.
    """
    most = 1000 + 2 * sum(max(count, 0) for count in group.partitions.values())
    for member in group.members:
        if len(member.owned) > most:
            raise NoAnswer(f"member {member.member_id!r} claims {len(member.owned):,} partitions, more than there are")
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
    """Whether all subscribe alike; whose claims are believed; what two members claim with the same generation."""
    equal, subscribed = True, frozenset[str]()
    owned: dict[str, dict[TopicPartition, None]] = {}  # dicts, as claims come out of the middle
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
            # Java adds it to the list first and then takes it from its other claimant, even from the member itself.
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
    """What a member gets and another one must revoke first."""
    held = {member_id: set(members[member_id].owned) for member_id in lists}
    added = {tp: member_id for member_id, given in lists.items() for tp in given if tp not in held[member_id]}
    revoked = set[TopicPartition]().union(*(held[member_id].difference(given) for member_id, given in lists.items()))
    return {tp: member_id for tp, member_id in added.items() if tp in revoked}
