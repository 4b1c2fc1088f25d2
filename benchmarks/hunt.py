"""A hunt for groups that take a leader long: `python -m benchmarks.hunt --seconds 600 --keep FILE`.

Groups are drawn at random, and the slowest ones are changed a little again and again (hill climbing). Every trial runs
in a process of its own, with a limit of CPU time and memory. A line of the file is a trial: the shape and what it took;
`--again FILE` measures the worst of a file, and `group` builds a shape's group for tests.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kafka_assignors.core.group import Group, Member, Partitions
from kafka_assignors.core.group.claims import resolve
from kafka_assignors.core.sticky import GOALS
from kafka_assignors.core.strategies import strategy

SLOW_S = 2.0
"""CPU seconds from which a group counts as slow."""
LIMIT_S = 30
"""CPU seconds after which a trial is ended."""
MEMORY = 6 << 30
"""Bytes of memory at which a trial is ended."""
BEST = 6
"""Slowest shapes per kind of strategy that are changed again."""

STRATEGIES = ("sticky", "cooperative-sticky", "copartitioned", "cooperative-copartitioned", "weighted", "lag")
SETS = ("all", "nested", "overlapping", "disjoint", "window", "tree", "few")
CLAIMS = ("none", "balanced", "random", "heap", "old", "left")
COSTS = ("replica", "leader", "matrix")
WEIGHTS = ("none", "equal", "uniform", "pareto", "few")


@dataclass(frozen=True)
class Shape:
    """What a group is drawn from.

    Args:
        strategy: Protocol name.
        partitions, members, topics: Their numbers; `bundled` topics have equal numbers of partitions.
        sets: How topics are distributed over subscriptions; `varieties` is the number of subscriptions and `density`
            the share of topics in one.
        skew: How unequal topics are: 0 for equal ones.
        racks, replicas: Numbers of racks, and of replicas of a partition; `unknown` is the share of members without.
        costs: Rack costs; a matrix has random costs up to `dearest`.
        claims: What members claim; of the share `claimed` of the partitions.
        goals: Index in `GOALS`.
        weights, capacities, caps, state, hysteresis, budget: Options of placement by work: distribution of weights,
            number of different capacities, share of members with a hard cap, whether moves cost state.
        seed: Of the draw.
    """

    strategy: str = "sticky"
    partitions: int = 10_000
    members: int = 100
    topics: int = 20
    sets: str = "all"
    varieties: int = 10
    density: float = 0.5
    skew: float = 0.0
    racks: int = 0
    replicas: int = 3
    unknown: float = 0.0
    costs: str = "replica"
    dearest: int = 1
    claims: str = "none"
    claimed: float = 1.0
    goals: int = 0
    weights: str = "none"
    capacities: int = 1
    caps: float = 0.0
    state: bool = False
    hysteresis: bool = False
    budget: int | None = None
    seed: int = 0


def drawn(rng: random.Random) -> Shape:
    """A random shape."""
    values: dict[str, Any] = {}
    for name in Shape.__dataclass_fields__:
        values[name] = _value(name, rng)
    return Shape(**values)


def _value(name: str, rng: random.Random) -> Any:
    """A random value of one parameter."""
    choices: dict[str, Any] = {
        "strategy": STRATEGIES, "sets": SETS, "costs": COSTS, "claims": CLAIMS, "weights": WEIGHTS,
        "goals": range(len(GOALS)), "state": (False, True), "hysteresis": (False, False, True),
        "replicas": (1, 2, 3, 3, 5), "skew": (0.0, 0.0, 0.5, 1.0, 2.0), "unknown": (0.0, 0.0, 0.1, 0.5),
        "caps": (0.0, 0.0, 0.2, 1.0), "capacities": (1, 1, 3, 50), "dearest": (1, 3, 10, 100, 1000),
        "budget": (None, None, 0, 5, 100), "claimed": (1.0, 0.9, 0.5, 0.1),
        "racks": (0, 1, 2, 3, 4, 6, 8, 12, 16, 20),
    }  # fmt: skip
    if name in choices:
        return rng.choice(choices[name])
    if name == "density":
        return round(rng.random(), 3)
    if name == "seed":
        return rng.randrange(1 << 30)
    low, high = {"partitions": (50, 100_000), "members": (2, 1000), "topics": (1, 1000), "varieties": (1, 1000)}[name]
    return round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))


def changed(shape: Shape, rng: random.Random) -> Shape:
    """A shape with one to three parameters drawn again, or a number changed by up to a third."""
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(sorted(Shape.__dataclass_fields__))
        value = getattr(shape, name)
        if name in ("partitions", "members", "topics", "varieties") and rng.random() < 0.8:
            most = 100_000 if name == "partitions" else 1000
            new: Any = max(1, min(most, int(value * rng.choice((0.7, 0.85, 1.2, 1.5)) + 0.5)))
        else:
            new = _value(name, rng)
        shape = Shape(**{**asdict(shape), name: new})
    return shape


def group(shape: Shape) -> tuple[Group, dict[str, Any]]:
    """The group of a shape, and the options of its strategy."""
    rng = np.random.default_rng(shape.seed)
    sizes = _sizes(shape, rng)
    topics = [f"topic-{t:04}" for t in range(len(sizes))]
    reads = _reads(shape, len(sizes), rng)
    racks = [f"rack-{r:02}" for r in range(shape.racks)]
    of_member = rng.integers(0, max(shape.racks, 1), shape.members)
    has_rack = rng.random(shape.members) >= shape.unknown
    owner, older = _held(shape, sizes, reads, rng)
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(shape.members + 1)).tolist()
    members = []
    for m in range(shape.members):
        mine = [topics[t] for t in np.flatnonzero(reads[m % len(reads)]).tolist()]
        members.append(
            Member(
                f"member-{m:04}",
                frozenset(mine),
                rack=racks[of_member[m]] if racks and has_rack[m] else None,
                owned=_partitions(topics, sizes, order[bounds[m] : bounds[m + 1]]),
                generation=4 if older[m] else 5,
            )
        )
    places = {}
    if racks:
        brokers = [tuple(sorted(rng.choice(racks, min(shape.replicas, len(racks)), replace=False).tolist()))
                   for _ in range(400)]  # fmt: skip
        places = {t: [brokers[b] for b in rng.integers(0, 400, n)] for t, n in zip(topics, sizes.tolist(), strict=True)}
    leaders = {t: [replica_racks[0] for replica_racks in rows] for t, rows in places.items()}
    counts = dict(zip(topics, sizes.tolist(), strict=True))
    return Group(members, counts, places, leaders), _options(shape, racks, counts, rng)


def _sizes(shape: Shape, rng: np.random.Generator) -> np.ndarray:
    """int[T], partitions per topic."""
    topics = min(shape.topics, shape.partitions)
    share = np.arange(1, topics + 1, dtype=float) ** -shape.skew
    sizes = np.maximum((share / share.sum() * shape.partitions).astype(int), 1)
    if shape.strategy.endswith("copartitioned"):  # neighbours have equal numbers
        sizes = np.repeat(sizes[::2], 2)[:topics]
    return rng.permutation(sizes) if shape.sets in ("overlapping", "few") else sizes


def _reads(shape: Shape, topics: int, rng: np.random.Generator) -> np.ndarray:
    """bool[S, T], the topics of each subscription."""
    varieties = max(1, min(shape.varieties, shape.members))
    at = np.arange(topics)
    rows = []
    for s in range(varieties):
        part = (s + 1) / varieties
        if shape.sets == "all":
            row = np.ones(topics, bool)
        elif shape.sets == "nested":
            row = at < max(1, round(part * topics))
        elif shape.sets == "disjoint":
            row = at % varieties == s % topics
        elif shape.sets == "window":
            row = (at - round(part * topics)) % topics < max(1, round(shape.density * topics))
        elif shape.sets == "tree":
            depth = int(rng.integers(0, max(1, topics.bit_length())))
            width = max(1, topics >> depth)
            begin = int(rng.integers(0, topics)) // width * width
            row = (at >= begin) & (at < begin + width)
        elif shape.sets == "few":
            row = np.isin(at, rng.integers(0, topics, int(rng.integers(1, 5))))
        else:
            row = rng.random(topics) < shape.density
        if not row.any():
            row[int(rng.integers(0, topics))] = True
        rows.append(row)
    return np.array(rows)


def _held(shape: Shape, sizes: np.ndarray, reads: np.ndarray, rng: np.random.Generator) -> tuple[Any, Any]:
    """int[P], who claims each partition, -1 for nobody; and bool[M], who claims by an older generation."""
    total, members = int(sizes.sum()), shape.members
    owner, older = np.full(total, -1), np.zeros(members, bool)
    if shape.claims == "none":
        return owner, older
    subscription = np.arange(members) % len(reads)
    first = np.append(0, np.cumsum(sizes)).tolist()
    for t in range(len(sizes)):
        who = np.flatnonzero(reads[subscription, t])
        at = np.arange(first[t], first[t + 1])
        if shape.claims == "left":
            who = who[who % 10 != 0]
        if not len(who):
            continue
        if shape.claims in ("random", "old"):
            owner[at] = rng.choice(who, len(at))
        elif shape.claims == "heap":
            owner[at] = rng.choice(who[: max(1, len(who) // 20)], len(at))
        else:
            owner[at] = who[(np.arange(len(at)) + int(rng.integers(0, len(who)))) % len(who)]
    owner[rng.random(total) >= shape.claimed] = -1
    if shape.claims == "old":
        older = rng.random(members) < 0.3
    return owner, older


def _partitions(topics: list[str], sizes: np.ndarray, at: np.ndarray) -> Partitions:
    first = np.concatenate([[0], np.cumsum(sizes)])
    topic = np.searchsorted(first, at, side="right") - 1
    having, counts = np.unique(topic, return_counts=True)
    return Partitions([topics[t] for t in having.tolist()], counts.tolist(), at - first[topic])


def _options(shape: Shape, racks: list[str], counts: dict[str, int], rng: np.random.Generator) -> dict[str, Any]:
    if shape.strategy not in ("weighted", "lag"):
        matrix = {a: {b: int(rng.integers(1, shape.dearest + 1)) * (a != b) for b in racks} for a in racks}
        costs = matrix if shape.costs == "matrix" and racks else "leader" if shape.costs == "leader" else "replica"
        return {"rack_costs": costs, "goals": GOALS[shape.goals]}

    def weights(kind: str) -> dict[str, list[float]]:
        draw: Any = {
            "equal": np.ones,
            "uniform": lambda n: rng.random(n) * 1000,
            "pareto": lambda n: rng.pareto(1.1, n) * 100,
            "few": lambda n: rng.choice([1.0, 10.0, 1000.0], n),
        }[kind]
        return {t: draw(n).tolist() for t, n in counts.items()}

    names = [f"member-{m:04}" for m in range(shape.members)]
    options: dict[str, Any] = {"move_budget": shape.budget, "hysteresis": shape.hysteresis}
    if shape.weights != "none":
        options["weights"] = weights(shape.weights)
    if shape.capacities > 1:
        kinds = rng.choice([0.5, 1.0, 2.0, 10.0], shape.capacities)
        options["capacity"] = dict(zip(names, rng.choice(kinds, shape.members).tolist(), strict=True))
    if shape.strategy == "weighted":
        total = sum(map(sum, options["weights"].values())) if "weights" in options else sum(counts.values())
        capped = [name for name in names if rng.random() < shape.caps]
        options["max_work"] = {name: max(1.2 * total / shape.members, 1e-3) for name in capped} or None
        options["state"] = weights("pareto") if shape.state else None
    return options


def work(shape: Shape) -> Any:
    """A call that assigns the shape's group, as its leader does."""
    drawn_, options = group(shape)
    chosen = strategy(shape.strategy, **options)

    def assign() -> Any:
        claims = resolve(drawn_)
        return chosen.owners(claims.indexed, claims)

    return assign


