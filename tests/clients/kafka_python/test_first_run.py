"""The README's first example on a real broker: what it logs."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable

import pytest
from kafka import KafkaConsumer

from kafka_assignors import CooperativeStickyAssignor
from kafka_assignors.integration.broker import Broker

pytestmark = pytest.mark.broker
DEADLINE_S = 60


def joined(broker: Broker, *topics: str, until: Callable[[KafkaConsumer], bool]) -> None:
    """A new group of one consumer, polled until something is true of it."""
    consumer = KafkaConsumer(
        *topics,
        bootstrap_servers=broker.bootstrap,
        group_id=f"first-{uuid.uuid4().hex[:8]}",
        partition_assignment_strategy=[CooperativeStickyAssignor],
        allow_auto_create_topics=False,
    )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not until(consumer):
            assert time.monotonic() < deadline
            consumer.poll(timeout_ms=100)
    finally:
        consumer.close()


def test_a_topic_that_exists_is_never_called_absent(
    kafka_broker: Broker, kafka_topic: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    """A consumer may join, and lead, before its first metadata have come."""
    topic = kafka_topic(partitions=3)

    with caplog.at_level(logging.WARNING, "kafka_assignors"):
        for _ in range(5):
            joined(kafka_broker, topic, until=lambda consumer: len(consumer.assignment()) == 3)

    assert [record.getMessage() for record in caplog.records if record.name == "kafka_assignors"] == []


@pytest.mark.parametrize("beside", [0, 1])
def test_a_topic_that_does_not_exist_is_called_absent_once(
    beside: int, kafka_broker: Broker, kafka_topic: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    topics, absent = [kafka_topic() for _ in range(beside)], f"absent-{uuid.uuid4().hex[:8]}"

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == "kafka_assignors"]

    with caplog.at_level(logging.WARNING, "kafka_assignors"):
        joined(kafka_broker, *topics, absent, until=lambda c: bool(told()) and len(c.assignment()) == beside)

    assert told() == [
        f"cooperative-sticky: topic {absent!r} is subscribed by 1 member but absent from metadata; was it deleted?"
    ]
