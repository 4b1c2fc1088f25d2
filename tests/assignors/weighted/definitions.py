"""What docs/load.md promises, computed anew: by every assignment of a small group, by an integer program otherwise.

It shares nothing with `kafka_assignors.core.weighted` and `kafka_assignors.operator.plans.work_proof`: names and
floats.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix

from kafka_assignors.core.group import Group
from kafka_assignors.operator.plans.plan import Plan, plan

from .every_option import Case, Name

NEAR = 1e-6
RAISED = (1.0, 1.1, 1.25, 1.5, 2.0, None)
WAYS = 300_000
"""Assignments that are tried one by one; of more, an integer program finds the best."""
SMALL = 100
"""Partitions times members of the groups whose answers are optimal."""
SECONDS = 20.0


class Model:
    """Work, capacity, and who may have what: section "The model"."""

    def __init__(self, case: Case) -> None:
        group, self.options = case.group, case.options
        ids = [m.member_id for m in group.members]
        given = {m: float(self.options.get("capacity", {}).get(m, 1.0)) for m in ids}
        if not any(given.values()):
            given = dict.fromkeys(ids, 1.0)
        needed = median(c for c in given.values() if c)
        rank = self.options.get("priority", {})
        able: dict[Name, list[str]] = {}
        for topic, count in group.partitions.items():
            readers = [m.member_id for m in group.members if topic in m.topics]
            best = [m for m in readers if given[m]] or readers
            best = [m for m in best if rank.get(m, 0) == max(rank.get(each, 0) for each in best)]
            able.update({(topic, p): best for p in range(count) if best})
        self.names = sorted(able)
        self.members = [m for m in ids if any(m in each for each in able.values())]
        self.capacity = np.array([given[m] or needed for m in self.members])
        self.may = np.array([[m in able[name] for m in self.members] for name in self.names], bool)
        self.may = self.may.reshape(len(self.names), len(self.members))
        self.work = np.array(self._works())
        caps = self.options.get("max_work", {})
        self.caps = np.array([caps.get(m, np.inf) for m in self.members])
        self.home = np.array([self._home(group, name) for name in self.names], np.int64)  # -1: nobody's
        self.forced = (self.home >= 0) & ~self.may[np.arange(len(self.names)), np.maximum(self.home, 0)]
        outside = {name for name in self.names if self._outside(group, name)}
        self.forced |= np.array([name in outside for name in self.names], bool)
        self.unowned = (self.home < 0) & ~self.forced
        self.home[self.forced] = -1
        self.state = self._state(group)
        racks = [self._racks(group, name) for name in self.names]
        on = {m.member_id: m.rack for m in group.members}
        self.far = np.array([[bool(r) and on[m] is not None and on[m] not in r for m in self.members] for r in racks])
        self.far = self.far.reshape(self.may.shape)
        resting = self.options.get("resting") or () if self.options.get("hysteresis") else ()
        self.rests = np.array([name in set(resting) for name in self.names], bool) & (self.home >= 0)

    def _works(self) -> list[float]:
        known = {n: float(w) for n, w in self.options.get("weights", {}).items() if n in set(self.names)}
        if not any(known.values()):
            return [1.0] * len(self.names)
        middle = median(known.values()) or median(w for w in known.values() if w)
        topics = {t: [w for (topic, _), w in known.items() if topic == t] for t, _ in self.names}
        return [max(known.get(n, median(topics[n[0]]) if topics[n[0]] else middle), 0.05 * middle) for n in self.names]

    def _claims(self, group: Group, name: Name) -> list[str]:
        """The members whose claim of a partition is the newest."""
        claims = [(m.generation, m.member_id) for m in group.members if name in {tuple(each) for each in m.owned}]
        return [m for generation, m in claims if generation == max(claims)[0]]

    def _owners(self, group: Group, name: Name) -> list[str]:
        topics = {m.member_id: m.topics for m in group.members}
        return [m for m in self._claims(group, name) if name[0] in topics[m]]

    def _home(self, group: Group, name: Name) -> int:
        owners = self._owners(group, name)
        return self.members.index(owners[0]) if len(owners) == 1 and owners[0] in self.members else -1

    def _outside(self, group: Group, name: Name) -> bool:
        """Whether its owner gets nothing at all, and so can't keep it."""
        owners = self._owners(group, name)
        return len(owners) == 1 and owners[0] not in self.members

    def _state(self, group: Group) -> np.ndarray | None:
        every = [(t, p) for t, count in group.partitions.items() for p in range(count)]
        known = {n: float(c) for n, c in self.options.get("state", {}).items() if n in set(every)}
        if not any(known.values()):
            return None
        least = max(known.values()) / 2**30
        return np.array([max(known.get(n, median(known.values())), least) for n in self.names])

    def _racks(self, group: Group, name: Name) -> Sequence[str]:
        racks = group.racks.get(name[0], ())
        return list(racks[name[1]]) if name[1] < len(racks) else []

    @property
    def budget(self) -> int | None:
        budget: int | None = self.options.get("move_budget")
        return 0 if budget is not None and self.unowned.any() else budget

    def owner(self, target: Mapping[str, Mapping[str, Sequence[int]]]) -> np.ndarray:
        """An assignment as member numbers."""
        by = {(t, p): m for m, topics in target.items() for t, ids in topics.items() for p in ids}
        return np.array([self.members.index(by[name]) for name in self.names], np.int64)

    def loads(self, owner: np.ndarray) -> np.ndarray:
        return np.bincount(owner, self.work, len(self.members))

    def greatest(self, owner: np.ndarray) -> float:
        return float((self.loads(owner) / self.capacity).max()) if len(self.members) else 0.0

    def moved(self, owner: np.ndarray) -> np.ndarray:
        return (self.home >= 0) & (owner != self.home)


