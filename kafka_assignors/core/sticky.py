"""The sticky assignor: the best balance there is, then racks, then as few moves as that takes (KIP-54)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

import numpy as np

from . import flow
from .assignment import Assignment
from .claims import Claims, resolve
from .group import Group, Member
from .order import utf16

FREE = -1
"""Owner index of a partition that nobody holds."""


def assign(group: Group, claims: Claims | None = None) -> Assignment:
    """Give every partition to a subscriber; the best assignment in this order of goals.

    1. Balance: the least sum of squared loads, which is also the least maximum and the fairest vector of loads.
    2. Racks: the fewest partitions with a member whose rack has no replica of it. Unknown racks cost nothing.
    3. Stickiness: the fewest moves away from undisputed owners (`claims.resolve`).
    4. Spread: each topic over many members, as far as the above leaves it open; dealt in canonical order.

    Args:
        group: Members in any order. Any claims will do: what is wrong with them is dropped.
        claims: `resolve(group)`, when the caller has it already.

    Returns:
        member id -> topic -> ascending partition ids; every member has an entry.

    Cost: see `flow.optimum`, plus O(P log M + T * M) to name the partitions. Deterministic under any order of members.
    Source: KIP-54, KIP-881; the goals of Java's ``StickyAssignor``, whose own answer can be less balanced or move more.

    >>> from kafka_assignors.core.group import Member
    >>> assign(Group([Member("a", {"t"}, owned=[("t", 0), ("t", 1), ("t", 2)], generation=1), Member("b", {"t"})],
    ...              {"t": 3}))
    {'a': {'t': [0, 1]}, 'b': {'t': [2]}}
    """
    claims = claims or resolve(group)
    members = sorted(group.members, key=lambda member: utf16(member.member_id))
    assignment: Assignment = {member.member_id: {} for member in group.members}
    classes = _classes(group, members, claims)
    if not classes:
        return assignment

    units = flow.optimum(
        np.array([len(each.partitions) for each in classes]),
        np.array([each.allowed for each in classes]),
        np.array([each.foreign for each in classes]),
        np.array([np.bincount(np.array(each.owners) + 1, minlength=len(members) + 1)[1:] for each in classes]),
    )
    given: dict[str, dict[int, list[int]]] = {}  # topic -> member index -> partitions
    for each, row in zip(classes, units.tolist(), strict=True):
        _name(each, row, given)
    for topic, per_member in given.items():
        for i, partitions in per_member.items():
            assignment[members[i].member_id][topic] = sorted(partitions)
    return assignment


@dataclass
class _Class:
    """Partitions that the same members may have at the same cost.

    Args:
        allowed: bool[M], who may have them.
        foreign: bool[M], whose rack has no replica.
        partitions: (topic, partition), in order.
        owners: For each of them its owner's member index, or `FREE`.
    """

    allowed: flow.Bools
    foreign: flow.Bools
    partitions: list[tuple[str, int]] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)


def _classes(group: Group, members: Sequence[Member], claims: Claims) -> list[_Class]:
    index = {member.member_id: i for i, member in enumerate(members)}
    owner: dict[tuple[str, int], int] = {tp: index[member_id] for tp, member_id in claims.owner.items()}
    racks = np.array([member.rack or "" for member in members])
    subscribers: dict[str, list[int]] = {}
    for i, member in enumerate(members):
        for topic in member.topics:
            if group.partitions.get(topic, 0) > 0:
                subscribers.setdefault(topic, []).append(i)

    classes: dict[tuple[tuple[int, ...], frozenset[str] | None], _Class] = {}
    for topic in sorted(subscribers, key=utf16):
        readers = tuple(subscribers[topic])
        reader_racks = {members[i].rack for i in readers} - {None}
        replicas = group.racks.get(topic, ()) if reader_racks else ()
        for partition in range(group.partitions[topic]):
            on = (replicas[partition] if partition < len(replicas) else None) or None
            key = readers, on and frozenset(on & reader_racks)
            each = classes.get(key)
            if each is None:
                allowed = np.zeros(len(members), bool)
                allowed[list(readers)] = True
                foreign = np.zeros(len(members), bool)
                if on:
                    foreign = allowed & (racks != "") & ~np.isin(racks, list(on))
                each = classes[key] = _Class(allowed, foreign)
            each.partitions.append((topic, partition))
            each.owners.append(owner.get((topic, partition), FREE))
    return list(classes.values())


def _name(each: _Class, units: Sequence[int], given: dict[str, dict[int, list[int]]]) -> None:
    """Choose the partitions that make up the units of one class: owners keep theirs, the rest is dealt topic by topic.

    Who must give some up keeps as many of each topic as it can. What is dealt goes to the member with room that has
    the fewest of that topic, in a circle that goes on from topic to topic.
    """
    kept = _kept(each, units)
    room = list(units)
    loose: dict[str, list[int]] = {}
    for i, (topic, partition) in enumerate(each.partitions):
        if i in kept:
            given.setdefault(topic, {}).setdefault(each.owners[i], []).append(partition)
            room[each.owners[i]] -= 1
        else:
            loose.setdefault(topic, []).append(partition)

    turn = 0
    for topic, partitions in loose.items():
        have = given.setdefault(topic, {})
        start = turn
        queue = [(len(have.get(m, ())), (m - start) % len(room), m) for m, left in enumerate(room) if left]
        heapify(queue)
        for partition in partitions:
            count, place, member = queue[0]
            have.setdefault(member, []).append(partition)
            room[member] -= 1
            turn = member + 1
            if room[member]:
                heapreplace(queue, (count + 1, place, member))
            else:
                heappop(queue)


def _kept(each: _Class, units: Sequence[int]) -> set[int]:
    """Positions in `each.partitions` that stay with their owner."""
    held: dict[int, list[tuple[int, int]]] = {}  # member -> (how many of that topic it has before, position)
    seen: dict[tuple[int, str], int] = {}
    for i, (member, (topic, _)) in enumerate(zip(each.owners, each.partitions, strict=True)):
        if member != FREE:
            before = seen.get((member, topic), 0)
            seen[member, topic] = before + 1
            held.setdefault(member, []).append((before, i))
    return {i for member, positions in held.items() for _, i in sorted(positions)[: units[member]]}
