"""Records through kafka-python's real producer to a real broker, read back, and compared record by record."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from kafka.admin import NewPartitions

from kafka_assignors.producers import (
    PARTITIONERS,
    DefaultPartitioner,
    ExplicitPartitioner,
    InvalidPartition,
    RoundRobinPartitioner,
    UnknownPartition,
    partition_for_key,
    partitioner,
)
from tests.support.producers.naive import NaiveRoundRobin
from tests.support.producers.reading import DEADLINE_S, read_back
from tests.support.producers.sender import producer
from tests.support.waiting import finished

pytestmark = pytest.mark.broker


@pytest.mark.source("KAFKA-9965")
@pytest.mark.parametrize(
    ("wait_for_each", "linger_ms"),
    [
        pytest.param(True, 0, id="sync-0"),
        pytest.param(False, 5, id="async-5"),
        pytest.param(True, 5, id="sync-5", marks=pytest.mark.long),
        pytest.param(False, 0, id="async-0", marks=pytest.mark.long),
    ],
)
def test_300_records_on_6_partitions_are_50_each_and_a_naive_round_robin_is_not(
    kafka_broker, kafka_topic, linger_ms, wait_for_each
):
    counts = {}
    for name, chooser in (("naive", NaiveRoundRobin()), ("ours", RoundRobinPartitioner())):
        topic = kafka_topic(partitions=6, name=f"rr-{name}")
        with producer(kafka_broker, chooser, linger_ms=linger_ms) as sending:
            for i in range(300):
                future = sending.send(topic, b"%d" % i)
                if wait_for_each:
                    future.get(DEADLINE_S)
            sending.flush(DEADLINE_S)
        counts[name] = Counter(partition for partition, _, _ in read_back(kafka_broker, topic, 300))
    assert counts["ours"] == dict.fromkeys(range(6), 50)
    if wait_for_each:
        assert counts["naive"] == {1: 100, 3: 100, 5: 100}, "the control no longer shows the bug: is this test needed?"
    else:
        assert counts["naive"] != counts["ours"]


@pytest.mark.parametrize("partitions", [6, 7])
def test_keyed_records_lie_where_partition_for_key_says(kafka_broker, kafka_topic, partitions):
    topic = kafka_topic(partitions=partitions, name="keyed")
    keys = [b"", "ключ".encode(), "中文键".encode(), bytes(range(256)), b"\xff" * 7, b"x" * 300, b"y" * 5000]
    keys += [b"user-%d" % i for i in range(1000)]
    with producer(kafka_broker, DefaultPartitioner()) as sending:
        for key in keys:
            sending.send(topic, b"v", key=key)
        sending.flush(DEADLINE_S)
    placed = {key: partition for partition, key, _ in read_back(kafka_broker, topic, len(keys))}
    assert placed == {key: partition_for_key(key, partitions) for key in keys}


@pytest.mark.parametrize("name", PARTITIONERS)
def test_the_broker_stores_each_record_where_the_partitioner_said(kafka_broker, kafka_topic, name):
    """With batches of 400 bytes many records open one, and are asked for twice."""
    topic, said = kafka_topic(partitions=6, name=f"said-{name}"), []
    chooser = partitioner(name, on_choice=lambda topic, key, partition: said.append(partition))
    predicted = {}
    with producer(kafka_broker, chooser, batch_size=400, linger_ms=5) as sending:
        futures = []
        # Some rules draw: 600 records, and more until each of the six partitions was drawn.
        for i in range(20_000):
            if i >= 600 and len(set(predicted.values())) == 6:
                break
            futures.append(sending.send(topic, b"%d" % i, key=b"k%d" % i if i % 3 == 0 else None))
            predicted[b"%d" % i] = said[-1]
        acknowledged = [future.get(DEADLINE_S).partition for future in futures]
    assert acknowledged == list(predicted.values())
    assert {value: partition for partition, _, value in read_back(kafka_broker, topic, len(predicted))} == predicted
    assert len(said) > len(predicted), "no record was asked for twice, so this test shows less than it should"
    assert len(set(acknowledged)) == 6


@pytest.mark.parametrize("answer", [-1, 6, None, "1"])
def test_a_wrong_answer_raises_from_send_instead_of_waiting_for_the_delivery_timeout(kafka_broker, kafka_topic, answer):
    topic = kafka_topic(partitions=6)
    with producer(kafka_broker, ExplicitPartitioner(lambda *_: answer, policy="error")) as sending:
        sending.partitions_for(topic)
        with pytest.raises(InvalidPartition, match=rf"'explicit' returned {answer!r}.*{topic!r}.*0\.\.5"):
            finished(lambda: sending.send(topic, b"v"), within_s=20)


def test_added_partitions_are_used_as_soon_as_the_producer_knows_them(kafka_broker, kafka_admin, kafka_topic):
    topic = kafka_topic(partitions=2)
    key = next(b"k%d" % i for i in range(1000) if partition_for_key(b"k%d" % i, 7) > 1)
    with producer(kafka_broker, DefaultPartitioner(), metadata_max_age_ms=300) as sending:
        assert sending.send(topic, b"v", key=key).get(DEADLINE_S).partition == partition_for_key(key, 2)
        kafka_admin.create_partitions({topic: NewPartitions(total_count=7)})
        deadline = time.monotonic() + DEADLINE_S
        while len(sending.partitions_for(topic)) < 7:
            assert time.monotonic() < deadline, "the producer's metadata did not grow"
            sending.send(topic, b"v").get(DEADLINE_S)
        assert sending.send(topic, b"v", key=key).get(DEADLINE_S).partition == partition_for_key(key, 7)


def test_refresh_finds_a_partition_added_a_moment_ago_and_gives_up_in_time(kafka_broker, kafka_admin, kafka_topic):
    topic = kafka_topic(partitions=2)
    chooser = ExplicitPartitioner(lambda _t, _k, value: int(value), policy="refresh", refresh_timeout_ms=5000)
    with producer(kafka_broker, chooser) as sending:
        assert sending.send(topic, b"1").get(DEADLINE_S).partition == 1
        kafka_admin.create_partitions({topic: NewPartitions(total_count=5)})
        assert sending.send(topic, b"4").get(DEADLINE_S).partition == 4
        assert {sending.send(topic, b"-1").get(DEADLINE_S).partition for _ in range(5)} == set(range(5))
        chooser.refresh_timeout_s = 0.3
        with pytest.raises(UnknownPartition, match=r"'explicit' returned 99 .*0\.\.4; waited 0\.3 s"):
            finished(lambda: sending.send(topic, b"99"), within_s=20)
