"""Strategies that look at one topic at a time: its partitions, and the members that subscribe to it, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..group import Member
from ..group.indexed import UNASSIGNED, Indexed, Ints
from ..group.order import utf16

Allocate = Callable[[str, Ints, Ints], Ints]
"""(topic, partition ids, its subscribers) -> per partition the subscriber that gets it. Partition ids ascend; of
subscribers there is at least one, each its place in the order of members, ascending."""

Rule = Callable[[Sequence[Member]], Allocate]
"""All members in their order -> how each topic is allocated."""


def identity(member: Member) -> str:
    """The name of a member that places it: its instance id, which stays when it restarts; without one its member id.

    The coordinator makes a new member id for each start of a dynamic member.
    """
    return member.member_id if member.instance_id is None else member.instance_id


def by_identity(member: Member) -> tuple[bytes, bytes]:
    """Sort key: identity, as Java sorts strings; member id where two should be equal."""
    return utf16(identity(member)), utf16(member.member_id)


def owners(indexed: Indexed, rule: Rule, key: Callable[[Member], Any] = by_identity) -> Ints:
    """Allocate each topic by itself among its subscribers.

    Args:
        indexed: The group.
        rule: How.
        key: The order of members.

    Returns:
        int[P], the owner of each position; `UNASSIGNED` where nobody subscribes.

    Cost: O(P + T * M), and what the rule takes.
    """
    order, readers = indexed.readers(key)
    allocate = rule([indexed.members[m] for m in order.tolist()])
    owner = np.full(indexed.size, UNASSIGNED)
    for t, reading in enumerate(readers):
        if len(reading):
            begin, end = indexed.first[t], indexed.first[t + 1]
            owner[begin:end] = order[allocate(indexed.topics[t], np.arange(end - begin), reading)]
    return owner


def contiguous(_topic: str, partitions: Ints, subscribers: Ints) -> Ints:
    """Contiguous ranges in the order of the subscribers, the first ones longer by one; an `Allocate`."""
    share, longer = divmod(len(partitions), len(subscribers))
    shares = np.full(len(subscribers), share)
    shares[:longer] += 1
    return np.repeat(subscribers, shares)
