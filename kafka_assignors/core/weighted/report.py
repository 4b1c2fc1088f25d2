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
from .hysteresis import multiple
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
        frontier: Pairs of moves and greatest / mean; see `frontier.frontier`.
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
        for line in self.advice:
            yield f"  {line}"


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
    """Judge a target: int[P], the number of each position's owner."""
    model, solution = solved(claims, placing)
    indexed = claims.indexed
    used = model.capacity > 0
    capacity = model.capacities
    work = np.array([math.fsum(works) for works in _works(model, target)])
    greatest = float((work[used] / capacity[used]).max()) if used.any() else 0.0
    moved = (model.holder != UNASSIGNED) & (target != UNASSIGNED) & (target != model.holder)
    ids = [member.member_id for member in indexed.members]
    mean = math.fsum(model.filled.tolist()) / math.fsum(capacity.tolist()) if used.any() else 0.0
    kind, witness = _witness(model, solution.bounds)
    paid = int(model.cost[moved].sum())
    judged, bound = solution.verdict, _round(solution.bound * model.ratio_unit)
    solution = replace(solution, owner=target, greatest=engine.ratio(model, target) if used.any() else 0.0)
    solution = replace(solution, limit=max(solution.limit, solution.greatest))
    needed = least(model, solution)
    *steps, (most, _) = frontier(model, solution)
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
        model.coverage,
        placing.options.epsilon,
        tuple((moves, _round(ratio * model.ratio_unit / mean) if mean else 0.0) for moves, ratio in steps),
        tuple(_advice(model, solution.bounds, mean / model.ratio_unit)),
        None if judged is None else (judged.act, judged.why),
        (_round(paid * model.cost_unit), _round(needed.cost * model.cost_unit)) if model.cost_unit else None,
        _remote(model, target) if model.has_racks else None,
        None if solution.caps == math.inf else solution.caps,
        solution.caps_why,
        None if (budget := placing.options.move_budget) is None else (engine.moves(model, target), budget),
    )


def _round(value: float) -> float:
    """A figure of whole units, without the noise of its last digits."""
    return float(f"{value:.10g}")


def _works(model: Model, owner: Ints) -> Iterator[list[float]]:
    order, starts = by_member(model, owner)
    for m in range(len(model.capacity)):
        yield model.filled[order[starts[m] : starts[m + 1]]].tolist()


def _remote(model: Model, target: Ints) -> tuple[float, float]:
    """Work read from other racks, and the least that any assignment has."""
    rows, racks = model.far.rows, model.far.rack
    least = 0
    for g, who in enumerate(model.subscribers):
        here = np.flatnonzero(model.of == g)
        least += int((model.work[here] * rows[:, racks[who]].min(axis=1)[model.far.of[here]]).sum())
    return _round(model.remote(target) * model.unit), _round(least * model.unit)


def _witness(model: Model, bounds: Sequence[Bound]) -> tuple[str, tuple[Any, ...]]:
    if not bounds:
        return "mean", ()
    best, indexed = bounds[0], model.indexed
    if best.kind == "heaviest":
        (partition,) = indexed.names(np.array([best.position]))
        return best.kind, (partition.topic, partition.partition)
    return best.kind, tuple(_topics(model, indexed, best))


def _topics(model: Model, indexed: Indexed, best: Bound) -> list[str]:
    classes = set(best.classes)
    return [topic for t, topic in enumerate(indexed.topics) if int(model.of[indexed.first[t]]) in classes]


def _advice(model: Model, bounds: Sequence[Bound], mean: float) -> Iterator[str]:
    if not bounds or bounds[0].value <= mean * 1.001:
        return
    best, unit, indexed = bounds[0], model.unit, model.indexed
    above = f"{multiple(best.value / mean)} of the mean is the least possible"
    if best.kind == "heaviest":
        (partition,) = indexed.names(np.array([best.position]))
        name, work = f"{partition.topic}-{partition.partition}", _n(float(model.work[best.position]) * unit)
        yield f"{above}: {name} alone has work {work}; split its keys or add partitions to {partition.topic}"
    elif best.kind == "topics":
        topics = _topics(model, indexed, best)
        some = ", ".join(topics[:3]) + (" …" if len(topics) > 3 else "")
        yield f"{above}: too few members subscribe to {some}; add members"
    elif best.kind == "mean":
        yield f"{above}: hard caps keep members below the mean; raise them or add members"
    else:
        yield f"{above}: partitions are too few or too heavy to share evenly; add partitions"


def _n(value: float) -> str:
    return f"{value:,.4g}"
