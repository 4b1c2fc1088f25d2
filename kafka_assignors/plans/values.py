"""A strategy's decision on a group as values: what was asked, the answer, and how good it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..core.group import Group, TopicPartition
from ..core.group.assignment import Assignment
from ..core.group.facts import Fact
from ..core.sticky.objective import Objective
from ..core.strategies import strategy
from ..core.weighted.report import Load
from .certificate import Certificate


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
class Decision:
    """A strategy's answer to a group, with the proof of how good it is.

    Args:
        group: The group, with its claims.
        strategy: Name of the strategy.
        options: Those of the strategy.
        generations: member id -> generation in its subscription; see `Decoded`.
        assignment: The answer: member id -> topic -> ascending partition ids.
        target: What the members have when nothing is withheld any more; `assignment`, unless it takes two rebalances.
            Then it is the answer to the second one, in which the partitions left in place by the first decide ties.
        facts: What is odd about the group.
        goals: How good `target` is, by the order of the objective (the default one for strategies that have none).
        certificate: Prices that prove the goals' least values; see `certificate.bound`.
        load: Works of members and the bounds of a plan by work; None for strategies that count partitions.
    """

    group: Group
    strategy: str
    options: Mapping[str, Any]
    generations: Mapping[str, int]
    assignment: Assignment
    target: Assignment
    facts: tuple[Fact, ...]
    goals: tuple[Goal, ...]
    certificate: Certificate | None
    load: Load | None = None

    @property
    def optimal(self) -> bool:
        """Whether the target is proven to be the best assignment there is, by the order of the goals."""
        return bool(self.goals) and self.goals[-1].reached

    @cached_property
    def loads(self) -> Mapping[str, int]:
        """Partitions of each member, in the target."""
        return {member: sum(map(len, topics.values())) for member, topics in self.target.items()}

    @property
    def objective(self) -> Objective:
        """The goals, as the strategy's options say; the default ones for a strategy without objective."""
        return objective_of(self.strategy, self.options)


def objective_of(name: str, options: Mapping[str, Any]) -> Objective:
    """The objective of a strategy with options; the default one if it has none."""
    chosen = getattr(strategy(name, **options), "objective", None)
    return chosen if isinstance(chosen, Objective) else Objective()


def number(value: Any) -> float:
    """An int if it is a whole number, else a float."""
    return int(value) if value == int(value) else float(value)
