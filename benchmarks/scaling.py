"""The number of members over an hour of drawn load: `kafka_assignors.operator.scaling` beside lag ÷ threshold.

Simulated: no broker, no clock. The peer is KEDA's Kafka scaler at its defaults behind a Kubernetes HPA at its defaults,
as their documentation has them (KEDA "Apache Kafka" scaler; Kubernetes "Horizontal Pod Autoscaling": algorithm details
and default behaviour); their code was not run.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from kafka_assignors.core.group import Group, Member, TopicPartition
from kafka_assignors.core.strategies import strategy
from kafka_assignors.operator.plans.sizing import shares
from kafka_assignors.operator.scaling import FlowMeter, Rules, Scaler, delays, steps

from .result import Result

PARTITIONS = 24
PACE = 100.0
"""Records per second that a member reads."""
DELAY_S = 30.0
SECONDS = 3600
BEFORE_S = 900
"""Seconds before the hour that counts: both begin with 4 members, and with rates unknown."""
BEGIN = 4
LOOK_S = 15
"""Seconds between two decisions: how often an HPA decides, and the exporter reads offsets."""
COMMIT_S = 5
"""Seconds between two commits of a member: Kafka's default."""
START_S = 15
"""Seconds from the decision for a new member until it joins."""
STOP_S = 3
"""Seconds for which a partition that moves has no owner: Kafka's default time between two heartbeats."""

Floats = NDArray[np.float64]
Decide = Callable[["World"], int]


def drawn(seed: int) -> Floats:
    """Records that arrive in each second and partition: a slow wave, a random walk around it, bursts, uneven keys."""
    draw, seconds = np.random.default_rng(seed), BEFORE_S + SECONDS
    time_s = np.arange(seconds)
    wave = 1 + draw.uniform(0.4, 0.8) * np.sin(2 * math.pi * (time_s / draw.uniform(1800, 5400) + draw.uniform()))
    walk, moves = np.zeros(seconds), draw.normal(0, 1, seconds)
    for n in range(1, seconds):
        walk[n] = walk[n - 1] * (1 - 1 / 120) + moves[n] * 0.15 * math.sqrt(2 / 120)
    burst = np.ones(seconds)
    for begin in draw.uniform(0, seconds, draw.poisson(3 * seconds / 3600)):
        burst[int(begin) : int(begin + draw.uniform(60, 240))] = draw.uniform(1.3, 2.0)
    rate = draw.uniform(250, 450) * wave * np.exp(walk) * burst
    keys = draw.permutation(np.arange(1, PARTITIONS + 1) ** -0.5)
    arrivals: Floats = draw.poisson(rate[:, None] * (keys / keys.sum())[None, :]).astype(float)
    return arrivals


class World:
    """A group of one topic, second after second."""

    def __init__(self, arrivals: Floats) -> None:
        self._arrivals = arrivals
        self.now_s = 0
        self.end, self.position, self.committed = (np.zeros(PARTITIONS) for _ in range(3))
        self.owner = np.arange(PARTITIONS) % BEGIN
        self._stopped_until = np.zeros(PARTITIONS)
        self.members, self.desired = BEGIN, BEGIN
        self._starting: list[int] = []  # times at which further members join
        self.rebalances = 0
        self._shares: dict[int, list[tuple[TopicPartition, ...]]] | None = None

    def run(self, decide: Decide) -> Ran:
        """Play it to its end."""
        lags, lates, member_s, before = [], 0, 0, 0
        for now_s in range(len(self._arrivals)):
            self.now_s = now_s
            if self.now_s == BEFORE_S:
                before = self.rebalances
            self._second()
            if self.now_s % LOOK_S == 0:
                self._scale(decide(self))
            if self.now_s >= BEFORE_S:
                backlog = self.end - self.position
                lags.append(backlog.sum())
                lates += np.bincount(self.owner, backlog, self.members).max() / PACE > DELAY_S
                member_s += self.desired
        return Ran(self.rebalances - before, float(np.mean(lags)), lates / SECONDS, member_s / 60)

    def _second(self) -> None:
        ready = [at_s for at_s in self._starting if at_s <= self.now_s]
        if ready:
            self._starting = self._starting[len(ready) :]
            self._rebalance(self.members + len(ready))
        self.end = self.end + self._arrivals[self.now_s]
        backlog = np.where(self._stopped_until > self.now_s, 0.0, self.end - self.position)
        waiting = np.bincount(self.owner, backlog, self.members)
        self.position = self.position + backlog * np.minimum(1.0, PACE / np.maximum(waiting, 1e-9))[self.owner]
        commits = (self.now_s + self.owner) % COMMIT_S == 0  # each member in a second of its own
        self.committed = np.where(commits, self.position, self.committed)

    def _scale(self, desired: int) -> None:
        if desired > self.desired:
            self._starting += [self.now_s + START_S] * (desired - self.desired)
        elif desired < self.desired:
            stopped = min(len(self._starting), self.desired - desired)  # the newest end first
            self._starting = self._starting[: len(self._starting) - stopped]
            if (left := desired - len(self._starting)) < self.members:
                self._rebalance(left)
        self.desired = desired

    def _rebalance(self, members: int) -> None:
        target = self._at([members])[members]
        owner = np.zeros(PARTITIONS, int)
        for n, share in enumerate(target):
            owner[[tp.partition for tp in share]] = n
        moved = owner != self.owner
        self.committed = np.where(moved, self.position, self.committed)  # who gives a partition up commits
        self._stopped_until = np.where(moved, self.now_s + STOP_S, self._stopped_until)
        self.owner, self.members = owner, members
        self.rebalances += 1
        self._shares = None

    @property
    def shares(self) -> dict[int, list[tuple[TopicPartition, ...]]]:
        """Size -> the partitions of each member, at the sizes that are worth a look."""
        if self._shares is None:
            self._shares = self._at(steps([PARTITIONS], PARTITIONS))
        return self._shares

    def _at(self, sizes: Sequence[int]) -> dict[int, list[tuple[TopicPartition, ...]]]:
        owned = [[("t", int(p)) for p in np.flatnonzero(self.owner == n)] for n in range(self.members)]
        members = [Member(f"m{n:02}", {"t"}, owned=of, generation=1) for n, of in enumerate(owned)]
        return shares(Group(members, {"t": PARTITIONS}), strategy("sticky"), sizes)

    @property
    def lag(self) -> float:
        """Records between the committed and the end offsets: what a scaler sees."""
        return float((self.end - self.committed).sum())

    @property
    def offsets(self) -> dict[str, dict[TopicPartition, tuple[int | None, int]]]:
        """Member -> its partitions' committed and end offsets."""
        return {
            f"m{n:02}": {
                TopicPartition("t", int(p)): (int(self.committed[p]), int(self.end[p]))
                for p in np.flatnonzero(self.owner == n)
            }
            for n in range(self.members)
        }


