"""Check the claims of a plan by work in a model of its own, from group and options by the definitions, in fractions.

Every number that the plan prints is computed from the members and their claims, or proven: bounds by their witness,
least moves by counting, and what counting can't show by an integer program (`work_program`). docs/load.md has the
definitions. Programs need SciPy; without it, what only they can show is told as not proven.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, chain, pairwise, product
from statistics import median
from typing import TYPE_CHECKING, Any

from ...core.group import Group, Member
from ...core.group.invariants import Breach, violations
from ...extras import install
from .values import Decision, Goal
from .work_program import EXTRA, Program, cheapest_cover

if TYPE_CHECKING:
    from ...core.weighted.report import Load

NEAR = Fraction(1, 10**6)
"""Relative tolerance: works are rounded to a 2^39th of the heaviest, and we compare sums of floats."""
COSTS = 1 << 30
"""The cost of a state is rounded to this part of the dearest."""
TIGHT = Fraction(1, 10**8)
"""The same of a limit. A wider one would let an assignment pass for one within it, and refuse a true least."""
_ABOUT = (1 - 1e-9, 1.0, 1 + 1e-9)
"""Factors of a figure that may be rounded the other way in a text."""
ROUNDED = Fraction(1, 10**6)
"""Rounding of a frontier's ratios, twice."""
INFINITE = Fraction(10**300)
EXACT = 100
"""Maximum pairs of partition and member for which each pair of a frontier is proven."""
SOLVER = "solver"
"""The law of a claim that may hold, but is not proven without SciPy."""
RAISED = (1, 1.1, 1.25, 1.5, 2, None)
"""Multiples of hard caps; None: they are ignored."""

Name = tuple[str, int]


def check(  # one parameter per input of the model, and the plan
    group: Group,
    weights: Mapping[Name, float],
    capacity: Mapping[str, float],
    plan: Decision,
    priority: Mapping[str, int] | None = None,
    max_work: Mapping[str, float] | None = None,
    state: Mapping[Name, float] | None = None,
) -> list[Breach]:
    """Check a plan's claims about work.

    Args:
        group: The group, with its claims.
        weights: (topic, partition) -> weight; the weight of an absent partition is unknown.
        capacity: member id -> capacity; 1 if absent.
        plan: A plan by work for that group. Inputs that are no arguments here, such as ``epsilon``, are its options.
        priority: member id -> priority; 0 if absent.
        max_work: member id -> hard cap.
        state: (topic, partition) -> cost of moving it; None, or 0 for all: the plan counts moves.

    Returns:
        Violations of the laws of an assignment (`invariants`) by the target or the first round, and of ``target``,
        ``work`` (of a member), ``capacity``, ``greatest``, ``bound``, ``limit``, ``epsilon``, ``coverage``, ``cap``,
        ``budget``, ``moves``, ``state``, ``racks``, ``frontier``, ``verdict``, ``advice`` or ``goals``; empty if all
        claims are proven. The law `SOLVER` names claims that only a solver can check, where none is installed.

    Cost: O(P * M); up to `work_program.NODES` branches for each claim that counting does not prove. Never raises for a
    wrong claim.
    """
    load = plan.load
    if load is None:
        return [Breach("bound", (), None, "the plan has no load: it makes no claim about work")]
    if breaches := [*ids(plan), *_rounds(plan), *violations(group, plan.target), *_first_round(group, plan)]:
        return breaches  # what the numbers are about is no assignment
    try:
        if odd := _odd(load):
            return [Breach("work", (), None, f"{odd!r} is not a finite number")]
        world = _World(group, weights, capacity, priority or {}, max_work or {}, state or {}, plan.options)
        return [*dict.fromkeys(_Check(world, plan, load).violations())]
    except (TypeError, ValueError, OverflowError, KeyError, IndexError) as error:
        return [Breach("work", (), None, f"the claims are not numbers of this group: {error!r}")]


def verify(plan: Decision) -> list[Breach]:
    """`check` with the inputs that the plan itself names: its group and options."""
    options = plan.options
    return check(
        plan.group,
        _named(options.get("weights")),
        options.get("capacity") or {},
        plan,
        options.get("priority"),
        options.get("max_work"),
        _named(options.get("state")),
    )


