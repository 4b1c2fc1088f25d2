"""The groups of the benchmarks: S1 to S3 and W1 to W7, each one step after a balanced assignment.

S1 to S3 are small: 12, 100 and 500 partitions. The parameters of the others follow Kafka's own large tests and users'
groups: W1 one wide topic; W2 and W7 a million partitions, as in ``AbstractStickyAssignorTest``; W3 members that
subscribe to different halves; W4 twenty subscription sets; W5 racks; W6 sparse and skewed, where loads must differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

SEED = 20250801
GENERATION = 5


@dataclass(frozen=True)
class Parameters:
    """One workload: `joining` members join `members` that hold all partitions."""

    topics: int
    partitions: int | tuple[int, int]  # partitions per topic; a range to draw from
    members: int
    joining: int
    subscription_sets: int = 1  # 1: all members subscribe to all topics; else to random halves of them
    topics_each: tuple[int, int] | None = None  # alternative: number of topics per member
    racks: int = 0


WORKLOADS = {
    "S1": Parameters(1, 12, 3, 1),
    "S2": Parameters(4, 25, 10, 1),
    "S3": Parameters(10, 50, 25, 1),
    "W1": Parameters(1, 2000, 200, 1),
    "W2": Parameters(500, 2000, 2000, 1),
    "W3": Parameters(200, 100, 500, 50, subscription_sets=550),
    "W4": Parameters(2000, (1, 64), 1000, 50, subscription_sets=20),
    "W5": Parameters(100, 100, 300, 10, racks=3),
    "W6": Parameters(600, (1, 100), 600, 20, topics_each=(1, 4)),
    "W7": Parameters(500, 2000, 2000, 1, subscription_sets=20),
}


@dataclass(frozen=True)
class Workload:
    """A group at the moment a leader assigns.

    Args:
        topics: topic -> partition count.
        members: Member ids.
        subscriptions: Topic names per member.
        owner: Per partition, in the order of `topics`, the index of the member that holds it.
        racks: Number of racks; members and replicas are distributed round robin. 0: none.
    """

    topics: dict[str, int]
    members: list[str]
    subscriptions: list[list[str]]
    owner: npt.NDArray[np.int32] = field(repr=False)
    racks: int = 0

    @cached_property
    def owned(self) -> list[dict[str, list[int]]]:
        """topic -> ascending partition ids, per member."""
        owned: list[dict[str, list[int]]] = [{} for _ in self.members]
        first = 0
        for topic, count in self.topics.items():
            holders = self.owner[first : first + count]
            first += count
            order = np.argsort(holders, kind="stable")
            for run in np.split(order, np.flatnonzero(np.diff(holders[order])) + 1):
                if holders[run[0]] >= 0:
                    owned[holders[run[0]]][topic] = run.tolist()
        return owned


def member_id(index: int) -> str:
    """A member id like the brokers': client id and a random-looking suffix, the same in every run."""
    mixed = (index * 0x9E3779B97F4A7C15 + SEED) % 2**64
    more = mixed * 0xBF58476D1CE4E5B9 % 2**64
    return f"consumer-{index:05d}-{mixed:016x}{more:016x}"


def make(name: str) -> Workload:
    """Draw a workload; the same in every run."""
    p, rng = WORKLOADS[name], np.random.default_rng(SEED)
    if isinstance(p.partitions, tuple):
        counts = rng.integers(p.partitions[0], p.partitions[1] + 1, p.topics).tolist()
    else:
        counts = [p.partitions] * p.topics
    topics = {f"topic-{t:05d}": int(count) for t, count in enumerate(counts)}
    names, total = list(topics), p.members + p.joining
    if p.topics_each is not None:
        low, high = p.topics_each
        sets = [np.sort(rng.choice(p.topics, rng.integers(low, high + 1), replace=False)) for _ in range(total)]
        lonely = sorted(set(range(p.topics)) - set(np.concatenate(sets[: p.members]).tolist()))
        for i, topic in enumerate(lonely):
            sets[i] = np.union1d(sets[i], [topic])
    elif p.subscription_sets > 1:
        sets = [np.sort(rng.permutation(p.topics)[: p.topics // 2]) for _ in range(p.subscription_sets)]
    else:
        sets = [np.arange(p.topics)]
    subscriptions = [[names[t] for t in sets[i % len(sets)]] for i in range(total)]
    members = [member_id(i) for i in range(total)]
    owner = _held(topics, subscriptions[: p.members])
    return Workload(topics, members, subscriptions, owner, p.racks)


def _held(topics: dict[str, int], subscriptions: list[list[str]]) -> npt.NDArray[np.int32]:
    """The owners before the others join: each partition went to the least loaded subscriber."""
    total = sum(topics.values())
    if all(len(topics_) == len(topics) for topics_ in subscriptions):
        return (np.arange(total) % len(subscriptions)).astype(np.int32)
    subscribers: dict[str, list[int]] = {topic: [] for topic in topics}
    for index, subscription in enumerate(subscriptions):
        for topic in subscription:
            subscribers[topic].append(index)
    loads = np.zeros(len(subscriptions), np.int64)
    owner: list[npt.NDArray[np.int32]] = []
    for topic, count in topics.items():
        able = np.asarray(subscribers[topic])
        # The same as giving partitions one by one to the least loaded, in one step: all slots of the levels above
        # the lowest load, in order of level.
        low, high = loads[able].min(), loads[able].max()
        levels = np.arange(low, min(low + count, high + 1 + -(-count // len(able))))
        _, columns = np.nonzero(levels[:, None] >= loads[able])
        chosen = able[columns[:count]]
        np.add.at(loads, chosen, 1)
        owner.append(chosen.astype(np.int32))
    return np.concatenate(owner)
