"""Which partitions make up the units of a class: topics spread over members, at no cost to what `flow` decided."""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from itertools import pairwise

import numpy as np

from .flow import Units
from .indexed import FREE, Indexed, Ints


def chosen(indexed: Indexed, group: Ints, before: Ints, had: tuple[Ints, Ints, Ints], units: Units) -> Ints:
    """Name the partitions.

    Args:
        indexed: The group as integers.
        group: int[P], class of each position; `FREE` where nobody subscribes.
        before: int[P], member number of each position's owner, or `FREE`.
        had: Classes, members and units, parallel: who owned how many, sorted.
        units: How many stay, of these, and how many are dealt to whom.

    Returns:
        int[P], the new owners.

    Cost: O(P log P). Deterministic.
    """
    topic = indexed.topic_of()
    owner: Ints = before.copy()
    classes, members, count = had
    dealt = np.argsort(units.dealt[0], kind="stable")
    dealt_class, dealt_member, dealt_units = units.dealt[0][dealt], units.dealt[1][dealt], units.dealt[2][dealt]
    gives = units.kept < count
    if gives.any():
        key = np.where(before == FREE, -1, group * len(indexed.members) + before)
        giving = classes[gives] * len(indexed.members) + members[gives]
        owner[_given_up(key, giving, units.kept[gives], topic)] = FREE

    loose = np.flatnonzero((owner == FREE) & (group != FREE))
    loose = loose[np.argsort(group[loose], kind="stable")]
    bounds = [*np.flatnonzero(np.diff(group[loose], prepend=-1)).tolist(), len(loose)]
    for begin, end in pairwise(bounds):
        g = group[loose[begin]]
        low, high = np.searchsorted(dealt_class, (g, g + 1)).tolist()
        _deal(loose[begin:end], dealt_member[low:high], dealt_units[low:high], owner, topic, indexed.first)
    return owner


def _given_up(key: Ints, giving: Ints, kept: Ints, topic: Ints) -> Ints:
    """Positions that their owners give up: who gives some up keeps as many of each topic as it can.

    Args:
        key: int[P], class and owner of each position as one number.
        giving: The keys that give some up, sorted.
        kept: How many each of those keeps.
        topic: int[P].
    """
    place = np.minimum(np.searchsorted(giving, key), len(giving) - 1)
    mine = np.flatnonzero(giving[place] == key)
    cell = place[mine]
    by_topic = np.lexsort((mine, topic[mine], cell))  # of one cell and topic by position: how many are before
    run = np.flatnonzero(np.diff(cell[by_topic] * (topic[-1] + 1) + topic[mine][by_topic], prepend=-1))
    before = np.arange(len(mine)) - np.repeat(run, np.diff(np.append(run, len(mine))))
    mine, cell = mine[by_topic], cell[by_topic]
    order = np.lexsort((mine, before, cell))
    rank = np.arange(len(mine)) - np.searchsorted(cell, cell)
    return mine[order][rank >= kept[cell]]


def _deal(loose: Ints, members: Ints, units: Ints, owner: Ints, topic: Ints, first: Ints) -> None:
    """Give the loose partitions of a class to members with that much room, topic by topic.

    Each goes to the member with room that has the fewest of the topic, in a circle that goes on from topic to topic.
    """
    if len(members) == 1:
        owner[loose] = members[0]
        return
    start = np.flatnonzero(np.diff(topic[loose], prepend=-1))
    bounds = [*start.tolist(), len(loose)]
    whole = np.diff(bounds) == np.diff(first)[topic[loose[start]]]
    if whole.all() and units.max() - units.min() <= 1:
        # Nobody has anything of these topics: the circle is all there is to it.
        slot = np.repeat(members, units)
        lap = np.arange(len(slot)) - np.repeat(np.cumsum(units) - units, units)
        owner[loose] = slot[np.lexsort((slot, lap))]
        return
    room = units.tolist()
    turn = 0
    for begin, end in pairwise(bounds):
        t = topic[loose[begin]]
        having = owner[first[t] : first[t + 1]]
        have = np.bincount(having[having != FREE], minlength=int(members[-1]) + 1)[members].tolist()
        queue = [(have[i], (i - turn) % len(room), i) for i, left in enumerate(room) if left]
        heapify(queue)
        for position in loose[begin:end].tolist():
            count, place, i = queue[0]
            owner[position] = members[i]
            room[i] -= 1
            turn = i + 1
            if room[i]:
                heapreplace(queue, (count + 1, place, i))
            else:
                heappop(queue)
