"""KIP-848 groups of librdkafka and of Java on a real broker: a member joins, one leaves, one is killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import LAWS, check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Sender

REASONS = {
    "R4": "the broker's assignor decides, which does not promise the fewest moves",
    "A1": "the broker assigns, and the log does not have what it computed from",
    "G3": "the broker assigns, and members do not vote",
    "O4": "no step limits the time without an owner (gap_ms)",
    "C4": "no partition changed its owner with records consumed and not committed",
    "C6": "members do not report finished records",
    "X1": "no member transforms",
    "X2": "no member transforms",
    "X3": "no service has an output topic",
    "S1": "no static member returned",
    "S2": "no static member's instance id was taken",
    "T2": "no member stopped polling",
    "T3": "no topic changed",
}
"""Law -> why it has nothing to judge in this churn."""
NO_LOSSES = {"R7": "its client reports losses as revocations; the log tells them apart"}


@pytest.mark.broker
@pytest.mark.source("KIP-848; the members are librdkafka's consumer and Kafka's VerifiableConsumer")
# long: another client; what is judged is the broker's choice
@pytest.mark.parametrize("client", ["confluent-consumer", pytest.param("java-consumer", marks=pytest.mark.long)])
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
    # No law is judged 0 times without its reason, and the reason is one of this protocol, client or scenario.
    for law in (law for law in LAWS if not verdict.checked[law]):
        reasons = {**REASONS, **(NO_LOSSES if client == "java-consumer" else {})}
        assert (law, [*verdict.skipped[law]]) == (law, [reasons.get(law)])