def _named(given: Mapping[str, Any] | None) -> dict[Name, float]:
    """Weights or state in the form of a plan's options, by (topic, partition)."""
    figures = {}
    for topic, by_partition in (given or {}).items():
        pairs = by_partition.items() if isinstance(by_partition, Mapping) else enumerate(by_partition)
        figures.update({(topic, int(p)): value for p, value in pairs if value is not None})
    return figures


def ids(plan: Decision) -> Iterator[Breach]:
    """Partition ids of the plan that are no integers: some of these equal one, and would pass for it."""
    for name, assignment in (("target", plan.target), ("assignment", plan.assignment)):
        for m, topics in assignment.items():
            for topic, numbers in topics.items():
                for p in numbers:
                    if type(p) is not int:
                        yield Breach("exists", (m,), None, f"the {name} has {topic!r}-{p!r}, which is no partition id")


def _rounds(plan: Decision) -> Iterator[Breach]:
    """Partitions that the first rebalance assigns, and not to their owner in the target."""
    assigned, target = (
        {(t, p): m for m, topics in assignment.items() for t, numbers in topics.items() for p in numbers}
        for assignment in (plan.assignment, plan.target)
    )
    for (topic, p), m in assigned.items():
        if target.get((topic, p)) != m:
            text = f"{topic}-{p} goes to {m!r} at first, and to {target.get((topic, p))!r} in the end"
            yield Breach("target", (m,), None, text)


def _first_round(group: Group, plan: Decision) -> Iterator[Breach]:
    """Violations by the first rebalance. Members that revoked everything before it hold nothing."""
    eager = plan.options.get("eager", False)
    for breach in violations(group, plan.assignment, cooperative=True):
        revoked = breach.members if eager is True else eager or ()
        tp = breach.partition
        owners = [m for m in breach.members if tp and tp.partition in plan.assignment[m].get(tp.topic, ())]
        if breach.law != "hand-over" or not set(breach.members) - set(owners) <= set(revoked):
            yield breach


def _odd(load: Load) -> Any:
    """A figure of the plan that is not a finite number; None if all are."""
    several = (*load.work.values(), *load.capacity.values(), *load.coverage, *chain(*load.frontier))
    single = (load.greatest, load.bound, load.limit, load.moves, load.least_moves, load.epsilon)
    chosen = (
        *(load.state or ()),
        *(load.remote or ()),
        *(load.budget or ()),
        *(() if load.caps is None else (load.caps,)),
    )
    figures = (*several, *single, *chosen)
    return next((x for x in figures if type(x) not in (int, float) or not math.isfinite(x)), None)


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
        options: Mapping[str, Any],
    ) -> None:
        self.options = options
        given = {m.member_id: Fraction(capacity.get(m.member_id, 1)) for m in group.members}
        if not any(given.values()):
            given = dict.fromkeys(given, Fraction(1))
        needed = median(c for c in given.values() if c)  # what a standby counts as, if it is needed
        self.able: dict[Name, list[str]] = {}
        for topic, count in group.partitions.items():
            readers = [m.member_id for m in group.members if topic in m.topics]
            able = [m for m in readers if given[m]] or readers
            able = [m for m in able if priority.get(m, 0) == max(priority.get(reader, 0) for reader in able)]
            for p in range(count) if able else ():
                self.able[topic, p] = able
        used = {m for able in self.able.values() for m in able}
        self.capacity = {m: (given[m] or needed) if m in used else Fraction(0) for m in given}
        self.known_weights = {tp: Fraction(weights[tp]) for tp in self.able if weights.get(tp) is not None}
        if any(self.known_weights.values()):
            middle = median(self.known_weights.values()) or median(w for w in self.known_weights.values() if w)
            by_topic: dict[str, list[Fraction]] = {}
            for (topic, _), weight in self.known_weights.items():
                by_topic.setdefault(topic, []).append(weight)
            medians = {topic: median(topic_weights) for topic, topic_weights in by_topic.items()}
            least = middle * Fraction(0.05)
            self.work = {tp: max(self.known_weights.get(tp, medians.get(tp[0], middle)), least) for tp in self.able}
        else:
            self.work = dict.fromkeys(self.able, Fraction(1))
        self.max_work = {m: Fraction(cap) for m, cap in max_work.items() if self.capacity.get(m)}
        self.caps = self.max_work
        self.holder = _holders(group.members, self.able)
        self.forced = [tp for tp, m in self.holder.items() if m not in self.able[tp]]
        self.state = _costs(group, state)
        self.rack = {m.member_id: m.rack for m in group.members}
        self.racks = group.racks
        self.eager = options.get("eager", False)
        self.program = Program(self.able, self.work, self.holder)

    @property
    def unowned(self) -> bool:
        return any(tp not in self.holder for tp in self.able)

    def far(self, tp: Name, m: str) -> bool:
        """Whether a member reads a partition from another rack: both racks are known, and no replica is on its own."""
        racks = self.racks.get(tp[0], ())
        here = racks[tp[1]] if tp[1] < len(racks) else None
        return bool(here) and bool(self.rack[m]) and self.rack[m] not in (here or ())

    def rooms(self, limit: Fraction, slack: Fraction = Fraction(0)) -> dict[str, Fraction]:
        """The most work of each member at a greatest work / capacity, within the caps."""
        rooms = {m: limit * c for m, c in self.capacity.items()}
        return {m: min(room, self.caps.get(m, room)) * (1 + slack) for m, room in rooms.items()}

    def loads(self, owner: Mapping[Name, str]) -> dict[str, Fraction]:
        loads = dict.fromkeys(self.capacity, Fraction(0))
        for tp, m in owner.items():
            loads[m] += self.work.get(tp, Fraction(0))
        return loads

    def greatest(self, owner: Mapping[Name, str]) -> Fraction:
        """The greatest work / capacity."""
        loads = self.loads(owner)
        return max((loads[m] / c for m, c in self.capacity.items() if c), default=Fraction(0))


