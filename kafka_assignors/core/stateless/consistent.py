"""Consistent hashing with bounded loads: placement without history, in which no member far exceeds its share."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

import numpy as np

from ..declaration import MemberOptions, Option, among, number, optional
from ..group import Group
from ..group.assignment import Assignment
from ..group.indexed import UNASSIGNED, Indexed, Ints
from .per_topic import by_identity
from .ring import HASHES, POINTS, Hashes, Ring, check_virtual_nodes, numbered

EPSILON = 0.25
VIRTUAL_NODES = 160


class ConsistentHashOptions(MemberOptions):
    """The options of ``consistent-hash``."""

    epsilon = Option(
        "float | None", EPSILON, f"a number from 0, like {EPSILON}, or None for no bound",
        "How far a member may exceed the mean, as a part of it.",
        optional(number(0)),
    )  # fmt: skip
    virtual_nodes = Option("int", VIRTUAL_NODES, POINTS, "Points per member on the ring.", check_virtual_nodes)
    hash = Option("str", "md5", f"one of {', '.join(HASHES)}", "The hash of members and partitions.", among(*HASHES))


def assign(
    group: Group, *, epsilon: float | None = EPSILON, virtual_nodes: int = VIRTUAL_NODES, hash: str = "md5"
) -> Assignment:
    """Assign each partition to the first member clockwise from its hash that has room.

    A member has the points ``hash("identity-j")`` for j below `virtual_nodes`; its identity is the instance id if it is
    static, else the member id. A partition is at ``hash("topic-partition")``. Topics with the same k subscribers share
    one cap on their n partitions; each such set of topics is placed independently of other topics. A member keeps the
    first partitions in hash order up to the cap; the others go to the next member that is not full, round by round.

    Args:
        group: Members in any order. Claims and racks are ignored, so the same members always get the same placement.
        epsilon: How far a member may exceed the mean n/k: at most ``max(ceil(n/k), floor((1 + epsilon) * n/k))``, so
            never more than ``ceil((1 + epsilon) * n/k)``, and max/mean is at most 1 + epsilon wherever whole partitions
            permit that. A small value balances better, a large one moves less when members come or go. 0 gives the
            balance of round robin. None: no cap; then only partitions of a leaving member move, and only to a new one.
        virtual_nodes: Points per member.
        hash: One of `ring.HASHES`.

    Cost: O((P + M * virtual_nodes) log) time: hashing and one sort; the few partitions that do not fit are retried.
    Source: Mirrokni, Thorup, Zadimoghaddam 2016, "Consistent Hashing with Bounded Loads" (arXiv 1608.01350).

    >>> from kafka_assignors.core.group import Member
    >>> group = Group([Member("a", {"t"}), Member("b", {"t"})], {"t": 6})
    >>> assign(group)
    {'a': {'t': [0, 2, 4]}, 'b': {'t': [1, 3, 5]}}
    """
    indexed = Indexed(group)
    return indexed.assignment(owners(indexed, epsilon=epsilon, virtual_nodes=virtual_nodes, hash=hash))


def owners(indexed: Indexed, *, epsilon: float | None, virtual_nodes: int, hash: str) -> Ints:
    """`assign` as an array: int[P]."""
    order, readers = indexed.readers(by_identity)
    hashed = HASHES[hash]
    ring = Ring.of([hashed(numbered(f"{indexed.members[m].identity}-", range(virtual_nodes))) for m in order.tolist()])
    topics: dict[bytes, list[int]] = {}  # topics by subscribers
    for t, reading in enumerate(readers):
        if len(reading):
            topics.setdefault(reading.tobytes(), []).append(t)
    owner = np.full(indexed.size, UNASSIGNED)
    for together in topics.values():
        reading = readers[together[0]]
        counts = [int(indexed.first[t + 1] - indexed.first[t]) for t in together]
        positions = np.concatenate([indexed.first[t] + np.arange(n) for t, n in zip(together, counts, strict=True)])
        hashes = np.concatenate(
            [hashed(numbered(f"{indexed.topics[t]}-", range(n))) for t, n in zip(together, counts, strict=True)]
        )
        cap = len(hashes) if epsilon is None else most(len(hashes), len(reading), epsilon)
        owner[positions] = order[_filled(ring.among(reading), hashes, len(order), cap)]
    return owner


def most(partitions: int, members: int, epsilon: float) -> int:
    """The cap of `assign`. Exact: epsilon is taken as the decimal number of its shortest form."""
    mean = Fraction(partitions, members)
    return min(partitions, max(ceil(mean), floor((1 + Fraction(str(epsilon))) * mean)))


def _filled(ring: Ring, hashes: Hashes, members: int, cap: int) -> Ints:
    """int[n], the member of each hash; `cap` times the ring's members is at least n."""
    owner = np.full(len(hashes), UNASSIGNED)
    room = np.full(members, cap)
    waiting = np.argsort(hashes, kind="stable")
    while len(waiting):
        wanted = ring.owners(hashes[waiting])
        by_member = np.argsort(wanted, kind="stable")  # within a member still by hash
        wanted = wanted[by_member]
        before = np.arange(len(wanted)) - np.searchsorted(wanted, wanted)  # rank within its member
        fits = before < room[wanted]
        owner[waiting[by_member[fits]]] = wanted[fits]
        room -= np.bincount(wanted[fits], minlength=members)
        waiting = waiting[np.sort(by_member[~fits])]
        ring = ring.among(np.flatnonzero(room))  # at least one member is full now, or no partition waits
    return owner
