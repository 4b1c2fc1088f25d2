"""Strategies that allocate one topic at a time to its subscribers in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..group import Member
from ..group.indexed import UNASSIGNED, Indexed, Ints
from ..group.order import utf16

Allocate = Callable[[str, Ints, Ints], Ints]
"""(topic, ascending partition ids, subscribers) -> the subscriber of each partition. Subscribers are ascending indices
in the order of members; there is at least one."""

Rule = Callable[[Sequence[Member]], Allocate]
"""All members in order -> the allocation of each topic."""


def by_identity(member: Member) -> tuple[bytes, bytes]:
    """Sort key: identity in Java's string order; ties by member id."""
    return utf16(member.identity), utf16(member.member_id)


def owners(indexed: Indexed, rule: Rule, key: Callable[[Member], Any] = by_identity) -> Ints:
    """Allocate each topic to its subscribers, by a rule for the members in the order of `key`.

    Returns int[P], the owner of each position; `UNASSIGNED` if nobody subscribes. Cost: O(P + T * M), and the rule's.
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
    """Contiguous ranges in the order of the subscribers; the first ones are longer by one. An `Allocate`."""
    share, longer = divmod(len(partitions), len(subscribers))
    shares = np.full(len(subscribers), share)
    shares[:longer] += 1
    return np.repeat(subscribers, shares)
