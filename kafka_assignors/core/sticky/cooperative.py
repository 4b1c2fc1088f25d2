"""The cooperative sticky assignor: the sticky assignment in two rounds, so that nothing has two owners (KIP-429)."""

from __future__ import annotations

import numpy as np

from ..group import Group, TopicPartition
from ..group.assignment import Assignment
from ..group.claims import Claims, resolve
from ..group.indexed import UNASSIGNED, Ints
from . import sticky
from .objective import Objective
from .sticky import DEFAULT


def assign(group: Group, claims: Claims | None = None, *, objective: Objective = DEFAULT) -> Assignment:
    """The sticky assignment without what other members must give up first.

    A partition that moves is withheld this round: its owner sees that it is gone, revokes it and joins again, and the
    next round hands it out. A disputed partition (two members claim it with the same generation) is withheld from
    everybody, its claimants too. A partition that no live, subscribed member claims is never withheld.

    Args:
        group: Members in any order. Any claims will do.
        claims: `resolve(group)`, when the caller has it already.
        objective: As in `sticky.assign`.

    Returns:
        member id -> topic -> ascending partition ids; every member has an entry. Applied until nothing is withheld, two
        rounds in all, it ends in the optimum of `sticky.assign`.

    Cost: as `sticky.assign`. Deterministic under any order of members.
    Source: KIP-429; ``CooperativeStickyAssignor.java``, which lets stale claims take partitions from their owner.

    >>> from kafka_assignors.core.group import Member
    >>> assign(Group([Member("a", {"t"}, owned=[("t", 0), ("t", 1)], generation=1), Member("b", {"t"})], {"t": 2}))
    {'a': {'t': [0]}, 'b': {}}
    """
    claims = claims or resolve(group)
    return claims.indexed.assignment(owners(claims, objective))


def owners(claims: Claims, objective: Objective = DEFAULT) -> Ints:
    """`assign` as an array: int[P], the number of each position's new owner; `UNASSIGNED` for none in this round."""
    target = sticky.owners(claims, objective)
    target[(claims.holder != UNASSIGNED) & (claims.holder != target)] = UNASSIGNED
    target[claims.disputes[0]] = UNASSIGNED
    return target


def withheld(group: Group) -> dict[TopicPartition, tuple[str, ...]]:
    """What `assign` gives to nobody this round, and the members that must give it up first."""
    claims = resolve(group)
    held = claims.holder != UNASSIGNED
    held[claims.disputes[0]] = True
    missing = claims.indexed.names(np.flatnonzero(held & (owners(claims) == UNASSIGNED)))
    return {partition: claims.holders(partition) for partition in missing}