@dataclass(frozen=True)
class Ran:
    """An hour.

    Args:
        lag: Records behind, the mean over the seconds.
        late: Part of the seconds in which a record waits longer than `DELAY_S`.
        member_min: Members times minutes.
    """

    rebalances: int
    lag: float
    late: float
    member_min: float


def ours(rules: Rules | None = None) -> Decide:
    """What `exporter --delay` does: it begins without any knowledge of rates."""
    rules = rules or Rules(DELAY_S)
    meter, scaler = FlowMeter(), Scaler(rules)

    def decide(world: World) -> int:
        meter.add(world.offsets, world.now_s)
        flows = meter.flows()
        if not (pace := flows.pace or flows.shown):
            return world.desired
        sizes = delays(world.shares, flows.partitions, pace)
        answer = scaler.decide(world.now_s, world.members, sizes, measured=flows.pace is not None)
        return world.desired if world.members != world.desired else answer.members

    return decide


def by_threshold(threshold: float) -> Decide:
    """KEDA's Kafka scaler (``lagThreshold``) behind an HPA; both at their defaults otherwise."""
    recent: deque[tuple[int, int]] = deque()

    def decide(world: World) -> int:
        lag = min(world.lag, PARTITIONS * threshold)  # allowIdleConsumers: false
        now = world.desired
        wanted = now if abs(1 - lag / (threshold * now)) <= 0.1 else math.ceil(lag / threshold)  # tolerance: 0.1
        wanted = min(max(wanted, 1), PARTITIONS)
        recent.append((world.now_s, wanted))
        while recent[0][0] <= world.now_s - 300:  # scaleDown.stabilizationWindowSeconds
            recent.popleft()
        if wanted > now:
            return min(wanted, max(2 * now, now + 4))  # scaleUp.policies: 100 % or 4 pods per 15 s
        return min(now, max(size for _, size in recent))

    return decide


def total(played: Sequence[Ran]) -> Ran:
    """Sums and means over several hours."""
    return Ran(
        sum(ran.rebalances for ran in played),
        statistics.mean(ran.lag for ran in played),
        statistics.mean(ran.late for ran in played),
        statistics.mean(ran.member_min for ran in played),
    )


def at_lag(loads: Sequence[Floats], lag: float, steps: int = 6) -> tuple[float, list[Ran]]:
    """The threshold at which the peer's mean lag comes closest to `lag`, by bisection, and its hours."""
    low, high, best = 0.2 * PACE, 20 * PACE, None
    for _ in range(steps):
        threshold = math.sqrt(low * high)
        played = [World(load).run(by_threshold(threshold)) for load in loads]
        off = abs(math.log(total(played).lag / lag))
        if best is None or off < best[0]:
            best = off, threshold, played
        low, high = (threshold, high) if total(played).lag < lag else (low, threshold)
    assert best is not None
    return best[1], best[2]


def run(quick: bool) -> Iterator[Result]:
    """``rebalances``: in an hour, at the threshold with the same lag. ``late``, ``member-minutes``: of these hours."""
    loads = [drawn(seed) for seed in range(2 if quick else 8)]
    mine = [World(load).run(ours()) for load in loads]
    threshold, theirs = at_lag(loads, total(mine).lag)
    a, b = total(mine), total(theirs)
    raw = {"ours": [asdict(ran) for ran in mine], "peer": [asdict(ran) for ran in theirs], "threshold": threshold}
    peer = f"lag / {threshold:.0f}"
    note = f"{len(loads)} drawn hours; lag {a.lag:.0f} and {b.lag:.0f} records on average"
    yield Result(
        "scaling/rebalances", a.rebalances / len(loads), "per hour", peer, b.rebalances / len(loads), note, raw
    )
    yield Result("scaling/late", 100 * a.late, "% of the time", peer, 100 * b.late, f"longer than {DELAY_S:g} s")
    yield Result("scaling/member-minutes", a.member_min, "per hour", peer, b.member_min)
