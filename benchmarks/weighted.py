"""Placement by work: distance from the bound, moves and time, with peers in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from kafka_assignors.core.group import Group, Member
from kafka_assignors.core.group.claims import resolve
from kafka_assignors.core.group.indexed import UNASSIGNED
from kafka_assignors.core.weighted import engine
from kafka_assignors.core.weighted.model import Model, model
from kafka_assignors.core.weighted.placing import load

from .result import Result

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Peer = Callable[[Floats, Ints, int], Ints]
DRIFT = 0.3
"""Standard deviation of the step of a weight's logarithm; mean reversion keeps weights lognormal with sigma 1."""


def run(quick: bool) -> Iterator[Result]:
    """``drift/…``: 1,000 partitions, 20 members, 30 % drift a step; ``fresh/…``; ``restricted-1e5x200``."""
    load()
    yield from _drift(20 if quick else 100)
    for name, works in (("lognormal", _lognormal(1000)), ("zipf0.8", 1 / np.arange(1, 1001) ** 0.8)):
        yield _fresh(name, works)
    yield _restricted("restricted-1e5x200", 1000, 100, 200, rounds=1 if quick else 3)
    if not quick:
        yield _restricted("restricted-1e6x2000", 1000, 1000, 2000, rounds=1)


def _lognormal(count: int) -> Floats:
    return np.random.default_rng(1).lognormal(0, 1, count)


def _modelled(works: Floats, owner: Ints, members: int) -> Model:
    ids = [f"m{m:03d}" for m in range(members)]
    owned: list[list[tuple[str, int]]] = [[] for _ in ids]
    for p, m in enumerate(owner.tolist()):
        if m != UNASSIGNED:
            owned[m].append(("t", p))
    group = Group(
        [Member(m, {"t"}, owned=mine, generation=1) for m, mine in zip(ids, owned, strict=True)], {"t": len(works)}
    )
    return model(resolve(group), {"t": works.tolist()}, {})


def _drift(steps: int) -> Iterator[Result]:
    partitions, members = 1000, 20
    ways: dict[str, Peer] = {"ours": _ours, "lpt": _lpt, "kcl": _kcl, "hermes": _hermes, "lag": _grantneale}
    nobody = np.full(partitions, UNASSIGNED)
    for name, place in {**ways, "sticky": _sticky}.items():
        rng = np.random.default_rng(7)
        log = rng.normal(0, 1, partitions)
        owner = _lpt(np.exp(log), nobody, members)
        spent, moves, least, ratios, limits = [], 0, 0, [], []
        for _ in range(steps):
            log = np.sqrt(1 - DRIFT**2) * log + DRIFT * rng.normal(0, 1, partitions)
            works = np.exp(log)
            found = _modelled(works, owner, members)
            known = engine.solve(found, engine.Options())
            began = time.thread_time()
            then = known.owner if name == "ours" else place(works, owner, members)
            if name == "ours":
                then = engine.solve(found, engine.Options()).owner
            spent.append((time.thread_time() - began) * 1000)
            moves += int((then != owner).sum())
            least += known.least
            ratios.append(float(np.bincount(then, works, members).max()) / (float(works.sum()) / members))
            limits.append(known.bound / (float(found.work.sum()) / members))
            owner = then
        note = (
            f"{moves:,} moves in {steps} steps, {least:,} of them proven necessary; "
            f"max/mean {statistics.mean(ratios):.3f} on average, {max(ratios):.3f} at most (bound {max(limits):.3f})"
        )
        raw = {"cpu_ms": spent, "moves": moves, "least": least, "max_over_mean": ratios, "bound_over_mean": limits}
        yield Result(f"drift/{name}", statistics.median(spent), "ms CPU", note=note, raw=raw)


def _ours(works: Floats, owner: Ints, members: int) -> Ints:
    return engine.solve(_modelled(works, owner, members), engine.Options()).owner


def _lpt(works: Floats, owner: Ints, members: int) -> Ints:  # noqa: ARG001
    """Longest first, ignoring current owners (Graham 1969)."""
    loads, then = np.zeros(members), np.zeros(len(works), np.int64)
    for p in np.argsort(-works, kind="stable").tolist():
        then[p] = m = int(loads.argmin())
        loads[m] += works[p]
    return then


