"""The sticky assignor: the best balance there is, then racks, then as few moves as that takes (KIP-54)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import flow, spread
from .assignment import Assignment
from .claims import Claims, resolve
from .group import Group
from .indexed import FREE, Bools, Indexed, Ints


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

    Cost: see `flow.optimum`, plus O(P log P) to name the partitions. Deterministic under any order of members.
    Source: KIP-54, KIP-881; the goals of Java's ``StickyAssignor``, whose own answer can be less balanced or move more.

    >>> from kafka_assignors.core.group import Member
    >>> assign(Group([Member("a", {"t"}, owned=[("t", 0), ("t", 1), ("t", 2)], generation=1), Member("b", {"t"})],
    ...              {"t": 3}))
    {'a': {'t': [0, 1]}, 'b': {'t': [2]}}
    """
    claims = claims or resolve(group)
    return claims.indexed.assignment(owners(claims))


def owners(claims: Claims) -> Ints:
    """`assign` as an array: int[P], the number of each position's new owner; `FREE` where nobody subscribes."""
    indexed, before = claims.indexed, claims.holder
    classes = _classes(indexed)
    group = classes.of
    if not len(classes.size):
        return np.full(indexed.size, FREE)
    members = len(indexed.members)
    held = np.flatnonzero(before != FREE)
    cell = group[held] * members + before[held]
    if len(classes.size) * members <= 4 * indexed.size:
        count = np.bincount(cell, minlength=len(classes.size) * members)
        cells = np.flatnonzero(count)
        count = count[cells]
    else:
        cells, count = np.unique(cell, return_counts=True)
    had = (cells // members, cells % members, count)
    units = flow.optimum(flow.Problem(classes.size, classes.allowed, classes.foreign, classes.kind, had))
    return spread.chosen(indexed, group, before, had, units)


@dataclass(frozen=True)
class _Classes:
    """Partitions that the same members may have at the same cost, and members that are alike (kinds).

    Args:
        of: int[P], class of each position, `FREE` where nobody subscribes.
        size: int[G], partitions in each.
        allowed: bool[G, K], which kinds may have them.
        foreign: bool[G, K], of those the ones whose rack has no replica.
        kind: int[M], each member's kind.
    """

    of: Ints
    size: Ints
    allowed: Bools
    foreign: Bools
    kind: Ints


def _classes(indexed: Indexed) -> _Classes:
    racks = indexed.group.racks
    where = [member.rack if racks else None for member in indexed.members]
    alike: dict[tuple[int, str | None], int] = {}
    kind = [alike.setdefault(pair, len(alike)) for pair in zip(indexed.subscription.tolist(), where, strict=True)]
    subscription = np.array([subscription for subscription, _ in alike], np.int64)
    rack = np.array([rack or "" for _, rack in alike], np.str_)
    reads = indexed.reads[subscription]

    found: dict[tuple[bytes, frozenset[str] | None], int] = {}
    readers: list[Bools] = []  # per class
    local: list[frozenset[str] | None] = []
    of = np.full(indexed.size, FREE)
    for t, topic in enumerate(indexed.topics):
        begin, end = indexed.first[t], indexed.first[t + 1]
        column = reads[:, t]
        if not column.any():
            continue
        key = column.tobytes()
        reader_racks = frozenset(rack[column].tolist()) - {""}
        replicas = racks.get(topic, ()) if reader_racks else ()
        seen: dict[frozenset[str], frozenset[str] | None] = {}
        on: list[frozenset[str] | None] = [None] * (1 if not replicas else int(end - begin))
        for p, each in enumerate(replicas[: len(on)]):
            if each and each not in seen:
                seen[each] = None if reader_racks <= each else each & reader_racks
            on[p] = seen[each] if each else None
        for each_on in on:
            if (key, each_on) not in found:
                found[key, each_on] = len(found)
                readers.append(column)
                local.append(each_on)
        of[begin:end] = [found[key, each_on] for each_on in on]
    allowed = np.array(readers).reshape(len(found), len(alike))
    foreign = np.zeros_like(allowed)
    for g, racks_here in enumerate(local):
        if racks_here is not None:
            foreign[g] = allowed[g] & (rack != "") & ~np.isin(rack, list(racks_here))
    size = np.bincount(of[of != FREE], minlength=len(found))
    return _Classes(of, size, allowed, foreign, np.array(kind, np.int64))
