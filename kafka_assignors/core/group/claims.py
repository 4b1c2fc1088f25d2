"""Resolve the members' claims of owned partitions: the newest generation wins, all other claims are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .columns import Claimed, Columns
from .indexed import UNASSIGNED, Bools, Indexed, Ints
from .values import Group, Member, TopicPartition

FEW = 3
"""Maximum number of partitions listed by name."""


@dataclass(frozen=True)
class Dropped:
    """A number of dropped partitions, only the first few (`FEW`) by name: there may be a million."""

    count: int
    first: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        names = ", ".join(map(str, self.first))
        rest = self.count - len(self.first)
        return names if not rest else f"{names} and {rest:,} more" if names else f"{rest:,} partitions"


@dataclass(frozen=True, eq=False)
class Claims:
    """The resolved claims of a group, as arrays over the positions of `Indexed` and by name.

    Each field ``…_at`` has parallel arrays of positions and members.

    Args:
        holder: int[P], the one subscribed member with the newest claim; `UNASSIGNED` if there is none.
        disputed_at: Subscribed members that claim a position in the same newest generation: none wins, any may hold it.
        stale_at: Claims overruled by another member's newer generation.
        unsubscribed_at: Claims of topics that the member does not subscribe to, and that protect nothing.
        leaving_at: The newest claims of members without any topics. They leave the group (`kafka_python.leaving`) and
            read on until they are told to revoke.
        mistaken: Members that claim nonexistent partitions.
    """

    indexed: Indexed
    holder: Ints
    disputed_at: tuple[Ints, Ints]
    stale_at: tuple[Ints, Ints]
    unsubscribed_at: tuple[Ints, Ints]
    leaving_at: tuple[Ints, Ints]
    mistaken: tuple[Member, ...]

    @cached_property
    def held_by(self) -> Mapping[TopicPartition, str]:
        """topic-partition -> member id, for positions that have a holder."""
        positions = np.flatnonzero(self.holder != UNASSIGNED)
        holders = [self.indexed.members[m].member_id for m in self.holder[positions].tolist()]
        return dict(zip(self.indexed.names(positions), holders, strict=True))

    @cached_property
    def disputed(self) -> Mapping[TopicPartition, tuple[str, ...]]:
        """topic-partition -> the members that dispute it."""
        return self._named(self.disputed_at)

    @cached_property
    def leaving(self) -> Mapping[TopicPartition, tuple[str, ...]]:
        """topic-partition -> the members that leave the group and still hold it."""
        return self._named(self.leaving_at)

    @cached_property
    def nonexistent(self) -> Mapping[str, Dropped]:
        """Claims of nonexistent partitions, by member id."""
        partitions = self.indexed.group.partitions
        return {member.member_id: _nonexistent(member, partitions) for member in self.mistaken}

    @cached_property
    def unsubscribed(self) -> Mapping[str, Dropped]:
        """Claims of topics that the member does not subscribe to, by member id."""
        return self._dropped(self.unsubscribed_at)

    @cached_property
    def stale(self) -> Mapping[str, Dropped]:
        """Claims that a newer generation of another member overrules, by member id."""
        return self._dropped(self.stale_at)

    @cached_property
    def disputed_by(self) -> Mapping[tuple[str, ...], Dropped]:
        """Disputed partitions, by the members that dispute them."""
        at, by = self.disputed_at
        start = np.flatnonzero(np.diff(at, prepend=-1))
        rivals = np.diff(np.append(start, len(at)))
        disputes: dict[tuple[str, ...], Dropped] = {}
        for many in np.unique(rivals).tolist():
            first = start[rivals == many]
            sets, which = np.unique(by[first[:, None] + np.arange(many)], axis=0, return_inverse=True)
            for members, dropped in zip(sets.tolist(), self._several(which.ravel(), at[first]), strict=True):
                disputes[tuple(self.indexed.members[m].member_id for m in members)] = dropped[1]
        return disputes

    def holders(self, partition: TopicPartition) -> tuple[str, ...]:
        """Members that may still hold a partition; empty if it is free."""
        holder = self.held_by.get(partition)
        if holder is not None:
            return (holder,)
        return self.disputed.get(partition) or self.leaving.get(partition, ())

    def _dropped(self, claims: tuple[Ints, Ints]) -> Mapping[str, Dropped]:
        return {self.indexed.members[m].member_id: dropped for m, dropped in self._several(claims[1], claims[0])}

    def _several(self, of: Ints, position: Ints) -> Iterable[tuple[int, Dropped]]:
        """Group positions by the parallel array `of`."""
        order = np.lexsort((position, of))
        start = np.flatnonzero(np.diff(of[order], prepend=-1))
        count = np.diff(np.append(start, len(of)))
        for begin, many in zip(start.tolist(), count.tolist(), strict=True):
            first = position[order[begin : begin + min(many, FEW)]]
            yield int(of[order[begin]]), Dropped(many, tuple(self.indexed.names(first)))

    def _named(self, claims: tuple[Ints, Ints]) -> Mapping[TopicPartition, tuple[str, ...]]:
        claimants: dict[TopicPartition, tuple[str, ...]] = {}
        for m, partition in zip(claims[1].tolist(), self.indexed.names(claims[0]), strict=True):
            claimants[partition] = (*claimants.get(partition, ()), self.indexed.members[m].member_id)
        return claimants


def resolve(group: Group) -> Claims:
    """Resolve claims: the newest claim of each existing partition wins, unless several members share its generation.

    A claim of a topic no longer subscribed to overrules older ones, too: their members lost it. Never raises.

    A claim of an older generation is believed as long as no newer claim names the same partition: a member that missed
    one SyncGroup still holds its partitions. A claim about a topic that its claimant left disputes nothing and protects
    nothing, because the client revoked the partition before it joined. But a member without any topics that tells the
    generation of its claims is leaving: it holds these partitions until it is told to revoke them. (kafka-python's own
    cooperative assignor tells no generation. It repeats its last assignment even if a pattern now matches no topic.)
    Honest members never claim one partition twice; generations protect against fenced clients that keep their claims.

    Cost: O(P + M log M + claims), times a log where several claim one partition. Deterministic in any order of members.
    Source: KIP-341, KIP-792. ``AbstractStickyAssignor`` compares generations per topic, we compare them per partition.
    """
    indexed = Indexed(group)
    position, claimant, mistaken = _claimed(indexed)
    topic = indexed.topic_of()[position]
    reading: Bools = indexed.reads.ravel()[indexed.subscription[claimant] * len(indexed.topics) + topic]
    holder = np.full(indexed.size, UNASSIGNED)
    nothing = np.zeros(0, np.int64)
    disputed = stale = (nothing, nothing)
    if reading.all():
        holder[position] = claimant
        if (holder[position] == claimant).all():  # the usual case: no two members claim one partition
            return Claims(indexed, holder, disputed, stale, (nothing, nothing), (nothing, nothing), mistaken)
        holder[position] = UNASSIGNED
    leaves = np.array([member.leaves for member in indexed.members], bool)
    leaving: Bools = leaves[claimant]
    left = ~reading & ~leaving
    claims = np.bincount(position, minlength=indexed.size)
    alone = (claims[position] == 1) & reading
    holder[position[alone]] = claimant[alone]
    contested = np.flatnonzero(claims[position] > 1)
    if len(contested):
        generation = np.array([member.generation for member in indexed.members], np.int64)
        # Sort by position, newest generation first, then member; a duplicate claim of one member counts once.
        rival = contested[np.lexsort((claimant[contested], -generation[claimant[contested]], position[contested]))]
        at, by = position[rival], claimant[rival]
        again = np.concatenate([[False], (np.diff(at) == 0) & (np.diff(by) == 0)])
        left[rival[again]] = leaving[rival[again]] = False
        rival, at, by = rival[~again], at[~again], by[~again]
        start = np.flatnonzero(np.concatenate([[True], np.diff(at) > 0]))
        run = np.repeat(np.arange(len(start)), np.diff(np.append(start, len(at))))
        newest = generation[by] == generation[by[start]][run]
        reads = reading[rival]
        # A member that left the topic revoked its partitions before it joined, so it is no rival.
        subscribers = np.bincount(run, newest & reads, len(start))[run]
        believed = newest & reads & (subscribers == 1)
        holder[at[believed]] = by[believed]
        tied, late = newest & reads & (subscribers > 1), ~newest & (reads | leaving[rival])
        disputed, stale = (at[tied], by[tied]), (at[late], by[late])
        # Nor is a leaving member a rival of a subscriber with an equally new claim.
        left[rival[newest & leaving[rival] & (subscribers > 0)]] = True
        leaving[rival[~newest | (subscribers > 0)]] = False
    away = (position[left], claimant[left])
    return Claims(indexed, holder, disputed, stale, away, (position[leaving], claimant[leaving]), mistaken)


def _claimed(indexed: Indexed) -> tuple[Ints, Ints, tuple[Member, ...]]:
    """Claims as parallel arrays of positions and members, and the members with claims that have no position."""
    topics: list[int] = []
    counts: list[int] = []
    sizes = np.zeros(len(indexed.members), np.int64)
    ids = [np.zeros(0, np.int64)]
    nowhere = len(indexed.topics)
    number = indexed.number
    together: dict[Columns, list[tuple[int, int]]] = {}  # claims decoded together -> (row, member)
    mistaken: set[int] = set()
    for m, member in enumerate(indexed.members):
        owned = member.owned
        if owned.beyond:
            mistaken.add(m)
        if isinstance(owned, Claimed):
            together.setdefault(owned.columns, []).append((owned.row, m))
        elif len(owned):
            topics += [number.get(topic, nowhere) for topic in owned.topics]
            counts += owned.counts
            sizes[m] = len(owned)
            ids.append(np.asarray(owned.ids))
    parts = [_existing(indexed, np.array(topics, np.int64), counts, np.concatenate(ids), sizes, np.arange(len(sizes)))]
    for columns, rows in together.items():
        names = np.array([number.get(topic, nowhere) for topic in columns.names], np.int64)
        of = np.full(len(columns.bounds) - 1, UNASSIGNED)
        of[[row for row, _ in rows]] = [m for _, m in rows]
        sizes = np.diff(columns.bounds)
        parts.append(_existing(indexed, names[columns.topic], columns.count, columns.ids, sizes, of))
    parts = [part for part in parts if len(part[0]) or len(part[2])] or parts[:1]
    mistaken.update(m for part in parts for m in part[2].tolist())
    if len(parts) == 1:
        position, claimant = parts[0][:2]
    else:
        position, claimant = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return position, claimant, tuple(indexed.members[m] for m in sorted(mistaken))


def _existing(
    indexed: Indexed, topics: Ints, counts: Ints | list[int], ids: NDArray[np.integer], sizes: Ints, of: Ints
) -> tuple[Ints, Ints, Ints]:
    """Positions and claimants of claims, and the members with claims that have no position.

    Per run of `ids`, `topics` has the topic number, T for an unknown topic, and `counts` the length. Per claimant,
    `sizes` has the number of claims, and `of` the member number; `UNASSIGNED` if its claims do not count.
    """
    first, count = np.append(indexed.first[:-1], 0), np.append(np.diff(indexed.first), 0)
    position = np.repeat(first[topics], counts) + ids
    exists = (ids >= 0) & (ids < np.repeat(count[topics], counts))
    claimant = np.repeat(of, sizes)
    if (of == UNASSIGNED).any():
        exists &= claimant != UNASSIGNED
    if exists.all():
        return position, claimant, np.zeros(0, np.int64)
    mistaken = np.unique(claimant[~exists])
    return position[exists], claimant[exists], mistaken[mistaken != UNASSIGNED]


def _nonexistent(member: Member, partitions: Mapping[str, int]) -> Dropped:
    owned = member.owned
    counts, ids = np.array(owned.counts, np.int64), np.asarray(owned.ids)
    exist = np.repeat(np.array([partitions.get(topic, 0) for topic in owned.topics], np.int64), counts)
    missing = np.flatnonzero((ids < 0) | (ids >= exist))
    run = np.searchsorted(np.cumsum(counts), missing[:FEW], side="right")
    first = {TopicPartition(owned.topics[r], int(ids[i])) for r, i in zip(run, missing[:FEW], strict=True)}
    return Dropped(len(missing) + owned.beyond, tuple(sorted(first)))
