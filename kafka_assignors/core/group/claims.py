"""Who holds what, from what members claim: the newest generation is believed, whatever else is claimed is dropped."""

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
"""Of many partitions so many are named."""


@dataclass(frozen=True)
class Dropped:
    """Some partitions, not all of them by name: there may be a million.

    Args:
        count: How many.
        first: The first ones, up to `FEW`.
    """

    count: int
    first: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        names = ", ".join(map(str, self.first))
        rest = self.count - len(self.first)
        return names if not rest else f"{names} and {rest:,} more" if names else f"{rest:,} partitions"


@dataclass(frozen=True, eq=False)
class Claims:
    """The claims of a group, resolved; as arrays over the positions of `Indexed`, and by name.

    Args:
        indexed: The group as integers.
        holder: int[P], the number of the one member whose claim is the newest and that still subscribes to the topic;
            `UNASSIGNED` where there is none.
        disputes: Positions and members, parallel: subscribed members that claim a position with the same, newest
            generation. It counts as nobody's, yet any of them may still hold it.
        overruled: Positions and members, parallel: claims that a newer generation of another member overrules.
        left: Positions and members, parallel: claims about topics the member does not subscribe to (any more).
        mistaken: Members with claims about partitions that do not exist.
    """

    indexed: Indexed
    holder: Ints
    disputes: tuple[Ints, Ints]
    overruled: tuple[Ints, Ints]
    left: tuple[Ints, Ints]
    mistaken: tuple[Member, ...]

    @cached_property
    def owner(self) -> Mapping[TopicPartition, str]:
        """topic-partition -> member id, where a position has a holder."""
        held = np.flatnonzero(self.holder != UNASSIGNED)
        holders = [self.indexed.members[m].member_id for m in self.holder[held].tolist()]
        return dict(zip(self.indexed.names(held), holders, strict=True))

    @cached_property
    def disputed(self) -> Mapping[TopicPartition, tuple[str, ...]]:
        """topic-partition -> the members that dispute it."""
        found: dict[TopicPartition, tuple[str, ...]] = {}
        for member_id, partition in self._named(self.disputes):
            found[partition] = (*found.get(partition, ()), member_id)
        return found

    @cached_property
    def nonexistent(self) -> Mapping[str, Dropped]:
        """By member id, claims about partitions that do not exist."""
        known = self.indexed.group.partitions
        return {member.member_id: _nonexistent(member, known) for member in self.mistaken}

    @cached_property
    def unsubscribed(self) -> Mapping[str, Dropped]:
        """By member id, claims about topics it does not subscribe to (any more)."""
        return self._dropped(self.left)

    @cached_property
    def stale(self) -> Mapping[str, Dropped]:
        """By member id, claims that a newer generation of another member overrules."""
        return self._dropped(self.overruled)

    @cached_property
    def quarrels(self) -> Mapping[tuple[str, ...], Dropped]:
        """By the members that dispute them, partitions."""
        at, by = self.disputes
        start = np.flatnonzero(np.diff(at, prepend=-1))
        rivals = np.diff(np.append(start, len(at)))
        found: dict[tuple[str, ...], Dropped] = {}
        for many in np.unique(rivals).tolist():
            first = start[rivals == many]
            sets, which = np.unique(by[first[:, None] + np.arange(many)], axis=0, return_inverse=True)
            for members, dropped in zip(sets.tolist(), self._several(which.ravel(), at[first]), strict=True):
                found[tuple(self.indexed.members[m].member_id for m in members)] = dropped[1]
        return found

    def holders(self, partition: TopicPartition) -> tuple[str, ...]:
        """The members that may still hold a partition; none when it is free to give away."""
        owner = self.owner.get(partition)
        return self.disputed.get(partition, ()) if owner is None else (owner,)

    def _dropped(self, claims: tuple[Ints, Ints]) -> Mapping[str, Dropped]:
        return {self.indexed.members[m].member_id: dropped for m, dropped in self._several(claims[1], claims[0])}

    def _several(self, of: Ints, position: Ints) -> Iterable[tuple[int, Dropped]]:
        """Positions by whom they are of, both parallel."""
        order = np.lexsort((position, of))
        start = np.flatnonzero(np.diff(of[order], prepend=-1))
        count = np.diff(np.append(start, len(of)))
        for begin, many in zip(start.tolist(), count.tolist(), strict=True):
            first = position[order[begin : begin + min(many, FEW)]]
            yield int(of[order[begin]]), Dropped(many, tuple(self.indexed.names(first)))

    def _named(self, claims: tuple[Ints, Ints]) -> Iterable[tuple[str, TopicPartition]]:
        members = (self.indexed.members[m].member_id for m in claims[1].tolist())
        return zip(members, self.indexed.names(claims[0]), strict=True)


