"""What a strategy would do with a group, and how good that is: the answer, what moves and why, and proven bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core.group import NO_GENERATION, Group, Partitions, TopicPartition
from ..core.group.assignment import Assignment
from ..core.group.claims import Claims, resolve
from ..core.group.facts import Fact
from ..core.group.indexed import UNASSIGNED, Ints
from ..core.sticky import flow, sticky
from ..core.sticky.objective import Objective, RackCosts, rack_costs
from ..core.strategies import Reading, Strategy, reading, strategy
from ..core.weighted.placing import Placing
from ..core.weighted.report import Load, report
from ..errors import ConfigError
from .certificate import Certificate, Goals, bound, positions, score
from .prices import certify


@dataclass(frozen=True)
class Goal:
    """One goal of a plan, in the order they outweigh each other.

    Args:
        name: ``balance`` (sum of squared loads), ``racks`` (cost of reading from other racks) or ``moves`` (partitions
            that leave their undisputed owner). Of a plan by work: ``work`` (the greatest work / capacity, which is
            reached when it is within the limit of `Load`) and ``moves``.
        value: What the plan's `Plan.target` has.
        least: What any assignment of the group has at least, if the goals before are at their least.
        reached: Whether this goal and those before are at their least. A value below `least` is possible, at the
            expense of a goal before.
    """

    name: str
    value: float
    least: float
    reached: bool


@dataclass(frozen=True)
class Move:
    """A partition that a member gets although it is not the one that holds it.

    Args:
        partition: The topic-partition.
        old: The member that holds it; None when nobody does, or nobody knows.
        new: The member that shall have it.
        kind: ``balance``, ``racks``, ``exchange`` (its owner gets others instead), ``unowned``, ``disputed``,
            ``unsubscribed`` (its owner left the topic), ``standby`` (its owner is one), or the reason of a strategy
            that does not optimise: ``rule``.
        why: The reason in one sentence.
    """

    partition: TopicPartition
    old: str | None
    new: str
    kind: str
    why: str


@dataclass(frozen=True, repr=False)
class Plan:
    """A strategy's answer to a group, explained. Plans are equal whatever time they took.

    Args:
        group: The group, with its claims.
        strategy: Name of the strategy.
        options: Those of the strategy.
        sent: member id -> generation in its subscription; see `Reading`.
        assignment: The answer: member id -> topic -> ascending partition ids.
        target: What the members have when nothing is withheld any more; `assignment`, unless it takes two rebalances.
            Then it is the answer to the second one, in which the partitions left in place by the first decide ties.
        facts: What is odd about the group.
        goals: How good `target` is, by the order of the objective (the default one for strategies that have none).
        certificate: Prices that prove the goals' least values; see `certificate.bound`.
        load: Works of members and the bounds of a plan by work; None for strategies that count partitions.
        seconds: Time that the decision took, and the proof; without a clock None.
    """

    group: Group
    strategy: str
    options: Mapping[str, Any]
    sent: Mapping[str, int]
    assignment: Assignment
    target: Assignment
    facts: tuple[Fact, ...]
    goals: tuple[Goal, ...]
    certificate: Certificate | None
    load: Load | None = None
    seconds: tuple[float, float] | None = field(default=None, compare=False)

    @property
    def optimal(self) -> bool:
        """Whether the target is proven to be the best assignment there is, by the order of the goals."""
        return bool(self.goals) and self.goals[-1].reached

    @cached_property
    def loads(self) -> Mapping[str, int]:
        """Partitions of each member, in the target."""
        return {member: sum(map(len, topics.values())) for member, topics in self.target.items()}

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Every partition that its new owner does not hold already, by topic and partition."""
        return tuple(_moves(self))

    @cached_property
    def withheld(self) -> Mapping[TopicPartition, tuple[str, ...]]:
        """What nobody is given in this rebalance -> the members that must give it up first."""
        claims = self._claims
        now, then = (positions(claims.indexed, each) for each in (self.assignment, self.target))
        return {
            tp: claims.holders(tp)
            for tp in claims.indexed.names(np.flatnonzero((now == UNASSIGNED) & (then != UNASSIGNED)))
        }

    @cached_property
    def _claims(self) -> Claims:
        return resolve(self.group)

    @property
    def objective(self) -> Objective:
        """The goals, as the strategy's options say; the default ones where it has no such option."""
        return _objective(strategy(self.strategy, **self.options))

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        best = "optimal" if self.optimal else "not optimal" if self.goals else "no proof"
        placed, members = sum(self.loads.values()), len(self.loads)
        return f"<Plan {self.strategy}{options}: {placed:,} partitions to {members:,} members, {best}>"

    def __str__(self) -> str:
        return self.explain()

    def explain(self) -> str:
        """The plan as text for people: a small group whole, a large one summed up. Its lines end without spaces."""
        from .explain import explain  # it knows plans, not the other way round

        return explain(self)

    def to_json(self) -> str:
        """The plan as one line of JSON, its input included; see `planjson`."""
        from .plan_json import write

        return write(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """The plan that `to_json` wrote.

        Raises:
            ConfigError: The text is no plan, or one of a version that this code does not know.
            UnknownName: Its strategy does not exist here.
        """
        from .plan_json import read

        return read(text)

    def replay(self, clock: Callable[[], float] | None = None) -> Plan:
        """The plan again, from its group, strategy and options alone; equal to this one unless the code changed."""
        facts = [fact for fact in self.facts if fact.kind == "garbage-user-data"]
        made = strategy(self.strategy, **self.options)
        return planned(reading(self.strategy, self.group, facts, self.sent), made, clock)


def plan(
    group: Group, name: str = "cooperative-sticky", *, clock: Callable[[], float] | None = None, **options: Any
) -> Plan:
    """What the strategy of that name does with a group, and how good it is.

    A cooperative strategy takes two rebalances; the plan's target is the answer to the second.

    Args:
        group: Members with their claims, topics, racks.
        name: The strategy, by its protocol name; see `strategies.STRATEGIES`.
        clock: Seconds that go by; without one the plan tells no times.
        options: Those of the strategy.

    Returns:
        The plan. The bounds in it are proven for any strategy: the best assignment is found beside, with prices that
        prove it.

    Raises:
        UnknownName: No strategy has that name.
        ConfigError: It has no such option, or not with that value; or the group has no members.

    Cost: the strategy's and `sticky.assign`'s; the moves and the text when they are asked for.
    """
    made = strategy(name, **options)
    if not group.members:
        raise ConfigError("the group has no members: there is nobody to assign partitions to")
    return planned(reading(name, group), made, clock)


def planned(read: Reading, made: Strategy, clock: Callable[[], float] | None = None) -> Plan:
    """`plan`, of what members sent."""
    made.load()
    flow.load()
    start = clock() if clock else 0.0
    assignment, facts = made.answer(read)
    decided = clock() if clock else 0.0
    target = assignment
    claims = read.claims or resolve(read.group)
    if made.rounds > 1:
        target, _ = made.answer(_next(made.name, read, assignment))
    certificate, load = None, None
    goals: tuple[Goal, ...] = ()
    placing = made.settings(**made.options).get("placing")
    if isinstance(placing, Placing):
        load = report(claims, positions(claims.indexed, target), placing)
        goals = _by_work(load)
    else:
        objective = _objective(made)
        certificate = certify(claims, sticky.owners(claims, objective), objective)
        if certificate:
            values = score(claims, positions(claims.indexed, target), objective)
            goals = _goals(objective, values, bound(claims, certificate))
    seconds = (decided - start, clock() - decided) if clock else None
    facts = tuple(dict.fromkeys((*read.facts, *facts)))
    return Plan(
        read.group,
        made.name,
        dict(made.options),
        dict(read.sent),
        assignment,
        target,
        facts,
        goals,
        certificate,
        load,
        seconds,
    )


def _next(name: str, read: Reading, assignment: Assignment) -> Reading:
    """The rebalance after one with this answer: members hold what it gave them, and have revoked the rest."""
    generation = 1 + max([NO_GENERATION, *(member.generation for member in read.group.members), *read.sent.values()])
    members = [
        replace(
            member,
            owned=Partitions.of((t, p) for t, ids in assignment[member.member_id].items() for p in ids),
            generation=generation,
        )
        for member in read.group.members
    ]
    group = Group(members, read.group.partitions, read.group.racks, read.group.leaders)
    return reading(name, group, (), dict.fromkeys(read.sent, generation))


def _objective(made: Strategy) -> Objective:
    chosen = made.settings(**made.options).get("objective")
    return chosen if isinstance(chosen, Objective) else Objective()


def _goals(objective: Objective, values: Goals, least: Goals) -> tuple[Goal, ...]:
    found, reached = [], True
    for name, value, lowest in zip(objective.order, values, least, strict=True):
        reached = reached and value == lowest
        unit = objective.unit if name == "racks" else 1
        found.append(Goal(name, _number(value * unit), _number(lowest * unit), reached))
    return tuple(found)


def _by_work(load: Load) -> tuple[Goal, ...]:
    within = load.greatest <= load.limit * (1 + 1e-9)
    fewest = within and load.moves <= load.least_moves
    return Goal("work", load.greatest, load.bound, within), Goal("moves", load.moves, load.least_moves, fewest)


def _number(value: Any) -> float:
    return int(value) if value == int(value) else float(value)


def _moves(plan: Plan) -> list[Move]:
    claims = plan._claims
    indexed, holder = claims.indexed, claims.holder
    then = positions(indexed, plan.target)
    moving = np.flatnonzero((then != UNASSIGNED) & (then != holder))
    contested: dict[int, str] = {}
    for position, member in zip(*(each.tolist() for each in claims.left), strict=True):
        contested.setdefault(position, indexed.members[member].member_id)
    disputed = set(claims.disputes[0].tolist())
    why = _Reasons(plan, claims, then)
    found = []
    for at, partition in zip(moving.tolist(), indexed.names(moving), strict=True):
        new = indexed.members[then[at]].member_id
        if holder[at] != UNASSIGNED:
            old: str | None = indexed.members[holder[at]].member_id
            kind, text = why.of(at, int(holder[at]), int(then[at]))
        elif at in disputed:
            old, kind = None, "disputed"
            text = f"{' and '.join(claims.holders(partition))} claim it with the same generation"
        elif at in contested:
            old, kind = contested[at], "unsubscribed"
            text = f"{old} does not subscribe to {partition.topic} any more"
        else:
            old, kind, text = None, "unowned", "no member holds it: its owner left, or it is new"
        found.append(Move(partition, old, new, kind, text))
    return found


class _Reasons:
    """Why a partition leaves a live owner."""

    def __init__(self, plan: Plan, claims: Claims, then: Ints) -> None:
        members = claims.indexed.members
        self.plan = plan
        self.racks = [member.rack for member in members]
        self.had = np.bincount(claims.holder[claims.holder != UNASSIGNED], minlength=len(members)).tolist()
        self.has = np.bincount(then[then != UNASSIGNED], minlength=len(members)).tolist()
        self.prices: RackCosts = rack_costs(claims.indexed, plan.objective)
        made = strategy(plan.strategy, **plan.options)
        self.ids = [member.member_id for member in members]
        self.work: Mapping[str, float] = {}
        if plan.load is not None:
            self.work = report(claims, claims.holder, made.settings(**made.options)["placing"]).work
        self.rule = "" if made.claim else f"{made.name} looks at who is there, not at who holds what"
        if made.options.get("parity") == "java":
            self.rule = "Java places it so"

    def of(self, at: int, old: int, new: int) -> tuple[str, str]:
        """Kind and text."""
        if self.rule:
            return "rule", self.rule
        if self.plan.load is not None:
            return self._by_work(self.plan.load, old, new)
        row = self.prices.rows[self.prices.of[at]]
        here, there = int(row[self.prices.rack[old]]), int(row[self.prices.rack[new]])
        if there < here:
            unit = self.plan.objective.unit
            saved = f"costs {_number(there * unit)} instead of {_number(here * unit)}"
            return "racks", f"on rack {self.racks[new]} it {saved} on {self.racks[old]}"
        if self.had[old] > self.has[old]:
            change = f"from {self.had[old]} to {self.has[old]} partitions"
            return "balance", f"its owner goes {change}, the new one from {self.had[new]} to {self.has[new]}"
        return "exchange", "its owner gets others instead, which fewer members may have or which cost less there"

    def _by_work(self, load: Load, old: int, new: int) -> tuple[str, str]:
        """Of a plan by work."""
        before, after = (self.ids[m] for m in (old, new))
        if not load.capacity[before]:
            return "standby", f"{before} is a standby, which nobody needs now"
        now = self.work[before] / load.capacity[before]
        change = f"its owner goes from {now:,.4g} to {load.work[before] / load.capacity[before]:,.4g} work / capacity"
        if now > load.limit * (1 + 1e-9):
            return "balance", f"{change}, {load.limit:,.4g} is the most allowed; {after} has room"
        return "exchange", f"{change}: it gives way to what fits nowhere else"
