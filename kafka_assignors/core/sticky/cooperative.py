"""The cooperative sticky assignor: two rounds, so that no partition ever has two owners (KIP-429)."""

from __future__ import annotations

from ..group import Group
from ..group.assignment import Assignment
from ..group.claims import Claims, resolve
from ..group.indexed import UNASSIGNED, Ints
from . import sticky
from .objective import Objective
from .sticky import DEFAULT


def assign(group: Group, claims: Claims | None = None, *, objective: Objective = DEFAULT) -> Assignment:
    """The sticky assignment without the partitions that other members must revoke first.

    A partition that moves is withheld for this round: its owner revokes it and rejoins, and the next round assigns it.
    A disputed partition (two members claim it with the same generation) is withheld from all members, including its
    claimants. So is a partition of a member without topics that leaves the group and reads on until it is told to
    revoke (`claims.resolve`). A partition that none of these members claims is never withheld. Repeated until nothing
    is withheld (two rounds), the assignment is the optimum of `sticky.assign`.

    `claims` is `resolve(group)`, if the caller has it.

    Cost: that of `sticky.assign`. Deterministic under any order of members.
    Source: KIP-429; ``CooperativeStickyAssignor.java``, which lets stale claims take partitions from their owner.

    >>> from kafka_assignors.core.group import Member
    >>> assign(Group([Member("a", {"t"}, owned=[("t", 0), ("t", 1)], generation=1), Member("b", {"t"})], {"t": 2}))
    {'a': {'t': [0]}, 'b': {}}
    >>> assign(Group([Member("a", (), owned=[("t", 0)], generation=1), Member("b", {"t"})], {"t": 2}))  # a leaves
    {'a': {}, 'b': {'t': [1]}}
    """
    claims = claims or resolve(group)
    return claims.indexed.assignment(owners(claims, objective))


def owners(claims: Claims, objective: Objective = DEFAULT) -> Ints:
    """`assign` as an array: int[P], the number of each position's new owner; `UNASSIGNED` if none in this round."""
    return withheld(claims, sticky.owners(claims, objective))


def withheld(claims: Claims, target: Ints) -> Ints:
    """A target, int[P], without the partitions that other members must revoke first; changes `target`."""
    target[(claims.holder != UNASSIGNED) & (claims.holder != target)] = UNASSIGNED
    target[claims.disputed_at[0]] = UNASSIGNED
    target[claims.leaving_at[0]] = UNASSIGNED
    return target
