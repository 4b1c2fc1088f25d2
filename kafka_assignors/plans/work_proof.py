"""Check the claims of a plan by work with code independent of the search: names, fractions and definitions.

The witness proves the bound, and counting proves the least number of moves. In small groups a plan may claim more than
its witness shows (``exact``); trying every assignment proves such a claim.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from ..core.group import Group, Member
from ..core.group.invariants import Violation
from .values import Decision

if TYPE_CHECKING:
    from ..core.weighted.report import Load

NEAR = Fraction(1, 10**6)
"""Relative tolerance: works are rounded to a 2^39th of the heaviest, and we compare sums of floats."""
COSTS = 1 << 16
"""The cost of a state is rounded to this part of the dearest."""
ROUNDED = Fraction(1, 10**6)
"""Rounding of a frontier's ratios, twice."""
INFINITE = Fraction(10**300)
TRIES = 200_000
"""Maximum number of branches for an ``exact`` claim; beyond, it is unproven, which is a violation."""

Name = tuple[str, int]


def check(  # one parameter per input of the model, and the plan
    group: Group,
    weights: Mapping[Name, float],
    capacity: Mapping[str, float],
    plan: Decision,
    priority: Mapping[str, int] | None = None,
    max_work: Mapping[str, float] | None = None,
    state: Mapping[Name, float] | None = None,
) -> list[Violation]:
    """Check a plan's claims about work.

    Args:
        group: The group, with its claims.
        weights: (topic, partition) -> weight; the weight of an absent partition is unknown.
        capacity: member id -> capacity; 1 if absent.
        plan: A plan by work for that group.
        priority: member id -> priority; 0 if absent.
        max_work: member id -> hard cap.
        state: (topic, partition) -> cost of moving it; None, or 0 for all: the plan counts moves.

    Returns:
        Violations of the laws ``work`` (of a member), ``greatest``, ``bound``, ``limit``, ``cap``, ``moves``,
        ``state``, ``racks`` or ``frontier``; empty if all claims are proven.

    Cost: O(P * M); up to `TRIES` branches for ``exact`` claims. Never raises for a wrong claim.
    """
    world = _World(group, weights, capacity, priority or {}, max_work or {}, state or {})
    return [*_checked(world, plan), *_further(world, plan)]


class _World:
    """The model of the group, computed from its definition."""

    def __init__(  # one parameter per input of the model
        self,
        group: Group,
        weights: Mapping[Name, float],
        capacity: Mapping[str, float],
        priority: Mapping[str, int],
        max_work: Mapping[str, float],
        state: Mapping[Name, float],
    ) -> None:
        given = {m.member_id: Fraction(capacity.get(m.member_id, 1)) for m in group.members}
        if not any(given.values()):
            given = dict.fromkeys(given, Fraction(1))
        self.able: dict[Name, list[str]] = {}
        for topic, count in group.partitions.items():
            readers = [m.member_id for m in group.members if topic in m.topics]
            able = [m for m in readers if given[m]] or readers
            able = [m for m in able if priority.get(m, 0) == max(priority.get(each, 0) for each in able)]
            for p in range(count) if able else ():
                self.able[topic, p] = able
        used = {m for able in self.able.values() for m in able}
        self.capacity = {m: (given[m] or Fraction(1)) if m in used else Fraction(0) for m in given}
        known = {tp: Fraction(weights[tp]) for tp in self.able if weights.get(tp) is not None}
        floor = Fraction(0)
        if any(known.values()):
            middle = median(known.values()) or median(w for w in known.values() if w)
            floor = middle * Fraction(0.05)
            by_topic: dict[str, list[Fraction]] = {}
            for (topic, _), weight in known.items():
                by_topic.setdefault(topic, []).append(weight)
            medians = {topic: median(each) for topic, each in by_topic.items()}
            self.work = {tp: max(known.get(tp, medians.get(tp[0], middle)), floor) for tp in self.able}
        else:
            self.work, floor = dict.fromkeys(self.able, Fraction(1)), Fraction(0.05)
        self.floor = floor
        self.caps = {m: Fraction(cap) for m, cap in max_work.items() if self.capacity.get(m)}
        self.holder = _holders(group.members, self.able)
        self.forced = [tp for tp, m in self.holder.items() if m not in self.able[tp]]
        self.state = _costs(group, state)
        self.rack = {m.member_id: m.rack for m in group.members}
        self.racks = group.racks

    def far(self, tp: Name, m: str) -> bool:
        """Whether a member reads a partition from another rack: both racks are known, and no replica is on its own."""
        racks = self.racks.get(tp[0], ())
        here = racks[tp[1]] if tp[1] < len(racks) else None
        return bool(here) and bool(self.rack[m]) and self.rack[m] not in (here or ())

    def room(self, limit: Fraction, m: str) -> Fraction:
        """The most work of a member at a greatest work / capacity."""
        return min(limit * self.capacity[m], self.caps.get(m, limit * self.capacity[m]))

    def level(self, work: Fraction, who: Collection[str]) -> Fraction | None:
        """The least work / capacity at which members can take some work below their caps; None if they cannot."""
        rest, left = work, sorted(who, key=lambda m: self.caps[m] / self.capacity[m] if m in self.caps else INFINITE)
        while left:
            ratio = rest / sum((self.capacity[m] for m in left), Fraction(0))
            if left[0] not in self.caps or self.caps[left[0]] >= ratio * self.capacity[left[0]]:
                return ratio
            rest -= self.caps[left.pop(0)]
        return None

    def loads(self, owner: Mapping[Name, str]) -> dict[str, Fraction]:
        found = dict.fromkeys(self.capacity, Fraction(0))
        for tp, m in owner.items():
            found[m] += self.work.get(tp, Fraction(0))
        return found


