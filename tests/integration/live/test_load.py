"""Placement by work in real groups: the meter, the loop, a leader that dies, and members that tell nothing."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.loop import EVEN, PARTITIONS, known, play, told
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.checker.verdict import Verdict
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup, Stable
from kafka_assignors.integration.records import Sender
from tests.support.waiting import until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]
MakeGroup = Callable[..., MemberGroup]
MakeTopic = Callable[..., str]
METERED = 'weighted{"meter":"work","check_every_s":1,"rest_s":5}'
SESSION_MS = 6000


def judged(folder: Path) -> tuple[History, Verdict]:
    history = History.load(folder)
    verdict = check(history)
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    assert verdict.checked["A1"] > 0
    return history, verdict


def started(group: MemberGroup, topic: str, assignors: dict[str, list[str]], **settings: Any) -> Stable:
    group.step("members join")
    for member, names in assignors.items():
        group.start(member, [topic], names, **settings)
    return group.wait_stable(timeout_s=60)


def requests(history: History, since_ns: int = 0, until_ns: float = math.inf) -> int:
    """How often members requested a rebalance in a time."""
    return sum(e.kind == "rebalance_request" and since_ns < e.mono_ns <= until_ns for e in history.events)


@pytest.mark.long
def test_a_slow_key_range_is_spread_and_the_leader_takes_no_weight_with_it(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic
) -> None:
    """The partitions of one member become slow and get most records. Then the leader is killed."""
    played = play(unjudged_group(session_timeout_ms=SESSION_MS), kafka_topic(partitions=PARTITIONS))
    print(played.text())
    assert played.uneven > 2
    assert played.even < EVEN
    assert 1 <= played.requests <= 2
    assert played.after >= 1.5 * played.before
    assert played.lost == 0, "what the dead leader knew is told by others"
    assert played.broken == ()
    assert played.replayed > 0


# long: waits for a rest; assignors/weighted/ proves rounds and caps without members, test_hostile_members.py has a
# live group of it
@pytest.mark.long
@pytest.mark.parametrize("client", ["kafka-python", pytest.param("bridge", marks=pytest.mark.long)])
def test_rebalances_that_members_request_are_judged_by_their_rounds(
    client: str, kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """The first leader knows no weights when it assigns, and requests them after its rest."""
    topic, group = kafka_topic(partitions=PARTITIONS), unjudged_group(session_timeout_ms=SESSION_MS)
    with Sender(kafka_broker.bootstrap, tmp_path, "run", [topic], "default", 60):
        first = started(group, topic, {m: [METERED] for m in ("m1", "m2")}, client=client)

        def requested() -> bool:
            return any('"rebalance_request"' in path.read_text("utf-8") for path in tmp_path.glob("*.jsonl"))

        until(requested, "a request of the leader", within_s=40)
        until(lambda: group.wait_stable(timeout_s=60).generation > first.generation, "its rebalance", within_s=40)
        group.step("one of a lower priority joins, and one with a hard cap")
        group.start("m3", [topic], ['weighted{"priority":-1}'])
        group.wait_stable(timeout_s=60)
        group.start("m4", [topic], ['weighted{"max_work":1e-9}'])
        owned = group.wait_stable(timeout_s=60).owned
    group.drain()
    group.close()
    history, verdict = judged(tmp_path)
    assert {m: sum(map(len, topics.values())) for m, topics in owned.items() if m == "m3"} == {"m3": 0}
    assert requests(history) > 0
    assert verdict.checked["R5"] >= 2


@pytest.mark.long
def test_members_of_three_clients_share_a_group_by_work(
    kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """A bridged member measures its work; aiokafka's are given weights, and are eager."""
    topic, group = kafka_topic(partitions=PARTITIONS), unjudged_group(session_timeout_ms=SESSION_MS)
    given = "weighted" + json.dumps({"weights": {topic: [0.02 if p < 9 else 0.005 for p in range(PARTITIONS)]}})
    with Sender(kafka_broker.bootstrap, tmp_path, "run", [topic], "default", 90):
        for name, client, assignor in (
            ("k1", "kafka-python", "weighted"),
            ("b1", "bridge", METERED),
            ("a1", "aiokafka", given),
        ):
            group.step(f"{name} joins")
            group.start(name, [topic], [assignor], client=client, **({"app_work_ms": 2} if client == "bridge" else {}))
            group.wait_stable(timeout_s=60)
        begun_ns = time.monotonic_ns()
        until(lambda: time.monotonic_ns() > begun_ns + 12_000_000_000, "twelve seconds of measuring", within_s=30)
        group.step("k2 joins")
        group.start("k2", [topic], ["weighted"])
        group.wait_stable(timeout_s=60)
    group.drain()
    group.close()
    history, _ = judged(tmp_path)
    last = [said for _, said in told(history, {topic: PARTITIONS}) if len(said) == 4][-1]
    assert known(last, topic) == set(range(PARTITIONS))
    bridged = next(each for member, each in last.items() if member.startswith("b1"))
    measured = dict(zip(*(column.tolist() for column in bridged.weights[topic]), strict=True))
    assert any(abs(weight - 0.02) > 0.001 and abs(weight - 0.005) > 0.001 for weight in measured.values())
