"""Members that hand over before they leave, in drawn schedules: who leads, revokes slowly, dies in the middle."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Sender
from kafka_assignors.integration.topics import create_topics

LEADERS = ("kafka-python", "java", "confluent")
"""Clients of the first member, which stays: ours, and two that know nothing of `leave`."""
LEAVERS: tuple[dict[str, Any], ...] = ({}, {"app_revoke_ms": 300}, {"app_revoke_ms": 1500}, {"client": "bridge"})
STEPS, MOST = 6, 5
SCHEDULES, CHUNK = 200, 10


def play(group: MemberGroup, topic: str, draw: random.Random, leader: str) -> None:
    """A course of joins and departures, one or two at a time; the group comes to rest after each."""
    group.start("first", [topic], ["cooperative-sticky"], client=leader)
    group.wait_stable(timeout_s=60)
    here: list[str] = []
    for number in range(STEPS):
        kinds = ["join"] * (3 if len(here) < 2 else 1) * (len(here) < MOST)
        kinds += ["leave", "leave", "dies while it leaves", "is killed", "closes"] * bool(here)
        kinds += ["two leave", "one leaves, one joins"] * (len(here) > 1)
        kind = draw.choice(kinds)
        group.step(f"{number}: {kind}")
        leaving = draw.sample(here, 2 if kind == "two leave" else 1) if kind != "join" else []
        here = [name for name in here if name not in leaving]
        if kind == "dies while it leaves":
            group.ask_to_leave(leaving[0])
            time.sleep(draw.choice([0, 0.02, 0.1, 0.5]))  # wherever it is then
            group.kill(leaving[0])
        elif kind == "is killed":
            group.kill(leaving[0])
        elif kind == "closes":
            group.stop(leaving[0])
        elif leaving and kind != "one leaves, one joins":
            group.leave(*leaving)
        if "join" in kind:
            if leaving:
                group.ask_to_leave(leaving[0])
            name = f"m{number}"
            group.start(name, [topic], ["cooperative-sticky"], **draw.choice(LEAVERS))
            here.append(name)
            if leaving:
                group.wait_end(leaving[0], timeout_s=60)
        group.wait_stable(timeout_s=90)


# long: 200 groups, half a minute each; test_leave.py has one of each kind
@pytest.mark.long
@pytest.mark.broker
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(0, SCHEDULES, CHUNK))
def test_nothing_is_lost_however_members_leave(first: int, kafka_broker: Broker, tmp_path: Path) -> None:
    for seed in range(first, first + CHUNK):
        topic, folder = f"departures-{seed}-{tmp_path.name}", tmp_path / str(seed)
        create_topics(kafka_broker.bootstrap, {topic: 12})
        draw, leader = random.Random(f"departures {seed}"), LEADERS[seed % len(LEADERS)]
        with MemberGroup(kafka_broker.bootstrap, f"g-{topic}", folder, "run", session_timeout_ms=6000) as group:
            with Sender(kafka_broker.bootstrap, folder, "run", [topic], "roundrobin", 50):
                play(group, topic, draw, leader)
            group.drain()
        verdict = check(History.load(folder))
        assert (verdict.violations, verdict.value) == ((), True), (seed, leader, verdict.unknown)
        assert min(verdict.checked[law] for law in ("O1", "R2", "C3")) > 0, seed
