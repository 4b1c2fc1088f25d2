"""Groups by seed with every option of the strategy `weighted`, small ones and middle ones."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_assignors.core.group import Group, Member

Name = tuple[str, int]


@dataclass(frozen=True)
class Case:
    """A group, and the options of the strategy; weights are among them."""

    group: Group
    options: Mapping[str, Any] = field(default_factory=dict)


def small(seed: int) -> Case:
    """Up to 9 partitions and 4 members: few enough to try every assignment."""
    rng = random.Random(seed)
    return _drawn(rng, rng.randint(1, 9), rng.randint(1, 4))


def middle(seed: int) -> Case:
    """Up to 200 partitions and 20 members."""
    rng = random.Random(-seed - 1)
    members = rng.randint(2, 20)
    return _drawn(rng, rng.randint(2 * members, 10 * members), members)


def _drawn(rng: random.Random, partitions: int, members: int) -> Case:
    ids = [f"m{i:02d}" for i in range(members)]
    topics: dict[str, int] = {}
    for _ in range(partitions):
        name = f"t{rng.randrange(rng.choice([1, 2, 4]))}"
        topics[name] = topics.get(name, 0) + 1
    unequal = rng.random() < 0.4
    reads = {m: {t for t in topics if not unequal or rng.random() < 0.6} for m in ids}
    for t in topics:
        reads[rng.choice(ids)].add(t)
    every = [(t, p) for t, count in topics.items() for p in range(count)]
    racked = rng.random() < 0.3
    racks = {t: [rng.sample("abc", rng.randint(0, 2)) for _ in range(n)] for t, n in topics.items()} if racked else {}
    owned = _owned(rng, ids, reads, every)
    generations = {m: rng.choice([3, 3, 3, 2]) if rng.random() < 0.2 else 3 for m in ids}
    group = Group(
        [
            Member(m, reads[m], rack=rng.choice(["a", "b", None]) if racked else None, owned=owned[m],
                   generation=generations[m])
            for m in ids
        ],
        topics,
        racks,
    )  # fmt: skip
    return Case(group, _options(rng, ids, every, owned))


def _owned(
    rng: random.Random, ids: list[str], reads: Mapping[str, set[str]], every: list[Name]
) -> dict[str, list[Name]]:
    """Who owns what: all or some partitions, few members or all; now and then two claim one, or one may not keep it."""
    owned: dict[str, list[Name]] = {m: [] for m in ids}
    share, some = rng.choice([0.0, 0.7, 1.0, 1.0]), ids[: rng.randint(1, len(ids))]
    strange = rng.random() < 0.15
    for name in every:
        able = [m for m in some if name[0] in reads[m] or (strange and rng.random() < 0.2)]
        if able and rng.random() < share:
            owned[rng.choice(able)].append(name)
            if strange and rng.random() < 0.2:
                again = rng.choice(able)
                owned[again] += [name] if name not in owned[again] else []
    return owned


def _options(rng: random.Random, ids: list[str], every: list[Name], owned: Mapping[str, list[Name]]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    heavy = rng.choice(
        [
            lambda: float(rng.randint(1, 20)),
            lambda: rng.lognormvariate(0, 1),
            lambda: rng.lognormvariate(0, 0.4),
            lambda: 1.0,
            lambda: rng.choice([0.0, 0.0, 5.0, 7.0]),
            lambda: 10 ** rng.uniform(-3, 3),
        ]
    )
    known = rng.choice([1.0, 1.0, 1.0, 0.7, 0.0])
    unit = rng.choice([1.0, 1.0, 1e-9, 1e9])
    weights = {name: heavy() * unit for name in every if rng.random() < known}
    if weights:
        options["weights"] = weights
    if rng.random() < 0.4:
        far = rng.random() < 0.4  # over 12 orders of magnitude
        options["capacity"] = {m: 10 ** rng.uniform(-6, 6) if far else rng.choice([0.5, 1.0, 1.0, 2.0]) for m in ids}
    if rng.random() < 0.15:
        options.setdefault("capacity", {})[rng.choice(ids)] = 0
    if rng.random() < 0.2:
        options["priority"] = {m: rng.randint(0, 1) for m in ids}
    if rng.random() < 0.3:
        work = sum(weights.values()) or float(len(every))
        capped = rng.sample(ids, rng.randint(1, len(ids)))
        options["max_work"] = {m: work * rng.uniform(0.1, 1.2) * 2 / len(ids) for m in capped}
    if rng.random() < 0.3:
        price = rng.choice([lambda: rng.randint(1, 100), lambda: rng.lognormvariate(0, 2), lambda: rng.choice([1, 64])])
        options["state"] = {name: price() for name in every if rng.random() < 0.9}
    if rng.random() < 0.3:
        options["epsilon"] = rng.choice([0.001, 0.01, 0.2, 0.5])
    if rng.random() < 0.2:
        options["move_budget"] = rng.randint(0, 4)
    if rng.random() < 0.25:
        options["hysteresis"] = True
        options["checks"] = rng.choice([0, 1, 2, 3])
        options["since_s"] = rng.choice([None, None, 59.0, 61.0])
        options["resting"] = [each for mine in owned.values() for each in mine if rng.random() < 0.15]
        options["seconds"] = rng.random() < 0.2
    if rng.random() < 0.15:
        options["eager"] = rng.choice([True, rng.sample(ids, rng.randint(1, len(ids)))])
    return options
