"""Goals after the fewest moves, with free partitions only: racks, evenness, spread of topics.

A partition is free if moving it costs nothing (`search`). Each step keeps what the goals before it have reached.
"""

from __future__ import annotations

import numpy as np

from ..group.indexed import UNASSIGNED, Bools, Ints
from .model import Floats
from .search import STEP, TRIED, Search

EVEN = 1e-6
"""Relative excess over the mean below which nothing is evened out any more."""
DEALT = 1_000_000
"""Maximum product of free partitions and members for which topics are spread."""


def finish(search: Search, steps: int) -> None:
    """Reach the later goals, one after the other.

    Args:
        search: An assignment within its limits.
        steps: Maximum steps to even out.
    """
    if search.model.has_racks:
        nearer(search)
    even_out(search, steps)
    if len(search.model.indexed.topics) > 1:
        deal(search)


def nearer(search: Search) -> None:
    """Let members read less work from other racks: moves, and exchanges of two, within the limits."""
    model, limit = search.model, search.limit
    rows, of, rack = model.far.rows, model.far.of, model.far.rack
    owned = np.flatnonzero((search.owner != UNASSIGNED) & (model.of != UNASSIGNED) & ~model.pinned)
    free = owned[search.free(owned)]
    distant = free[rows[of[free], rack[search.owner[free]]] > 0]
    for at in distant[np.argsort(-search.work[distant], kind="stable")].tolist():
        if search.effort <= 0:
            return
        who = model.subscribers[int(model.of[at])]
        near = who[rows[of[at], rack[who]] == 0]
        search.effort -= STEP + len(who)
        if not len(near):
            continue
        work, a = int(search.work[at]), int(search.owner[at])
        room = limit[near] - search.loads[near]
        best = int(room.argmax())
        if room[best] >= work:
            search.move(at, int(near[best]))
            continue
        for b in near[np.argsort(-room, kind="stable")][:TRIED].tolist():
            back = _in_return(search, at, a, b)
            if back is not None:
                search.move(at, b)
                search.move(back, a)
                break


def _in_return(search: Search, at: int, a: int, b: int) -> int | None:
    """A free partition of `b` to exchange for `at` of `a`, so that less is read from afar; None if there is none."""
    theirs = search.items[b]
    theirs = theirs[search.free(theirs) & search.may(theirs, a)]
    search.effort -= STEP + len(theirs)
    if not len(theirs):
        return None
    far, work = search.model.far, search.work[theirs]
    more = work * (far.rows[far.of[theirs], far.rack[a]] - far.rows[far.of[theirs], far.rack[b]])
    gives = int(search.work[at])
    fits = (search.loads[b] + gives - work <= search.limit[b]) & (search.loads[a] - gives + work <= search.limit[a])
    gain = np.where(fits, gives - more, -1)
    best = int(gain.argmax())
    return int(theirs[best]) if gain[best] > 0 else None


def even_out(search: Search, steps: int) -> None:
    """Lower the sum of work² / capacity, from the top: moves, and exchanges of two, none farther from its rack."""
    cap = search.cap
    idle: Bools = cap == 0
    done = idle.copy()
    safe = np.where(idle, 1, cap)
    frees = [items[search.free(items)] for items in search.items]
    if not any(map(len, frees)):
        return
    enough = float(search.loads.sum()) / float(cap.sum()) * (1 + EVEN)
    for _ in range(steps):
        height = search.loads / safe
        a = int(np.where(done, -1.0, height).argmax())
        if done[a] or height[a] <= enough or search.effort <= 0:
            return
        if not _evened(search, a, height, frees):
            done[a] = True


