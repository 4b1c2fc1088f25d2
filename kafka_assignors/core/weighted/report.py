"""Figures of a plan by work as plain values: works, bound, gap, moves, coverage, the frontier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..group.claims import Claims
from ..group.indexed import UNASSIGNED, Indexed, Ints
from . import engine
from .bounds import Bound, by_member
from .frontier import frontier, least
from .model import Model
from .placing import Placing, solved


@dataclass(frozen=True)
class Load:
    """Works of members in a plan's target, and figures of its quality.

    Args:
        work: member id -> work, in the unit of the weights.
        capacity: member id -> effective capacity; 0 for an unneeded standby.
        greatest: The greatest work / capacity.
        bound: Its lower bound over all assignments.
        why: The proof of the bound: ``mean``, ``heaviest``, ``together``, ``topics`` or ``exact``; see `bounds`.
        witness: The topics (``topics``, ``together``) or the topic-partition (``heaviest``) that prove it.
        limit: The limit of `greatest`.
        moves: Partitions that leave an owner.
        least_moves: Lower bound on moves if no member may exceed the limit.
        coverage: Number of partitions with a known weight, and of all.
        epsilon: Relative excess of the limit over the bound.
        frontier: Pairs of moves and greatest / mean; see `engine.frontier`.
        advice: The reason why the bound exceeds the mean, and a remedy.
        verdict: Whether the hysteresis acts, and why; None if it was not consulted. Its inputs are options of the plan.
        state: Cost of the moves, and its lower bound, in the unit of the option `state`; None if moves are counted.
        remote: Work read from other racks, and its lower bound over all assignments; None if no racks are known.
        caps: Multiple of the hard caps that holds: 1 if all hold, None if they had to be ignored.
        caps_why: Why it is not 1: ``work`` (all work does not fit below the multiple before), ``moves`` (it does not
            with the moves that are allowed) or ``unknown`` (no assignment below it was found); "" if it is.
        budget: Moves that the option `move_budget` counts, and that option; None without it.
    """

    work: Mapping[str, float]
    capacity: Mapping[str, float]
    greatest: float
    bound: float
    why: str
    witness: tuple[Any, ...]
    limit: float
    moves: int
    least_moves: int
    coverage: tuple[int, int]
    epsilon: float
    frontier: tuple[tuple[int, float], ...]
    advice: tuple[str, ...]
    verdict: tuple[bool, str] | None = None
    state: tuple[float, float] | None = None
    remote: tuple[float, float] | None = None
    caps: float | None = 1.0
    caps_why: str = ""
    budget: tuple[int, int] | None = None

    @property
    def gap(self) -> float:
        """Relative excess of the greatest work / capacity over the bound."""
        return self.greatest / self.bound - 1 if self.bound else 0.0

    @property
    def mean(self) -> float:
        """All work / all capacity."""
        capacity = sum(self.capacity.values())
        return sum(self.work.values()) / capacity if capacity else 0.0

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Load:
        """Convert from the result of `to_json`."""
        tuples = {
            "witness": tuple(value["witness"]),
            "coverage": (value["coverage"][0], value["coverage"][1]),
            "frontier": tuple((moves, ratio) for moves, ratio in value["frontier"]),
            "advice": tuple(value["advice"]),
            **{name: value.get(name) and tuple(value[name]) for name in ("verdict", "state", "remote", "budget")},
        }
        return cls(**{**value, **tuples})

    def lines(self) -> Iterator[str]:
        """Lines of text for people."""
        measured, every = self.coverage
        yield f"  work: greatest {_n(self.greatest)}, {self.gap:.1%} above the bound {_n(self.bound)} ({self.why});"
        yield f"    up to {_n(self.limit)} is allowed (epsilon {self.epsilon}); {measured:,} of {every:,} measured"
        at_least = "the fewest possible" if self.moves <= self.least_moves else f"{self.least_moves:,} at least"
        yield f"  moves: {self.moves:,}, {at_least}"
        if self.budget is not None:
            yield f"  budget: {self.budget[0]:,} of {self.budget[1]:,} moves, until the group rests"
        if self.state is not None:
            cost, least = self.state
            yield f"  state moved: {_n(cost)}, {'the least possible' if cost <= least else f'{_n(least)} at least'}"
        if self.remote is not None:
            far, least = self.remote
            yield f"  work read from other racks: {_n(far)}; {_n(least)} at least"
        if len(self.frontier) > 1:
            points = ", ".join(f"{moves:,}: {ratio:.3g}" for moves, ratio in _some(self.frontier))
            yield f"  frontier (moves: greatest / mean): {points}"
        if self.caps != 1:
            how = "ignored" if self.caps is None else f"raised to {self.caps:.0%}"
            yield f"  the hard caps had to be {how}: {_CAPS.get(self.caps_why, 'no reason is told')}"
        if self.verdict is not None:
            yield f"  hysteresis: {'acts' if self.verdict[0] else 'waits'}: {self.verdict[1]}"
        for each in self.advice:
            yield f"  {each}"


_CAPS = {
    "work": "all work does not fit below them",
    "moves": "it takes more moves than are allowed to get below them",
    "unknown": "no assignment below them was found; that there is none is not proven",
}


def _some(frontier: Sequence[tuple[int, float]]) -> Sequence[tuple[int, float]]:
    """Up to 8 points, the first and last among them."""
    step = max(-(-(len(frontier) - 1) // 7), 1)
    return [*frontier[:-1:step], frontier[-1]]


def report(claims: Claims, target: Ints, placing: Placing) -> Load:
    """Judge a target.

    Args:
        claims: The group, its claims resolved.
        target: int[P], the number of each position's owner.
        placing: The validated options.
    """
    found, solution = solved(claims, placing)
    indexed = claims.indexed
    used = found.capacity > 0
    capacity = found.capacities
    work = np.array([math.fsum(each) for each in _works(found, target)])
    greatest = float((work[used] / capacity[used]).max()) if used.any() else 0.0
    moved = (found.holder != UNASSIGNED) & (target != UNASSIGNED) & (target != found.holder)
    ids = [member.member_id for member in indexed.members]
    mean = math.fsum(found.filled.tolist()) / math.fsum(capacity.tolist()) if used.any() else 0.0
    kind, witness = _witness(found, solution.bounds)
    paid = int(found.cost[moved].sum())
    judged, bound = solution.verdict, _round(solution.bound * found.ratio_unit)
    solution = replace(solution, owner=target, greatest=engine.ratio(found, target) if used.any() else 0.0)
    solution = replace(solution, limit=max(solution.limit, solution.greatest))
    needed = least(found, solution)
    *steps, (most, _) = frontier(found, solution)
    steps.append((most, solution.greatest))
    return Load(
        dict(zip(ids, work.tolist(), strict=True)),
        dict(zip(ids, capacity.tolist(), strict=True)),
        greatest,
        bound,
        kind,
        witness,
        max((1 + placing.options.epsilon) * bound, greatest),
        int(moved.sum()),
        needed.moves,
        found.coverage,
        placing.options.epsilon,
        tuple((moves, _round(ratio * found.ratio_unit / mean) if mean else 0.0) for moves, ratio in steps),
        tuple(_advice(found, solution.bounds, mean / found.ratio_unit)),
        None if judged is None else (judged.act, judged.why),
        (_round(paid * found.cost_unit), _round(needed.cost * found.cost_unit)) if found.cost_unit else None,
        _remote(found, target) if found.has_racks else None,
        None if solution.caps == math.inf else solution.caps,
        solution.caps_why,
        None if (budget := placing.options.move_budget) is None else (engine.moves(found, target), budget),
    )


def _round(value: float) -> float:
    """A figure of whole units, without the noise of its last digits."""
    return float(f"{value:.10g}")


def _works(found: Model, owner: Ints) -> Iterator[list[float]]:
    """The works of each member's partitions."""
    order, starts = by_member(found, owner)
    for m in range(len(found.capacity)):
        yield found.filled[order[starts[m] : starts[m + 1]]].tolist()