def _costs(group: Group, state: Mapping[Name, float]) -> dict[Name, Fraction]:
    """Cost of moving each partition; empty if moves are counted. Unknown is the median, and nothing is free."""
    every = [(topic, p) for topic, count in group.partitions.items() for p in range(count)]
    costs = {tp: Fraction(state[tp]) for tp in every if state.get(tp) is not None}
    if not any(costs.values()):
        return {}
    middle, least = median(costs.values()), max(costs.values()) / COSTS
    return {tp: max(costs.get(tp, middle), least) for tp in every}


def _holders(members: Sequence[Member], able: Mapping[Name, Any]) -> dict[Name, str]:
    """(topic, partition) -> the subscriber with the newest claim; absent if several claims are equally new."""
    claims: dict[Name, dict[str, int]] = {}
    for member in members:
        for tp in member.owned:
            if (name := (tp.topic, tp.partition)) in able:
                claims.setdefault(name, {})[member.member_id] = member.generation
    subscribed = {member.member_id: member.topics for member in members}
    holders = {}
    for name, by in claims.items():
        newest = [m for m, generation in by.items() if generation == max(by.values()) and name[0] in subscribed[m]]
        if len(newest) == 1:
            holders[name] = newest[0]
    return holders


class _Check:
    """The claims of one plan, `load`, against the model of its group."""

    def __init__(self, world: _World, plan: Decision, load: Load) -> None:
        self.world, self.plan, self.load = world, plan, load
        self.owner = {(t, p): m for m, topics in plan.target.items() for t, ids in topics.items() for p in ids}
        self.loads, self.greatest = world.loads(self.owner), world.greatest(self.owner)
        self.moved = [tp for tp, m in world.holder.items() if self.owner.get(tp, m) != m]
        self.free_moves = len([tp for tp in self.moved if tp not in set(world.forced)])

    def violations(self) -> Iterator[Breach]:
        """All violations; first of what others are computed with."""
        yield from self._caps()
        yield from self._works()
        yield from self._bounds()
        yield from _by_solver("the least number of moves", self._moves())
        yield from _by_solver("the least cost of the moves", self._state())
        yield from self._racks()
        yield from self._frontier()
        yield from self._verdict()
        yield from self._conclusions()

    def _works(self) -> Iterator[Breach]:
        load, world = self.load, self.world
        for m, work in self.loads.items():
            if not _same(work, load.work.get(m)):
                text = f"{m!r} has work {float(work)}, the plan says {load.work.get(m)}"
                yield Breach("work", (m,), None, text)
            if not _same(world.capacity[m], load.capacity.get(m)):
                text = f"{m!r} has capacity {float(world.capacity[m])}, the plan says {load.capacity.get(m)}"
                yield Breach("capacity", (m,), None, text)
        if load.work.keys() != self.loads.keys() or load.capacity.keys() != self.loads.keys():
            yield Breach("work", (), None, "the plan names other members than the group has")
        if not _same(self.greatest, load.greatest):
            text = f"the greatest work / capacity is {float(self.greatest)}, the plan says {load.greatest}"
            yield Breach("greatest", (), None, text)
        coverage = len(world.known_weights), len(world.able)
        if tuple(load.coverage) != coverage:
            yield Breach("coverage", (), None, f"{coverage} are measured and in all, the plan says {load.coverage}")

    def _caps(self) -> Iterator[Breach]:
        """The multiple of the caps that holds, and why it is not 1. What follows is checked at that multiple."""
        load, world = self.load, self.world
        if load.caps not in RAISED:
            yield Breach("cap", (), None, f"caps are not raised to {load.caps}")
        multiple = load.caps
        if multiple is not None:
            for m, cap in world.max_work.items():
                if self.loads[m] > cap * Fraction(multiple) * (1 + NEAR):
                    text = f"{m!r} has {float(self.loads[m])} of work, its cap is {float(cap * Fraction(multiple))}"
                    yield Breach("cap", (m,), None, text)
        raised = load.caps != 1
        if raised != bool(load.caps_why) or (raised and not world.max_work):
            yield Breach("cap", (), None, f"caps at {load.caps} are told with the reason {load.caps_why!r}")
        elif raised and load.caps in RAISED:
            before = Fraction(RAISED[RAISED.index(load.caps) - 1] or 1)
            caps = {m: cap * before for m, cap in world.max_work.items()}
            yield from _by_solver("that caps had to be raised", self._raised(caps, load.caps_why))
        world.caps = {} if multiple is None else {m: cap * Fraction(multiple) for m, cap in world.max_work.items()}

    def _raised(self, caps: Mapping[str, Fraction], why: str) -> Iterator[Breach]:
        world = self.world
        everything = sum(world.work.values(), Fraction(0))
        rooms = {m: caps.get(m, everything) * (1 - NEAR) if c else Fraction(0) for m, c in world.capacity.items()}
        if why == "work" and not _overfull(world, rooms) and world.program.possible(rooms) is not False:
            yield Breach("cap", (), None, "that all work does not fit below the caps is not proven")
        if why == "moves" and not (self._budget() is not None or world.options.get("hysteresis")):
            yield Breach("cap", (), None, "no option limits the moves below the caps")
        if why not in ("work", "moves", "unknown"):
            yield Breach("cap", (), None, f"{why!r} is no reason to raise caps")

    def _budget(self) -> int | None:
        budget: int | None = self.world.options.get("move_budget")
        return 0 if budget is not None and self.world.unowned else budget

    def _bounds(self) -> Iterator[Breach]:
        load, world = self.load, self.world
        bound, epsilon = Fraction(load.bound), world.options.get("epsilon", 0.05)
        yield from _by_solver("the bound", self._bound(bound))
        if load.epsilon != epsilon:
            yield Breach("epsilon", (), None, f"the plan was made with {epsilon}, it says {load.epsilon}")
        limit = max(bound * (1 + Fraction(epsilon)), self.greatest)
        if not _same(limit, load.limit):
            yield Breach("limit", (), None, f"the limit is {float(limit)}, the plan says {load.limit}")

    def _bound(self, bound: Fraction) -> Iterator[Breach]:
        load = self.load
        proven = _bound(self.world, load.why, load.witness, bound)
        if proven is None or proven < bound * (1 - NEAR):
            shown = "nothing" if proven is None else float(proven)
            yield Breach("bound", (), None, f"{load.why} proves {shown}, the plan says {load.bound}")

    def _moves(self) -> Iterator[Breach]:
        load, world = self.load, self.world
        moves, budget = len(self.moved), self._budget()
        if moves != load.moves:
            yield Breach("moves", (), None, f"{moves} partitions leave their owner, the plan says {load.moves}")
        if budget is not None and self.free_moves > budget:
            text = f"{self.free_moves} partitions leave an owner that could keep them, the budget allows {budget}"
            yield Breach("budget", (), None, text)
        option = world.options.get("move_budget")
        if load.budget != (None if option is None else (self.free_moves, option)):
            text = f"the budget of {option} counts {self.free_moves} moves, the plan says {load.budget}"
            yield Breach("budget", (), None, text)
        limit = Fraction(load.limit)
        if load.least_moves > _counted(world, limit):
            rooms = world.rooms(limit, TIGHT)
            least = world.program.least(rooms, dict.fromkeys(world.able, 1.0))  # infinite: nothing is within the limit
            if math.isfinite(least) and load.least_moves > len(world.forced) + math.ceil(least - 1e-6):
                text = f"the plan says that {load.least_moves} moves are needed, which is not proven"
                yield Breach("moves", (), None, text)

    def _state(self) -> Iterator[Breach]:
        load, world = self.load, self.world
        if (load.state is None) != (not world.state):
            which = "moves are counted" if load.state is None else "moves have a cost"
            yield Breach("state", (), None, f"the plan says that {which}, the given state says otherwise")
        if load.state is None or not world.state:
            return
        # Costs are rounded to a part of the dearest.
        rounded = max(world.state.values()) / COSTS * max(len(world.holder), 1)
        cost = sum((world.state[tp] for tp in self.moved), Fraction(0))
        if abs(cost - Fraction(load.state[0])) > rounded + NEAR * cost:
            yield Breach("state", (), None, f"the moves cost {float(cost)}, the plan says {load.state[0]}")
        least = (Fraction(load.state[1]) - rounded) * (1 - NEAR)
        limit = Fraction(load.limit)
        if least > _paid(world, limit):
            forced = sum((world.state[tp] for tp in world.forced), Fraction(0))
            prices = {tp: float(price) for tp, price in world.state.items()}
            if least > forced + Fraction(min(world.program.least(world.rooms(limit, TIGHT), prices), 1e300)):
                text = f"the plan says that moves of {load.state[1]} are needed, which is not proven"
                yield Breach("state", (), None, text)

    def _racks(self) -> Iterator[Breach]:
        world = self.world
        far = sum(
            (world.work[tp] for tp, m in self.owner.items() if tp in world.able and world.far(tp, m)), Fraction(0)
        )
        alone = [tp for tp in world.work if all(world.far(tp, m) for m in world.able[tp])]
        near = sum((world.work[tp] for tp in alone), Fraction(0))
        rack_difference = any(world.far(tp, m) for tp, able in world.able.items() for m in able)
        if self.load.remote is None and rack_difference:
            yield Breach("racks", (), None, "the plan tells no work from other racks, and racks differ")
        claimed = self.load.remote or (0.0, 0.0)
        if not _same(far, claimed[0]):
            text = f"work of {float(far)} is read from other racks, the plan says {claimed[0]}"
            yield Breach("racks", (), None, text)
        if not _same(near, claimed[1]):
            text = f"work of {float(near)} has no replica on a subscriber's rack, the plan says {claimed[1]}"
            yield Breach("racks", (), None, text)

    def _frontier(self) -> Iterator[Breach]:
        """More moves are never worse, the last pair is the plan's own, and no pair is better than is possible."""
        world, pairs = self.world, self.load.frontier
        if not pairs:
            yield Breach("frontier", (), None, "the plan has no frontier")
            return
        for (fewer, high), (more, low) in pairwise(pairs):
            if not fewer < more or (high <= low and (more, low) != pairs[-1]):
                yield Breach("frontier", (), None, f"{more} moves for {low} are not better than {fewer} for {high}")
        mean = self._mean()
        moves, last = pairs[-1]
        if moves != self.free_moves or abs(Fraction(last) * mean - self.greatest) > ROUNDED * self.greatest:
            own = f"{self.free_moves} moves for {float(self.greatest / mean) if mean else 0.0}"
            yield Breach("frontier", (), None, f"it ends with {moves} moves for {last}, the plan has {own}")
        if pairs[0][0] and not world.unowned and not world.forced:
            yield Breach("frontier", (), None, "it does not begin without moves")
        caps, world.caps = world.caps, {}  # the frontier is about work / capacity alone
        for moves, claimed in pairs[:-1]:
            yield from _by_solver("the frontier", self._point(moves, Fraction(claimed) * mean, claimed))
        world.caps = caps

    def _point(self, moves: int, ratio: Fraction, claimed: float) -> Iterator[Breach]:
        """That a greatest work / capacity is possible with so many moves, as far as counting or a program shows."""
        world = self.world
        text = f"it says {claimed} of the mean with {moves} moves, and "
        least = _counted(world, ratio * (1 + ROUNDED)) - len(world.forced)
        if least > moves:
            yield Breach("frontier", (), None, f"{text}{least} are needed for that")
        elif moves == 0 and not world.unowned and not world.forced:
            if not _same(world.greatest(world.holder), float(ratio)):
                now = float(world.greatest(world.holder))
                yield Breach("frontier", (), None, f"{text}it is {now} without a move")
        elif world.program.pairs <= EXACT and world.program.possible(world.rooms(ratio, ROUNDED), moves) is False:
            yield Breach("frontier", (), None, f"{text}that is impossible")

    def _verdict(self) -> Iterator[Breach]:
        """The rule of docs/load.md, which compares the plan's target with the assignment without moves."""
        load, world, options = self.load, self.world, self.world.options
        if (load.verdict is not None) != bool(options.get("hysteresis") and world.able):
            yield Breach("verdict", (), None, "a verdict belongs to the option hysteresis, and to nothing else")
        if load.verdict is None or not options.get("hysteresis"):
            return
        act, why = load.verdict
        if not act and self.free_moves:
            yield Breach("verdict", (), None, f"it waits, and {self.free_moves} partitions move")
        still = world.greatest(world.holder)
        if world.unowned or world.forced:  # what these were placed by is told by the frontier, or is the target
            still = Fraction(load.frontier[0][1]) * self._mean() if act else self.greatest
        verdicts = _verdicts(float(still), float(self.greatest), load.bound, options, act=act)
        if world.caps and act and (world.unowned or world.forced or self._above_a_cap()):
            verdicts.add((True, "a member is above its hard cap"))
        if (act, why) not in verdicts:
            yield Breach("verdict", (), None, f"the rule says {sorted(verdicts)}, the plan says {load.verdict}")

    def _above_a_cap(self) -> bool:
        world = self.world
        return any(load > world.caps[m] for m, load in world.loads(world.holder).items() if m in world.caps)

    def _mean(self) -> Fraction:
        everything = sum(self.world.capacity.values(), Fraction(0))
        return sum(self.world.work.values(), Fraction(0)) / everything if everything else Fraction(0)

    def _conclusions(self) -> Iterator[Breach]:
        """Advice and goals, which follow from the figures."""
        load = self.load
        advice = _advice(self.world, load)
        if not set(load.advice) <= advice or len(load.advice) != bool(advice):
            yield Breach("advice", (), None, f"the figures say {sorted(advice)}, the plan says {load.advice}")
        within = load.greatest <= load.bound * (1 + load.epsilon) * (1 + 1e-9)
        fewest = within and load.moves <= load.least_moves
        goals = (Goal("work", load.greatest, load.bound, within), Goal("moves", load.moves, load.least_moves, fewest))
        if tuple(self.plan.goals) != goals:
            yield Breach("goals", (), None, f"the figures say {goals}, the plan says {self.plan.goals}")


