"""Goals after the fewest moves, with free partitions only: racks, evenness, spread of topics.

A partition is free if moving it costs nothing (`search`). Each step keeps what the goals before it have reached.
"""

from __future__ import annotations

import numpy as np

from ..group.indexed import UNASSIGNED, Bools, Ints
from .model import Floats
from .search import STEP, TRIED, Search

EVEN, EVEN_ENOUGH = 1e-6, 1e-4
"""Relative excess over the mean below which nothing is evened out any more; the second one above `LARGE` partitions."""
LARGE = 300_000
PAIRED = 40
"""Maximum free partitions of a member of which two are exchanged at once."""
DEALT = 1_000_000
"""Maximum product of free partitions and members for which topics are spread."""


def finish(search: Search, steps: int) -> None:
    """Reach the later goals, one after the other, in an assignment within its limits; at most `steps` to even out."""
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
    even = EVEN if len(search.owner) <= LARGE else EVEN_ENOUGH
    enough = float(search.loads.sum()) / float(cap.sum()) * (1 + even)
    for _ in range(steps):
        height = search.loads / safe
        a = int(np.where(done, -1.0, height).argmax())
        if done[a] or height[a] <= enough or search.effort <= 0:
            return
        if not _evened(search, a, height, frees):
            done[a] = True


def _evened(search: Search, a: int, height: Floats, frees: list[Ints]) -> bool:
    """Make one exchange between a member and a less loaded one: one partition for none or one, else two for two."""
    order = np.argsort(np.where(search.cap == 0, np.inf, height), kind="stable")
    apart = max(len(order) // TRIED, 1)
    partners = [*order[:TRIED].tolist(), *order[TRIED::apart].tolist()]
    partners = [b for b in partners if b != a and search.cap[b] and height[b] < height[a]]
    return any(_exchanged(search, a, b, frees, many) for many in (1, 2) for b in partners)


def _exchanged(search: Search, a: int, b: int, frees: list[Ints], many: int) -> bool:
    loads, cap = search.loads, search.cap
    best = float(loads[a] * cap[b] - loads[b] * cap[a]) / float(cap[a] + cap[b])
    give, take = frees[a], frees[b]
    if many == 2 and max(len(give), len(take)) > PAIRED:
        return False
    search.effort -= STEP + (len(give) + len(take)) ** many
    give, take = give[_welcome(search, give, a, b)], take[_welcome(search, take, b, a)]
    exchange = _closest(search.work[give], search.work[take], best) if many == 1 else None
    gives, takes = ([exchange[0]], [exchange[1]][: exchange[1] + 1]) if exchange else ([], [])
    more = exchange[2] if exchange else 0.0
    if many == 2 and len(give) > 1:
        gives, takes, more = _closest_of_two(search.work[give], search.work[take], best)
    # Worth a step: it gains at least a millionth of what a move of the ideal size would.
    if not gives or not best * 1e-6 < more < 2 * best or _beyond(search, b, more):
        return False
    for at in give[gives].tolist():
        search.move(at, b)
    for at in take[takes].tolist():
        search.move(at, a)
    for m in (a, b):
        frees[m] = search.items[m][search.free(search.items[m])]
    return True


def _closest_of_two(give: Ints, take: Ints, wish: float) -> tuple[list[int], list[int], float]:
    """Indices of one or two to give and none to two to take, whose difference is closest to a wish; that difference."""
    mine, theirs = _up_to_two(give), _up_to_two(take)
    gives = np.array([give[indices].sum() for indices in mine])
    takes = np.array([take[indices].sum() for indices in theirs] + [0])
    order = np.argsort(takes, kind="stable")
    place = np.searchsorted(takes[order], gives - wish)
    best: tuple[float, int, int] | None = None
    for shift in (0, 1):
        at = order[np.clip(place - shift, 0, len(order) - 1)]
        off = np.abs(gives - takes[at] - wish)
        i = int(off.argmin())
        if best is None or off[i] < best[0]:
            best = float(off[i]), i, int(at[i])
    assert best is not None
    _, i, j = best
    return mine[i], [*theirs, []][j], float(gives[i] - takes[j])


def _up_to_two(items: Ints) -> list[list[int]]:
    alone = [[i] for i in range(len(items))]
    return alone + [[i, j] for i in range(len(items)) for j in range(i)]


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
    exchange = alone, -1, float(give[alone])
    if len(take):
        light = np.sort(take)
        place = np.searchsorted(light, give - wish)
        for shift in (0, 1):
            at = np.clip(place - shift, 0, len(light) - 1)
            difference = give - light[at]
            i = int(np.abs(difference - wish).argmin())
            if abs(float(difference[i]) - wish) < abs(exchange[2] - wish):
                back = int(np.flatnonzero(take == light[at[i]])[0])
                exchange = i, back, float(difference[i])
    return exchange
