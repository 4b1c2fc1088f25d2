"""Placement by work: how close to the bound, how many moves, how long; peers in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from kafka_assignors.core.group import Group, Member
from kafka_assignors.core.group.claims import Claims, resolve
from kafka_assignors.core.group.indexed import UNASSIGNED
from kafka_assignors.core.weighted import engine, frontier, hysteresis
from kafka_assignors.core.weighted.model import Model, Wishes, model
from kafka_assignors.core.weighted.placing import load

from .load_rules import Floats, Ints, Kcl, Rule, all_rules, loads_of, longest_first
from .result import Result

DRIFT = 0.3
"""Standard deviation of the step of a weight's logarithm; mean reversion keeps weights lognormal with sigma 1."""
CHECK_S, HOUR_S = 30, 3_600
LATE_S, TICK_S = 10, 5


def run(quick: bool) -> Iterator[Result]:
    """``drift/…``, ``fresh/…``, ``join/…``, ``jitter/…``, ``late/…``, ``planted``, ``restricted-…``: see README.md."""
    load()
    yield from _drift(20 if quick else 100)
    for name, works in (("lognormal", _lognormal(1000)), ("zipf0.8", 1 / np.arange(1, 1001) ** 0.8)):
        yield _fresh(name, works)
    yield from _join(5 if quick else 40)
    yield from _jitter(HOUR_S // 6 if quick else HOUR_S)
    yield from _late(3 if quick else 20)
    yield _planted(20 if quick else 200)
    yield _restricted("restricted-1e5x200", 1000, 100, 200, rounds=1 if quick else 3)
    if not quick:
        yield _restricted("restricted-1e6x2000", 1000, 1000, 2000, rounds=3)
        yield _restricted("restricted-1e6x2000/drift", 1000, 1000, 2000, rounds=3, drift=True)


def _lognormal(count: int, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).lognormal(0, 1, count)


def _modelled(works: Floats, owner: Ints, members: int, also: Wishes | None = None) -> Model:
    ids = [f"m{m:03d}" for m in range(members)]
    owned: list[list[tuple[str, int]]] = [[] for _ in ids]
    for p, m in enumerate(owner.tolist()):
        if m != UNASSIGNED:
            owned[m].append(("t", p))
    group = Group(
        [Member(m, {"t"}, owned=mine, generation=1) for m, mine in zip(ids, owned, strict=True)], {"t": len(works)}
    )
    return model(resolve(group), {"t": works.tolist()}, {}, also)


def _ours(works: Floats, owner: Ints, members: int) -> Ints:
    return engine.solve(_modelled(works, owner, members), engine.PlacementOptions()).owner


def _drift(steps: int) -> Iterator[Result]:
    """1,000 partitions, 20 members, all weights change by 30 % a step."""
    partitions, members = 1000, 20
    nobody = np.full(partitions, UNASSIGNED)
    for name, place in {"ours": _ours, **all_rules()}.items():
        rng = np.random.default_rng(7)
        log = rng.normal(0, 1, partitions)
        owner = longest_first(np.exp(log), nobody, members)
        spent, moves, least, ratios, limits = [], 0, 0, [], []
        for _ in range(steps):
            log = np.sqrt(1 - DRIFT**2) * log + DRIFT * rng.normal(0, 1, partitions)
            works = np.exp(log)
            problem = _modelled(works, owner, members)
            solution = engine.solve(problem, engine.PlacementOptions())
            began = time.thread_time()
            then = (
                engine.solve(problem, engine.PlacementOptions()).owner
                if name == "ours"
                else place(works, owner, members)
            )
            spent.append((time.thread_time() - began) * 1000)
            moves += int((then != owner).sum())
            least += frontier.least(problem, solution).moves
            ratios.append(_ratio(works, then, members))
            limits.append(solution.bound / (float(problem.work.sum()) / members))
            owner = then
        note = (
            f"{moves:,} moves in {steps} steps, {least:,} proven necessary from where it was; "
            f"max/mean {statistics.mean(ratios):.3f} on average, {max(ratios):.3f} at most (bound {max(limits):.3f})"
        )
        raw = {"cpu_ms": spent, "moves": moves, "least": least, "max_over_mean": ratios, "bound_over_mean": limits}
        yield Result(f"drift/{name}", statistics.median(spent), "ms CPU", note=note, raw=raw)


def _ratio(works: Floats, owner: Ints, members: int) -> float:
    return float(np.bincount(owner, works, members).max()) / (float(works.sum()) / members)


def _fresh(name: str, works: Floats) -> Result:
    problem = _modelled(works, np.full(len(works), UNASSIGNED), 20)
    began = time.thread_time()
    solution = engine.solve(problem, engine.PlacementOptions())
    spent = (time.thread_time() - began) * 1000
    gap = solution.greatest / solution.bound - 1
    note = f"1,000 x 20: {gap:.4%} above the bound ({solution.bounds[0].kind})"
    return Result(f"fresh/{name}", spent, "ms CPU", note=note, raw={"gap": gap, "cpu_ms": [spent]})


def _join(seeds: int) -> Iterator[Result]:
    """One member joins 80 with 100 partitions; equal weights and lognormal ones."""
    for kind in ("equal", "lognormal"):
        counted: dict[str, list[int]] = {}
        for seed in range(seeds if kind == "lognormal" else 1):
            works = _lognormal(100, seed) if kind == "lognormal" else np.ones(100)
            before = _ours(works, np.full(100, UNASSIGNED), 80)
            for name, place in {"ours": _ours, **all_rules()}.items():
                counted.setdefault(name, []).append(int((place(works, before, 81) != before).sum()))
        for name, moves in counted.items():
            note = f"one joins 80, 100 partitions: {max(moves)} moves at most, {statistics.mean(moves):.1f} on average"
            yield Result(f"join/{kind}/{name}", max(moves), "moves", note=note, raw={"moves": moves})


class _Steady:
    """Ours with its hysteresis: what a leader remembers between two checks."""

    def __init__(self, every_s: int) -> None:
        self._every_s, self._checks = every_s, 0
        self._since: int | None = None
        self._moved: dict[int, int] = {}
        self._now = 0

    def __call__(self, works: Floats, owner: Ints, members: int) -> Ints:
        self._now += self._every_s
        resting = [p for p, at in self._moved.items() if not hysteresis.rested(self._now - at)]
        problem = _modelled(works, owner, members, Wishes(resting={"t": resting}))
        since_s = None if self._since is None else float(self._now - self._since)
        solution = engine.solve(problem, engine.PlacementOptions(hysteresis=True, checks=self._checks, since_s=since_s))
        ratio = _ratio(works, owner, members) * float(works.sum()) / members / (solution.bound * problem.unit)
        self._checks = self._checks + 1 if ratio > hysteresis.IN_A_ROW else 0
        moved = np.flatnonzero(solution.owner != owner).tolist()
        if moved:
            self._since, self._checks = self._now, 0
            self._moved.update(dict.fromkeys(moved, self._now))
        return solution.owner


def _jitter(seconds: int) -> Iterator[Result]:
    """Each weight is 20 % up or down at each check, every 30 s; 1,000 partitions, 20 members, balanced at the start."""
    base = _lognormal(1000, 3)
    start = longest_first(base, base.astype(np.int64), 20)
    ways: dict[str, Rule] = {"ours": _Steady(CHECK_S), **all_rules()}
    for name, place in ways.items():
        rng, owner, moves = np.random.default_rng(4), start, 0
        for _ in range(seconds // CHECK_S):
            then = place(base * rng.uniform(0.8, 1.2, len(base)), owner, 20)
            moves += int((then != owner).sum())
            owner = then
        note = f"{seconds // 60} min of +-20 %, a check each {CHECK_S} s: {moves:,} moves"
        yield Result(f"jitter/{name}", moves, "moves", note=note, raw={"moves": moves})


def _late(seeds: int) -> Iterator[Result]:
    """Loads are told 10 s late. Three of 200 partitions become ten times as heavy; a check each 5 s for 15 minutes."""
    for name in ("ours", "kcl"):
        moves, again, ratios = [], [], []
        for seed in range(seeds):
            result = _late_once(name, seed)
            moves.append(result["moves"])
            again.append(result["again"])
            ratios.append(result["max_over_bound"])
        note = (
            f"told {LATE_S} s late: {statistics.mean(moves):.1f} moves on average, {max(again)} partitions at most "
            f"moved twice; max/bound {max(ratios):.3f} at most in the end"
        )
        raw = {"moves": moves, "again": again, "max_over_bound": ratios}
        yield Result(f"late/{name}", max(again), "partitions moved twice", note=note, raw=raw)


def _late_once(name: str, seed: int) -> dict[str, Any]:
    rng, members = np.random.default_rng(seed), 8
    works = rng.lognormal(0, 0.5, 200)
    owner = longest_first(works, works.astype(np.int64), members)
    heavier = works.copy()
    heavier[np.flatnonzero(owner == 0)[:3]] *= 10
    late = LATE_S // TICK_S
    ours, kcl = _Steady(TICK_S), Kcl()
    seen, owners, times = [works] * late, [owner] * late, np.zeros(200, np.int64)
    for tick in range(900 // TICK_S):
        seen.append(heavier if tick >= 6 else works)
        late_works = seen[-1 - late]  # works of partitions, as they were 10 s ago
        if name == "ours":
            then = ours(late_works, owner, members)
        else:  # a worker reports its own load: that of the leases it had 10 s ago
            then = kcl.taken(late_works, loads_of(late_works, owners[-late], members), owner)
        times += then != owner
        owners.append(then)
        owner = then
    bound = max(float(heavier.mean()) * len(heavier) / members, float(heavier.max()))
    ratio = float(loads_of(heavier, owner, members).max()) / bound
    return {"moves": int(times.sum()), "again": int((times > 1).sum()), "max_over_bound": ratio}


def _planted(seeds: int) -> Result:
    """16 partitions per member, cut from 8 bars of equal length: all members can have exactly the mean."""
    gaps = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        # Parts of at least 5, which is above the floor: a lighter one would count as 5 % of the median.
        inner = (np.sort(rng.choice(np.arange(1, 921), 15, replace=False)) for _ in range(8))
        works = rng.permutation(np.concatenate([np.diff([0, *cuts.tolist(), 920]) + 5 for cuts in inner])).astype(float)
        solution = engine.solve(_modelled(works, np.full(128, UNASSIGNED), 8), engine.PlacementOptions())
        gaps.append(solution.greatest / solution.bound - 1)
    optima = sum(gap <= 1e-6 for gap in gaps)
    note = f"the optimum itself: {optima} of {seeds}; worst gap {max(gaps):.4%}"
    return Result("planted", 100 * (1 - optima / seeds), "% not found", note=note, raw={"gap": gaps})


def restricted(
    topics: int, partitions: int, members: int, *, drift: bool
) -> tuple[Group, Claims, dict[str, list[float]]]:
    """A group in which a quarter of the members read each topic, its claims, and the weights now.

    Args:
        topics: How many.
        partitions: Partitions of each topic.
        members: How many.
        drift: Whether all partitions are owned, by earlier weights; else nobody owns any.
    """
    rng = np.random.default_rng(2)
    reads: list[set[str]] = [set() for _ in range(members)]
    weights = {}
    for t in range(topics):
        weights[f"t{t:04d}"] = rng.lognormal(0, 1, partitions).tolist()
        for m in rng.choice(members, members // 4, replace=False).tolist():
            reads[m].add(f"t{t:04d}")
    group = Group([Member(f"m{m:04d}", mine) for m, mine in enumerate(reads)], dict.fromkeys(weights, partitions))
    claims = resolve(group)
    if drift:
        claims = replace(claims, holder=engine.solve(model(claims, weights, {}), engine.PlacementOptions()).owner)
        for topic, old in weights.items():
            change = DRIFT * rng.normal(0, 1, partitions) + 0.2 * rng.normal()  # partitions, and whole topics
            weights[topic] = (np.array(old) * np.exp(change)).tolist()
    return group, claims, weights


def _restricted(name: str, topics: int, partitions: int, members: int, rounds: int, *, drift: bool = False) -> Result:
    """Each topic is read by a quarter of the members. Nobody owns anything; or all is owned, and all weights drift."""
    group, claims, weights = restricted(topics, partitions, members, drift=drift)
    spent = []
    for _ in range(rounds):
        began = time.thread_time()
        problem = model(claims if drift else resolve(group), weights, {})
        solution = engine.solve(problem, engine.PlacementOptions())
        spent.append((time.thread_time() - began) * 1000)
    gap = solution.greatest / solution.bound - 1
    many, needed = engine.moves(problem, solution.owner), frontier.least(problem, solution).moves
    moves = f"; {many:,} moves, {needed:,} proven necessary" if drift else ""
    size = f"{topics * partitions:,} partitions, {members:,} members"
    note = f"{size}: {gap:.4%} above the bound ({solution.bounds[0].kind}){moves}"
    raw = {"gap": gap, "cpu_ms": spent, "moves": many, "least": needed}
    return Result(name, statistics.median(spent), "ms CPU", note=note, raw=raw)
