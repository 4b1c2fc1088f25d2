"""What a strategy would do with a group, and how good that is: the answer, what moves and why, and proven bounds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ..core import strategies
from ..core.group import Group, TopicPartition
from ..core.group.claims import Claims, resolve
from ..core.reading import decoded
from ..core.sticky import flow, sticky
from ..core.sticky.objective import Objective
from ..core.strategy import Decoded, Strategy
from ..core.weighted.report import Load, report
from ..errors import ConfigError
from . import explain, moves, plan_json
from .certificate import Goals, bound, positions, score
from .prices import certify
from .values import Decision, Goal, Move, number, objective_of


class Plan(Decision):
    """A decision that explains itself: ``str(plan)`` is the explanation, ``repr(plan)`` one short line."""

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Every partition that its new owner does not hold already, by topic and partition."""
        return moves.moves(self, self._claims)

    @cached_property
    def withheld(self) -> Mapping[TopicPartition, tuple[str, ...]]:
        """What nobody is given in this rebalance -> the members that must give it up first."""
        return moves.withheld(self, self._claims)

    @cached_property
    def _claims(self) -> Claims:
        return resolve(self.group)

    def explain(self) -> str:
        """The plan as text for people: a small group whole, a large one summed up. Its lines end without spaces."""
        return explain.explain(self, self.moves, self.withheld)

    def __str__(self) -> str:
        return self.explain()

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        best = "optimal" if self.optimal else "not optimal" if self.goals else "no proof"
        return (
            f"<Plan {self.strategy}{options}: {sum(self.loads.values()):,} partitions to {len(self.loads):,} members, "
            f"{best}>"
        )

    def to_json(self) -> str:
        """The plan as one line of JSON, its input included; see `plan_json`."""
        return plan_json.write(self, self.moves, self.withheld)

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """The plan that `to_json` wrote.

        Raises:
            ConfigError: The text is no plan, or one of a version that this code does not know.
            UnknownName: Its strategy does not exist here.
        """
        return cls(**vars(plan_json.read(text)))

    def replay(self) -> Plan:
        """The plan again, from its group, strategy and options alone; equal to this one unless the code changed."""
        facts = [fact for fact in self.facts if fact.kind == "garbage-user-data"]
        made = strategies.strategy(self.strategy, **self.options)
        return planned(decoded(self.strategy, self.group, facts, self.generations), made)


def plan(group: Group, strategy: str = "cooperative-sticky", **options: Any) -> Plan:
    """What a strategy would do with a group, and how good that is.

    A cooperative strategy takes two rebalances; the plan's target is the answer to the second.

    Args:
        group: Members with their claims, topics with their partition counts, racks.
        strategy: A name of `core.strategies.STRATEGIES`, such as ``"range"`` or ``"cooperative-sticky"``.
        options: Those of the strategy, as its assignor class takes them.

    Returns:
        The plan: see `Plan.explain`, `Plan.to_json`, `Plan.goals`. The bounds in it are proven for any strategy: the
        best assignment is found as well, with prices that prove it.

    Raises:
        UnknownName: No strategy has that name.
        ConfigError: It has no such option, or the option doesn't take that value; or the group has no members.

    Cost: the strategy's and `sticky.assign`'s; the moves and the text when they are asked for.
    """
    made = strategies.strategy(strategy, **options)
    if not group.members:
        raise ConfigError("the group has no members: there is nobody to assign partitions to")
    return planned(decoded(strategy, group), made)


def planned(group: Decoded, made: Strategy) -> Plan:
    """`plan`, of a decoded group."""
    made.load()
    flow.load()
    assignment, facts = made.assign(group)
    target = made.settles_as(group, assignment)
    claims = group.claims or resolve(group.group)
    certificate, load = None, None
    goals: tuple[Goal, ...] = ()
    if isinstance(made, strategies.Weighted):
        load = report(claims, positions(claims.indexed, target), made.placing)
        goals = _by_work(load)
    else:
        objective = objective_of(made.name, made.options)
        certificate = certify(claims, sticky.owners(claims, objective), objective)
        if certificate:
            values = score(claims, positions(claims.indexed, target), objective)
            goals = _goals(objective, values, bound(claims, certificate))
    return Plan(
        group.group,
        made.name,
        dict(made.options),
        dict(group.generations),
        assignment,
        target,
        tuple(dict.fromkeys((*group.facts, *facts))),
        goals,
        certificate,
        load,
    )


def _goals(objective: Objective, values: Goals, least: Goals) -> tuple[Goal, ...]:
    found, reached = [], True
    for name, value, lowest in zip(objective.goals, values, least, strict=True):
        reached = reached and value == lowest
        unit = objective.unit if name == "racks" else 1
        found.append(Goal(name, number(value * unit), number(lowest * unit), reached))
    return tuple(found)


def _by_work(load: Load) -> tuple[Goal, ...]:
    within = load.greatest <= load.limit * (1 + 1e-9)
    fewest = within and load.moves <= load.least_moves
    return Goal("work", load.greatest, load.bound, within), Goal("moves", load.moves, load.least_moves, fewest)
