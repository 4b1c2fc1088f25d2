"""The laws of an assignment. Each violation has a witness. Independent of strategies: judges any assignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .assignment import pairs
from .claims import Claims, resolve
from .order import utf16
from .values import Group, Member, TopicPartition


@dataclass(frozen=True)
class Breach:
    """One violation of one law.

    Args:
        law: ``covered``, ``single-owner``, ``subscribed``, ``exists``, ``every-member``, ``known-member`` or
            ``hand-over``.
        members: The members involved, sorted.
        partition: The topic-partition, if there is one.
        text: The violation in one sentence.
    """

    law: str
    members: tuple[str, ...]
    partition: TopicPartition | None
    text: str

    def __str__(self) -> str:
        return f"{self.law}: {self.text}"


def violations(
    group: Group, assignment: Mapping[str, Mapping[str, Sequence[int]]], *, cooperative: bool = False
) -> list[Breach]:
    """Find every violation of the laws by an assignment: by law, then partition, then members.

    * ``every-member``, ``known-member``: exactly the group's members have an entry. The broker sends zero bytes to a
      member without an entry, and no client can decode these.
    * ``exists``, ``subscribed``, ``single-owner``: an assigned partition exists and has one owner, a subscriber.
    * ``covered``: each partition of a subscribed topic is assigned.
    * ``hand-over`` (cooperative): a partition is not reassigned while the member with its newest claim, or any member
      with an equally new one, still holds it. A withheld partition may stay uncovered for the round.

    `cooperative` judges one round of a cooperative rebalance; leave it False for a final assignment.

    Cost: O(P log P + claims). Never raises.
    """
    members = {member.member_id: member for member in group.members}
    claims = resolve(group if cooperative else Group((), {}))  # an eager group has no claims to judge
    breaches: list[Breach] = []
    for member_id in members.keys() - assignment.keys():
        breaches.append(Breach("every-member", (member_id,), None, f"member {member_id!r} has no entry"))
    for member_id in assignment.keys() - members.keys():
        breaches.append(Breach("known-member", (member_id,), None, f"{member_id!r} has an entry but is not a member"))

    owners: dict[TopicPartition, list[str]] = {}
    for member_id, partition in pairs(assignment):
        owners.setdefault(partition, []).append(member_id)
    for partition, having in owners.items():
        breaches += _given(group, members, claims, partition, having)

    subscribed = {topic for member in group.members for topic in member.topics}
    for topic in subscribed & group.partitions.keys():
        for number in range(group.partitions[topic]):
            partition = TopicPartition(topic, number)
            if partition not in owners and not claims.holders(partition):
                breaches.append(Breach("covered", (), partition, f"{partition} is assigned to no member"))
    return sorted(breaches, key=_order)


def _given(
    group: Group, members: Mapping[str, Member], claims: Claims, partition: TopicPartition, having: Sequence[str]
) -> Iterable[Breach]:
    name = str(partition)
    if not 0 <= partition.partition < group.partitions.get(partition.topic, 0):
        count = group.partitions.get(partition.topic)
        why = f"{partition.topic!r} has {count} partitions" if count is not None else f"no topic {partition.topic!r}"
        yield Breach("exists", tuple(sorted(having)), partition, f"{name} does not exist: {why}")
    if len(having) > 1:
        text = f"{name} is assigned {len(having)} times, to {', '.join(map(repr, sorted(having)))}"
        yield Breach("single-owner", tuple(sorted(having)), partition, text)
    holders = claims.holders(partition)
    for member_id in sorted(set(having)):
        if member_id in members and partition.topic not in members[member_id].topics:
            text = f"{name} is assigned to {member_id!r}, which does not subscribe to it"
            yield Breach("subscribed", (member_id,), partition, text)
        if any(holder != member_id for holder in holders):
            still = ", ".join(repr(holder) for holder in holders if holder != member_id)
            text = f"{name} is given to {member_id!r} while {still} may still hold it"
            yield Breach("hand-over", tuple(sorted({member_id, *holders})), partition, text)


def _order(violation: Breach) -> tuple[str, bytes, int, tuple[str, ...]]:
    topic, number = violation.partition or ("", -1)
    return violation.law, utf16(topic), number, violation.members
