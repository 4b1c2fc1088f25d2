"""KIP-848 groups of librdkafka and of Java on a real broker: a member joins, one leaves, one is killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Sender


@pytest.mark.broker
@pytest.mark.source("KIP-848; the members are librdkafka's consumer and Kafka's VerifiableConsumer")
@pytest.mark.parametrize("client", ["confluent-consumer", "java-consumer"])
def test_a_group_whose_broker_assigns_is_judged(
    client: str,
    kafka_broker: Broker,
    unjudged_group: Callable[..., MemberGroup],
    kafka_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    topic, group = kafka_topic(partitions=6), unjudged_group()
    moves = []
    with Sender(kafka_broker.bootstrap, tmp_path, "run", [topic], "default", 50):
        group.step("two join")
        for name in ("a", "b"):
            group.start(name, [topic], ["uniform"], client=client)
        group.wait_stable()
        group.step("c joins")
        group.start("c", [topic], ["uniform"], client=client)
        moves.append(len(group.wait_stable().moves))
        group.step("b leaves")
        group.stop("b")
        moves.append(len(group.wait_stable().moves))
        group.step("c is killed")
        group.kill("c")
        moves.append(len(group.wait_stable().moves))
    group.drain()
    group.close()

    assert moves == [2, 2, 3]
    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    judged = ("O1", "O2", "O3", "G1", "G2", "G4", "R1", "R2", "R5", "R6", "R8", "P1", "C1", "C2", "C3", "C5", "T1")
    assert [law for law in judged if not verdict.checked[law]] == []
    assert {law for law in ("G3", "R4", "A1") if law in verdict.skipped} == {"G3", "R4", "A1"}
    assert verdict.checked["R7"] == 0 if client == "java-consumer" else verdict.checked["R7"] > 0
