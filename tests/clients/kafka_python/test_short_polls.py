"""Consumers that poll without waiting, with pauses: a join then ends between two polls (`guard`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata

from kafka_assignors import CooperativeStickyAssignor, StickyAssignor, guard
from kafka_assignors.integration.broker import Broker
from tests.support.kafka_python.polling import Polling
from tests.support.waiting import until

pytestmark = [pytest.mark.broker, pytest.mark.source("kafka-python 3.0.12 kafka/coordinator/base.py join_group_async")]
SESSION_MS = 1000


@pytest.fixture
def consumer(kafka_broker: Broker, kafka_topic: Callable[..., str]) -> Iterator[Callable[[type[Any]], Any]]:
    """Makes a consumer, alone in its group, that has subscribed to a topic of four partitions."""
    made = []

    def make(assignor: type[Any]) -> Any:
        topic = kafka_topic(partitions=4)
        made.append(
            KafkaConsumer(
                topic, bootstrap_servers=kafka_broker.bootstrap, group_id=f"short-{topic}", enable_auto_commit=False,
                partition_assignment_strategy=[assignor], session_timeout_ms=SESSION_MS, heartbeat_interval_ms=200,
            )
        )  # fmt: skip
        return made[-1]

    yield make
    for each in made:
        each.close(autocommit=False)


def poll(consumer: Any) -> None:
    """Poll without waiting, then pause until the join that it began has ended."""
    consumer.poll(timeout_ms=0)
    until(lambda: (task := consumer._coordinator._join_task) is None or task.is_done, "the join has ended")


def generation(consumer: Any) -> int:
    return int(consumer.group_metadata().generation_id)


def join(consumer: Any) -> None:
    """Poll until the consumer is in its group's first generation, which no poll has adopted."""

    def joined() -> bool:
        poll(consumer)
        return generation(consumer) == 1

    until(joined, "the consumer is in a generation")
    assert not consumer.assignment()


# long: kafka-python's coordinator does the same whichever assignor it has
@pytest.mark.parametrize(
    "assignor",
    [
        *(pytest.param(each, marks=pytest.mark.long) for each in (RangePartitionAssignor, StickyAssignor)),
        CooperativeStickyAssignor,
    ],
)
def test_the_next_poll_adopts_the_assignment(consumer: Callable[[type[Any]], Any], assignor: type[Any]) -> None:
    mine = consumer(assignor)
    guard(mine)
    join(mine)

    poll(mine)

    assert len(mine.assignment()) == 4
    assert generation(mine) == 1
    assert not mine._coordinator.need_rejoin()


def test_without_the_guard_it_joins_again_at_each_poll(consumer: Callable[[type[Any]], Any]) -> None:
    """The defect that the guard repairs."""
    theirs = consumer(RangePartitionAssignor)
    join(theirs)

    for again in range(2, 6):
        poll(theirs)
        assert (generation(theirs), theirs.assignment()) == (again, set())


def test_it_stays_in_its_group_until_the_next_poll(consumer: Callable[[type[Any]], Any]) -> None:
    mine = consumer(StickyAssignor)
    join(mine)

    ended, heartbeat = time.monotonic(), mine._coordinator.heartbeat
    until(lambda: heartbeat.last_receive > ended + 2 * SESSION_MS / 1000, "two sessions have passed, with heartbeats")
    poll(mine)

    assert len(mine.assignment()) == 4
    assert generation(mine) == 1


def test_a_rebalance_in_the_pause_is_not_forgotten(
    consumer: Callable[[type[Any]], Any], kafka_broker: Broker, kafka_admin: KafkaAdminClient
) -> None:
    mine = consumer(StickyAssignor)
    join(mine)
    topics, group = list(mine.subscription()), mine.config["group_id"]

    other = Polling(kafka_broker, group, topics, [StickyAssignor], "other")
    try:
        until(
            lambda: kafka_admin.describe_groups([group])[group]["group_state"] == "PreparingRebalance",
            "the group waits for the first member",
        )
        begun, heartbeat = time.monotonic(), mine._coordinator.heartbeat
        until(lambda: begun < heartbeat.last_send <= heartbeat.last_receive, "a heartbeat has told it")
        mine.poll(timeout_ms=0)

        assert len(mine.assignment()) == 4
        assert mine._coordinator.need_rejoin()

        def shared() -> bool:
            poll(mine)
            return len(mine.assignment()) == len(other.consumer.assignment()) == 2

        until(shared, "both have their share")
        assert generation(mine) == other.generation == 2
    finally:
        other.stop()


def test_who_gets_a_partition_back_begins_where_it_is_committed_now(
    consumer: Callable[[type[Any]], Any], kafka_broker: Broker
) -> None:
    """Not where it was at the assignment before, whose answer came after the poll that asked: the guard repairs it."""
    mine = consumer(StickyAssignor)
    asked = mine._coordinator._offset_fetch_futures
    with closing(KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)) as producer:
        for partition in (0, 1, 2, 3) * 2:
            producer.send(next(iter(mine.subscription())), b"value", partition=partition).get(60)

    def has_asked() -> bool:
        mine.poll(timeout_ms=0)
        states = mine._subscription.assignment.values()
        if states and all(state.position for state in states):
            mine._coordinator.request_rejoin()  # the answer came within the poll
        return bool(asked)

    until(has_asked, "it has asked for the committed offsets")
    ((partitions, answer),) = asked.items()
    until(lambda: answer.is_done, "they have come: there are none, so that it would begin at the end")
    mine.commit({tp: OffsetAndMetadata(1, "", -1) for tp in partitions})
    first, read = generation(mine), []
    mine._coordinator.request_rejoin()

    def ends() -> bool:
        for records in mine.poll(timeout_ms=100).values():
            read.extend(records)
        positions = [state.position for state in mine._subscription.assignment.values()]
        return generation(mine) > first and [place and place.offset for place in positions] == [2] * 4

    until(ends, "it has its partitions back, and nothing left to read")
    assert [record.offset for record in read] == [1] * 4