class Every:
    """All assignments of a small group."""

    exact = True

    def __init__(self, model: Model, *, rests: bool) -> None:
        self.model = model
        choices = [np.flatnonzero(row) for row in model.may]
        if rests:
            choices = [np.array([h]) if r else c for c, h, r in zip(choices, model.home, model.rests, strict=True)]
        # NumPy has 32 dimensions: one each for the partitions that have a choice.
        open_ = [p for p, each in enumerate(choices) if len(each) > 1]
        drawn = np.meshgrid(*(choices[p] for p in open_), indexing="ij")
        owners = np.tile([each[0] for each in choices], (math.prod(len(choices[p]) for p in open_), 1))
        for p, each in zip(open_, drawn, strict=True):
            owners[:, p] = each.reshape(-1)
        self.loads = np.zeros((len(owners), len(model.members)))
        for p in range(owners.shape[1]):
            self.loads[np.arange(len(owners)), owners[:, p]] += model.work[p]
        moved = (model.home >= 0) & (owners != model.home)
        self.moves = moved.sum(axis=1)
        self.ratio = (self.loads / model.capacity).max(axis=1)
        self.cost = self.moves if model.state is None else moved @ model.state
        self.remote = (model.far[np.arange(owners.shape[1]), owners] * model.work).sum(axis=1)

    def among(self, ratio: float, caps: np.ndarray, moves: int | None) -> np.ndarray:
        fits = (self.ratio <= ratio * (1 + 1e-9)) & (self.loads <= caps * (1 + 1e-9)).all(axis=1)
        return fits if moves is None else fits & (self.moves <= moves)

    def least(self, what: str, ratio: float, caps: np.ndarray, moves: int | None, cost: float = math.inf) -> float:
        """The least of ``ratio``, ``moves``, ``cost`` or ``remote``; infinite if no assignment is as wanted."""
        found = self.among(ratio, caps, moves) & (self.cost <= cost * (1 + 1e-9))
        return float(getattr(self, what)[found].astype(float).min(initial=math.inf))


class Program:
    """The same by HiGHS; rows are divided by their limits. If it runs out of time, values are what it found by then."""

    exact = False

    def __init__(self, model: Model, *, rests: bool) -> None:
        self.model = model
        may = model.may.copy()
        if rests:
            may[model.rests] = False
            may[np.flatnonzero(model.rests), model.home[model.rests]] = True
        self.p, self.m = np.nonzero(may)
        moved = (model.home[self.p] >= 0) & (model.home[self.p] != self.m)
        self.prices = {
            "moves": moved * 1.0,
            "cost": moved * (1.0 if model.state is None else model.state[self.p]),
            "remote": model.far[self.p, self.m] * model.work[self.p],
        }

    def least(self, what: str, ratio: float, caps: np.ndarray, moves: int | None, cost: float = math.inf) -> float:
        if what == "ratio":
            return self._least_ratio(ratio, caps, moves)
        limit = np.minimum(ratio * self.model.capacity, caps) * (1 + 1e-9)
        fits = self.model.work[self.p] <= limit[self.m]
        p, m, n = self.p[fits], self.m[fits], int(fits.sum())
        if len(set(p.tolist())) < len(self.model.names):
            return math.inf
        price = self.prices[what][fits]
        unit = price.max(initial=0.0) or 1.0
        once = csr_matrix((np.ones(n), (p, np.arange(n))), (len(self.model.names), n))
        loads = csr_matrix((self.model.work[p] / limit[m], (m, np.arange(n))), (len(self.model.members), n))
        rows = [LinearConstraint(once, 1, 1), LinearConstraint(loads, -np.inf, 1)]
        if moves is not None:
            rows.append(LinearConstraint(self.prices["moves"][fits][None], -np.inf, moves + 0.5))
        if cost < math.inf:
            spend = self.prices["cost"][fits]
            rows.append(LinearConstraint((spend / (spend.max(initial=0.0) or 1.0))[None], -np.inf,
                                         cost * (1 + 1e-7) / (spend.max(initial=0.0) or 1.0) + 1e-7))  # fmt: skip
        found = milp(price / unit, integrality=np.ones(n), bounds=Bounds(0, 1), constraints=rows,
                     options={"mip_rel_gap": 0, "time_limit": SECONDS})  # fmt: skip
        return math.inf if found.x is None else float(found.fun) * unit

    def _least_ratio(self, ratio: float, caps: np.ndarray, moves: int | None) -> float:
        """By bisection: the highest limit below which there is nothing."""
        model = self.model
        low, high = (
            float(model.work.sum() / model.capacity.sum()),
            min(ratio, float(model.work.sum() / model.capacity.min())),
        )
        if self.least("moves", high, caps, moves) == math.inf:
            return math.inf
        while high > low * (1 + NEAR / 4):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.least("moves", middle, caps, moves) == math.inf else (low, middle)
        return high


