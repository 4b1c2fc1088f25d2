"""A plan of a group: the assignment, its moves with their reasons, and proven bounds on its goals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, overload

from ...core import strategies
from ...core.group import Group, TopicPartition
from ...core.group.claims import Claims, resolve
from ...core.group.facts import OF_BYTES
from ...core.group.indexed import Ints
from ...core.group.invariants import Breach, violations
from ...core.reading import decoded
from ...core.sticky import sticky
from ...core.sticky.objective import Objective
from ...core.strategy import Decoded, Strategy
from ...core.weighted.report import Load, report
from ...errors import ConfigError
from . import explain, moves, plan_json, work_proof
from .certificate import Goals, bound, positions, score
from .prices import certify
from .sizing import Sizing, sizing
from .values import Decision, Goal, Move, number, objective_of


class Plan(Decision):
    """A decision that explains itself: ``str(plan)`` is the explanation, ``repr(plan)`` one short line."""

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Every partition whose new owner does not hold it yet, by topic and partition."""
        return moves.moves(self, self._claims)

    @cached_property
    def withheld(self) -> Mapping[TopicPartition, tuple[str, ...]]:
        """Partitions that no member gets in this rebalance -> the members that must revoke them first."""
        return moves.withheld(self, self._claims)

    @cached_property
    def _claims(self) -> Claims:
        return resolve(self.group)

    def explain(self) -> str:
        """The plan as text for people: every member and move of a small group, totals of a large one.

        A plan from JSON is checked first. If a claim of it does not hold, the text says which, and nothing else. What
        could not be checked without a solver stands at the end.
        """
        breaches = self.violations() if self._saved else []
        if any(breach.law != work_proof.SOLVER for breach in breaches):
            return explain.unproven(self, breaches)
        return "\n".join((explain.explain(self, self.moves, self.withheld), *map(str, breaches)))

    _saved = False  # whether it was read from JSON, which anybody may have changed

    def violations(self) -> list[Breach]:
        """Claims of the plan that do not hold for its group and options; empty if it is proven.

        Of a plan by work, see `work_proof.check`; some of these need the extra ``solver``. Of others: the laws of an
        assignment, and that its goals are those of the target, with the least values that its prices prove.

        Cost: that of `work_proof.check`; without work, O(partitions * distinct subscriptions).
        """
        if self.load is not None:
            return work_proof.verify(self)
        breaches = [*work_proof.ids(self), *violations(self.group, self.target)]
        if breaches:
            return breaches
        try:
            proven = self._proven()
        except (TypeError, ValueError, KeyError, IndexError, OverflowError) as error:
            return [Breach("price", (), None, f"the prices are not those of this group: {error!r}")]
        if proven == self.goals:
            return []
        shown = [
            [(goal.name, goal.value, goal.least, goal.reached) for goal in goals] for goals in (proven, self.goals)
        ]
        return [Breach("goals", (), None, f"target and prices prove {shown[0]}, the plan says {shown[1]}")]

    def _proven(self) -> tuple[Goal, ...]:
        """The goals of the target, with what the prices prove."""
        if self.certificate is None:
            return ()
        made = strategies.strategy(self.strategy, **self.options)
        units, owner = _units(made, self._claims, positions(self._claims.indexed, self.target))
        return _goals(self.objective, score(units, owner, self.objective), bound(units, self.certificate))

    def __str__(self) -> str:
        return self.explain()

    def __repr__(self) -> str:
        options = "".join(f", {name}={explain.shortened(repr(value), 40)}" for name, value in self.options.items())
        best = "optimal" if self.optimal else "not optimal" if self.goals else "no proof"
        return (
            f"<Plan {self.strategy}{options}: {sum(self.loads.values()):,} partitions to {len(self.loads):,} members, "
            f"{best}>"
        )

    def to_json(self) -> str:
        """The plan as one line of JSON, including its input; see `plan_json`."""
        return plan_json.write(self, self.moves, self.withheld)

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """The plan that `to_json` wrote.

        Raises:
            ConfigError: The text is not a plan, or a plan of an unknown version.
            UnknownName: This installation does not have its strategy.
        """
        made = cls(**vars(plan_json.read(text)))
        object.__setattr__(made, "_saved", True)
        return made

    def replay(self) -> Plan:
        """Compute the plan again from its group, strategy and options; equal to this one unless the code changed."""
        facts = [fact for fact in self.facts if fact.kind in OF_BYTES]
        made = strategies.strategy(self.strategy, **self.options)
        return planned(decoded(made, self.group, facts, self.generations), made)


