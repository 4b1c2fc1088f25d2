"""Stateless strategies: time, balance, and moves."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from kafka_assignors.clients.kafka_python import assignor
from kafka_assignors.core.group import Group, Member
from kafka_assignors.core.group.assignment import Assignment, moves, owners
from kafka_assignors.core.reading import decoded
from kafka_assignors.core.strategies import strategy

from .clusters import cluster
from .result import Result, WrongAnswer
from .workloads import member_id

TIMED = (
    "consistent-hash", "metaq-consistent-hash", "rocketmq-consistent-hash", "machine-room-nearby", "config",
    "metaq-default", "average", "average-by-circle",
)  # fmt: skip
COMPARED: dict[str, tuple[str, dict[str, Any]]] = {
    "rocketmq, 10 points": ("rocketmq-consistent-hash", {}),
    "metaq, 160 points": ("metaq-consistent-hash", {}),
    "no bound, 160 points": ("consistent-hash", {"epsilon": None}),
    "epsilon 0.5": ("consistent-hash", {"epsilon": 0.5}),
    "epsilon 0.25": ("consistent-hash", {}),
    "epsilon 0.1": ("consistent-hash", {"epsilon": 0.1}),
    "epsilon 0": ("consistent-hash", {"epsilon": 0}),
    "average": ("average", {}),
    "sticky": ("sticky", {}),
}
MEMBERS, PARTITIONS = 10, 100


def run(quick: bool) -> Iterator[Result]:
    """``NAME-1m``: 1,000,000 partitions and 1,000 members; ``spread/…``, ``leave/…``: 10 members, 100 partitions."""
    topics, members = (10, 100) if quick else (100, 1000)
    for name in TIMED:
        yield _timed(name, topics, members, rounds=1 if quick else 3)
    for name in COMPARED:
        yield from _compared(name, groups=50 if quick else 1000)


def _timed(name: str, topics: int, members: int, rounds: int) -> Result:
    """CPU time of kafka-python's call: from decoded subscriptions to encoded assignments."""
    counts = {f"topic-{t:05d}": 10_000 for t in range(topics)}
    racks = 3 if name == "machine-room-nearby" else 0
    metadata = cluster(counts, racks, replicas=max(racks, 1))
    joined = [
        _Joined(member_id(m), ConsumerProtocolSubscription(version=3, topics=list(counts), rack_id=_rack(m, racks)))
        for m in range(members)
    ]
    made = assignor(name)()
    spent = []
    for _ in range(rounds):
        began = time.thread_time()
        answer = made.assign(metadata, joined)
        spent.append((time.thread_time() - began) * 1000)
    loads = [sum(len(ids) for _, ids in given.assigned_partitions) for given in answer.values()]
    if sum(loads) != sum(counts.values()):
        raise WrongAnswer(f"{name}: {sum(counts.values()) - sum(loads)} partitions were assigned to no member")
    note = f"{sum(loads):,} partitions, {members:,} members; max/mean {max(loads) * members / sum(loads):.3g}"
    return Result(f"{name}-1m", statistics.median(spent), "ms CPU", note=note, raw={"cpu_ms": spent})


class _Joined:
    """The fields of kafka-python's JoinGroupResponseMember that assignors use."""

    def __init__(self, name: str, metadata: Any) -> None:
        self.member_id, self.group_instance_id, self.metadata = name, None, metadata


def _rack(member: int, racks: int) -> str | None:
    return f"rack{member % racks}" if racks else None


def _compared(name: str, groups: int) -> Iterator[Result]:
    """Groups of members with random names, before and after one of them leaves."""
    draw = random.Random(20250801)
    spread, moved = [], []
    for _ in range(groups):
        names = [f"consumer-{draw.getrandbits(64):016x}" for _ in range(MEMBERS)]
        before = _placed(*COMPARED[name], names)
        after = _placed(*COMPARED[name], names[1:], before)
        spread.append(max(sum(map(len, topics.values())) for topics in before.values()) * MEMBERS / PARTITIONS)
        moved.append(len(moves(owners(before), owners(after))))
    yield _summary(f"spread/{name}", spread, "max/mean", max)
    yield _summary(f"leave/{name}", moved, "partitions moved", max)


def _placed(name: str, options: dict[str, Any], names: list[str], before: Assignment | None = None) -> Assignment:
    def held(member: str) -> list[tuple[str, int]]:
        return [(t, p) for t, ids in (before or {}).get(member, {}).items() for p in ids]

    group = Group(
        [Member(member_name, {"t"}, owned=held(member_name), generation=1) for member_name in names], {"t": PARTITIONS}
    )
    return strategy(name, **options).assign(decoded(name, group))[0]


def _summary(name: str, values: list[Any], unit: str, worst: Callable[[list[Any]], Any]) -> Result:
    note = f"mean of {len(values)} groups; worst {worst(values):.3g}"
    return Result(name, statistics.fmean(values), unit, note=note, raw={"values": values})