def differences(case: Case) -> list[str]:
    """Where a plan is not what docs/load.md promises; empty if it is nowhere."""
    made = plan(case.group, "weighted", **case.options)
    return [*Differences(case, made).found(), *_rounds(case, made)]


def _rounds(case: Case, made: Plan) -> Iterator[str]:
    """The rebalance that follows assigns the target; one more changes nothing."""
    held = _holding(case, made.assignment)
    options = {name: value for name, value in case.options.items() if name != "resting"}
    options.update({"resting": case.options["resting"]} if "resting" in case.options else {})
    then = plan(held, "weighted", **options)
    if made.assignment != made.target and then.assignment != made.target:
        yield "the second rebalance assigns something else than the target"
    last = plan(_holding(case, made.target), "weighted", **options)
    if last.target != made.target and "move_budget" not in options:
        yield f"computed from the target, it is another one, after {len(last.moves)} moves"


def _holding(case: Case, assignment: Mapping[str, Mapping[str, Sequence[int]]]) -> Group:
    members = [
        replace(m, owned=[(t, p) for t, ids in assignment[m.member_id].items() for p in ids], generation=9)
        for m in case.group.members
    ]
    return replace(case.group, members=members)


@dataclass
class Differences:
    """One plan against the definitions."""

    case: Case
    made: Plan

    @cached_property
    def model(self) -> Model:
        return Model(self.case)

    @property
    def _small(self) -> bool:
        """Whether the page promises the optimum, not only a bound that holds and a cost near it."""
        return len(self.model.names) * len(self.model.members) <= SMALL

    def _ways(self, *, rests: bool) -> Any:
        ways = math.prod(int(row.sum()) for row in self.model.may)
        return (Every if ways <= WAYS else Program)(self.model, rests=rests)

    def found(self) -> Iterator[str]:
        model, load = self.model, self.made.load
        assert load is not None
        if not model.names:
            return
        owner = model.owner(self.made.target)
        yield from self._valid(owner)
        self.free, self.ways = self._ways(rests=False), self._ways(rests=True)
        greatest, epsilon = model.greatest(owner), case_epsilon(self.case)
        yield from _unlike("greatest", load.greatest, greatest)
        waits = load.verdict is not None and not load.verdict[0]
        moves = 0 if waits else model.budget
        raised = RAISED.index(load.caps)
        caps = [np.full_like(model.caps, np.inf) if r is None else model.caps * r for r in RAISED]
        if (model.loads(owner) > caps[raised] * (1 + NEAR)).any():
            yield f"work {model.loads(owner)} is above the caps {caps[raised]}"
        if raised and self.ways.least("moves", math.inf, caps[raised - 1], moves) < math.inf:
            yield f"caps are raised to {load.caps}, and they hold at {RAISED[raised - 1]}"
        if load.caps_why == "work" and self.free.least("moves", math.inf, caps[raised - 1], None) < math.inf:
            yield f"all work fits below {RAISED[raised - 1]} of the caps"
        yield from self._best(owner, caps[raised], moves, epsilon)
        yield from self._verdict(owner, caps[raised], epsilon)

    def _valid(self, owner: np.ndarray) -> Iterator[str]:
        model = self.model
        if not model.may[np.arange(len(owner)), owner].all():
            yield "a member has what it may not have"
        if (model.rests & (owner != model.home)).any():
            yield "a resting partition moves"

    def _best(self, owner: np.ndarray, caps: np.ndarray, moves: int | None, epsilon: float) -> Iterator[str]:
        model, load = self.model, self.made.load
        assert load is not None
        exact = self.ways.exact and self._small
        least = self.free.least("ratio", math.inf, caps, None) if exact or load.why == "exact" else load.bound
        if load.bound > least * (1 + NEAR) or (exact and load.bound < least * (1 - NEAR)):
            yield f"the bound is {load.bound}, the optimum {least}"
        greatest, allowed = model.greatest(owner), (1 + epsilon) * load.bound
        if exact:
            possible = self.ways.least("ratio", math.inf, caps, moves)
            if greatest > max(allowed, possible) * (1 + NEAR):
                yield f"the greatest is {greatest}, {possible} is possible, {allowed} allowed"
        elif greatest > allowed * (1 + NEAR) and self.ways.least("moves", allowed, caps, moves) < math.inf:
            yield f"the greatest is {greatest}, and {allowed} is not known to be impossible"
        limit = max(allowed, greatest)
        moved = model.moved(owner)
        cost = float(moved.sum() if model.state is None else moved @ model.state)
        best = self.ways.least("cost", limit, caps, moves)
        slack = 1e-9 if exact else 0.05
        if cost > best * (1 + slack) + 1e-9 + (0 if exact or model.state is not None else 0.01):
            yield f"the moves cost {cost}, {best} is possible"
        if moves is not None and moved.sum() > moves:
            yield f"{moved.sum()} moves, {moves} are allowed"
        yield from self._told(owner, caps, limit, moves)
        if exact and model.far.any():
            remote = self.ways.least("remote", limit, caps, moves, cost)
            far = float((model.far[np.arange(len(owner)), owner] * model.work).sum())
            if far > remote * (1 + NEAR) + 1e-300:
                yield f"work of {far} is read from other racks, {remote} is possible"

    def _told(self, owner: np.ndarray, caps: np.ndarray, limit: float, moves: int | None) -> Iterator[str]:
        """The lower bounds that the plan tells."""
        model, load = self.model, self.made.load
        assert load is not None
        forced = int(model.forced.sum())
        if load.moves != int(model.moved(owner).sum()) + forced:
            yield f"{model.moved(owner).sum()} moves and {forced} forced, the plan says {load.moves}"
        least = self.free.least("moves", limit, caps, None) + forced
        if load.least_moves > least + 1e-6 or (self.free.exact and self._small and load.least_moves < least):
            yield f"at least {load.least_moves} moves are told, {least} are needed"
        if load.state is not None and model.state is not None:
            lowest = self.free.least("cost", limit, caps, None)
            told = load.state[1] - sum(float(c) for c, f in zip(model.state, model.forced, strict=True) if f)
            rounded = len(model.names) * model.state.max(initial=0.0) / 2**30  # costs are parts of the dearest
            if told > lowest * (1 + NEAR) + rounded:
                yield f"a cost of at least {told} is told, {lowest} is possible"

    def _verdict(self, owner: np.ndarray, caps: np.ndarray, epsilon: float) -> Iterator[str]:
        """Section "When to move", if nothing has to be placed first."""
        model, load, options = self.model, self.made.load, self.case.options
        assert load is not None
        if (load.verdict is not None) != bool(options.get("hysteresis")):
            yield "a verdict without hysteresis, or none with it"
        if load.verdict is None or model.unowned.any() or model.forced.any():
            return
        now, bound = model.greatest(model.home), load.bound
        checks, since = options.get("checks", 0) + 1, options.get("since_s")
        if (model.loads(model.home) > caps * (1 + NEAR)).any():
            may, must = True, not (model.loads(owner) > caps).any()
        elif now <= 1.10 * bound or (now <= 1.25 * bound and checks < 3) or (since is not None and since < 60):
            may = must = False
        else:
            # The program may come to its time limit; what was assigned is possible in any case.
            lowest = min(self.ways.least("ratio", math.inf, caps, model.budget), model.greatest(owner))
            highest = min(now, max((1 + epsilon) * bound, lowest))
            enough = max(0.05 * now, 0.01 if options.get("seconds") else 0.0)
            may, must = now - lowest >= enough * (1 - NEAR), now - highest >= enough * (1 + NEAR)
        act = load.verdict[0]
        if (act and not may) or (must and not act):
            yield f"the verdict is {load.verdict}; now {now}, bound {bound}"
        if not act and model.moved(owner).any():
            yield "it waits, and moves"


def case_epsilon(case: Case) -> float:
    return float(case.options.get("epsilon", 0.05))


def _unlike(name: str, told: float, true: float) -> Iterator[str]:
    if abs(told - true) > NEAR * max(abs(told), abs(true)):
        yield f"{name}: {told} is told, it is {true}"
