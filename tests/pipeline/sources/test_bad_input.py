"""Live: what is missing, odd or gone is counted with its reason, or one error that names the option."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from pyspark.sql import SparkSession

from kafka_assignors.errors import ClusterError, ConfigError
from kafka_assignors.history.events import Event
from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.pipeline.progress import Progress
from kafka_assignors.pipeline.run import RunOptions, write_run
from kafka_assignors.pipeline.sources import brokers, read
from kafka_assignors.pipeline.sources.snapshot import Snapshot
from kafka_assignors.producers import partition_for_key
from tests.support.integration.fixtures import MakeTopic

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long]
KEYS = [b"key-%d" % n for n in range(20)]


def produce(bootstrap: str, topic: str, rows: list[tuple[bytes | None, bytes | None, int | None]]) -> None:
    """Rows of (key, value, timestamp in ms or None: now), in this order."""
    with KafkaProducer(bootstrap_servers=bootstrap, metrics_enabled=False) as producer:
        sent = [producer.send(topic, value, key, timestamp_ms=ms) for key, value, ms in rows]
        for each in sent:
            each.get(30)


def compacted(broker: Broker, admin: KafkaAdminClient, make: MakeTopic) -> str:
    """A topic of one partition, 60 records of which compaction has left some."""
    (node,) = admin.describe_cluster()["brokers"]
    sooner = {"log.cleaner.backoff.ms": "100"}  # default: 15 s
    admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, str(node["broker_id"]), sooner)])
    topic = make(1, "compacted", {
        "cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01",
    })  # fmt: skip
    began = time.time_ns() // 1_000_000 - 60_000
    for number in range(3):  # a record that is a second later begins a segment; all but the last are compacted
        produce(broker.bootstrap, topic, [(key, b"v%d" % number, began + 5000 * number) for key in KEYS])
    deadline = time.monotonic() + 120
    tp = TopicPartition(topic, 0)
    with KafkaConsumer(bootstrap_servers=broker.bootstrap, metrics_enabled=False) as reader:
        reader.assign([tp])
        while True:  # until the first record is gone
            reader.seek(tp, 0)
            first = next(iter(reader.poll(5000).values()))[0]
            if first.offset > 0:
                break
            assert time.monotonic() < deadline, "nothing was compacted"
    return topic


def test_what_is_missing_or_odd_is_told_with_its_reason(
    kafka_broker: Broker, kafka_admin: KafkaAdminClient, kafka_topic: MakeTopic, spark: SparkSession, tmp_path: Path
) -> None:
    """A compacted topic; one that grew, with a tombstone and clocks that are wrong; a member whose clock jumped."""
    holes, grown = compacted(kafka_broker, kafka_admin, kafka_topic), kafka_topic(2, "grown")
    rows: list[tuple[bytes | None, bytes | None, int | None]] = [(key, b"v", None) for key in KEYS]
    produce(kafka_broker.bootstrap, grown, [*rows, (KEYS[0], None, None), (KEYS[1], b"v", 1000)])
    kafka_admin.create_partitions({grown: 3})
    kafka_admin.wait_for_topics([grown])
    produce(kafka_broker.bootstrap, grown, rows)
    clock = [
        Event("generation", "r", "member", seq, 10**18 + jump + seq, seq, "g", "m1").to_json()
        for seq, jump in enumerate((0, 0, 5 * 10**9))
    ]
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "m1.jsonl").write_text("\n".join(clock) + "\n")

    snapshot = Snapshot(brokers.topics(kafka_broker.bootstrap, [holes, grown]))
    want = RunOptions(out=str(tmp_path / "out"), history=str(tmp_path / "history"))
    said = write_run(spark, kafka_broker.bootstrap, snapshot, want, Progress())

    topics = {topic["topic"]: topic for topic in said["topics"]}
    kept = topics[holes]["records"]
    assert len(KEYS) <= kept < 3 * len(KEYS)
    (reason,) = said["rejected"]
    assert reason.startswith("offsets without a record: compacted")
    assert said["rejected"][reason] == 3 * len(KEYS) - kept  # what is not read is told
    assert (topics[grown]["records"], topics[grown]["partitions"]) == (2 * len(KEYS) + 2, 3)
    found = {kind: [f["text"] for f in said["findings"] if f["kind"] == kind] for kind in ("misplaced", "clock")}
    moved = [key for key in KEYS if partition_for_key(key, 2) != partition_for_key(key, 3)]
    split = [f["text"] for f in said["findings"] if f["kind"] == "split-key"]
    assert len(split) == len(moved) > 0
    assert [grown in text and "did the topic grow?" in text for text in found["misplaced"]] == [True]
    jumped, dated = sorted(found["clock"], key=lambda text: "impossible" in text)
    assert "the wall clock of m1 jumped by 5.0 s" in jumped
    place = f"{grown}-{partition_for_key(KEYS[1], 2)}"
    assert f"of {place} have impossible timestamps, from 1970-01-01 00:00" in dated


def test_records_that_go_between_the_first_look_and_the_job(
    kafka_broker: Broker, kafka_admin: KafkaAdminClient, kafka_topic: MakeTopic, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_topic(1)
    produce(kafka_broker.bootstrap, topic, [(key, b"v", None) for key in KEYS])
    snapshot = Snapshot(brokers.topics(kafka_broker.bootstrap, [topic]))
    kafka_admin.delete_records({TopicPartition(topic, 0): 5})  # as retention does

    with pytest.raises(ConfigError, match=r"^--topics: .* were deleted before they were read.* Run it again"):
        write_run(spark, kafka_broker.bootstrap, snapshot, RunOptions(out=str(tmp_path / "out")), Progress())

    now = brokers.topics(kafka_broker.bootstrap, [topic])
    there = read.records(spark, kafka_broker.bootstrap, now, "r").count()
    assert there == len(KEYS) - 5  # it begins with what is there now


def test_a_broker_that_dies_during_the_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "TIMEOUT_MS", 2000)
    with start_broker() as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.create_topics({"t": {"num_partitions": 1, "replication_factor": 1}})
        admin.wait_for_topics(["t"])
        admin.close()
        produce(broker.bootstrap, "t", [(b"k", b"v", None)])
        snapshot = Snapshot(brokers.topics(broker.bootstrap, ["t"]))
        broker.kill()

        with pytest.raises(ClusterError, match=r"^--bootstrap '127.*': the brokers no longer respond") as caught:
            write_run(spark, broker.bootstrap, snapshot, RunOptions(out=str(tmp_path / "out")), Progress())

    assert "\n" not in str(caught.value)
