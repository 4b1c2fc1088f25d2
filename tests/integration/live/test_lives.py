"""The whole life of a group with each of our assignors, under load: the laws hold, and nothing is lost or read twice.

The groups live at the same time, a few together, as most of a rebalance is waiting.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from kafka_assignors.clients.kafka_python import ASSIGNORS
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup, Stable
from kafka_assignors.integration.records import Sender, read_back
from kafka_assignors.integration.topics import create_topics
from tests.support.integration.records import read_twice

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]
TOGETHER, SESSION_MS = 5, 6000
SHORT = ("range", "cooperative-sticky")
"""One without a memory, one with it. `test_load_lives.py` has our own user data, `test_mixed.py` Java's."""
COURSE = {
    "m1 joins": "m1",
    "m2 joins": "m1 m2",
    "m3 joins": "m1 m2 m3",
    "m4 joins": "m1 m2 m3 m4",
    "m2 leaves": "m1 m3 m4",
    "m1 leaves": "m3 m4",  # the leader until now
    "m3 leaves": "m4",
    "m5 joins": "m4 m5",
    "m5 is killed": "m4",
}
"""Step -> the members after it."""


@dataclass
class Life:
    """What became of one group."""

    topics: dict[str, int]
    folder: Path
    seen: list[Stable]
    nacked: int


def live(bootstrap: str, folder: Path, assignors: list[str]) -> dict[str, Life]:
    """The course of events in a group for each of these assignors, one step after the other in all of them."""
    lives, groups, senders = {}, {}, {}
    with ExitStack() as stack:
        for name in assignors:
            topics = {f"orders-{name}-{folder.name}": 5, f"audit-{name}-{folder.name}": 3}
            create_topics(bootstrap, topics)
            lives[name] = Life(topics, folder / name, [], 0)
            groups[name] = stack.enter_context(
                MemberGroup(
                    bootstrap, f"{name}-{uuid.uuid4().hex[:6]}", folder / name, "run", session_timeout_ms=SESSION_MS
                )
            )
            senders[name] = stack.enter_context(Sender(bootstrap, folder / name, "run", list(topics), "default", 15))
        for step in COURSE:
            member, what = step.split(maxsplit=1)
            for name, group in groups.items():
                group.step(step)
                if what == "joins":
                    group.start(member, list(lives[name].topics), [name])
                elif what == "leaves":
                    group.stop(member)
                else:
                    group.kill(member)
            for name, group in groups.items():
                lives[name].seen.append(group.wait_stable(timeout_s=60))
        for name, sender in senders.items():
            lives[name].nacked = sender.stop().nacked
        for group in groups.values():
            group.drain()
    for name, life in lives.items():
        read_back(bootstrap, folder / name, "run", list(life.topics))
    return lives


OTHERS = [name for name in ASSIGNORS if name not in SHORT]
BATCHES = [[*SHORT], *(OTHERS[first : first + TOGETHER] for first in range(0, len(OTHERS), TOGETHER))]


@pytest.fixture(scope="module")
def lives(kafka_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Life]:
    """The life of an assignor's group; with it, its batch is lived."""
    found: dict[str, Life] = {}

    def of(assignor: str) -> Life:
        if assignor not in found:
            (batch,) = (batch for batch in BATCHES if assignor in batch)
            found.update(live(kafka_broker.bootstrap, tmp_path_factory.mktemp("lives"), batch))
        return found[assignor]

    return of


# long: the others are of the same kinds, and a group of each takes half a minute
@pytest.mark.release("test_scenarios.py has members that join, leave and die")
@pytest.mark.parametrize("assignor", [*SHORT, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)])
def test_members_join_leave_and_die_and_nothing_is_lost(assignor: str, lives: Callable[[str], Life]) -> None:
    life = lives(assignor)
    everything = sorted(TopicPartition(topic, p) for topic, count in life.topics.items() for p in range(count))
    for stable, (step, members) in zip(life.seen, COURSE.items(), strict=True):
        assert sorted(stable.owned) == members.split(), step
        assert (stable.protocol, stable.leader in stable.owned) == (assignor, True), step
        owned = [TopicPartition(t, p) for ts in stable.owned.values() for t, ps in ts.items() for p in ps]
        assert sorted(owned) == everything, step
    numbers = [stable.generation for stable in life.seen]
    assert numbers == sorted(set(numbers))
    # A killed member is missed when its session ends, and not before: at most a heartbeat was sent after.
    assert life.seen[-1].seconds >= SESSION_MS / 1000 - 0.5
    assert life.nacked == 0

    history = History.load(life.folder)
    verdict = check(history)
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    # No member is static or stalled, none tells what it finished (C6) or
    # writes transactions (X1, X2), and nothing need be read twice. R5, C3 and A1 are among the rest: each was judged.
    cooperative, sticky = assignor in ("cooperative-sticky", "weighted", "lag"), "sticky" in assignor
    apart = (
        {"S1", "S2", "C4", "C6", "T2", "T3", "X1", "X2", "X3"}
        | (set() if cooperative else {"R2", "R3"})
        | (set() if sticky else {"R4"})
    )
    assert {law for law, times in verdict.checked.items() if not times} | {"C4"} == apart
    assert verdict.checked["C3"] == verdict.measures["acked"] > 0
    assert [step["name"] for step in verdict.measures["steps"]] == list(COURSE)
    (killed,) = [e.mono_ns for e in history.events if e.kind == "fault_begin"]
    assert read_twice(History(e for e in history.events if e.mono_ns < killed)) == set(), "exactly once until then"
    assert {i.end_kind for i in verdict.intervals if i.member == "m5"} >= {"killed"}
    assert {i.end_kind for i in verdict.intervals if i.member in ("m1", "m2", "m3")} == {"revoked"}
