"""Tie-breaking by names only (rendezvous hashing), so that a restarted group gets its old assignment back.

Members that restart have new member ids and claim nothing. If ties were broken by the number or order of members, a
restart would move nearly every partition. So each pair of partition and member has an affinity, a number that depends
only on their names. Ties in balance, racks, moves and spread go to the highest affinity.

Guarantee: affinity never costs balance, racks, moves or spread, and depends on no other member. When all members return
under the same instance ids or client ids and nobody claims anything, each gets the same partitions as after any other
full restart of these members. When one of n stays away, the others keep most of theirs (measured:
tests/clients/kafka_python/test_restart.py).

Source: Thaler & Ravishankar 1998, "Using name-based mappings to increase hit rates"; Gale & Shapley 1962 (`matched`).
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import pairwise
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ..group.indexed import Indexed, Ints

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]  # one 64-bit key per pair: a lexsort of the pairs took 14 times as long

MOST = 1 << 19
"""Maximum pairs of partition and member per call, about 50 ms; beyond it, numbers decide instead of names."""


_BLOCK = 1 << 14
"""Pairs per pass, so that the intermediate arrays stay in cache."""


class Affinity:
    """Affinity between partitions and members. Members that share a lasting name are numbered by member id."""

    def __init__(self, indexed: Indexed) -> None:
        self._indexed = indexed

    def of(self, positions: Ints, members: Ints) -> Floats:
        """Affinities from 0 to 1 of pairs of position and member."""
        return self.between(self.keys(positions), members)

    def keys(self, positions: Ints) -> Keys:
        """Hash keys of positions for `between`, computed once for the many pairs of a position."""
        topic = np.searchsorted(self._indexed.first, positions, side="right") - 1
        return _mixed(self._topics[topic] + (positions - self._indexed.first[topic]).astype(np.uint64))

    def between(self, keys: Keys, members: Ints) -> Floats:
        """`of`, with keys instead of positions."""
        return _number(_mixed(keys ^ self._members[members]))

    def best(self, positions: Ints, members: Ints, begin: Ints, count: Ints) -> Floats:
        """The highest affinity of each position with its members ``members[begin : begin + count]``, at least 1."""
        keys, names = self.keys(positions), self._members[members]
        best = np.empty_like(keys)
        if len(begin) and (begin == begin[0]).all():  # equal subscriptions: all positions have the same candidates
            names = names[begin[0] : begin[0] + count[0], None]
            step = max(1, _BLOCK // len(names))
            for low in range(0, len(keys), step):
                best[low : low + step] = _mixed(keys[low : low + step] ^ names).max(axis=0)
            return _number(best)
        end = np.cumsum(count)
        cuts = np.searchsorted(end, np.arange(0, count.sum(), _BLOCK), side="right").tolist()
        for low, high in pairwise([*dict.fromkeys(cuts), len(keys)]):
            pairs, first = count[low:high], end[low:high] - count[low:high]
            first = first - first[0]
            member = np.arange(int(pairs.sum())) + np.repeat(begin[low:high] - first, pairs)
            best[low:high] = np.maximum.reduceat(_mixed(np.repeat(keys[low:high], pairs) ^ names[member]), first)
        return _number(best)

    @cached_property
    def _topics(self) -> Keys:
        return _mixed(
            np.array([crc32(topic.encode("utf-8", "surrogatepass")) for topic in self._indexed.topics], np.uint64)
        )

    @cached_property
    def _members(self) -> Keys:
        names = self._indexed.lasting
        keys = np.array([crc32(name.encode("utf-8", "surrogatepass")) for name in names], np.uint64)
        if len(set(names)) < len(names):
            seen = Counter[str]()
            for m, name in enumerate(names):
                keys[m] += np.uint64(seen[name] << 32)
                seen[name] += 1
        return _mixed(keys)


def _mixed(x: Keys) -> Keys:
    """Spread every bit over all bits (the finalizer of splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    shifted = x >> np.uint64(30)
    for factor, shift in ((0xBF58476D1CE4E5B9, 27), (0x94D049BB133111EB, 31)):
        x ^= shifted
        x *= np.uint64(factor)
        np.right_shift(x, np.uint64(shift), out=shifted)
    x ^= shifted
    return x


def _number(mixed: Keys) -> Floats:
    """Map to a float from 0 to 1."""
    number: Floats = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return number


def _falling(of: Ints, liking: Floats) -> Ints:
    """Sort order by number, then by falling affinity. Sorting by one combined key is many times faster."""
    return np.argsort((of << 44) | ((1 - liking) * 2.0**44 - 1).astype(np.int64))


def matched(affinity: Affinity, positions: Ints, run: Ints, given: Ints) -> Ints:
    """Exchange partitions among members that receive some of the same run, until no two members would rather swap.

    The arrays are int[L]: partitions that are new to their members, the run of each, and its member's number. Returns
    the new members: in each run, each as often as before. Nothing changes if there are more than `MOST` pairs to
    examine.

    Cost: O(pairs log pairs), a pair being a partition and a member of its run. Deterministic.
    """
    slots, slot, room = np.unique(run * (given.max(initial=0) + 1) + given, return_inverse=True, return_counts=True)
    of_slot = np.zeros(len(slots), np.int64)
    member = np.zeros(len(slots), np.int64)
    of_slot[slot], member[slot] = run, given
    runs, begin, choices = np.unique(of_slot, return_index=True, return_counts=True)
    number = np.searchsorted(runs, run)
    if choices.max(initial=0) < 2 or choices[number].sum() > MOST:
        return given
    # All pairs, by position, then by falling affinity.
    which = np.repeat(np.arange(len(positions)), choices[number])
    first = np.cumsum(choices[number]) - choices[number]
    to = begin[number][which] + np.arange(len(which)) - first[which]
    liking = affinity.between(affinity.keys(positions)[which], member[to])
    order = _falling(which, liking)
    to, liking = to[order], liking[order]
    # Each position proposes to its best member. A member without room keeps those it prefers; the others try their
    # next.
    asking = np.arange(len(positions))
    turn = first.copy()
    while len(asking):
        asked = np.zeros(len(slots), bool)
        asked[to[turn[asking]]] = True
        rivals = np.flatnonzero(asked[to[turn]])
        at = to[turn[rivals]]
        by = _falling(at, liking[turn[rivals]])
        at = at[by]
        place = np.arange(len(by)) - np.searchsorted(at, at)
        asking = rivals[by[place >= room[at]]]
        turn[asking] += 1
    matching: Ints = member[to[turn]]
    return matching


def shares(affinity: Affinity, begin: Ints, size: Ints, members: Ints, units: Ints) -> Ints | None:
    """Even number of partitions of each topic per member: the mean, rounded down or up; int[T, R].

    The members with one more of a topic are chosen as in `matched`: each topic proposes to the members with the highest
    affinity, and a member with too many proposals keeps the best. Exchanges place the rest.

    `begin` and `size` are int[T], each topic's first position and its partitions, all unassigned; `units` is int[R],
    total partitions per member, which differ by at most 1. None if topics and members form more than a quarter of
    `MOST` pairs.
    """
    if len(begin) * len(members) > MOST // 4:
        return None
    even, more = np.divmod(size, len(members))
    room = units - even.sum()
    liking = affinity.of(begin[:, None], members[None, :])
    order = np.argsort(-liking, axis=1, kind="stable")
    open_ = np.ones(liking.shape, bool)
    while True:
        ranked = np.take_along_axis(open_, order, axis=1)
        asked = np.zeros_like(open_)
        np.put_along_axis(asked, order, ranked & (np.cumsum(ranked, axis=1) <= more[:, None]), axis=1)
        crowded = np.flatnonzero(asked.sum(axis=0) > room)
        if not len(crowded):
            break
        place = np.argsort(np.argsort(-np.where(asked, liking, -1)[:, crowded], axis=0, kind="stable"), axis=0)
        open_[:, crowded] &= ~asked[:, crowded] | (place < room[crowded])
    for t in np.flatnonzero(asked.sum(axis=1) < more).tolist():
        while asked[t].sum() < more[t]:
            # Any member with room has one of t already. A member without room has one of a topic that the former lacks:
            # swap.
            m = int(np.flatnonzero(asked.sum(axis=0) < room)[0])
            swap = asked & ~asked[:, [m]] & ~asked[t]
            other, full = np.unravel_index(
                np.argmax(np.where(swap, liking[:, [m]] + liking[t] - liking, -9)), swap.shape
            )
            asked[other, full], asked[other, m], asked[t, full] = False, True, True
    given: Ints = even[:, None] + asked
    return given