def resolve(group: Group) -> Claims:
    """Believe the newest claim of each existing partition; of several equally new ones none.

    A claim about a topic the claimant left overrules older claims too: whoever made those lost the partition since.
    Never raises.

    Cost: O(P + M log M + claims), times log of the claims where several name one partition. Deterministic under any
    order of members.
    Source: KIP-341, KIP-792; ``AbstractStickyAssignor`` believes any generation per topic, we look at each partition.
    """
    indexed = Indexed(group)
    position, claimant, mistaken = _claimed(indexed)
    topic = indexed.topic_of()[position]
    reading: Bools = indexed.reads.ravel()[indexed.subscription[claimant] * len(indexed.topics) + topic]
    left = ~reading
    holder = np.full(indexed.size, UNASSIGNED)
    nothing = np.zeros(0, np.int64)
    disputes = overruled = (nothing, nothing)
    claims = np.bincount(position, minlength=indexed.size)
    alone = (claims[position] == 1) & reading
    holder[position[alone]] = claimant[alone]
    contested = np.flatnonzero(claims[position] > 1)
    if len(contested):
        generation = np.array([member.generation for member in indexed.members], np.int64)
        # By position, the newest first, of those by member; then what one member claims twice counts once.
        rival = contested[np.lexsort((claimant[contested], -generation[claimant[contested]], position[contested]))]
        at, by = position[rival], claimant[rival]
        again = np.concatenate([[False], (np.diff(at) == 0) & (np.diff(by) == 0)])
        left[rival[again]] = False
        rival, at, by = rival[~again], at[~again], by[~again]
        start = np.flatnonzero(np.concatenate([[True], np.diff(at) > 0]))
        run = np.repeat(np.arange(len(start)), np.diff(np.append(start, len(at))))
        newest = generation[by] == generation[by[start]][run]
        reads = reading[rival]
        # Who left the topic revoked its partitions before it joined: that is no rival.
        only = np.bincount(run, newest & reads, len(start))[run] == 1
        believed = newest & only & reads
        holder[at[believed]] = by[believed]
        disputed, late = newest & ~only & reads, ~newest & reads
        disputes, overruled = (at[disputed], by[disputed]), (at[late], by[late])
    return Claims(indexed, holder, disputes, overruled, (position[left], claimant[left]), mistaken)


def _claimed(indexed: Indexed) -> tuple[Ints, Ints, tuple[Member, ...]]:
    """Claims as parallel arrays, positions and members; and who has claims that have no position."""
    topics: list[int] = []
    counts: list[int] = []
    sizes = np.zeros(len(indexed.members), np.int64)
    ids = [np.zeros(0, np.int64)]
    nowhere = len(indexed.topics)
    number = indexed.number
    together: dict[Columns, list[tuple[int, int]]] = {}  # what was read at once -> row and member
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
            ids.append(owned.ids)
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
    """Positions of some claims, their claimants, and who has claims without a position.

    Args:
        indexed: The group as integers.
        topics: Of each run its topic's number, T where there is none such.
        counts: Of each run its length.
        ids: Of all runs the partitions.
        sizes: Of each claimant how many claims it has.
        of: Of each claimant its member's number; `UNASSIGNED` if its claims do not count.
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


def _nonexistent(member: Member, known: Mapping[str, int]) -> Dropped:
    owned = member.owned
    counts = np.array(owned.counts, np.int64)
    exist = np.repeat(np.array([known.get(topic, 0) for topic in owned.topics], np.int64), counts)
    missing = np.flatnonzero((owned.ids < 0) | (owned.ids >= exist))
    run = np.searchsorted(np.cumsum(counts), missing[:FEW], side="right")
    first = {TopicPartition(owned.topics[r], int(owned.ids[i])) for r, i in zip(run, missing[:FEW], strict=True)}
    return Dropped(len(missing) + owned.beyond, tuple(sorted(first)))
