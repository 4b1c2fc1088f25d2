"""The strategy ``weighted``: options, the assignment of one rebalance, and its facts."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..group import NO_GENERATION, Group, Partitions
from ..group.assignment import Assignment
from ..group.claims import Claims, resolve
from ..group.facts import Fact
from ..group.indexed import UNASSIGNED, Bools, Ints
from ..group.order import utf16
from ..sticky import maxflow
from . import engine
from .hysteresis import OF_CAPACITY
from .model import Model, Wishes, model
from .options import ByWorkOptions, WeightedOptions


@dataclass(frozen=True)
class Placing:
    """The validated options.

    Args:
        weights: By topic, as `model.checked` returns them.
        eager: Members that revoked everything before they joined; True for all.
        also: Priorities, hard caps, cost of state, resting partitions.
    """

    weights: Mapping[str, Any] = field(default_factory=dict)
    capacity: Mapping[str, float] = field(default_factory=dict)
    options: engine.PlacementOptions = field(default_factory=engine.PlacementOptions)
    eager: bool | frozenset[str] = False
    also: Wishes = field(default_factory=Wishes)


DEFAULT = Placing()


def placing_of(given: ByWorkOptions) -> Placing:
    """What the valid options say."""
    resting = given.resting if given.hysteresis else {}
    since_s, seconds, also = None, False, Wishes(resting=resting)
    if isinstance(given, WeightedOptions):
        since_s, seconds = given.since_s, given.seconds
        also = Wishes(given.priority, given.max_work, given.state, resting)
    of_capacity = OF_CAPACITY if seconds else 0.0
    options = engine.PlacementOptions(
        given.epsilon, given.move_budget, given.hysteresis, given.checks, since_s, of_capacity
    )
    return Placing(given.weights, given.capacity, options, given.eager, also)


def load() -> None:
    """Import slow modules now, so that it does not happen during a join."""
    maxflow.load()


def assign(group: Group, claims: Claims | None = None, *, placing: Placing = DEFAULT) -> Assignment:
    """Assign every partition to a subscriber by work; the best assignment in this order of goals.

    1. No member above its hard cap. Each topic at its subscribers of the highest priority; at standbys only if it has
       no others.
    2. No member's work / capacity above the limit, ``(1 + epsilon)`` times its lower bound (`bounds`); if no assignment
       below that is found, the least that is.
    3. The fewest moves away from undisputed owners (`claims.resolve`), or the least cost of their state; at most
       ``move_budget`` moves.
    4. Without further moves: the least work read from other racks, then evenness (the least sum of work² / capacity),
       then partitions of a topic at many members.

    A partition that leaves a member that still holds it is withheld for a round, as in `cooperative.assign`. The next
    round assigns it to its owner in the target, and no further one follows (`engine.Engine.settled`).

    `claims` is `resolve(group)`, if the caller has it. Cost: see `engine.Engine`. Deterministic under any order of
    members.
    """
    claims = claims or resolve(group)
    return claims.indexed.assignment(owners(claims, placing))


def owners(claims: Claims, placing: Placing = DEFAULT) -> Ints:
    """`assign` as an array: int[P], each position's new owner by number; `UNASSIGNED` if none this round."""
    return solved(claims, placing)[1].now


def solved(claims: Claims, placing: Placing = DEFAULT) -> tuple[Model, engine.Solution]:
    """The group in integers, and the target that this and the next rebalances lead to."""
    model = modelled(claims, placing)
    withholds, disputed = _handing_over(claims, placing)
    return model, engine.Engine(model, placing.options).settled(claims.holder, withholds, disputed)


def modelled(claims: Claims, placing: Placing) -> Model:
    """The group in integers."""
    return model(claims, placing.weights, placing.capacity, placing.also)


def by_lag(claims: Claims, placing: Placing) -> Ints:
    """The rule of kafka-lag-based-assignor: int[P], the number of each position's owner.

    Per topic, the partition with the greatest lag first, to the subscriber that has the fewest of the topic's
    partitions, then the least of its lag, then the smallest member id. An unknown lag is 0; capacities don't count.

    Source: grantneale/kafka-lag-based-assignor, ``LagBasedPartitionAssignor.assignTopic``.
    """
    indexed = claims.indexed
    lag = np.nan_to_num(modelled(claims, placing).given)
    owner = np.full(indexed.size, UNASSIGNED)
    ranks = sorted(range(len(indexed.members)), key=lambda m: utf16(indexed.members[m].member_id))
    for t in range(len(indexed.topics)):
        first, end = indexed.first[t : t + 2].tolist()
        readers = [m for m in ranks if indexed.reads[indexed.subscription[m], t]]
        heap = [(0, 0.0, place, m) for place, m in enumerate(readers)]
        for at in sorted(range(first, end), key=lambda at: (-lag[at], at)) if heap else ():
            count, total, place, m = heap[0]
            owner[at] = m
            heapq.heapreplace(heap, (count + 1, total + float(lag[at]), place, m))
    return owner


def handed_over(claims: Claims, target: Ints, placing: Placing) -> Ints:
    """A target without the partitions that members must revoke first."""
    return engine.handed_over(claims.holder, target, *_handing_over(claims, placing))


def _handing_over(claims: Claims, placing: Placing) -> tuple[Bools, Ints]:
    """bool[M], members that hold until told to revoke; int[], positions that several, or leaving ones, hold."""
    holds: Bools = np.array(
        [
            placing.eager is False or (placing.eager is not True and member.member_id not in placing.eager)
            for member in claims.indexed.members
        ],
        bool,
    )
    positions = [at[holds[by]] for at, by in (claims.disputed_at, claims.leaving_at)]
    return holds, np.concatenate(positions)


def facts(group: Group, placing: Placing = DEFAULT) -> Iterable[Fact]:
    """Facts about weights and capacities."""
    members = [replace(member, owned=Partitions.of(()), generation=NO_GENERATION) for member in group.members]
    yield from facts_of(modelled(resolve(Group(members, group.partitions)), placing))  # ownership makes no difference


def facts_of(model: Model) -> Iterable[Fact]:
    """`facts` of a group in integers."""
    yield from model.facts
    measured, every = model.coverage
    if not measured and every:
        yield Fact("weights-none", "", "no member sends weights: every partition counts the same")
