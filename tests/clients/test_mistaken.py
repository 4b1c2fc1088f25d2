"""Assignors given to a consumer in a wrong way: a sentence that names the slip and the fix, from each client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from kafka import KafkaConsumer

from kafka_assignors import Group, LagAssignor, Member, RangeAssignor, aiokafka, guard, plan
from kafka_assignors.confluent import BridgedConsumer
from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.broker import Broker

JOINS_S = 30
GROUP = Group((Member("a", ("t",)),), {"t": 1})


def by_kafka_python(bootstrap: str, topic: str, given: Any) -> None:
    KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=topic, partition_assignment_strategy=given)


def by_aiokafka(bootstrap: str, topic: str, given: Any) -> None:
    async def play() -> None:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=topic, partition_assignment_strategy=given
        )
        try:
            await asyncio.wait_for(consumer.start(), JOINS_S)
        finally:
            await consumer.stop()

    asyncio.run(play())


def by_the_bridge(bootstrap: str, topic: str, given: Any) -> None:
    BridgedConsumer({"bootstrap.servers": bootstrap, "group.id": topic}, given)


IN_A_LIST = "assignors come in a list: "
OF_AIOKAFKA = "this RangeAssignor is aiokafka's; kafka-python takes those of kafka_assignors"
OF_KAFKA_PYTHON = "this RangeAssignor is kafka-python's; aiokafka takes instances of those of kafka_assignors.aiokafka"


@pytest.mark.broker
@pytest.mark.parametrize(
    ("join", "given", "error", "told"),
    [
        (by_kafka_python, RangeAssignor, ConfigError, IN_A_LIST + "[RangeAssignor], not RangeAssignor"),
        (by_kafka_python, RangeAssignor(), ConfigError, IN_A_LIST + "[RangeAssignor(…)], not RangeAssignor(…)"),
        (by_kafka_python, [aiokafka.RangeAssignor], ConfigError, OF_AIOKAFKA),
        (by_kafka_python, [aiokafka.RangeAssignor()], ConfigError, OF_AIOKAFKA),
        (by_aiokafka, aiokafka.RangeAssignor, ConfigError, IN_A_LIST + "[RangeAssignor()], not RangeAssignor"),
        (by_aiokafka, aiokafka.RangeAssignor(), ConfigError, IN_A_LIST + "[RangeAssignor(…)]"),
        (by_aiokafka, [RangeAssignor], Exception, OF_KAFKA_PYTHON),  # aiokafka wraps it in an error of its own
        (by_aiokafka, [RangeAssignor()], Exception, OF_KAFKA_PYTHON),
        (by_the_bridge, RangeAssignor, ConfigError, IN_A_LIST + "[RangeAssignor]"),
        (by_the_bridge, "range", ConfigError, "such as [CooperativeStickyAssignor], not 'range'"),
        (by_the_bridge, ["range"], ConfigError, "such as [CooperativeStickyAssignor], not ['range']"),
        (by_the_bridge, [], ConfigError, "such as [CooperativeStickyAssignor], not empty"),
        (by_the_bridge, [aiokafka.RangeAssignor()], ConfigError, OF_AIOKAFKA),
    ],
)
def test_a_slip_is_a_sentence(
    kafka_broker: Broker,
    kafka_topic: Callable[..., str],
    join: Callable[..., None],
    given: Any,
    error: type[Exception],
    told: str,
) -> None:
    topic = kafka_topic(partitions=1)
    with pytest.raises(error) as raised:
        join(kafka_broker.bootstrap, topic, given)
    assert told in str(raised.value)


@pytest.mark.broker
@pytest.mark.parametrize("given", [RangeAssignor, RangeAssignor()])
def test_a_consumer_that_gets_no_list_leaves_no_thread(
    kafka_broker: Broker, kafka_topic: Callable[..., str], given: Any
) -> None:
    topic = kafka_topic(partitions=1)
    before = set(threading.enumerate())
    with pytest.raises(TypeError):
        by_kafka_python(kafka_broker.bootstrap, topic, given)
    for thread in set(threading.enumerate()) - before:
        thread.join(JOINS_S)
        assert not thread.is_alive(), thread.name


def test_an_option_without_its_name_is_told() -> None:
    with pytest.raises(ConfigError, match=r"LagAssignor takes options by name \(lag=….*\); 5 has none"):
        LagAssignor(5)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: plan("billing"), "plan() takes a Group, not 'billing'"),
        (lambda: plan(GROUP, RangeAssignor), "give the assignor by its name, 'range', not as <class"),
        (lambda: guard(RangeAssignor), "the class RangeAssignor has no coordinator; pass a KafkaConsumer"),
    ],
)
def test_a_value_of_the_wrong_kind_is_told(call: Callable[[], Any], told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        call()
    assert told in str(raised.value)
