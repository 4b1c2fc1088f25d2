"""A static leader's process that is replaced leads on for the broker, which names no leader to the new one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.topics import Topics
from tests.support.live.consumers import ConsumerMember
from tests.support.waiting import until


@pytest.mark.broker
@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_new_partitions_are_read_after_a_static_leader_restarted(
    assignor: str, kafka_broker: Broker, kafka_topic: Callable[..., str]
) -> None:
    """Nobody watches the topic otherwise: kafka-python joins by a version without KIP-814."""
    topic, group = kafka_topic(partitions=2), f"static-{uuid.uuid4().hex[:8]}"

    def member(name: str) -> ConsumerMember:
        started = ConsumerMember(kafka_broker.bootstrap, group, name, [topic], assignor, None, instance_id=name)
        started.start()
        return started

    def owned() -> list[tuple[str, int]]:
        return sorted(tuple(partition) for one in members for partition in one.consumer.assignment())

    first = member("s1")
    until(lambda: first.stable, "the first leads")
    other = member("s2")
    until(lambda: other.stable and first.stable and first.generation == other.generation, "both are in")
    generation = other.generation
    assert first.consumer._coordinator._is_leader
    asyncio.run(first.kill())
    returned = member("s1")
    members = [returned, other]
    try:
        until(lambda: returned.stable and returned.generation == generation, "the first is back, without a rebalance")
        assert not any(one.consumer._coordinator._is_leader for one in members)
        until(lambda: returned.consumer._coordinator._assignment_snapshot, "the first watches")
        watched = returned.consumer._coordinator._assignment_snapshot
        assert watched == {topic: {0, 1}}, "else its own metadata, as they come, are a change"
        topics = Topics(kafka_broker.bootstrap)
        topics.grow(topic, 4)
        topics.close()
        until(lambda: owned() == [(topic, partition) for partition in range(4)], "the new partitions have owners")
        until(lambda: returned.stable and other.stable and returned.generation == other.generation, "all are at rest")
        assert returned.generation > generation
        assert [one.failure() for one in members] == [None, None]
    finally:
        for one in members:
            asyncio.run(one.leave())