@dataclass(frozen=True)
class Trial:
    """A shape and what it took.

    Args:
        shape: The shape.
        cpu_s: CPU seconds of one assignment; the limit if it was ended there.
        memory_mb: What the process needed beyond the group.
        why: Why it was ended; empty if it came to its end.
    """

    shape: Shape
    cpu_s: float
    memory_mb: float = 0.0
    why: str = ""


def tried(shape: Shape) -> Trial:
    """Measure a shape in a process of its own."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_try, args=(shape, theirs))
    process.start()
    theirs.close()
    try:
        cpu_s, memory_mb, why = ours.recv()
    except EOFError:
        cpu_s, memory_mb, why = float(LIMIT_S), 0.0, "ended"
    process.join()
    return Trial(shape, cpu_s, memory_mb, why)


def _try(shape: Shape, answer: Any) -> None:
    assign = work(shape)
    spent = int(time.process_time()) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (spent + LIMIT_S, spent + LIMIT_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    why = ""
    try:
        assign()
    except Exception as error:  # a fault is a result too
        why = f"{type(error).__name__}: {error}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer.send((time.process_time() - start, (peak - before) / 1024, why))


def hunt(seconds: float, seed: int, only: tuple[str, ...] = ()) -> Iterator[Trial]:
    """Draw and climb until the time is over."""
    strategy("weighted").load()  # no trial imports SciPy
    rng, end = random.Random(seed), time.monotonic() + seconds
    best: dict[str, list[Trial]] = {}
    while time.monotonic() < end:
        trials = [candidate for some in best.values() for candidate in some]
        shape = changed(rng.choice(trials).shape, rng) if trials and rng.random() < 0.6 else drawn(rng)
        if only:
            shape = replace(shape, strategy=shape.strategy if shape.strategy in only else rng.choice(only))
        trial = tried(shape)
        yield trial
        kind = f"{shape.strategy}/{GOALS[shape.goals][0]}"
        best[kind] = sorted([*best.get(kind, ()), trial], key=lambda candidate: -candidate.cpu_s)[:BEST]


def main(words: list[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hunt", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=(), choices=STRATEGIES)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--again", type=Path, help="measure the slowest trials of a file again")
    parser.add_argument("--worst", type=int, default=20)
    args = parser.parse_args(words)
    if args.again:
        lines = [json.loads(line) for line in args.again.read_text().splitlines()]
        lines = sorted(lines, key=lambda line: -line["cpu_s"])[: args.worst]
        trials: Iterator[Trial] = (tried(Shape(**line["shape"])) for line in lines)
    else:
        trials = hunt(args.seconds, args.seed, tuple(args.only))
    slow = count = 0
    for trial in trials:
        count += 1
        if args.keep:
            with args.keep.open("a") as file:
                file.write(json.dumps(asdict(trial)) + "\n")
        if trial.cpu_s > SLOW_S or trial.why or args.again:
            slow += trial.cpu_s > SLOW_S or bool(trial.why)
            print(f"{trial.cpu_s:6.2f} s {trial.memory_mb:6.0f} MB {trial.why} {asdict(trial.shape)}", flush=True)
    print(f"{count} groups, {slow} above {SLOW_S:g} s")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
