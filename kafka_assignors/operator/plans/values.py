"""A strategy's decision on a group, as values: the input, the assignment, and its goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...core.group import Group, TopicPartition
from ...core.group.assignment import Assignment
from ...core.group.facts import Fact
from ...core.sticky.objective import Objective
from ...core.strategies import strategy
from ...core.weighted.report import Load
from .certificate import Certificate


@dataclass(frozen=True)
class Goal:
    """One goal of a plan. Each goal outweighs all goals after it.

    Args:
        name: ``spread`` (sum of squared counts per topic and member; only if it is the first goal), ``balance`` (sum
            of squared loads), ``racks`` (cost of reading from other racks) or ``moves`` (partitions that leave their
            undisputed owner). A plan by work has ``work`` (the greatest work / capacity, reached if it is within the
            limit of `Load`) and ``moves``.
        value: The value of the plan's `Plan.target`.
        least: Lower bound on the value over all assignments whose earlier goals are at their least.
        reached: Whether this goal and all earlier goals are at their least. `value` may be below `least` if an earlier
            goal is not reached.
    """

    name: str
    value: float
    least: float
    reached: bool

    def __str__(self) -> str:
        """Its value and its bound, above which a plan by work may lie within the assignor's limit.

        >>> print(Goal("moves", 3, 3, True), Goal("work", 0.537, 0.5221, True), Goal("racks", 9, 7, False), sep="; ")
        moves 3 (the least); work 0.537 (within the limit; at least 0.5221); racks 9 (at least 7)
        """
        if self.reached and self.value <= self.least:
            return f"{self.name} {self.value:g} (the least)"
        return f"{self.name} {self.value:g} ({'within the limit; ' if self.reached else ''}at least {self.least:g})"


@dataclass(frozen=True)
class Move:
    """A partition that gets a new owner.

    Args:
        old: The member that holds it; None if no member does, or if several claim it.
        kind: ``spread``, ``balance``, ``racks``, ``exchange`` (its owner gets other partitions instead), ``unowned``,
            ``disputed``, ``unsubscribed`` (its owner left the topic), ``leaving`` (its owner leaves the group),
            ``standby`` (its owner is a standby), or ``rule`` (the strategy does not optimise).
        why: The reason in one sentence.
    """

    partition: TopicPartition
    old: str | None
    new: str
    kind: str
    why: str


@dataclass(frozen=True, repr=False)
class Decision:
    """A strategy's assignment of a group, with the proof of its quality.

    Args:
        group: The group, with its claims.
        generations: member id -> generation in its subscription; see `Decoded`.
        assignment: member id -> topic -> ascending partition ids, for this rebalance.
        target: The assignment after the last rebalance. If this rebalance withholds partitions, it is the assignment of
            the next one, where partitions that stay in place decide ties; otherwise it is `assignment`.
        facts: Oddities of the group, for example wrong claims.
        goals: The goals of `target`, in the order of the objective (the default objective if the strategy has none).
        certificate: Prices that prove the goals' least values; see `certificate.bound`.
        load: Work per member and the bounds of a plan by work; None for strategies that count partitions.
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
        """Whether the target is proven to be an optimal assignment, by the order of the goals."""
        return bool(self.goals) and self.goals[-1].reached

    @cached_property
    def loads(self) -> Mapping[str, int]:
        """Number of partitions per member in the target."""
        return {member: sum(map(len, topics.values())) for member, topics in self.target.items()}

    @property
    def objective(self) -> Objective:
        """The objective from the strategy's options; the default one for a strategy without an objective."""
        return objective_of(self.strategy, self.options)


def objective_of(name: str, options: Mapping[str, Any]) -> Objective:
    """The objective of a strategy with options; the default one if it has none."""
    chosen = getattr(strategy(name, **options), "objective", None)
    return chosen if isinstance(chosen, Objective) else Objective()


def number(value: Any) -> float:
    """An int if it is a whole number, else a float."""
    return int(value) if value == int(value) else float(value)