def _by_solver(claim: str, breaches: Iterator[Breach]) -> Iterator[Breach]:
    """Breaches, of which the last need a solver; if it is not installed, one that says what is not proven."""
    try:
        yield from breaches
    except ImportError:
        text = f"{claim} is not proven: only a solver can check it; run: {install(EXTRA)}"
        yield Breach(SOLVER, (), None, text)


def _same(a: Fraction, b: float | None) -> bool:
    return b is not None and abs(a - Fraction(b)) <= NEAR * max(a, Fraction(b))


def _level(world: _World, work: Fraction, who: Collection[str]) -> Fraction | None:
    """The least work / capacity at which members can take some work below their caps; None if they cannot."""
    rest = work
    left = sorted(who, key=lambda m: world.caps[m] / world.capacity[m] if m in world.caps else INFINITE)
    while left:
        ratio = rest / sum((world.capacity[m] for m in left), Fraction(0))
        if left[0] not in world.caps or world.caps[left[0]] >= ratio * world.capacity[left[0]]:
            return ratio
        rest -= world.caps[left.pop(0)]
    return None


def _bound(world: _World, why: str, witness: Sequence[Any], claimed: Fraction) -> Fraction | None:
    """The bound that a witness of the kind `why` proves; None if the witness is invalid."""
    if not world.work:
        return Fraction(0)
    if why == "heaviest":
        name = (witness[0], witness[1])
        if name not in world.work:
            return None
        work = world.work[name]
        able = [world.capacity[m] for m in world.able[name] if world.caps.get(m, work) >= work]
        return work / max(able) if able else INFINITE
    if why == "exact":
        below = world.rooms(claimed * (1 - NEAR))
        return claimed if not witness and world.program.possible(below) is False else None
    some = {tp: work for tp, work in world.work.items() if not witness or tp[0] in witness}
    who = sorted({m for tp in some for m in world.able[tp]})
    if not some or not set(witness) <= {topic for topic, _ in some}:
        return None
    if why == "topics" or (why == "mean" and not witness):
        return _level(world, sum(some.values(), Fraction(0)), who)
    works = sorted(some.values(), reverse=True)
    if why == "together":
        fastest, many = max(world.capacity[m] for m in who), len(who)
        runs = [works[k * many - k : k * many + 1] for k in range(1, (len(works) - 1) // many + 1)]
        return max((sum(run, Fraction(0)) for run in runs), default=Fraction(0)) / fastest
    if why == "whole":
        return claimed if _too_many(works, [world.capacity[m] for m in who], claimed * (1 - NEAR)) else None
    return None


def _too_many(works: Sequence[Fraction], capacities: Sequence[Fraction], ratio: Fraction) -> bool:
    """Whether some of the heaviest works are more than members can have one by one below a work / capacity."""
    room = [float(ratio * c) for c in capacities]
    heavy: dict[Fraction, int] = {}  # work -> number of works at least as heavy
    for k, work in enumerate(works, 1):
        heavy[work] = k
    for work, many in heavy.items():
        if sum(math.floor(member_room / float(work) * (1 - 1e-12)) for member_room in room) < many:
            return sum((ratio * c) // work for c in capacities) < many
    return False


def _overfull(world: _World, rooms: Mapping[str, Fraction]) -> bool:
    """Whether work would not fit into rooms even if it could be divided: a linear program by topics and members."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix

    works: dict[tuple[str, ...], Fraction] = {}
    for tp, work in world.work.items():
        works[tuple(world.able[tp])] = works.get(tuple(world.able[tp]), Fraction(0)) + work
    column = {m: i for i, m in enumerate(rooms)}
    pairs = [(i, column[m]) for i, able in enumerate(works) for m in able]
    if not pairs or len(pairs) > 500_000:
        return False
    everything = sum(works.values(), Fraction(0))
    at = range(len(pairs))
    ones = [1.0] * len(pairs)
    answer = linprog(
        [0.0] * len(pairs),
        A_ub=csr_matrix((ones, ([m for _, m in pairs], at)), (len(column), len(pairs))),
        b_ub=[min(float(room / everything), 1.0) for room in rooms.values()],
        A_eq=csr_matrix((ones, ([i for i, _ in pairs], at)), (len(works), len(pairs))),
        b_eq=[float(work / everything) for work in works.values()],
        method="highs",
    )
    return bool(answer.status == 2)


def _counted(world: _World, limit: Fraction) -> int:
    """Lower bound on the moves of an assignment within the limit.

    Partitions that their holder may not keep, and of each overloaded member its heaviest partitions until it fits.
    """
    rooms, total = world.rooms(limit, TIGHT), len(world.forced)
    for m, mine in _mine(world).items():
        works = sorted((world.work[tp] for tp in mine), reverse=True)
        excess = sum(works, Fraction(0)) - rooms[m]
        if excess > 0:
            total += next((k for k, covered in enumerate(accumulate(works), 1) if covered >= excess), len(works))
    return total


def _paid(world: _World, limit: Fraction) -> Fraction:
    """Lower bound on the cost of the moves of an assignment within the limit.

    Partitions that their holder may not keep, and of each overloaded member the cheapest that cover its excess.
    """
    rooms, total = world.rooms(limit, TIGHT), sum((world.state[tp] for tp in world.forced), Fraction(0))
    for m, mine in _mine(world).items():
        excess = sum((world.work[tp] for tp in mine), Fraction(0)) - rooms[m]
        if excess > 0:
            total += cheapest_cover([(world.work[tp], world.state[tp]) for tp in mine], excess)
    return total


def _mine(world: _World) -> dict[str, list[Name]]:
    """What each member holds and may keep, by member id."""
    partitions: dict[str, list[Name]] = {}
    for tp, m in world.holder.items():
        if m in world.able[tp]:
            partitions.setdefault(m, []).append(tp)
    return partitions


def _verdicts(now: float, then: float, bound: float, options: Mapping[str, Any], *, act: bool) -> set[tuple[bool, str]]:
    """Verdicts by the rule of docs/load.md; several texts where a number is close to being rounded the other way."""
    verdicts = set()
    for up, down in product(_ABOUT, repeat=2):
        verdicts |= _verdict_of(now * up, then * down, bound, options, act=act)
    return verdicts


def _verdict_of(
    now: float, then: float, bound: float, options: Mapping[str, Any], *, act: bool
) -> set[tuple[bool, str]]:
    ratio = now / bound if bound > 0 else 1.0
    checks, since = options.get("checks", 0) + 1, options.get("since_s")
    if ratio <= 1.10:
        return {(False, f"{_multiple(ratio)} of the bound, not above 1.10")}
    if ratio <= 1.25 and checks < 3:
        plural = "s" if checks > 1 else ""
        return {(False, f"{_multiple(ratio)} of the bound, above 1.10 in {checks} check{plural} of 3")}
    if since is not None and since < 60:
        return {(False, f"the group moved a partition {since:.0f} s ago, less than 60")}
    if not act:  # the moves that were found are not in the plan
        less = {(False, f"{_multiple(ratio)} of the bound, but the moves would gain less than 5%")}
        least = "1% of a member's capacity"
        return less | ({(False, f"{_multiple(ratio)} of the bound, but the moves would gain less than {least}")}
                       if options.get("seconds") else set())  # fmt: skip
    gain = now - then
    enough = gain >= 0.05 * now and gain >= (0.01 if options.get("seconds") else 0.0)
    return {(True, f"{_multiple(ratio)} of the bound; the moves gain {gain / now:.0%}")} if enough else set()


def _multiple(value: float) -> str:
    """As docs/load.md writes it: two decimals, and four digits from a thousand on."""
    return f"{value:.4g}" if value >= 1000 else f"{value:.2f}"


def _advice(world: _World, load: Load) -> set[str]:
    """Advice for a bound above the mean; several texts where a number is close to being rounded the other way."""
    everything = sum(world.capacity.values(), Fraction(0))
    if not world.work or not everything:
        return set()
    mean = float(sum(world.work.values(), Fraction(0)) / everything)
    sentences = set()
    for multiple in (load.bound / mean * factor for factor in _ABOUT):
        if multiple > 1.001:
            sentences.add(f"{_multiple(multiple)} of the mean is the least possible: {_reason(world, load)}")
    return sentences


def _reason(world: _World, load: Load) -> str:
    if load.why == "heaviest":
        topic, p = load.witness
        return (
            f"{topic}-{p} alone has work {float(world.work[topic, p]):,.4g}; "
            f"split its keys or add partitions to {topic}"
        )
    if load.why == "topics":
        topics = list(load.witness)
        some = ", ".join(topics[:3]) + (" …" if len(topics) > 3 else "")
        return f"too few members subscribe to {some}; add members"
    if load.why == "mean":
        return "hard caps keep members below the mean; raise them or add members"
    return "partitions are too few or too heavy to share evenly; add partitions"
