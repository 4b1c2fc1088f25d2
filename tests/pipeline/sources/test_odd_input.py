"""Times that cannot be, topics whose records are all gone, sessions in another time zone: told, and nothing fails."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaProducer
from pyspark.sql import SparkSession

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.broker import Broker
from kafka_assignors.pipeline import options, schema
from kafka_assignors.pipeline.load import balance, keys, weights
from kafka_assignors.pipeline.progress import Progress
from kafka_assignors.pipeline.run import RunOptions, write_run, written
from kafka_assignors.pipeline.sources import brokers, read
from kafka_assignors.pipeline.sources.brokers import Part
from kafka_assignors.pipeline.sources.snapshot import Snapshot
from tests.support.integration.fixtures import MakeTopic


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

    placed = balance.placement(keys.windows(keys.counted(read.from_kafka(raw, "r", "c"), "1 hour")), {"t": 1})

    assert [row["dt"] for row in placed.collect()] == [date(2026, 1, 2)] * 3


@pytest.mark.spark
def test_a_placement_without_a_row_has_no_load(spark: SparkSession) -> None:
    measured = weights.measure(spark.createDataFrame([], schema.PLACEMENT), {"t": 2})

    assert (measured.rates, measured.observed_from) == ({"t": (0.0, 0.0)}, None)
    table = weights.table(spark, "r", measured, weights.settle(measured, None, 1, 2))
    assert [(row["weight"], row["samples"], row["observed_to"]) for row in table.collect()] == [(0.0, 0, None)] * 2


@pytest.mark.long  # long: two jobs; test_read.py has offsets that gave no record, and the tests above odd times
@pytest.mark.spark
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_odd_times_aborted_and_open_transactions_and_parts_of_topics(
    kafka_broker: Broker, kafka_topic: MakeTopic, spark: SparkSession, tmp_path: Path
) -> None:
    """A record stamped in microseconds; two topics with transactions, one of which has no other record."""
    odd = kafka_topic(2, "odd", {"message.timestamp.after.max.ms": str(2**63 - 1)})
    only, mixed, now_ms = kafka_topic(1, "aborted"), kafka_topic(1, "mixed"), time.time_ns() // 1_000_000
    with KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, metrics_enabled=False) as producer:
        for ms in (now_ms - 20_000, now_ms - 10_000):
            producer.send(odd, b"v", b"k", partition=0, timestamp_ms=ms).get(30)
        producer.send(odd, b"v", b"k", partition=1, timestamp_ms=1000 * now_ms).get(30)
        for n in range(6):
            producer.send(mixed, b"v", b"key-%d" % n, timestamp_ms=now_ms - 60_000 + 10_000 * n).get(30)
    with transactional(kafka_broker, f"{mixed}-writer") as writer:
        for topic in (only, mixed):
            writer.begin_transaction()
            for _ in range(20):
                writer.send(topic, b"v", b"hot", timestamp_ms=now_ms)
            writer.flush(30)  # else they are never sent
            writer.abort_transaction()
        writer.begin_transaction()
        writer.send(mixed, b"v", b"key-6", timestamp_ms=now_ms)
        writer.commit_transaction()
        writer.begin_transaction()
        writer.send(mixed, b"v", b"hot", timestamp_ms=now_ms).get(30)

        topics = brokers.topics(kafka_broker.bootstrap, [odd, only, mixed])
        want = RunOptions(out=str(tmp_path / "out"), reference=None)
        said = write_run(spark, kafka_broker.bootstrap, Snapshot(topics), want, Progress())
        every = Part(isolation="read_uncommitted")
        everything = brokers.topics(kafka_broker.bootstrap, [mixed], part=every)
        last = brokers.topics(kafka_broker.bootstrap, [mixed], part=Part(since_ms=now_ms - 15_000))
        first = brokers.topics(
            kafka_broker.bootstrap, [mixed],
            part=Part(until_ms=now_ms - 35_000, offsets={TopicPartition(mixed, 0): (1, None)}),
        )  # fmt: skip

    (dated,) = [f for f in said["findings"] if f["kind"] == "clock"]
    assert "up to 1 record of " in dated["text"]
    assert "the year 9999 or later (is it stamped in micro- or nanoseconds?)" in dated["text"]
    weighed = {(row["topic"], row["partition"]): row for row in written(spark, want.out, "partition_weights").collect()}
    assert (weighed[odd, 0]["samples"], weighed[odd, 1]["samples"], weighed[only, 0]["weight"]) == (2, 0, 0)
    assert weighed[odd, 0]["weight"] > 0.01  # the odd one makes it no millennia

    assert {t["topic"]: t["records"] for t in said["topics"]} == {odd: 3, mixed: 7}
    assert not [f for f in said["findings"] if f["kind"] == "hot-key" and f["topic"] != odd]
    assert said["rejected"] == {
        "records of aborted transactions": 40,
        "offsets without a record: compacted, or transaction markers": 3,  # two aborts, one commit
        "offsets after the start of an open transaction": 1,
    }
    assert all("hot" not in key["key_sample"] for key in said["hot_keys"])
    count = lambda topics: read.records(spark, kafka_broker.bootstrap, topics, "r", 3).count()
    assert count(everything) == 7 + 20 + 1
    assert last.ranges == {TopicPartition(mixed, 0): ((5, topics.end[TopicPartition(mixed, 0)]),)}
    assert count(last) == 2
    assert first.ranges == {TopicPartition(mixed, 0): ((1, 3),)}
    assert {row[2] for row in read.unread(first, {TopicPartition(mixed, 0): 2}, {}, "r")} >= {
        "offsets outside of --since, --until, --offsets or --sample"
    }


@contextmanager
def transactional(broker: Broker, name: str) -> Iterator[KafkaProducer]:
    settings = {"bootstrap_servers": broker.bootstrap, "metrics_enabled": False, "linger_ms": 0}
    lasting = {"transactional_id": name, "transaction_timeout_ms": 900_000}  # open for as long as the job takes
    with KafkaProducer(**settings, **lasting) as writer:
        writer.init_transactions()
        yield writer
        writer.abort_transaction()


@pytest.mark.slow
@given(
    first=st.integers(0, 10**6),
    size=st.integers(0, 10**6),
    bounds=st.lists(
        st.tuples(st.none() | st.integers(0, 2 * 10**6), st.none() | st.integers(0, 2 * 10**6)), max_size=3
    ),
    sample=st.floats(0.001, 1),
)
def test_what_is_chosen_lies_within_its_bounds_and_is_the_share_asked_for(
    first: int, size: int, bounds: list[tuple[int | None, int | None]], sample: float
) -> None:
    low = max([first, *(b for b, _ in bounds if b is not None)])
    high = min([first + size, *(e + 1 for _, e in bounds if e is not None)])

    ranges = brokers.choose(first, first + size, bounds, sample)

    assert all(low <= begin < end <= high for begin, end in ranges)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(ranges))
    chosen, there = sum(end - begin for begin, end in ranges), max(0, high - low)
    assert there * sample - brokers.BLOCKS <= chosen <= there * sample + 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"since": "yesterday"}, r"--since 'yesterday' is not a time; write 2026-01-31"),
        ({"since": "1 hour", "until": "2 hours"}, r"--since '1 hour' is not before --until '2 hours'"),
        ({"offsets": "orders=5"}, r"'orders=5' is not a range; write TOPIC:PARTITION=FIRST-LAST"),
        ({"sample": 0.0}, r"--sample 0.0 is not a share"),
        ({"isolation": "dirty"}, r"--isolation 'dirty' is not known; known: read_committed, read_uncommitted"),
    ],
)
def test_a_part_that_cannot_be_is_refused(asked: dict[str, Any], message: str) -> None:
    whole = {"since": None, "until": None, "offsets": None, "sample": 1.0, "isolation": "read_committed"}
    with pytest.raises(ConfigError, match=message):
        options.part(**{**whole, **asked})
