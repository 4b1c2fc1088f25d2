"""Times that cannot be, topics whose records are all gone, sessions in another time zone: told, and nothing fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import date, datetime, timezone
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from pyspark.sql import SparkSession

from integration.broker import Broker
from pipeline import brokers, keys, options, read, schema, transform, weights
from pipeline.brokers import Topics
from pipeline.job import Sources, Wanted, work, written
from pipeline.steps import Steps

MakeTopic = Callable[..., str]


@pytest.mark.parametrize("where", ["hdfs:/x", "dbfs:/x", "hdfs://host/x", "s3a://bucket/x", "abfss:x"])
def test_a_place_elsewhere_is_not_taken_for_a_folder_here(where: str) -> None:
    assert options.local(where) is None
    assert options.absolute(where) == where


@pytest.mark.parametrize(
    ("where", "path"), [("file:/a/b", "/a/b"), ("file:///a%20b", "/a b"), ("a/b", "a/b"), ("C:x", "C:x")]
)
def test_a_folder_here_is_one(where: str, path: str) -> None:
    assert str(options.local(where)) == path


@pytest.fixture
def elsewhere(spark: SparkSession) -> Iterator[None]:
    """A session whose days begin at another time."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    yield
    spark.conf.set("spark.sql.session.timeZone", zone or "UTC")


@pytest.mark.spark
@pytest.mark.usefixtures("elsewhere")
def test_days_are_utc_in_every_session(spark: SparkSession) -> None:
    times = [datetime(2026, 1, 2, hour, 30, tzinfo=timezone.utc) for hour in (0, 7, 23)]
    rows = [("t", 0, n, at, 0, b"k", b"v", []) for n, at in enumerate(times)]
    columns = "topic string, partition int, offset long, timestamp timestamp, timestampType int, key binary, "
    raw = spark.createDataFrame(rows, columns + "value binary, headers array<struct<key string, value binary>>")

    placed = transform.placement(keys.by_key(read.from_kafka(raw, "r", "c"), "1 hour", {"t": 1}, None), {"t": 1})

    assert [row["dt"] for row in placed.collect()] == [date(2026, 1, 2)] * 3


@pytest.mark.spark
def test_a_placement_without_a_row_has_no_load(spark: SparkSession) -> None:
    measured = weights.measure(spark.createDataFrame([], schema.PLACEMENT), {"t": 2})

    assert (measured.rates, measured.observed_from) == ({"t": (0.0, 0.0)}, None)
    table = weights.table(spark, "r", measured, weights.settle(measured, None, 1, 2))
    assert [(row["weight"], row["samples"], row["observed_to"]) for row in table.collect()] == [(0.0, 0, None)] * 2


@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_a_record_stamped_in_microseconds_is_a_finding(
    kafka_broker: Broker, kafka_admin: KafkaAdminClient, kafka_topic: MakeTopic, spark: SparkSession, tmp_path: Path
) -> None:
    """Beside it a topic whose records were all deleted: it has offsets, and nothing to read."""
    odd = kafka_topic(2, "odd", {"message.timestamp.after.max.ms": str(2**63 - 1)})
    gone, now_ms = kafka_topic(1, "gone"), time.time_ns() // 1_000_000
    with KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, metrics_enabled=False) as producer:
        for ms in (now_ms - 20_000, now_ms - 10_000):
            producer.send(odd, b"v", b"k", partition=0, timestamp_ms=ms).get(30)
        producer.send(odd, b"v", b"k", partition=1, timestamp_ms=1000 * now_ms).get(30)
        producer.send(gone, b"v", b"k").get(30)
    topics = brokers.topics(kafka_broker.bootstrap, [odd, gone])
    kafka_admin.delete_records({TopicPartition(gone, 0): 1})  # as retention does
    topics = Topics(
        topics.cluster, topics.partitions, {**topics.first, next(tp for tp in topics.first if tp.topic == gone): 1},
        topics.end, topics.everywhere,
    )  # fmt: skip

    want = Wanted(str(tmp_path / "out"), weights.Target(), reference=None)
    said = work(spark, kafka_broker.bootstrap, Sources(topics), want, Steps())

    (dated,) = [f for f in said["findings"] if f["kind"] == "clock"]
    assert "up to 1 record of " in dated["text"]
    assert "the year 9999 or later (is it stamped in micro- or nanoseconds?)" in dated["text"]
    assert said["rows"]["records"] == 3
    weighed = {(row["topic"], row["partition"]): row for row in written(spark, want.out, "partition_weights").collect()}
    assert weighed[odd, 0]["weight"] == 0.2  # two records in ten seconds: the odd one makes them no millennia
    assert weighed[gone, 0]["weight"] == 0
