"""Prices that prove an assignment optimal. `certificate` defines them; docs/optimum.md derives them."""

from __future__ import annotations

import numpy as np

from ...core.group.claims import Claims
from ...core.group.indexed import UNASSIGNED, Bools, Ints
from ...core.sticky.flow import Classes
from ...core.sticky.objective import Objective
from ...core.sticky.racks import position_costs
from ...core.sticky.sticky import classify
from . import quota_prices
from .certificate import Certificate

_FAR = 1 << 61


def certify(claims: Claims, owner: Ints, objective: Objective) -> Certificate | None:
    """Prices of an assignment: shortest distances in its residual graph; None if a better assignment exists.

    The price of a member with load L lies between 2L - 1, which its last partition added to the sum of squares, and
    2L + 1, which another partition would add. A class has a price, too: members that may get or keep a partition of
    the class have at least this price, and members that have one have at most this price. Prices start at their maximum
    and fall until these conditions hold. If they converge, they prove the optimum; if the assignment is not optimal, a
    price falls below its minimum.

    `owner` is int[P], the number of each position's owner; `UNASSIGNED` only for topics without subscribers.

    Cost: O(P), then O(classes * racks + sets of readers * kinds + pairs of a class and a member that has or had some of
    it) per round. At most as many rounds as classes and members, in practice a few dozen. The graph has no partitions.
    """
    indexed = claims.indexed
    members = len(indexed.members)
    if objective.spread_first:
        return quota_prices.certify(claims, owner, objective)
    classes = classify(indexed, position_costs(indexed, objective))
    class_, member, stays, dealt, leaves = _cells(claims, owner, classes.of)
    load = np.bincount(owner[owner != UNASSIGNED], minlength=members)

    nodes = 4 * (len(classes.size) + 2 * members + 2)
    scale = quota_prices.Scale.of(nodes, int(classes.cost.max(initial=0)) or 1, objective.racks_first)
    square, move = scale.square, scale.move
    # Python integers if 64 bits are too few, for example for a fine-grained cost matrix in a large group.
    exact = np.int64 if square * (2 * int(load.max(initial=0)) + 3) < _FAR // 4 else object
    price = (2 * load + 1).astype(exact) * square
    least = np.where(load > 0, (2 * load - 1).astype(exact) * square, -_FAR if exact is np.int64 else -(square**2))
    beyond = classes.cost.astype(exact) * scale.rack
    here = beyond[class_, classes.rack[classes.kind[member]]]
    readers, kinds = np.nonzero(classes.may())
    while True:
        asked = _asked(price, classes, (readers, kinds), beyond)
        np.minimum.at(asked, class_[leaves], (price[member] + here - move)[leaves])
        fallen = price.copy()
        np.minimum.at(fallen, member[dealt], (asked[class_] - here)[dealt])
        np.minimum.at(fallen, member[stays], (asked[class_] - here + move)[stays])
        if (fallen < least).any():
            return None
        if (fallen == price).all():
            break
        price = fallen
    parts = [scale.parts(int(member_price)) for member_price in price.tolist()]
    return Certificate(objective, dict(zip((m.member_id for m in indexed.members), parts, strict=True)))


def _cells(claims: Claims, owner: Ints, of: Ints) -> tuple[Ints, Ints, Bools, Bools, Bools]:
    """Pairs of class and member: class, member, and whether units of the class stay, are new, or have left there."""
    members = max(len(claims.indexed.members), 1)
    given, had = owner != UNASSIGNED, (claims.holder != UNASSIGNED) & (of != UNASSIGNED)
    kept = given & (owner == claims.holder)
    code_sets = []
    for at, who in ((kept, owner), (given & ~kept, owner), (had & ~kept, claims.holder)):
        code_sets.append(np.unique(of[at] * members + who[at]))
    cells = np.unique(np.concatenate(code_sets))
    stays, dealt, leaves = (np.isin(cells, codes, assume_unique=True) for codes in code_sets)
    return cells // members, cells % members, stays, dealt, leaves


def _asked(price: Ints, classes: Classes, ways: tuple[Ints, Ints], beyond: Ints) -> Ints:
    """int[G]: the lowest price of a partition of each class over all members; `ways` are readers and their kinds."""
    most = price.max(initial=0)
    lowest = np.full(len(classes.rack), most, price.dtype)
    np.minimum.at(lowest, classes.kind, price)
    readers, kind = ways
    near = np.full((len(classes.allowed), beyond.shape[1]), most + beyond.max(initial=0), price.dtype)
    np.minimum.at(near, (readers, classes.rack[kind]), lowest[kind])
    asked: Ints = (near[classes.readers] + beyond).min(axis=1)
    return asked
