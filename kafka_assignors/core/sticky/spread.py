"""Which partitions make up the units of a class: topics spread over members, at no cost to what `flow` decided.

Of a topic's partitions, those go to a member that it has an affinity for (`rendezvous`).
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from itertools import pairwise

import numpy as np

from ..group.indexed import UNASSIGNED, Indexed, Ints, narrowed
from .flow import Units
from .rendezvous import MOST, Affinity, Floats, matched, shares


def chosen(indexed: Indexed, class_: Ints, before: Ints, had: tuple[Ints, Ints, Ints], units: Units) -> Ints:
    """Name the partitions.

    Args:
        indexed: The group as integers.
        class_: int[P], class of each position; `UNASSIGNED` where nobody subscribes.
        before: int[P], member number of each position's owner, or `UNASSIGNED`.
        had: Classes, members and units, parallel: who owned how many, sorted.
        units: How many stay, of these, and how many are dealt to whom.

    Returns:
        int[P], the new owners.

    Cost: O(P log P). Deterministic.
    """
    topic = indexed.topic_of()
    affinity = Affinity(indexed)
    owner: Ints = before.copy()
    dealt = np.argsort(units.dealt[0], kind="stable")
    dealt_class, dealt_member, dealt_units = units.dealt[0][dealt], units.dealt[1][dealt], units.dealt[2][dealt]
    if (units.kept < had[2]).any():
        _give_up(indexed, affinity, class_, topic, had, units, dealt_class, dealt_member, owner)

    loose = np.flatnonzero((owner == UNASSIGNED) & (class_ != UNASSIGNED))
    loose = loose[np.argsort(class_[loose], kind="stable")]
    run = class_[loose] * len(indexed.topics) + topic[loose]  # what it costs no spread to exchange
    begin = np.flatnonzero(np.diff(run, prepend=-1))
    whole = np.diff(begin, append=len(loose)) == np.diff(indexed.first)[topic[loose[begin]]]
    of = class_[loose[begin]]
    head = np.flatnonzero(np.diff(of, prepend=-1))
    low, high = np.searchsorted(dealt_class, of[head]), np.searchsorted(dealt_class, of[head], side="right")
    new = np.logical_and.reduceat(whole, head) if len(head) else whole
    begin = np.append(begin, len(loose))
    parts = zip(
        head.tolist(), np.append(head, len(of))[1:].tolist(), new.tolist(), low.tolist(), high.tolist(), strict=True
    )
    for start, stop, is_new, few, many in parts:
        bounds = begin[start : stop + 1]
        _deal(loose, bounds.tolist(), is_new, dealt_member[few:many], dealt_units[few:many], affinity, owner, indexed)
    owner[loose] = matched(affinity, loose, run, owner[loose])
    return owner


# More than six parameters: `chosen` makes these arrays once, and its steps share them.
def _give_up(
    indexed: Indexed,
    affinity: Affinity,
    class_: Ints,
    topic: Ints,
    had: tuple[Ints, Ints, Ints],
    units: Units,
    dealt_class: Ints,
    dealt_member: Ints,
    owner: Ints,
) -> None:
    """Set free what members give up: of the topics that they have more of than those who will get it.

    Worked example: a, b and c have 4 orders, 2 payments and 1 audit each; d joins and 5 must move, 1 of a, 2 of b and
    c. One after the other they give where the gap to d is widest: a 1 orders (4 to 0), b 1 orders (4 to 1) and 1
    payments (2 to 0), c 1 orders (4 to 2) and 1 audit. In the end nobody has more than 3 orders or less. Of its orders
    each gives the one that goes better with d than with itself.
    """
    classes, members, count = had
    gives = np.flatnonzero(units.kept < count)
    leaving = (count - units.kept)[gives]
    positions, cell = _held_by(classes[gives] * len(indexed.members) + members[gives], indexed, class_, owner)
    giving = np.unique(classes[gives])
    heads = np.bincount(dealt_class, minlength=int(giving[-1]) + 1)
    pairs = int((np.bincount(classes, count, len(heads))[giving] * heads[giving]).sum())
    gain = np.zeros(len(positions))
    if pairs <= MOST:
        gain = _gain(affinity, positions, class_[positions], owner[positions], dealt_class, dealt_member)
    # By cell, topic and gain; of cell and topic most often there is one.
    order = np.argsort(narrowed(cell, len(gives)), kind="stable")
    positions, cell, gain = positions[order], cell[order], gain[order]
    of = topic[positions]
    begins = np.ones(len(of), bool)
    begins[1:] = (of[1:] != of[:-1]) | (cell[1:] != cell[:-1])
    run = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    length = np.diff(first, append=len(run))
    several = np.flatnonzero((length > 1)[run])
    if len(several) and gain.any():
        better = several[np.lexsort((gain[several], run[several]))]
        positions[several], gain[several] = positions[better], gain[better]
    end = np.searchsorted(cell, np.arange(len(gives)), side="right")

    # Where a class is of one topic, nothing is to be weighed: each gives its last ones.
    mixed = np.isin(classes[gives], _of_several_topics(class_, topic))
    last = end[cell] - np.arange(len(cell)) <= leaving[cell]
    owner[positions[last & ~mixed[cell]]] = UNASSIGNED
    if not mixed.any():
        return
    # How many of its topic a member has besides, if this one goes next; and how many went already.
    before = np.arange(len(run)) - first[run]
    after = length[run] - before - 1
    gap = before * heads[classes[gives]][cell] - after + gain / 4  # times the takers: no fractions but for the gain
    begin = end - np.bincount(cell, minlength=len(gives))
    for g in np.unique(classes[gives][mixed]).tolist():
        low, high = np.searchsorted(dealt_class, (g, g + 1)).tolist()
        takers = np.zeros(len(indexed.members) + 1, bool)
        takers[dealt_member[low:high]] = takers[UNASSIGNED] = True
        # What those who take have of each topic, and what is on its way to them.
        theirs = np.bincount(topic[takers[owner] & (class_ == g)], minlength=len(indexed.topics))
        low, high = np.searchsorted(classes[gives], (g, g + 1)).tolist()
        freed: list[int] = []
        ranges = zip(begin[low:high].tolist(), end[low:high].tolist(), leaving[low:high].tolist(), strict=True)
        for at, till, units_ in ranges:
            wide = gap[at:till] - theirs.take(of[at:till])
            most = [int(wide.argmax())] if units_ == 1 else np.argsort(-wide, kind="stable")[:units_].tolist()
            for gone in most:
                freed.append(at + gone)
                theirs[of[at + gone]] += 1
        owner[positions[freed]] = UNASSIGNED


def _held_by(cells: Ints, indexed: Indexed, class_: Ints, owner: Ints) -> tuple[Ints, Ints]:
    """The positions that members have of classes, and each one's place in `cells`: ascending class * M + member."""
    members = len(indexed.members)
    giver = np.zeros(members + 1, bool)  # the last one for what is free
    giver[cells % members] = True
    positions = np.flatnonzero(giver[owner])
    key = class_[positions] * members + owner[positions]
    at = np.minimum(np.searchsorted(cells, key), len(cells) - 1)
    mine = cells[at] == key
    return positions[mine], at[mine]


