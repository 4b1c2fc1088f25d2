"""Who goes to whom where nothing else decides: by names alone, so that a group finds itself again after a restart.

Members that come back have new member ids and claim nothing. If what they get depended on how many they are, or in
which order they came, nearly everything would be somewhere else than before. So every pair of partition and member has
an affinity, a number that only their names decide (rendezvous hashing), and where balance, racks, moves and the spread
of topics leave it open, partitions go where their affinity is highest.

Guarantee: an affinity never costs balance, racks, moves or spread, and depends on no other member. When all members
return, under the same instance ids or client ids, and nobody claims anything, each gets what any other full restart of
the same members gives it. When one of n stays away, the others get most of theirs (measured: tests/assignors/
test_restart.py).

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
"""Pairs of partition and member that one call looks at, in some 50 ms; beyond, numbers decide, not names."""


_BLOCK = 1 << 14
"""Pairs that are looked at in one pass; what it leaves is then still in cache."""


class Affinity:
    """How well partitions and members go together.

    Members of one lasting name count as its first, second and so on, by member id.
    """

    def __init__(self, indexed: Indexed) -> None:
        self._indexed = indexed

    def of(self, positions: Ints, members: Ints) -> Floats:
        """Numbers from 0 to 1, of pairs of position and member."""
        return self.between(self.keys(positions), members)

    def keys(self, positions: Ints) -> Keys:
        """What `between` takes for positions; computed once for the many pairs of a position."""
        topic = np.searchsorted(self._indexed.first, positions, side="right") - 1
        return _mixed(self._topics[topic] + (positions - self._indexed.first[topic]).astype(np.uint64))

    def between(self, keys: Keys, members: Ints) -> Floats:
        """`of`, by keys."""
        return _number(_mixed(keys ^ self._members[members]))

    def best(self, positions: Ints, members: Ints, begin: Ints, count: Ints) -> Floats:
        """Of each position the highest number that one of its ``members[begin : begin + count]``, at least one, has."""
        keys, names = self.keys(positions), self._members[members]
        best = np.empty_like(keys)
        if len(begin) and (begin == begin[0]).all():  # all ask the same ones, as in a group that subscribes alike
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
    """From 0 to 1."""
    number: Floats = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return number


def _falling(of: Ints, liking: Floats) -> Ints:
    """The order by number, and for each number from the highest affinity down. Sorting one key is many times faster."""
    return np.argsort((of << 44) | ((1 - liking) * 2.0**44 - 1).astype(np.int64))


def matched(affinity: Affinity, positions: Ints, run: Ints, given: Ints) -> Ints:
    """Exchange partitions among members that get some of the same run, so that no two would rather swap.

    Args:
        affinity: Of the group.
        positions: int[L], partitions that are new to their members.
        run: int[L], within which they may be exchanged.
        given: int[L], members' numbers.

    Returns:
        int[L], as many of each run for each member as before. `given` when there are more than `MOST` pairs to look at.

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
    # All pairs, by position and then from the best to the worst.
    which = np.repeat(np.arange(len(positions)), choices[number])
    first = np.cumsum(choices[number]) - choices[number]
    to = begin[number][which] + np.arange(len(which)) - first[which]
    liking = affinity.between(affinity.keys(positions)[which], member[to])
    order = _falling(which, liking)
    to, liking = to[order], liking[order]
    # Each asks its best; who has no room for all keeps those it likes most; the others ask their next.
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
    found: Ints = member[to[turn]]
    return found


def shares(affinity: Affinity, begin: Ints, size: Ints, members: Ints, units: Ints) -> Ints | None:
    """How many partitions of each topic each member gets, evenly: rounded down or up.

    Who gets one more of a topic is agreed as in `matched`: each topic asks the members it goes best with, and a member
    that is asked by more than it has room for keeps the best. What then is left over is exchanged in.

    Args:
        affinity: Of the group.
        begin: int[T], the position of each topic's first partition.
        size: int[T], its partitions; nobody has any yet.
        members: int[R], members' numbers.
        units: int[R], how many they get in all; these differ by 1 at most.

    Returns:
        int[T, R], or None when topics and members are more than a quarter of `MOST` pairs.
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
            # A member with room has one of t already. One without has one of a topic that it has not: they exchange.
            m = int(np.flatnonzero(asked.sum(axis=0) < room)[0])
            swap = asked & ~asked[:, [m]] & ~asked[t]
            other, full = np.unravel_index(
                np.argmax(np.where(swap, liking[:, [m]] + liking[t] - liking, -9)), swap.shape
            )
            asked[other, full], asked[other, m], asked[t, full] = False, True, True
    given: Ints = even[:, None] + asked
    return given