def _evened(search: Search, a: int, height: Floats, frees: list[Ints]) -> bool:
    idle, loads, cap = search.cap == 0, search.loads, search.cap
    order = np.argsort(np.where(idle, np.inf, height), kind="stable")
    apart = max(len(order) // TRIED, 1)
    partners = [*order[:TRIED].tolist(), *order[TRIED::apart].tolist()]
    for b in partners:
        if b == a or idle[b] or height[b] >= height[a]:
            continue
        best = float(loads[a] * cap[b] - loads[b] * cap[a]) / float(cap[a] + cap[b])
        give, take = frees[a], frees[b]
        search.effort -= STEP + len(give) + len(take)
        give, take = give[_welcome(search, give, a, b)], take[_welcome(search, take, b, a)]
        found = _closest(search.work[give], search.work[take], best)
        # Worth a step: it gains at least a millionth of what a move of the ideal size would.
        if found is None or not best * 1e-6 < found[2] < 2 * best or _beyond(search, b, found[2]):
            continue
        search.move(int(give[found[0]]), b)
        if found[1] >= 0:
            search.move(int(take[found[1]]), a)
        for m in (a, b):
            frees[m] = search.items[m][search.free(search.items[m])]
        return True
    return False


def _welcome(search: Search, at: Ints, giver: int, receiver: int) -> Bools:
    """Which positions a member may have, without reading them from farther away than their owner does."""
    may = search.may(at, receiver)
    if search.model.has_racks:
        far = search.model.far
        may &= far.rows[far.of[at], far.rack[receiver]] <= far.rows[far.of[at], far.rack[giver]]
    return may


def _beyond(search: Search, member: int, more: float) -> bool:
    return bool(search.loads[member] + more > search.limit[member]) and bool(
        search.loads[member] <= search.limit[member]
    )


def deal(search: Search) -> None:
    """Spread topics: exchange free partitions of equal work, which any of their owners may have, between these.

    Partitions with equal work, subscribers and racks are dealt anew, topic by topic, to the members that have the
    fewest of the topic; among these to those that have most left to receive. No member's work changes.
    """
    model = search.model
    at = np.flatnonzero((search.owner != UNASSIGNED) & (model.of != UNASSIGNED) & ~model.pinned)
    at = at[search.free(at)]
    if not 1 < len(at) <= DEALT // len(search.cap):
        return
    topic = model.indexed.topic_of()
    key = np.stack([search.work[at], model.of[at], model.far.of[at]])
    order = np.lexsort((at, *key))
    starts = np.flatnonzero(np.any(np.diff(key[:, order], axis=1, prepend=-1), axis=0))
    has = np.zeros((len(model.indexed.topics), len(search.cap)), np.int64)
    given = np.flatnonzero(search.owner != UNASSIGNED)
    np.add.at(has, (topic[given], search.owner[given]), 1)
    for equal in np.split(at[order], starts[1:]):
        if len(equal) < 2 or (topic[equal] == topic[equal[0]]).all():
            continue
        _dealt(search, equal, topic, has)
    search.moves = int(((search.origin != UNASSIGNED) & (search.owner != search.origin)).sum())
    search._listed()


def _dealt(search: Search, equal: Ints, topic: Ints, has: Ints) -> None:
    left = np.bincount(search.owner[equal], minlength=len(search.cap))
    np.subtract.at(has, (topic[equal], search.owner[equal]), 1)
    for t in np.unique(topic[equal]).tolist():
        ids = equal[topic[equal] == t]
        for at in ids.tolist():
            able = np.flatnonzero(left > 0)
            m = int(able[np.lexsort((able, -left[able], has[t, able]))[0]])
            search.owner[at] = m
            has[t, m] += 1
            left[m] -= 1


def _closest(give: Ints, take: Ints, wish: float) -> tuple[int, int, float] | None:
    """Indices of an item to give and one to take (-1: none), whose difference is closest to a wish; that difference."""
    if not len(give):
        return None
    alone = int(np.abs(give - wish).argmin())
    found = alone, -1, float(give[alone])
    if len(take):
        light = np.sort(take)
        place = np.searchsorted(light, give - wish)
        for shift in (0, 1):
            at = np.clip(place - shift, 0, len(light) - 1)
            difference = give - light[at]
            i = int(np.abs(difference - wish).argmin())
            if abs(float(difference[i]) - wish) < abs(found[2] - wish):
                back = int(np.flatnonzero(take == light[at[i]])[0])
                found = i, back, float(difference[i])
    return found