def _costs(group: Group, state: Mapping[Name, float]) -> dict[Name, Fraction]:
    """Cost of moving each partition; empty if moves are counted. Unknown is the median, and nothing is free."""
    every = [(topic, p) for topic, count in group.partitions.items() for p in range(count)]
    known = {tp: Fraction(state[tp]) for tp in every if state.get(tp) is not None}
    if not any(known.values()):
        return {}
    middle, least = median(known.values()), max(known.values()) / COSTS
    return {tp: max(known.get(tp, middle), least) for tp in every}


def _holders(members: Sequence[Member], able: Mapping[Name, Any]) -> dict[Name, str]:
    """(topic, partition) -> the subscriber with the newest claim; absent if several claims are equally new."""
    claims: dict[Name, dict[str, int]] = {}
    for member in members:
        for tp in member.owned:
            if (name := (tp.topic, tp.partition)) in able:
                claims.setdefault(name, {})[member.member_id] = member.generation
    subscribed = {member.member_id: member.topics for member in members}
    found = {}
    for name, by in claims.items():
        newest = [m for m, generation in by.items() if generation == max(by.values()) and name[0] in subscribed[m]]
        if len(newest) == 1:
            found[name] = newest[0]
    return found


def _checked(world: _World, plan: Decision) -> Iterator[Violation]:
    load = plan.load
    if load is None:
        yield Violation("bound", (), None, "the plan has no load: it makes no claim about work")
        return
    owner = {(t, p): m for m, topics in plan.target.items() for t, ids in topics.items() for p in ids}
    loads = world.loads(owner)
    for m, work in loads.items():
        if not _same(work, load.work.get(m)):
            yield Violation("work", (m,), None, f"{m!r} has work {float(work)}, the plan says {load.work.get(m)}")
    if load.caps is None:
        world.caps = {}
    world.caps = {m: cap * Fraction(load.caps or 1) for m, cap in world.caps.items()}
    for m, cap in world.caps.items():
        if loads[m] > cap * (1 + NEAR):
            yield Violation("cap", (m,), None, f"{m!r} has {float(loads[m])} of work, its cap is {float(cap)}")
    ratios = [loads[m] / c for m, c in world.capacity.items() if c]
    greatest = max(ratios, default=Fraction(0))
    if not _same(greatest, load.greatest):
        text = f"the greatest work / capacity is {float(greatest)}, the plan says {load.greatest}"
        yield Violation("greatest", (), None, text)
    bound = Fraction(load.bound)
    proven = _bound(world, load.why, load.witness, bound)
    if proven is None or proven < bound * (1 - NEAR):
        shown = "nothing" if proven is None else float(proven)
        yield Violation("bound", (), None, f"{load.why} proves {shown}, the plan says {load.bound}")
    least = world.floor / max(world.capacity.values(), default=Fraction(1)) if any(world.capacity.values()) else 0
    limit = max(bound * (1 + Fraction(load.epsilon)), bound + least)
    if Fraction(load.limit) > limit * (1 + NEAR) and Fraction(load.limit) > greatest * (1 + NEAR):
        yield Violation("limit", (), None, f"the limit is {float(limit)}, the plan says {load.limit}")
    moves = len(_moved(world, owner))
    if moves != load.moves:
        yield Violation("moves", (), None, f"{moves} partitions leave their owner, the plan says {load.moves}")
    if load.least_moves > _counted(world, Fraction(load.limit)) and not _tried(world, load.limit, load.least_moves - 1):
        text = f"the plan says that {load.least_moves} moves are needed, which is not proven"
        yield Violation("moves", (), None, text)


