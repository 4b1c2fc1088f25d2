"""The lag of a live group is what its committed offsets and the ends of its topics say."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

import pytest
from kafka import KafkaConsumer
from kafka.structs import OffsetAndMetadata, TopicPartition
from pyspark.sql import SparkSession

from kafka_assignors import RangeAssignor
from kafka_assignors.integration.broker import Broker
from kafka_assignors.pipeline import Source, analyze
from kafka_assignors.pipeline.report import summary
from tests.support.kafka_python.sent import sent

pytestmark = [pytest.mark.spark, pytest.mark.broker]


# long: a job for one table; report/test_page.py shows lags without Spark, and the operator's commands have their own
# lag
@pytest.mark.long
def test_records_after_the_last_commit_are_counted(
    kafka_broker: Broker, kafka_topic: Callable[..., str], spark: SparkSession
) -> None:
    topic, unread = kafka_topic(partitions=3), kafka_topic(partitions=1, name="elsewhere")
    partitions = [0] * 7 + [1] * 5 + [2] * 3
    sent(kafka_broker.bootstrap, topic, [{"value": b"paid", "partition": p} for p in partitions])
    consumer = KafkaConsumer(
        bootstrap_servers=kafka_broker.bootstrap, group_id=topic, client_id="m1",
        partition_assignment_strategy=[RangeAssignor],
    )  # fmt: skip
    with closing(consumer):
        consumer.subscribe([topic, unread])
        deadline = time.monotonic() + 60
        while len(consumer.assignment()) < 4:
            assert time.monotonic() < deadline, "no assignment"
            consumer.poll(100)
        for offsets in ((2, 1), (6, 5)):  # the later commit counts; partition 2 has none
            committed = {TopicPartition(topic, p): OffsetAndMetadata(at, "", -1) for p, at in enumerate(offsets)}
            consumer.commit({**committed, TopicPartition(unread, 0): OffsetAndMetadata(0, "", -1)})
        tables = analyze(spark, Source(kafka_broker.bootstrap, [topic], groups=[topic]))
        found = {(row["topic"], row["partition"]): row for row in tables.group_lag.collect()}
    assert {tp: (row["committed"], row["end"], row["lag"]) for tp, row in found.items()} == {
        (topic, 0): (6, 7, 1), (topic, 1): (5, 5, 0), (topic, 2): (None, 3, None), (unread, 0): (0, None, None),
    }  # fmt: skip
    assert {row["member"].partition("-")[0] for row in found.values()} == {"m1"}
    assert [row["committed_at"] is None for row in found.values()].count(True) == 1
    lags = summary.lags(tables.group_lag)
    assert [row["lag"] for row in lags] == [1, 0, None, None]
    tables.unpersist()
