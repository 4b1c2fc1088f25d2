"""aiokafka's members in a group of the harness, judged by the same laws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.errors import MemberDied
from kafka_assignors.integration.history import History
from kafka_assignors.integration.records import Sender
from tests.support.integration.fixtures import MakeGroup, MakeTopic
from tests.support.waiting import until

pytestmark = pytest.mark.broker


def test_aiokafka_and_kafka_python_share_a_group_and_either_leads(
    kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """aiokafka leads until it is killed, then another does; one that is paused is missed, and returns."""
    topic, group = kafka_topic(partitions=6), unjudged_group()
    seen = {}
    with Sender(kafka_broker.bootstrap, tmp_path, "run", [topic], "default", 50):
        for name, client in (("a1", "aiokafka"), ("m1", "kafka-python"), ("a2", "aiokafka")):
            group.step(f"{name} joins")
            group.start(name, [topic], ["sticky"], client=client)
            seen[name] = group.wait_stable()
        group.step("a2 is paused")
        group.pause("a2")
        seen["paused"] = group.wait_stable()
        group.step("a2 goes on")
        group.resume("a2")
        seen["back"] = group.wait_stable()
        group.step("a1 is killed")
        group.kill("a1")
        seen["killed"] = group.wait_stable()
        group.step("a2 leaves")
        group.stop("a2")
        seen["left"] = group.wait_stable()
    group.drain()
    group.close()

    assert [seen[step].leader for step in ("a1", "m1", "a2", "paused", "back", "left")] == ["a1"] * 5 + ["m1"]
    assert seen["killed"].leader in ("a2", "m1")
    assert [len(s.moves) for s in seen.values()] == [0, 3, 2, 2, 2, 2, 3]
    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    led = len(verdict.measures["generations"])
    assert verdict.checked["A1"] == led >= 7
    assert min(verdict.checked[law] for law in ("O1", "R1", "R4", "C1", "C2", "C3", "C5", "T1")) > 0


def test_what_aiokafka_cannot_do_ends_its_member_with_the_reason(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic
) -> None:
    topic, group = kafka_topic(partitions=1), unjudged_group()
    group.start("a1", [topic], ["cooperative-sticky"], client="aiokafka")

    with pytest.raises(MemberDied, match=r"aiokafka does not support cooperative-sticky.*use StickyAssignor"):
        group.wait_stable()


@pytest.mark.source("apache/kafka GroupMetadataManager.convertToConsumerGroup: pending joins get REBALANCE_IN_PROGRESS")
def test_a_join_that_is_answered_by_a_rebalance_ends_no_member(
    kafka_broker: Broker,
    kafka_admin: KafkaAdminClient,
    unjudged_group: MakeGroup,
    kafka_topic: MakeTopic,
    tmp_path: Path,
) -> None:
    """aiokafka's join waits for a paused member when the group becomes one of the consumer protocol (KIP-848)."""
    topic, group = kafka_topic(partitions=3), unjudged_group()
    group.start("m1", [topic], ["range"], session_timeout_ms=30_000)
    group.wait_stable()
    group.pause("m1")
    group.start("a1", [topic], ["range"], client="aiokafka")
    name = group.group

    def described() -> Any:
        return kafka_admin.describe_groups([name])[name]

    until(lambda: described()["group_state"] == "PreparingRebalance", "aiokafka's join waits")
    group.start("c1", [topic], ["range"], client="confluent-consumer")
    until(lambda: "RebalanceInProgressError" in told(tmp_path, "a1"), "the join is answered")
    group.resume("m1")
    owned = group.wait_stable(timeout_s=60).owned
    group.close()

    assert {member: len(topics[topic]) for member, topics in owned.items()} == {"m1": 1, "a1": 1, "c1": 1}
    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.value) == ((), True)


def told(folder: Path, member: str) -> str:
    """The errors in a member's history that did not end it."""
    events = [e for e in History.load(folder).events if (e.kind, e.member) == ("error", member) and not e.data["fatal"]]
    return " ".join(str(event.data["message"]) for event in events)
