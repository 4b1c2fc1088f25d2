"""Groups by seed, and the best for them by a program of its own: names and floats, no line of the engine."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from kafka_assignors.core.group import Group, Member, TopicPartition
from kafka_assignors.core.group.invariants import violations
from kafka_assignors.operator.plans import work_proof
from kafka_assignors.operator.plans.plan import Plan

NEAR = 1e-6


@dataclass(frozen=True)
class Case:
    """A group, weights and capacities; `options` are other options of the strategy."""

    group: Group
    weights: dict[tuple[str, int], float]
    capacity: dict[str, float]
    options: dict[str, Any] = field(default_factory=dict)


def drawn(seed: int, partitions: int = 12, members: int = 4) -> Case:
    """A small group: unequal subscriptions and capacities, standbys, owners that are missing or may not keep."""
    rng = random.Random(seed)
    ids = [f"m{i}" for i in range(rng.randint(1, members))]
    topics = {}
    left = rng.randint(1, partitions)
    while left > 0:
        topics[f"t{len(topics)}"] = size = rng.randint(1, left)
        left -= size
    unequal = rng.random() < 0.5
    reads = {m: {t for t in topics if not unequal or rng.random() < 0.6} for m in ids}
    reads[rng.choice(ids)] |= set(topics)
    everything = [TopicPartition(t, p) for t, count in topics.items() for p in range(count)]
    heavy = rng.choice([lambda: rng.randint(1, 20), lambda: round(rng.lognormvariate(0, 1), 3) + 0.2, lambda: 1.0])
    weights = {(tp.topic, tp.partition): heavy() for tp in everything}
    capacity = {m: rng.choice([0.5, 1.0, 1.0, 2.0, 3.0]) for m in ids} if rng.random() < 0.5 else {}
    if rng.random() < 0.2:
        capacity[rng.choice(ids)] = 0.0
    owned: dict[str, list[TopicPartition]] = {m: [] for m in ids}
    share = rng.choice([0.0, 0.7, 1.0])
    some = ids[: rng.randint(1, len(ids))]
    for tp in everything:
        able = [m for m in some if tp.topic in reads[m]]
        if able and rng.random() < share:
            owned[rng.choice(able)].append(tp)
    group = Group([Member(m, reads[m], owned=owned[m], generation=3) for m in ids], topics)
    return Case(group, weights, capacity)


def wished(seed: int) -> Case:
    """`drawn`, with some of: racks, priorities, hard caps, cost of state."""
    case = drawn(seed)
    rng = random.Random(-seed - 1)
    ids = [member.member_id for member in case.group.members]
    names = [(t, p) for t, count in case.group.partitions.items() for p in range(count)]
    options: dict[str, Any] = {}
    members = case.group.members
    racks: dict[str, list[frozenset[str]]] = {}
    if rng.random() < 0.5:
        members = [replace(member, rack=rng.choice(["a", "b", None])) for member in members]
        racks = {
            t: [frozenset(rng.sample("abc", rng.randint(1, 2))) for _ in range(count)]
            for t, count in case.group.partitions.items()
        }
    if rng.random() < 0.4:
        options["priority"] = {m: rng.randint(0, 1) for m in ids}
    if rng.random() < 0.4:
        work = sum(case.weights.values())
        options["max_work"] = {m: work * rng.uniform(0.2, 0.9) for m in rng.sample(ids, rng.randint(1, len(ids)))}
    if rng.random() < 0.4:
        options["state"] = {name: rng.choice([1, 2, 5, 64]) for name in names}
    return Case(Group(members, case.group.partitions, racks), case.weights, case.capacity, options)


@dataclass(frozen=True)
class Best:
    """What is possible.

    Args:
        greatest: The least greatest work / capacity.
        limit: What the issue's first goal allows.
        moves: The fewest within the limit, or their least cost.
        remote: The least work read from other racks within the limit and with these moves.
    """

    greatest: float
    limit: float
    moves: float
    remote: float = 0.0


class Program:
    """One binary variable for each partition and member that may have it."""

    def __init__(self, case: Case) -> None:
        members = {m.member_id: m for m in case.group.members}
        priority: dict[str, int] = case.options.get("priority", {})
        self.most = case.options.get("max_work", {})
        cap = {m: case.capacity.get(m, 1.0) for m in members}
        if not any(cap.values()):
            cap = dict.fromkeys(cap, 1.0)
        self.pairs: list[tuple[TopicPartition, str]] = []
        self.owner = {tp: m for m, member in members.items() for tp in member.owned}
        for topic, count in case.group.partitions.items():
            readers = [m for m, member in members.items() if topic in member.topics]
            able = [m for m in readers if cap[m]] or readers
            first = max((priority.get(m, 0) for m in able), default=0)
            able = [m for m in able if priority.get(m, 0) == first]
            self.pairs += [(TopicPartition(topic, p), m) for p in range(count) for m in able]
        self.partitions = sorted({tp for tp, _ in self.pairs})
        self.cap = {m: cap[m] or 1.0 for m in sorted({m for _, m in self.pairs})}
        known = sorted(case.weights[tp.topic, tp.partition] for tp in self.partitions)
        self.floor = 0.05 * float(np.median(known)) if known else 0.0
        state = case.options.get("state", {})
        self.moved = np.array(
            [
                float(tp in self.owner and self.owner[tp] != m) * state.get((tp.topic, tp.partition), 1)
                for tp, m in self.pairs
            ]
        )
        self.far = np.array([_far(case.group, members[m], tp) for tp, m in self.pairs])
        self.weight = [max(case.weights[tp.topic, tp.partition], self.floor) for tp, _ in self.pairs]

    def best(self, epsilon: float = 0.05) -> Best | None:
        """Solve it: the least maximum, the fewest moves, the least work from other racks; None if caps do not hold."""
        if not self.pairs:
            return Best(0.0, 0.0, 0)
        n = len(self.pairs)
        once = np.array([[float(tp == each) for tp, _ in self.pairs] for each in self.partitions])
        loads = np.array(
            [[w * (m == each) for w, (_, m) in zip(self.weight, self.pairs, strict=True)] for each in self.cap]
        )
        cap = np.array(list(self.cap.values()))
        caps = np.array([self.most.get(m, np.inf) for m in self.cap])
        first = milp(
            np.append(np.zeros(n), 1.0),
            integrality=np.append(np.ones(n), 0),
            bounds=Bounds(0, np.append(np.ones(n), np.inf)),
            constraints=[
                LinearConstraint(np.hstack([once, np.zeros((len(once), 1))]), 1, 1),
                LinearConstraint(np.hstack([loads, -cap[:, None]]), -np.inf, 0),
                LinearConstraint(np.hstack([loads, 0 * cap[:, None]]), -np.inf, caps),
            ],
            options={"mip_rel_gap": 0},
        )
        if first.status == 2:
            return None
        assert first.status == 0
        greatest = float(first.fun)
        limit = max((1 + epsilon) * greatest, greatest + self.floor)
        within = [
            LinearConstraint(once, 1, 1),
            LinearConstraint(loads, -np.inf, np.minimum(limit * cap, caps) * (1 + 1e-7)),
        ]
        second = milp(
            self.moved, integrality=np.ones(n), bounds=Bounds(0, 1), constraints=within, options={"mip_rel_gap": 0}
        )
        assert second.status == 0
        moves = round(second.fun)
        third = milp(
            self.far * self.weight,
            integrality=np.ones(n),
            bounds=Bounds(0, 1),
            constraints=[*within, LinearConstraint(self.moved[None], -np.inf, moves + 0.5)],
            options={"mip_rel_gap": 0},
        )
        assert third.status == 0
        return Best(greatest, limit, moves, float(third.fun))


def differences(case: Case, made: Plan) -> list[str]:
    """Where a plan is wrong, isn't proven, or isn't what the program finds best; empty if it is nowhere."""
    best, load = Program(case).best(), made.load
    assert load is not None
    found = [
        *violations(case.group, made.target),
        *violations(case.group, made.assignment, cooperative=True),
        *work_proof.check(
            case.group, case.weights, case.capacity, made,
            *(case.options.get(name) for name in ("priority", "max_work", "state")),
        ),
    ]  # fmt: skip
    if best is None:
        return [*found, *(["the caps hold, where the program finds no way"] if load.caps == 1 else [])]
    pairs: list[tuple[str, float | None, float | None, float]] = [
        ("caps", load.caps, 1, 0),
        ("bound", load.bound, best.greatest, NEAR),
        ("greatest work above the limit", max(load.greatest, best.limit), best.limit, NEAR),
    ]
    if load.state is None:
        pairs += [("moves", load.moves, best.moves, 0), ("least moves", load.least_moves, best.moves, 0)]
    else:
        pairs += [("state", load.state[0], best.moves, 1e-3), ("least state", load.state[1], best.moves, 1e-3)]
    if load.remote is not None:
        pairs += [
            ("remote work below its bound", min(load.remote), load.remote[1], NEAR),
            ("remote work", load.remote[0], best.remote, 1e-4),
        ]
    far = [f"{name}: {ours}, the program's {theirs}" for name, ours, theirs, within in pairs
           if ours != pytest.approx(theirs, rel=within)]  # fmt: skip
    return found + far


def _far(group: Group, member: Member, tp: TopicPartition) -> bool:
    replicas = group.racks.get(tp.topic, ())
    return member.rack is not None and tp.partition < len(replicas) and member.rack not in replicas[tp.partition]
