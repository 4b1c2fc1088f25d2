"""Choose the partitions for the units of a class: spread topics over members without changing what `flow` decided.

Among a topic's partitions, a member gets those with the highest affinity (`rendezvous`).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..group.dealing import dealt
from ..group.indexed import UNASSIGNED, Indexed, Ints, narrowed
from .flow import Units
from .rendezvous import MOST, Affinity, Floats, matched, shares


def chosen(indexed: Indexed, class_: Ints, before: Ints, had: tuple[Ints, Ints, Ints], units: Units) -> Ints:
    """Turn units, those that stay and those dealt, into partitions: int[P], the new owners.

    `class_` and `before` are int[P], class and owner of each position, or `UNASSIGNED`. `had` are the owned units as
    parallel, sorted arrays: classes, members and units.

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
    run = class_[loose] * len(indexed.topics) + topic[loose]  # exchanges within a run cost no spread
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


# More than six parameters: `chosen` builds these arrays once for all its steps.
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
    """Free the partitions that members give up: of the topics of which they have more than the receivers.

    Example: a, b and c each have 4 orders, 2 payments and 1 audit; d joins and 5 must move, 1 from a, 2 each from b and
    c. In turn, each gives a partition of the topic with the widest gap to d: a gives 1 orders (4 to 0), b 1 orders (4
    to 1) and 1 payments (2 to 0), c 1 orders (4 to 2) and 1 audit. In the end every member has 3 orders. Among its
    orders, each gives the one whose affinity to d exceeds the affinity to itself the most.
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
    # Sort by cell, topic and gain; most cells have one partition per topic.
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

    # In a class of one topic there is nothing to weigh: each member gives its last partitions.
    mixed = np.isin(classes[gives], _of_several_topics(class_, topic))
    last = end[cell] - np.arange(len(cell)) <= leaving[cell]
    owner[positions[last & ~mixed[cell]]] = UNASSIGNED
    if not mixed.any():
        return
    # Number of the topic's partitions that the member has left if this one goes next, and number given already.
    before = np.arange(len(run)) - first[run]
    after = length[run] - before - 1
    gap = before * heads[classes[gives]][cell] - after + gain / 4  # times the receivers, to avoid fractions
    begin = end - np.bincount(cell, minlength=len(gives))
    for g in np.unique(classes[gives][mixed]).tolist():
        low, high = np.searchsorted(dealt_class, (g, g + 1)).tolist()
        takers = np.zeros(len(indexed.members) + 1, bool)
        takers[dealt_member[low:high]] = takers[UNASSIGNED] = True
        # Partitions of each topic that the receivers have or are about to get.
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
    """Positions that members hold per class, and each one's index in `cells` (ascending class * M + member)."""
    members = len(indexed.members)
    giver = np.zeros(members + 1, bool)  # the last entry is for free positions
    giver[cells % members] = True
    positions = np.flatnonzero(giver[owner])
    key = class_[positions] * members + owner[positions]
    at = np.minimum(np.searchsorted(cells, key), len(cells) - 1)
    mine = cells[at] == key
    return positions[mine], at[mine]


def _of_several_topics(class_: Ints, topic: Ints) -> Ints:
    """Classes with partitions of more than one topic."""
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
    """How much each position's best affinity with a receiver of its class exceeds the affinity with its owner."""
    begin = np.searchsorted(dealt_class, class_)
    takers = np.searchsorted(dealt_class, class_, side="right") - begin
    gain = np.zeros(len(positions))
    asked = np.flatnonzero(takers)
    gain[asked] = affinity.best(positions[asked], dealt_member, begin[asked], takers[asked])
    gain[asked] -= affinity.of(positions[asked], owner[asked])
    return gain


# More than six parameters: `chosen` builds these arrays once for all its steps.
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
    """Deal the loose partitions of a class to members with room, topic by topic; changes `owner`, int[P].

    Each partition goes to the member with room that has the fewest of the topic, round robin across topics. If topics
    are new to all members, affinity decides which members get one more.

    `loose` is int[], the free partitions of all classes; `bounds` the start of each topic of this class in it, then the
    end; `whole` says whether these are all partitions of these topics. `members` receive `units` each, and are
    ascending.
    """
    if len(members) == 1:
        owner[loose[bounds[0] : bounds[-1]]] = members[0]
        return
    if whole and units.max() - units.min() <= 1:
        # No member has a partition of these topics.
        if len(bounds) > 2:
            given = shares(affinity, loose[bounds[:-1]], np.diff(bounds), members, units)
            if given is not None:
                owner[loose[bounds[0] : bounds[-1]]] = np.repeat(np.tile(members, len(given)), given.ravel())
                return
        slot = np.repeat(members, units)
        lap = np.arange(len(slot)) - np.repeat(np.cumsum(units) - units, units)
        owner[loose[bounds[0] : bounds[-1]]] = slot[np.lexsort((slot, lap))]
        return
    room = units.tolist()
    turn = 0
    for begin, end in pairwise(bounds):
        t = np.searchsorted(indexed.first, loose[begin], side="right")
        having = owner[indexed.first[t - 1] : indexed.first[t]]
        have = np.bincount(having[having != UNASSIGNED], minlength=members[-1] + 1)[members].tolist()
        receivers = dealt(end - begin, have, room, turn)
        turn = receivers[-1] + 1
        owner[loose[begin:end]] = members[receivers]
