"""Groups by seed, and the best for them by a program of its own: names and floats, no line of the engine."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from kafka_assignors.core.group import Group, Member, TopicPartition

NEAR = 1e-6


@dataclass(frozen=True)
class Case:
    """A group, weights and capacities."""

    group: Group
    weights: dict[tuple[str, int], float]
    capacity: dict[str, float]


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


@dataclass(frozen=True)
class Best:
    """What is possible.

    Args:
        greatest: The least greatest work / capacity.
        limit: What the issue's first goal allows.
        moves: The fewest within the limit.
    """

    greatest: float
    limit: float
    moves: int


class Program:
    """One binary variable for each partition and member that may have it."""

    def __init__(self, case: Case) -> None:
        members = {m.member_id: m for m in case.group.members}
        cap = {m: case.capacity.get(m, 1.0) for m in members}
        if not any(cap.values()):
            cap = dict.fromkeys(cap, 1.0)
        self.pairs: list[tuple[TopicPartition, str]] = []
        self.owner = {tp: m for m, member in members.items() for tp in member.owned}
        for topic, count in case.group.partitions.items():
            readers = [m for m, member in members.items() if topic in member.topics]
            able = [m for m in readers if cap[m]] or readers
            self.pairs += [(TopicPartition(topic, p), m) for p in range(count) for m in able]
        self.partitions = sorted({tp for tp, _ in self.pairs})
        self.cap = {m: cap[m] or 1.0 for m in sorted({m for _, m in self.pairs})}
        known = sorted(case.weights[tp.topic, tp.partition] for tp in self.partitions)
        self.floor = 0.05 * float(np.median(known)) if known else 0.0
        self.weight = [max(case.weights[tp.topic, tp.partition], self.floor) for tp, _ in self.pairs]

    def best(self, epsilon: float = 0.05, budget: int | None = None) -> Best:
        """Solve it: the least maximum, then the fewest moves."""
        if not self.pairs:
            return Best(0.0, 0.0, 0)
        n = len(self.pairs)
        once = np.array([[float(tp == each) for tp, _ in self.pairs] for each in self.partitions])
        loads = np.array(
            [[w * (m == each) for w, (_, m) in zip(self.weight, self.pairs, strict=True)] for each in self.cap]
        )
        cap = np.array(list(self.cap.values()))
        moved = np.array([float(tp in self.owner and self.owner[tp] != m) for tp, m in self.pairs])
        first = milp(
            np.append(np.zeros(n), 1.0),
            integrality=np.append(np.ones(n), 0),
            bounds=Bounds(0, np.append(np.ones(n), np.inf)),
            constraints=[
                LinearConstraint(np.hstack([once, np.zeros((len(once), 1))]), 1, 1),
                LinearConstraint(np.hstack([loads, -cap[:, None]]), -np.inf, 0),
            ],
            options={"mip_rel_gap": 0},
        )
        assert first.status == 0
        greatest = float(first.fun)
        limit = max((1 + epsilon) * greatest, greatest + self.floor)
        second = milp(
            moved,
            integrality=np.ones(n),
            bounds=Bounds(0, 1),
            constraints=[LinearConstraint(once, 1, 1), LinearConstraint(loads, -np.inf, limit * cap * (1 + 1e-7))],
            options={"mip_rel_gap": 0},
        )
        assert second.status == 0
        return Best(greatest, limit, round(second.fun))
