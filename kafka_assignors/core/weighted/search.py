"""Find an assignment within the limits with few moves: keep all, shed, chain, exchange.

A partition is *free* if moving it costs nothing: it had no owner, or it moves anyway. All choices depend on the numbers
alone, and the work is bounded by step counts, never by a clock.
"""

from __future__ import annotations

import numpy as np

from ..group.indexed import UNASSIGNED, Bools, Ints, narrowed
from .bounds import by_member
from .model import NO_CAP, Floats, Model

ONE_BY_ONE, LOOKED_AT = 20_000, 1_000_000
"""Unassigned partitions placed one by one, and members looked at for them; other partitions are placed in layers."""
EFFORT = 50_000_000
"""Work of one search: partitions and members looked at, plus `STEP` per step. About a second, but the same everywhere:
a clock would give other answers on another machine, and a replay could not repeat them."""
STEP, SMALL_STEP = 5_000, 500
VISITED = 256
"""Maximum members that one search for a chain visits."""
PARTNERS, HEAVIEST = 24, 6
"""Number of members, and of heaviest partitions per member, that may displace each other."""
TRIED = 12
"""Maximum partners examined per attempt to even out."""


class Search:
    """An assignment under improvement.

    Args:
        limit: int[M], the maximum work of each member.
        style: Which partition a member sheds, and to whom. ``even``: the one that brings both closest to the mean;
            ``light``: the lightest that suffices, to the member with the most room; ``tight``: to the member that it
            fills best; ``bold``: as ``light``, but heavy ones may displace others if that is cheaper.

    Attributes:
        owner: int[P]; `UNASSIGNED` if not placed yet.
        items: Per member, its positions that may move, heaviest first.
        moves: Partitions that left a holder that might have kept them.
        effort: What is left of `EFFORT`; at 0 the search stops, and the assignment is what it is then.
    """

    def __init__(self, model: Model, limit: Ints, style: str = "even", effort: int = EFFORT) -> None:
        self.model, self.limit, self.style = model, limit, style
        self.work, self.of, self.cap = model.work, model.of, model.capacity
        self.origin = model.kept
        self.owner = model.kept.copy()
        self.loads = model.loads(self.owner)
        self._listed()
        self.pool = np.flatnonzero((self.owner == UNASSIGNED) & (self.of != UNASSIGNED))
        self.moves = 0
        self.effort = effort

    # -- small steps

    def ratio(self) -> float:
        """The greatest work / capacity."""
        used = self.cap > 0
        return float((self.loads[used] / self.cap[used]).max()) if used.any() else 0.0

    def cost(self) -> int:
        """Cost of the moves."""
        if not self.model.cost_unit:
            return self.moves
        return int(self.model.cost[(self.origin != UNASSIGNED) & (self.owner != self.origin)].sum())

    def exceeding(self) -> int:
        """Work above the hard caps."""
        return int(np.maximum(self.loads - self.model.most, 0).sum())

    def free(self, at: Ints) -> Bools:
        """Which positions cost nothing to place elsewhere."""
        mask: Bools = self.owner[at] != self.origin[at]
        return mask

    def move(self, at: int, to: int) -> None:
        """Assign a position to a member."""
        was = int(self.owner[at])
        if was != UNASSIGNED:
            self.items[was] = self.items[was][self.items[was] != at]
            self.loads[was] -= self.work[at]
        mine = self.items[to]
        place = int(np.searchsorted(-self.work[mine], -self.work[at], side="right"))
        self.items[to] = np.insert(mine, place, at)
        self.loads[to] += self.work[at]
        if (home := int(self.origin[at])) != UNASSIGNED:
            self.moves += int(to != home) - int(was != home)
        self.owner[at] = to

    def may(self, at: Ints, member: int) -> Bools:
        """Which positions a member may have."""
        mask: Bools = self.model.allowed[self.of[at], member]
        return mask

    # -- unassigned partitions

    def place(self) -> None:
        """Assign unassigned partitions, heaviest first, each to the member that stays lowest with it.

        Many partitions are placed in layers, class by class, starting with the classes with the fewest subscribers. The
        lightest ones are placed last and one by one, which evens out the layers.
        """
        members = self.model.subscribers
        unplaced = np.zeros(len(self.owner), bool)
        unplaced[self.pool] = True
        pool = self.model.heaviest_first[unplaced[self.model.heaviest_first]]
        self.pool = pool[:0]
        rest = pool
        seen = np.cumsum(np.array([len(who) for who in members])[self.of[pool[::-1]]])
        few = min(ONE_BY_ONE, max(int(np.searchsorted(seen, LOOKED_AT)), 1))
        if len(pool) > few:
            bulk, rest = pool[:-few], pool[-few:]
            bulk = bulk[np.argsort(narrowed(self.of[bulk], len(members)), kind="stable")]
            starts = np.searchsorted(self.of[bulk], np.arange(len(members) + 1)).tolist()
            for g in sorted(range(len(members)), key=lambda g: (len(members[g]), g)):
                self._layers(bulk[starts[g] : starts[g + 1]], members[g])
        loads, cap = self.loads, self.cap
        height = loads / np.where(cap > 0, cap, 1)
        picky = self.model.has_racks or bool((self.model.most < NO_CAP).any())
        for at, work, g in zip(rest.tolist(), self.work[rest].tolist(), self.of[rest].tolist(), strict=True):
            who = self._preferred(at, work, members[g]) if picky else members[g]
            to = int(who[(height[who] + work / cap[who]).argmin()])
            loads[to] += work
            height[to] = loads[to] / cap[to]
            self.owner[at] = to
        self.moves = int(((self.origin != UNASSIGNED) & (self.owner != self.origin)).sum())
        self._listed()

    def _preferred(self, at: int, work: int, who: Ints) -> Ints:
        """Of some members those within their limits with a partition, and of these those on its racks."""
        far = self.model.far
        room = self.limit[who] - self.loads[who] >= work
        who = who[room] if room.any() else who
        near = far.rows[far.of[at], far.rack[who]] == 0
        return who[near] if near.any() and room.any() else who

    def _listed(self) -> None:
        order, starts = by_member(self.model, self.owner)
        self.items: list[Ints] = [order[starts[m] : starts[m + 1]] for m in range(len(self.cap))]
        if self.model.pinned.any():
            self.items = [items[~self.model.pinned[items]] for items in self.items]

    def _layers(self, items: Ints, members: Ints) -> None:
        """Longest-first in bulk: the next few hundred partitions fill the lowest slots of their mean work."""
        cap = self.cap[members]
        step = max(4 * len(members), 64)
        for begin in range(0, len(items), step):
            chunk = items[begin : begin + step]
            work = self.work[chunk]
            height = self.loads[members] / cap
            rise = max(float(work.mean()), 1.0) / cap  # height that one more partition adds to each member
            level = _level(height, rise, len(chunk))
            count = np.maximum(np.ceil((level - height) / rise), 0).astype(np.int64) + 1
            slot = np.repeat(np.arange(len(members)), count)
            step_of = np.arange(len(slot)) - np.repeat(np.cumsum(count) - count, count)
            top = height[slot] + (step_of + 1) * rise[slot]
            order = np.argsort(top, kind="stable")[: len(chunk)]
            to = members[slot[order]]
            self.owner[chunk] = to
            np.add.at(self.loads, to, work)

    # -- shed

    def drop(self, *, everything: bool = False) -> None:
        """Take from all members above their limits, at once, as few partitions as possible, and of these the lightest.

        If moves have costs, the cheapest per work. They join the unassigned ones. Much cheaper than `shed` if many must
        move. With `everything`, all members give all that may move.
        """
        dropped = [self.pool]
        if everything:
            self.pool = np.flatnonzero((self.of != UNASSIGNED) & ~(self.model.pinned & (self.origin != UNASSIGNED)))
            self.owner[self.pool] = UNASSIGNED
            self.loads = self.model.loads(self.owner)
            return
        for m in np.flatnonzero((self.loads > self.limit) & (self.cap > 0)).tolist():
            items = self.items[m]
            excess = int(self.loads[m] - self.limit[m])
            if self.model.cost_unit:
                dropped.append(self._cheapest(items, excess))
                self.loads[m] -= self.work[dropped[-1]].sum()
                continue
            total = np.concatenate([[0], np.cumsum(self.work[items])])
            count = min(int(np.searchsorted(total, excess)), len(items))
            runs = total[count:] - total[: len(total) - count]  # of `count` neighbours each, heaviest run first
            first = max(int(np.searchsorted(-runs, -excess, side="right")) - 1, 0)
            dropped.append(items[first : first + count])
            self.loads[m] -= runs[first]
        self.pool = np.concatenate(dropped)
        self.owner[self.pool] = UNASSIGNED

    def shed(self, steps: int) -> bool:
        """Bring members within their limits with few moves, in at most `steps` steps; return whether all are."""
        stuck = np.zeros(len(self.cap), bool)
        for _ in range(steps):
            if self.effort <= 0:
                break
            over = np.where(
                stuck | (self.cap == 0), -1.0, (self.loads - self.limit) / np.where(self.cap > 0, self.cap, 1)
            )
            m = int(over.argmax())
            if over[m] <= 0:
                break
            if self.style == "bold" and self._swap(m):
                pass
            elif not (
                any(self._direct(m, more) for more in (0, 1)) or self._exchange(m) or self._rest(m) or self._chain(m)
            ):
                stuck[m] = True
                continue
        return bool((self.loads <= self.limit).all())

    def _cheapest(self, items: Ints, excess: int) -> Ints:
        """Positions that cover an excess at little cost: the cheapest per work, without needless ones."""
        order = items[np.argsort(self.model.cost[items] / self.work[items], kind="stable")]
        count = min(int(np.searchsorted(np.cumsum(self.work[order]), excess)) + 1, len(order))
        chosen = order[:count]
        spare = int(self.work[chosen].sum()) - excess
        keep = np.ones(count, bool)
        for i in np.argsort(-self.model.cost[chosen], kind="stable").tolist():
            if self.work[chosen[i]] <= spare:
                keep[i], spare = False, spare - int(self.work[chosen[i]])
        positions: Ints = chosen[keep]
        return positions

    def _receivers(self, items: Ints, m: int) -> tuple[Ints, Ints]:
        """The best receiver of each item except `m`, and its room; below the item's work if none fits."""
        room = self.limit - self.loads
        room[m] = -1
        to, most = np.zeros(len(items), np.int64), np.zeros(len(items), np.int64)
        classes = self.of[items]
        different = np.unique(classes).tolist()
        self.effort -= STEP + len(items) + SMALL_STEP * len(different)
        for g in different:
            who = self.model.subscribers[g]
            here = classes == g if len(self.model.subscribers) > 1 else slice(None)
            if self.style == "tight":
                order = who[np.argsort(room[who], kind="stable")]
                place = np.minimum(np.searchsorted(room[order], self.work[items[here]]), len(order) - 1)
                to[here] = order[place]
            else:
                to[here] = who[room[who].argmax()]
            most[here] = room[to[here]]
        return to, most

    def _direct(self, m: int, more: int) -> bool:
        """Move one item so that the fewest moves, or `more` above that, remain."""
        items = self.items[m]
        if not len(items):
            return False
        work = self.work[items]
        excess = int(self.loads[m] - self.limit[m])
        to, room = self._receivers(items, m)
        fits = work <= room
        free = self.free(items)
        need = np.zeros(len(items), np.int64)
        count = 1
        if (fits & free).any():
            fits &= free
        else:
            total = np.concatenate([[0], np.cumsum(work)])
            count = min(int(np.searchsorted(total, excess)) + more, len(items))  # what rests is not among them
            if more == 0:  # the rest of the minimal set is the heaviest ones
                among = np.arange(len(items)) < count - 1
                need = excess - np.where(among, total[count] - work, total[count - 1])
            fits &= work >= need
        if not fits.any():
            return False
        if self.style == "even":
            mean = float(self.loads.sum()) / float(self.cap.sum())
            wish = np.minimum(self.loads[m] - mean * self.cap[m], mean * self.cap[to] - self.loads[to])
            wish = np.maximum(wish, need)
        else:
            wish = np.maximum(need, -(-excess // count)).astype(float)
            if (fits & (work >= wish)).any():
                fits &= work >= wish
        best = int(np.where(fits, np.abs(work - wish), np.inf).argmin())
        if more and 2 * work[best] * count < excess:  # too little progress to terminate
            return False
        self.move(int(items[best]), int(to[best]))
        return True

    def _rest(self, m: int) -> bool:
        """Move the heaviest item that fits anywhere, regardless of the number of further moves."""
        items = self.items[m]
        if not len(items):
            return False
        to, room = self._receivers(items, m)
        fits = np.flatnonzero(self.work[items] <= room)
        if not len(fits):
            return False
        best = int(fits[self.work[items[fits]].argmax()])
        self.move(int(items[best]), int(to[best]))
        return True

    def _swap(self, m: int) -> bool:
        """Give one of the heaviest items to a member without room, and take one of its heaviest, or none.

        Done only if fewer moves remain than by moving items that fit as they are.
        """
        room = self.limit - self.loads
        largest = int(room.max())
        mine = self.items[m]
        cheapest = self._needed(m, UNASSIGNED, largest, int(-room[m]))
        if cheapest <= 1:
            return False
        best = None
        partners = np.argsort(-room / np.where(self.cap > 0, self.cap, 1), kind="stable")[:PARTNERS].tolist()
        for at in mine[:HEAVIEST].tolist():
            work = int(self.work[at])
            for r in partners:
                self.effort -= SMALL_STEP
                if r == m or not self.model.allowed[self.of[at], r]:
                    continue
                theirs = self.items[r][:HEAVIEST]
                for back in [UNASSIGNED, *theirs[self.may(theirs, m)].tolist()]:
                    got = int(self.work[back]) if back != UNASSIGNED else 0
                    if got >= work:
                        continue
                    cost = (
                        1
                        + (back != UNASSIGNED)
                        - int(self.origin[at] != m)
                        - int(back != UNASSIGNED and self.origin[back] != r)
                    )
                    if cost >= cheapest:
                        continue
                    cost += self._needed(m, at, largest, int(-room[m]) - work + got)
                    if cost >= cheapest:
                        continue
                    cost += self._needed(r, back, largest, work - got - int(room[r]))
                    if cost < cheapest:
                        cheapest, best = cost, (at, r, back)
        if best is None:
            return False
        at, r, back = best
        self.move(at, r)
        if back != UNASSIGNED:
            self.move(back, m)
        return True

    def _needed(self, m: int, without: int, largest: int, excess: int) -> int:
        """Number of a member's fitting items that cover an excess; a large number if all of them do not."""
        if excess <= 0:
            return 0
        items = self.items[m]
        items = items[(items != without) & (self.work[items] <= largest)]
        total = np.cumsum(self.work[items])
        return int(np.searchsorted(total, excess)) + 1 if len(total) and total[-1] >= excess else 1 << 20

    def take_back(self) -> None:
        """Undo unnecessary moves, the lightest or dearest first."""
        moved = np.flatnonzero((self.origin != UNASSIGNED) & (self.owner != self.origin))
        first = -self.model.cost[moved] if self.model.cost_unit else self.work[moved]
        for at in moved[np.argsort(first, kind="stable")].tolist():
            home = int(self.origin[at])
            if self.loads[home] + self.work[at] <= self.limit[home]:
                self.move(at, home)

    def _exchange(self, m: int) -> bool:
        """Give one item and take a lighter one, so that both members are within their limits."""
        excess = int(self.loads[m] - self.limit[m])
        room = self.limit - self.loads
        mine = self.items[m]
        partners = np.argsort(-room / np.where(self.cap > 0, self.cap, 1), kind="stable")[:TRIED]
        best: tuple[int, int, int, int] | None = None
        for r in partners.tolist():
            theirs = self.items[r]
            if r == m or room[r] < excess or not len(theirs):
                continue
            self.effort -= STEP + len(mine) + len(theirs)
            give, take = mine[self.may(mine, r)], theirs[self.may(theirs, m)]
            pair = _pair(self.work[give], self.work[take], excess, int(room[r]))
            if pair is None:
                continue
            at, back = int(give[pair[0]]), int(take[pair[1]])
            cost = int(not self.free(np.array([at]))[0]) + int(not self.free(np.array([back]))[0])
            if best is None or cost < best[0]:
                best = cost, at, back, r
        if best is None:
            return False
        _, at, back, r = best
        self.move(at, r)
        self.move(back, m)
        return True

    def _chain(self, m: int) -> bool:
        """Move one item to a member that passes another one on, and so on, until a member has room."""
        room = self.limit - self.loads
        excess = int(-room[m])
        incoming = {m: 0}
        way: dict[int, tuple[int, int]] = {}  # member -> (item it gets, giver)
        layer = [m]
        while layer and len(incoming) < VISITED:
            following: list[int] = []
            for r in layer:
                short = excess if r == m else incoming[r] - int(room[r])
                items = self.items[r]
                items = items[self.work[items] >= short]
                if not len(items):
                    continue
                for g in np.unique(self.of[items]).tolist():
                    self.effort -= STEP + len(items)
                    at = int(items[self.of[items] == g][-1])  # the lightest that suffices
                    work = int(self.work[at])
                    who = self.model.subscribers[g]
                    enough = who[room[who] >= work]
                    enough = enough[[candidate not in incoming for candidate in enough.tolist()]]
                    if len(enough):
                        to = int(enough[room[enough].argmax()])
                        way[to] = at, r
                        return self._along(way, to)
                    for to in who.tolist():
                        if to not in incoming:
                            incoming[to], way[to] = work, (at, r)
                            following.append(to)
            layer = following
        return False

    def _along(self, way: dict[int, tuple[int, int]], to: int) -> bool:
        steps = []
        while to in way:
            at, giver = way[to]
            steps.append((at, to))
            to = giver
        for at, member in steps:
            self.move(at, member)
        return True


def _level(height: Floats, rise: Floats, count: int) -> float:
    """The height up to which `count` partitions fill members, each of which grows by `rise` per partition."""
    order = np.argsort(height, kind="stable")
    low, per = height[order], 1 / rise[order]
    rate, filled = np.cumsum(per), np.cumsum(per * low)
    level = (count + filled) / rate
    fits = np.flatnonzero(level <= np.append(low[1:], np.inf))
    return float(level[fits[0]])


def _pair(give: Ints, take: Ints, least: int, most: int) -> tuple[int, int] | None:
    """Indices of one of each whose difference is in [least, most], as small as possible."""
    if not len(give) or not len(take):
        return None
    # Both are sorted heaviest first; for each given item, find the heaviest taken item that is light enough.
    place = np.searchsorted(-take, -(give - least), side="left")
    exists = place < len(take)
    difference = np.where(exists, give - take[np.minimum(place, len(take) - 1)], most + 1)
    best = int(difference.argmin())
    return (best, int(place[best])) if difference[best] <= most else None