def _remote(found: Model, target: Ints) -> tuple[float, float]:
    """Work read from other racks, and the least that any assignment has."""
    rows, racks = found.far.rows, found.far.rack
    least = 0
    for g, who in enumerate(found.subscribers):
        here = np.flatnonzero(found.of == g)
        least += int((found.work[here] * rows[:, racks[who]].min(axis=1)[found.far.of[here]]).sum())
    return _round(found.remote(target) * found.unit), _round(least * found.unit)


def _witness(found: Model, bounds: Sequence[Bound]) -> tuple[str, tuple[Any, ...]]:
    if not bounds:
        return "mean", ()
    best, indexed = bounds[0], found.indexed
    if best.kind == "heaviest":
        (partition,) = indexed.names(np.array([best.position]))
        return best.kind, (partition.topic, partition.partition)
    return best.kind, tuple(_topics(found, indexed, best))


def _topics(found: Model, indexed: Indexed, best: Bound) -> list[str]:
    classes = set(best.classes)
    return [topic for t, topic in enumerate(indexed.topics) if int(found.of[indexed.first[t]]) in classes]


def _advice(found: Model, bounds: Sequence[Bound], mean: float) -> Iterator[str]:
    if not bounds or bounds[0].value <= mean * 1.001:
        return
    best, unit, indexed = bounds[0], found.unit, found.indexed
    above = f"{best.value / mean:.2f} of the mean is the least possible"
    if best.kind == "heaviest":
        (partition,) = indexed.names(np.array([best.position]))
        name, work = f"{partition.topic}-{partition.partition}", _n(float(found.work[best.position]) * unit)
        yield f"{above}: {name} alone has work {work}; split its keys or add partitions to {partition.topic}"
    elif best.kind == "topics":
        topics = _topics(found, indexed, best)
        some = ", ".join(topics[:3]) + (" …" if len(topics) > 3 else "")
        yield f"{above}: too few members subscribe to {some}; add members"
    elif best.kind == "mean":
        yield f"{above}: hard caps keep members below the mean; raise them or add members"
    else:
        yield f"{above}: partitions are too few or too heavy to share evenly; add partitions"


def _n(value: float) -> str:
    return f"{value:,.4g}"