@overload
def plan(group: Group, strategy: str = ..., *, members: None = None, **options: Any) -> Plan: ...


@overload
def plan(group: Group, strategy: str = ..., *, members: Iterable[int], **options: Any) -> Sizing: ...


def plan(
    group: Group, strategy: str = "cooperative-sticky", *, members: Iterable[int] | None = None, **options: Any
) -> Plan | Sizing:
    """The plan of a strategy for a group: its assignment, and proven bounds on the goals.

    A cooperative strategy takes two rebalances; the plan's target is the assignment of the second.

    Args:
        group: Members with their claims, topics with their partition counts, racks.
        strategy: A name in `core.strategies.STRATEGIES`, for example ``"range"`` or ``"cooperative-sticky"``.
        members: Sizes of the group, such as ``range(1, 40)``: how many members does it need?
        options: The strategy's options, as its assignor class takes them. ``protocol="consumer"`` plans for a KIP-848
            group: ``"uniform"`` and ``"range"`` are the broker's assignors then, see `core.broker_side.BrokerSide`.

    Returns:
        With `members`, a table of the group at these sizes: see `sizing.sizing`. Otherwise the plan: see
        `Plan.explain`, `Plan.to_json`, `Plan.goals`. Its bounds are proven for every strategy, because the optimal
        assignment is computed too, with prices that prove it. Under ``copartitioned`` the goals count bundles.

    Raises:
        UnknownName: No strategy has that name.
        ConfigError: The strategy has no such option, an option's value is invalid, or the group has no members.

    Cost: the strategy's and that of `sticky.assign`. Moves and text are computed on first access.
    """
    if not isinstance(group, Group):
        raise ConfigError(f"plan() takes a Group, not {group!r}")
    made = strategies.strategy(strategy, **options)
    if not group.members:
        raise ConfigError("the group has no members; a plan needs at least one")
    return planned(decoded(made, group), made) if members is None else sizing(group, made, members)


def planned(group: Decoded, made: Strategy) -> Plan:
    """The plan of a decoded group."""
    made.load()
    assignment, facts = made.assign(group)
    target = made.settles_as(group, assignment)
    claims = group.claims or resolve(group.group)
    certificate, load = None, None
    goals: tuple[Goal, ...] = ()
    if isinstance(made, strategies.ByWork):
        load = report(claims, positions(claims.indexed, target), made.placing)
        goals = _by_work(load)
    else:
        objective = objective_of(made.name, made.options)
        units, owner = _units(made, claims, positions(claims.indexed, target))
        certificate = certify(units, sticky.owners(units, objective), objective)
        if certificate:
            goals = _goals(objective, score(units, owner, objective), bound(units, certificate))
    return Plan(
        group.group, made.name, dict(made.options), dict(group.generations), assignment, target,
        tuple(dict.fromkeys((*group.facts, *facts))), goals, certificate, load,
    )  # fmt: skip


def _units(made: Strategy, claims: Claims, owner: Ints) -> tuple[Claims, Ints]:
    """What the goals count, partitions or bundles of them, and the owner of each."""
    if not isinstance(made, strategies.CoPartitioned):
        return claims, owner
    bundles = made.bundled(claims)
    return bundles.claims, bundles.owners(owner)


def _goals(objective: Objective, values: Goals, least: Goals) -> tuple[Goal, ...]:
    goals, reached = [], True
    for name, value, lowest in zip(objective.goals, values, least, strict=True):
        reached = reached and value == lowest
        unit = objective.unit if name == "racks" else 1
        goals.append(Goal(name, number(value * unit), number(lowest * unit), reached))
    return tuple(goals)


def _by_work(load: Load) -> tuple[Goal, ...]:
    within = load.greatest <= load.bound * (1 + load.epsilon) * (1 + 1e-9)
    fewest = within and load.moves <= load.least_moves
    return Goal("work", load.greatest, load.bound, within), Goal("moves", load.moves, load.least_moves, fewest)