def _moved(world: _World, owner: Mapping[Name, str]) -> list[Name]:
    return [tp for tp, m in world.holder.items() if owner.get(tp, m) != m]


def _further(world: _World, plan: Decision) -> Iterator[Violation]:
    """What a plan claims beside the work: cost of state, work from other racks, the frontier."""
    load = plan.load
    if load is None:
        return
    owner = {(t, p): m for m, topics in plan.target.items() for t, ids in topics.items() for p in ids}
    yield from _state(world, owner, load)
    far = sum((world.work[tp] for tp, m in owner.items() if world.far(tp, m)), Fraction(0))
    near = sum((work for tp, work in world.work.items() if all(world.far(tp, m) for m in world.able[tp])), Fraction(0))
    claimed = load.remote or (0.0, 0.0)
    if not _same(far, claimed[0]):
        text = f"work of {float(far)} is read from other racks, the plan says {claimed[0]}"
        yield Violation("racks", (), None, text)
    if Fraction(claimed[1]) > near * (1 + NEAR):
        text = f"work of {float(near)} has no replica on a subscriber's rack, the plan says {claimed[1]}"
        yield Violation("racks", (), None, text)
    yield from _frontier(world, load)


def _state(world: _World, owner: Mapping[Name, str], load: Load) -> Iterator[Violation]:
    if (load.state is None) != (not world.state):
        which = "moves are counted" if load.state is None else "moves have a cost"
        yield Violation("state", (), None, f"the plan says that {which}, the given state says otherwise")
    if load.state is None or not world.state:
        return
    # Costs are rounded to a part of the dearest.
    rounded = max(world.state.values()) / COSTS * max(len(world.holder), 1)
    cost = sum((world.state[tp] for tp in _moved(world, owner)), Fraction(0))
    if abs(cost - Fraction(load.state[0])) > rounded:
        yield Violation("state", (), None, f"the moves cost {float(cost)}, the plan says {load.state[0]}")
    least = Fraction(load.state[1]) - rounded
    if least > _paid(world, Fraction(load.limit)) and not _tried(world, load.limit, float(least), world.state):
        text = f"the plan says that moves of {load.state[1]} are needed, which is not proven"
        yield Violation("state", (), None, text)


def _paid(world: _World, limit: Fraction) -> Fraction:
    """Lower bound on the cost of the moves of an assignment within the limit.

    Of each overloaded member parts of its partitions, those that cost least for their work, until it fits.
    """
    total = sum((world.state[tp] for tp in world.forced), Fraction(0))
    for m in world.capacity:
        mine = [tp for tp, holder in world.holder.items() if holder == m and m in world.able[tp]]
        excess = sum((world.work[tp] for tp in mine), Fraction(0)) - world.room(limit, m) * (1 - NEAR)
        for tp in sorted(mine, key=lambda tp: world.state[tp] / world.work[tp]):
            if excess <= 0:
                break
            total += world.state[tp] * min(excess / world.work[tp], Fraction(1))
            excess -= world.work[tp]
    return total