def _of_several_topics(class_: Ints, topic: Ints) -> Ints:
    """The classes that have partitions of more than one topic."""
    starts = np.flatnonzero(
        np.diff(class_, prepend=UNASSIGNED - 1).astype(bool) | np.diff(topic, prepend=-1).astype(bool)
    )
    topics = int(topic.max(initial=0)) + 1
    pairs = np.unique(class_[starts] * topics + topic[starts]) // topics
    several: Ints = pairs[1:][pairs[1:] == pairs[:-1]]
    return several


def _gain(
    affinity: Affinity, positions: Ints, class_: Ints, owner: Ints, dealt_class: Ints, dealt_member: Ints
) -> Floats:
    """How much better each position goes with one of those who get new units of its class than with its owner."""
    begin = np.searchsorted(dealt_class, class_)
    takers = np.searchsorted(dealt_class, class_, side="right") - begin
    gain = np.zeros(len(positions))
    asked = np.flatnonzero(takers)
    gain[asked] = affinity.best(positions[asked], dealt_member, begin[asked], takers[asked])
    gain[asked] -= affinity.of(positions[asked], owner[asked])
    return gain


# More than six parameters: `chosen` makes these arrays once, and its steps share them.
def _deal(
    loose: Ints,
    bounds: list[int],
    whole: bool,
    members: Ints,
    units: Ints,
    affinity: Affinity,
    owner: Ints,
    indexed: Indexed,
) -> None:
    """Give the loose partitions of a class to members with that much room, topic by topic.

    Each goes to the member with room that has the fewest of the topic, in a circle that goes on from topic to topic;
    where topics are new to all, names decide who gets more of which.

    Args:
        loose: int[], what is to be given out, of all classes.
        bounds: Where in it each topic of this class begins, and the end.
        whole: Whether that is all there is of these topics.
        members: Who gets some, ascending.
        units: How many.
        affinity: Of the group.
        owner: int[P], changed in place.
        indexed: The group as integers.
    """
    if len(members) == 1:
        owner[loose[bounds[0] : bounds[-1]]] = members[0]
        return
    if whole and units.max() - units.min() <= 1:
        # Nobody has anything of these topics.
        if len(bounds) > 2:
            given = shares(affinity, loose[bounds[:-1]], np.diff(bounds), members, units)
            if given is not None:
                owner[loose[bounds[0] : bounds[-1]]] = np.repeat(np.tile(members, len(given)), given.ravel())
                return
        slot = np.repeat(members, units)
        lap = np.arange(len(slot)) - np.repeat(np.cumsum(units) - units, units)
        owner[loose[bounds[0] : bounds[-1]]] = slot[np.lexsort((slot, lap))]
        return
    names, room = members.tolist(), units.tolist()
    turn = 0
    for begin, end in pairwise(bounds):
        positions = loose[begin:end].tolist()
        t = np.searchsorted(indexed.first, positions[0], side="right")
        having = owner[indexed.first[t - 1] : indexed.first[t]]
        have = np.bincount(having[having != UNASSIGNED], minlength=names[-1] + 1)[members].tolist()
        queue = [(have[i], (i - turn) % len(room), i) for i, left in enumerate(room) if left]
        heapify(queue)
        for position in positions:
            count, place, i = queue[0]
            owner[position] = names[i]
            room[i] -= 1
            turn = i + 1
            if room[i]:
                heapreplace(queue, (count + 1, place, i))
            else:
                heappop(queue)