def _sticky(works: Floats, owner: Ints, members: int) -> Ints:  # noqa: ARG001
    """By counts: they do not change, so no partition moves."""
    return owner


def _grantneale(works: Floats, owner: Ints, members: int) -> Ints:  # noqa: ARG001
    """Heaviest first to the member with the fewest partitions, then the least work (kafka-lag-based-assignor)."""
    loads, counts, then = np.zeros(members), np.zeros(members, np.int64), np.zeros(len(works), np.int64)
    for p in np.argsort(-works, kind="stable").tolist():
        few = np.flatnonzero(counts == counts.min())
        then[p] = m = int(few[loads[few].argmin()])
        loads[m] += works[p]
        counts[m] += 1
    return then


def _kcl(works: Floats, owner: Ints, members: int) -> Ints:
    """KCL 3's rule: a worker more than 10 % above the mean gives leases worth 60 % of its excess to the least loaded.

    Its EMA (0.5) of measured loads is left out, because this run has exact loads.
    """
    then: Ints = owner.copy()
    mean = float(works.sum()) / members
    rng = np.random.default_rng(len(works))
    loads = np.bincount(then, works, members)
    for m in np.flatnonzero(loads > 1.1 * mean).tolist():
        take = 0.6 * (loads[m] - mean)
        for p in rng.permutation(np.flatnonzero(then == m)).tolist():
            if take <= 0:
                break
            to = int(loads.argmin())
            if works[p] <= take:
                then[p], take = to, take - works[p]
                loads[m], loads[to] = loads[m] - works[p], loads[to] + works[p]
    return then


def _hermes(works: Floats, owner: Ints, members: int) -> Ints:
    """Hermes' rule: swaps between the heaviest and the lightest that gain at least 5 % of the mean."""
    then: Ints = owner.copy()
    mean = float(works.sum()) / members
    for _ in range(10 * members):
        loads = np.bincount(then, works, members)
        a, b = int(loads.argmax()), int(loads.argmin())
        mine, theirs = np.flatnonzero(then == a), np.flatnonzero(then == b)
        gap = works[mine][:, None] - works[theirs][None, :]
        wish = (loads[a] - loads[b]) / 2
        best = np.unravel_index(int(np.abs(gap - wish).argmin()), gap.shape)
        gain = min(gap[best], loads[a] - loads[b] - gap[best])
        if gain < 0.05 * mean:
            break
        then[mine[best[0]]], then[theirs[best[1]]] = b, a
    return then


def _fresh(name: str, works: Floats) -> Result:
    found = _modelled(works, np.full(len(works), UNASSIGNED), 20)
    began = time.thread_time()
    solution = engine.solve(found, engine.Options())
    spent = (time.thread_time() - began) * 1000
    gap = solution.greatest / solution.bound - 1
    note = f"1,000 x 20: {gap:.4%} above the bound ({solution.bounds[0].kind})"
    return Result(f"fresh/{name}", spent, "ms CPU", note=note, raw={"gap": gap, "cpu_ms": [spent]})


def _restricted(name: str, topics: int, each: int, members: int, rounds: int) -> Result:
    """Each topic is read by a quarter of the members; no partition has an owner."""
    rng = np.random.default_rng(2)
    reads: list[set[str]] = [set() for _ in range(members)]
    weights = {}
    for t in range(topics):
        weights[f"t{t:04d}"] = rng.lognormal(0, 1, each).tolist()
        for m in rng.choice(members, members // 4, replace=False).tolist():
            reads[m].add(f"t{t:04d}")
    group = Group([Member(f"m{m:04d}", mine) for m, mine in enumerate(reads)], dict.fromkeys(weights, each))
    spent = []
    for _ in range(rounds):
        began = time.thread_time()
        found = model(resolve(group), weights, {})
        solution = engine.solve(found, engine.Options())
        spent.append((time.thread_time() - began) * 1000)
    gap = solution.greatest / solution.bound - 1
    note = f"{topics * each:,} partitions, {members:,} members: {gap:.4%} above the bound ({solution.bounds[0].kind})"
    return Result(name, statistics.median(spent), "ms CPU", note=note, raw={"gap": gap, "cpu_ms": spent})