def _frontier(world: _World, load: Load) -> Iterator[Violation]:
    """More moves are never worse, the last pair is the plan's own, and no pair is better than counting permits."""
    pairs, forced = load.frontier, len(world.forced)
    if not pairs:
        yield Violation("frontier", (), None, "the plan has no frontier")
        return
    for (fewer, high), (more, low) in pairwise(pairs):
        if not fewer < more or (high <= low and (more, low) != pairs[-1]):
            yield Violation("frontier", (), None, f"{more} moves for {low} are not better than {fewer} for {high}")
    mean = Fraction(load.mean)
    moves, last = pairs[-1]
    if moves != load.moves - forced or abs(last * mean - Fraction(load.greatest)) > ROUNDED * mean:
        own = f"{load.moves - forced} moves for {load.greatest / load.mean if load.mean else 0.0}"
        yield Violation("frontier", (), None, f"it ends with {moves} moves for {last}, the plan has {own}")
    caps, world.caps = world.caps, {}  # the frontier is about work / capacity alone
    for moves, ratio in pairs:
        least = _counted(world, (Fraction(ratio) + ROUNDED) * mean) - forced
        if least > moves:
            text = f"it says {ratio} of the mean with {moves} moves, and {least} are needed for that"
            yield Violation("frontier", (), None, text)
    world.caps = caps


def _same(a: Fraction, b: float | None) -> bool:
    return b is not None and abs(a - Fraction(b)) <= NEAR * max(a, Fraction(b))


def _bound(world: _World, why: str, witness: Sequence[Any], claimed: Fraction) -> Fraction | None:
    """The bound that a witness of the kind `why` proves; None if the witness is invalid."""
    if not world.work:
        return Fraction(0)
    everybody = [m for m, c in world.capacity.items() if c]
    if why == "mean":
        return world.level(sum(world.work.values(), Fraction(0)), everybody)
    if why == "heaviest":
        name = (witness[0], witness[1])
        return world.work[name] / max(world.capacity[m] for m in world.able[name]) if name in world.work else None
    some = {tp: work for tp, work in world.work.items() if not witness or tp[0] in witness}
    who = {m for tp in some for m in world.able[tp]} if witness else set(everybody)
    if not some:
        return None
    if why == "topics":
        return world.level(sum(some.values(), Fraction(0)), who)
    if why == "together":
        works, fastest = sorted(some.values(), reverse=True), max(world.capacity[m] for m in who)
        many = len(who)
        runs = [works[k * many - k : k * many + 1] for k in range(1, (len(works) - 1) // many + 1)]
        return max((sum(run, Fraction(0)) for run in runs), default=Fraction(0)) / fastest
    if why == "exact":
        return claimed if _tried(world, float(claimed * (1 - NEAR)), None) else None
    return None


def _counted(world: _World, limit: Fraction) -> int:
    """Lower bound on the moves of an assignment within the limit.

    Partitions that their holder may not keep, and of each overloaded member its heaviest partitions until it fits.
    """
    total = 0
    mine: dict[str, list[Fraction]] = {}
    for tp, m in world.holder.items():
        if m in world.able[tp]:
            mine.setdefault(m, []).append(world.work[tp])
        else:
            total += 1
    for m, works in mine.items():
        excess = sum(works, Fraction(0)) - world.room(limit, m) * (1 + NEAR)
        for work in sorted(works, reverse=True):
            if excess <= 0:
                break
            excess -= work
            total += 1
    return total


def _tried(world: _World, limit: float, most: float | None, price: Mapping[Name, Fraction] | None = None) -> bool:
    """Whether no assignment keeps all members within the limit with moves of up to `most` in all, by trying all.

    A move costs its partition's price, 1 without prices. With None, moves are free.
    """
    order = sorted(world.work, key=lambda tp: (-world.work[tp], tp))
    slack = 1 - 1e-9 if most is None else 1 - 1e-7
    room = {m: float(c) * limit * slack for m, c in world.capacity.items()}
    room = {m: min(each, float(world.caps.get(m, INFINITE)) * (1 + 1e-9)) for m, each in room.items()}
    works = [float(world.work[tp]) for tp in order]
    left = [sum(works[i:]) for i in range(len(works) + 1)]
    tries = 0

    def fits(i: int, budget: float) -> bool | None:
        nonlocal tries
        tries += 1
        if tries > TRIES:
            return None
        if i == len(order):
            return True
        if left[i] > sum(each for each in room.values() if each > 0) * (1 + 1e-9):
            return False
        tp = order[i]
        home = world.holder.get(tp)
        for m in sorted(world.able[tp], key=lambda m: (m != home, -room[m])):
            cost = 0.0 if home is None or m == home else 1.0 if price is None else float(price[tp])
            if works[i] > room[m] or cost > budget:
                continue
            room[m] -= works[i]
            found = fits(i + 1, budget - cost)
            room[m] += works[i]
            if found is not False:
                return found
        return False

    return fits(0, float("inf") if most is None else most) is False
