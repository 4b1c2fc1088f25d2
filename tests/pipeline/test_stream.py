"""A stream whose process is killed between any two of its steps goes on where it was: every record once."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow.dataset
import pytest
from kafka import TopicPartition
from pyspark.sql import SparkSession

from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.records import Record, send
from kafka_assignors.pipeline import stream
from kafka_assignors.pipeline.sources import brokers

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def command(broker: Broker, topic: str, out: Path, *more: str) -> list[str]:
    where = ["--bootstrap", broker.bootstrap, "--topics", topic, "--out", str(out)]
    return [sys.executable, "-m", "kafka_assignors.pipeline", "stream", *where, *more]


def kill_in_its_batches(arguments: list[str], out: Path, commits: int) -> int:
    """SIGKILL the driver as soon as it has committed so many batches; returns how many it had when it was gone."""
    committed = lambda: len(list((out / "checkpoint" / "commits").glob("[0-9]*")))
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 200
        while committed() < commits:
            assert process.poll() is None, "the stream ended before it could be killed"
            assert time.monotonic() < deadline, f"{committed()} batches committed"
            time.sleep(0.005)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=30) == -signal.SIGKILL
    # The JVM goes with its driver. A second one beside it would be no restart.
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []
    return committed()


# long: a Spark process that is killed, in a stream, which rarely changes; test_end_to_end.py reads a topic in one go
@pytest.mark.long
@pytest.mark.timeout(600)  # a start of Spark beside the session's
def test_a_killed_stream_loses_and_doubles_nothing(
    kafka_broker: Broker, kafka_topic, spark: SparkSession, tmp_path: Path
) -> None:
    topic, out = kafka_topic(partitions=3), tmp_path / "out"
    names = [b"hot" if i % 4 == 0 else b"key-%d" % (i % 97) if i % 5 else None for i in range(2000)]
    sent = send(kafka_broker.bootstrap, tmp_path / "history", "r", "default", [Record(topic, key) for key in names])
    assert sent.acked == 2000

    done = kill_in_its_batches(command(kafka_broker, topic, out, "--max-records", "500"), out, 1)
    assert 1 <= done < 4  # in its midst

    # The next process is this one, whose Spark runs already; `test_commands.py` has a command that ends well.
    window = stream.remembered(spark, str(out), None)
    to = stream.Streamed(str(out), str(out / "checkpoint"), window, 500, "stream")
    stream.follow(spark, kafka_broker.bootstrap, brokers.topics(kafka_broker.bootstrap, [topic]), to)

    said = stream.summary(spark, str(out))
    (found,) = said["topics"]
    assert {load["partition"]: load["records"] for load in found["loads"]} == sent.counts[topic]
    assert [load["missing"] for load in found["loads"]] == [0, 0, 0]
    assert said["batches"] >= 4
    assert found["hot_keys"][0] == {"key": "'hot'", "records": 500}  # fewer keys than a batch keeps: exact
    assert window == "60000 milliseconds"
    with pytest.raises(ConfigError, match=r"--window '2 minutes': the batches in .* have windows of 60 seconds"):
        stream.remembered(spark, str(out), "2 minutes")
    rows = pyarrow.dataset.dataset(out / "loads", partitioning="hive").to_table().to_pylist()
    for partition in range(3):
        ranges = sorted(
            (r["first_offset"], r["last_offset"], r["records"]) for r in rows if r["partition"] == partition
        )
        at = 0
        for first, last, records in ranges:
            assert (first, last - first + 1) == (at, records)  # each batch goes on where the one before ended
            at = last + 1
        assert at == sent.counts[topic][partition]
    assert sum(row["null_key_records"] for row in rows) == names.count(None)

    more = send(kafka_broker.bootstrap, tmp_path / "history", "r", "default", [Record(topic, b"later")] * 10)
    stream.follow(spark, kafka_broker.bootstrap, brokers.topics(kafka_broker.bootstrap, [topic]), to)
    (found,) = stream.summary(spark, str(out))["topics"]
    assert found["records"] == 2000 + more.acked


# long: five goes of Spark's streaming, which rarely changes; test_end_to_end.py has the same measures of a topic, in
# one go
@pytest.mark.long
def test_records_that_went_before_they_were_read_are_told(
    kafka_broker: Broker, kafka_admin, kafka_topic, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka_topic(partitions=1)
    to = stream.Streamed(str(tmp_path / "out"), str(tmp_path / "checkpoint"), "1 minute", 1000, "r")

    def more(records: int) -> None:
        sent = send(kafka_broker.bootstrap, tmp_path / "history", "r", "default", [Record(topic, b"k")] * records)
        assert sent.acked == records

    def follow(to: stream.Streamed) -> None:
        found = brokers.topics(kafka_broker.bootstrap, [topic], may_be_empty=True)
        stream.follow(spark, kafka_broker.bootstrap, found, to)

    follow(to)
    assert stream.summary(spark, to.out) == {"batches": 0, "windows": 0, "topics": []}  # nothing came yet
    more(30)
    follow(to)
    more(20)
    kafka_admin.delete_records({TopicPartition(topic, 0): 40})  # as retention does

    with pytest.raises(ConfigError, match=r"were deleted before they were read.*--allow-loss"):
        follow(to)
    follow(replace(to, allow_loss=True))

    kafka_admin.create_partitions({topic: 2})
    kafka_admin.wait_for_topics([topic])
    late = [Record(topic, b"k", 1)] * 5
    assert send(kafka_broker.bootstrap, tmp_path / "history", "r", "explicit", late).acked == 5
    follow(to)  # of a topic that grew, the new partition from its first record on

    load, new = stream.summary(spark, to.out)["topics"][0]["loads"]
    assert (load["records"], load["first_offset"], load["last_offset"], load["missing"]) == (40, 0, 49, 10)
    assert (new["partition"], new["records"], new["first_offset"]) == (1, 5, 0)


# long: many small batches of Spark's streaming, which rarely changes; test_end_to_end.py reads a topic in one go
@pytest.mark.long
def test_many_batches_become_one_folder_and_a_kill_in_between_changes_nothing(
    kafka_broker: Broker, kafka_topic, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MOST_BATCHES", 2)
    topic = kafka_topic(partitions=2)
    names = [b"hot" if i % 4 == 0 else b"key-%d" % (i % 97) for i in range(1000)]
    sent = send(kafka_broker.bootstrap, tmp_path / "history", "r", "default", [Record(topic, key) for key in names])
    assert sent.acked == 1000
    to = stream.Streamed(str(tmp_path / "out"), str(tmp_path / "checkpoint"), "1 minute", 350, "r")
    folders = lambda: sorted(path.name for path in (tmp_path / "out" / "loads").iterdir() if path.name[0] not in "._")
    monkeypatch.setattr(stream, "compact", lambda *_: None)
    stream.follow(spark, kafka_broker.bootstrap, brokers.topics(kafka_broker.bootstrap, [topic]), to)
    before = stream.summary(spark, to.out)
    last = before["batches"] - 1
    assert last >= 2
    assert folders() == [f"batch={n}" for n in range(last + 1)]
    shutil.copytree(tmp_path / "out", tmp_path / "killed")
    monkeypatch.undo()
    monkeypatch.setattr(stream, "MOST_BATCHES", 2)

    for table in stream.TABLES:
        stream.compact(spark, to.out, table)

    assert folders() == [f"upto={last}"]
    assert stream.summary(spark, to.out) == before
    # killed while it wrote the sum, and after that, before it deleted what is in it
    whole = tmp_path / "killed" / "loads" / f"upto={last}"
    shutil.copytree(tmp_path / "out" / "loads" / f"upto={last}", whole)
    assert stream.summary(spark, str(tmp_path / "killed")) == before
    (whole / "_SUCCESS").unlink()
    assert stream.summary(spark, str(tmp_path / "killed")) == before
    more = send(kafka_broker.bootstrap, tmp_path / "history", "r", "default", [Record(topic, b"later")] * 10)
    stream.follow(spark, kafka_broker.bootstrap, brokers.topics(kafka_broker.bootstrap, [topic]), to)
    after = stream.summary(spark, to.out)
    assert (after["batches"], after["topics"][0]["records"]) == (last + 2, 1000 + more.acked)
    assert folders() == [f"batch={last + 1}", f"upto={last}"]
