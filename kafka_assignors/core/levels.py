"""Which members have equal loads in every assignment of least sum of squares: the first step of `flow`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import maxflow
from .indexed import Bools, Ints


@dataclass(frozen=True)
class Block:
    """Classes and kinds among whose members loads are as equal as can be.

    Args:
        classes: int[], rows.
        kinds: int[], columns.
        low: The smaller load; all members have this or one more.
        extras: How many have one more.
    """

    classes: Ints
    kinds: Ints
    low: int
    extras: int


def levels(size: Ints, allowed: Bools, crew: Ints) -> list[Block]:
    """Split into blocks of equal load; see `flow`. Kinds that may have nothing are in no block.

    Args:
        size: int[G], partitions in each class.
        allowed: bool[G, K], which kinds may have the class.
        crew: int[K], how many members are of the kind.

    Cost: O(G * K) where loads can be equal and `_even` sees it; else at most two maximum flows on G + K nodes per depth
    of nested splits, at most min(G, K) deep.
    """
    blocks: list[Block] = []
    todo = [(np.arange(len(size)), np.flatnonzero(allowed.any(axis=0)))]
    low, high = np.zeros(len(crew), np.int64), np.zeros(len(crew), np.int64)
    while todo:
        open_: list[tuple[Ints, Ints]] = []
        for classes, kinds in todo:
            if not len(kinds):
                continue
            mean, extras = divmod(int(size[classes].sum()), int(crew[kinds].sum()))
            low[kinds], high[kinds] = mean * crew[kinds], (mean + (extras > 0)) * crew[kinds]
            inside = allowed[np.ix_(classes, kinds)]
            if inside.all() or _even(size[classes], inside, crew[kinds], low[kinds], high[kinds]):
                blocks.append(Block(classes, kinds, mean, extras))
            else:
                open_.append((classes, kinds))
        todo = []
        for split, room in ((_crowded, high), (_idle, low)):
            if not open_:
                break
            # One flow for all that is still to be split: they have no pair in common.
            units, undecided = _fill(size, allowed, room, open_), []
            for classes, kinds in open_:
                at = np.ix_(classes, kinds)
                found = split(units[at], allowed[at], size[classes], room[kinds])
                if found is None:
                    undecided.append((classes, kinds))
                else:
                    busy_classes, busy = found
                    todo += [(classes[busy_classes], kinds[busy]), (classes[~busy_classes], kinds[~busy])]
            open_ = undecided
        for classes, kinds in open_:
            mean, extras = divmod(int(size[classes].sum()), int(crew[kinds].sum()))
            blocks.append(Block(classes, kinds, mean, extras))
    return blocks


_TRIES = 16
"""Rounds of `_even`: where subscriptions overlap a lot two or three are enough."""


def _even(size: Ints, allowed: Bools, crew: Ints, low: Ints, high: Ints) -> bool:
    """Whether a division of the classes in fractions shows that no kind needs less than `low` or more than `high`.

    Each class goes to its kinds in proportion to weights, which grow or shrink until loads fit. Then whole units fit as
    well: a set of classes is never larger than all that its kinds have, and as these are whole numbers, loads may even
    be beyond the bounds by less than one in all. False says nothing.

    Source: Sinkhorn & Knopp 1967 (the weights); Hoffman 1960 (why fractions are enough).
    """
    able = allowed.astype(np.float64)
    mean = size.sum() / crew.sum() * crew
    weight = crew.astype(np.float64)
    last = np.inf
    for _ in range(_TRIES):
        load = weight * ((size / (able @ weight)) @ able)
        beyond = max(np.maximum(load - high, 0).sum(), np.maximum(low - load, 0).sum())
        if beyond < 0.5:
            return True
        if beyond > 0.7 * last:
            return False
        last = beyond
        weight *= mean / load
    return False


def _crowded(most: Ints, allowed: Bools, size: Ints, _room: Ints) -> tuple[Bools, Bools] | None:
    """Classes that need more room than the mean load, and the only kinds that may have them; None if there are none.

    This test and `_idle` are strict. Where a class could do with the mean, an unlucky choice of who has one more must
    not count as crowded: the split would forbid moves that cost no balance.

    Args:
        most: int[G, K], `_fill` with the mean load rounded up.
        allowed: bool[G, K], which kinds may have the class.
        size: int[G], partitions in each class.
    """
    crowded = most.sum(axis=1) < size
    if not crowded.any():
        return None
    while True:  # who has what a crowded class may also have is crowded as well
        busy = np.asarray(allowed[crowded].any(axis=0))
        more = crowded | (most[:, busy] > 0).any(axis=1)
        if (more == crowded).all():
            return crowded, busy
        crowded = more


def _idle(least: Ints, allowed: Bools, _size: Ints, room: Ints) -> tuple[Bools, Bools] | None:
    """All classes and kinds but those with less than the mean load; None if there are none with less.

    Args:
        least: int[G, K], `_fill` with the mean load rounded down.
        allowed: bool[G, K], which kinds may have the class.
        room: int[K], the room of each kind at that.
    """
    idle = least.sum(axis=0) < room
    if not idle.any():
        return None
    while True:  # who has something that an idle kind may have is idle as well
        spare = np.asarray(allowed[:, idle].any(axis=1))
        more = idle | (least[spare] > 0).any(axis=0)
        if (more == idle).all():
            return ~spare, ~idle
        idle = more


def _fill(size: Ints, allowed: Bools, room: Ints, parts: list[tuple[Ints, Ints]]) -> Ints:
    """As many units as can be given out within parts (classes and kinds), no kind above its room: int[G, K]."""
    groups, kinds = allowed.shape
    source, sink = groups + kinds, groups + kinds + 1
    tail, head = [], []
    for some, those in parts:
        group, kind = np.nonzero(allowed[np.ix_(some, those)])
        tail.append(some[group])
        head.append(groups + those[kind])
    classes, crews = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    first = np.concatenate(tail)
    tails, heads, units = maxflow.sent(
        np.concatenate([np.full(len(classes), source), first, groups + crews]),
        np.concatenate([classes, *head, np.full(len(crews), sink)]),
        np.concatenate([size[classes], size[first], room[crews]]),
        source,
        sink,
    )
    given = np.zeros((groups, kinds), np.int64)
    dealt = tails < groups
    given[tails[dealt], heads[dealt] - groups] = units[dealt]
    return given
