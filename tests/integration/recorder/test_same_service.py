"""A service with the recorder does on a real broker what it does without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.recorder import kafka_assignors_recorder as recorder

pytestmark = pytest.mark.broker

SERVICE = """
import json, sys
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
from kafka_assignors import RangeAssignor

bootstrap, group, topic = sys.argv[1:]

def tell(what, *more):
    print(json.dumps([what, *more]), flush=True)

def attempt(what, call):
    try:
        tell(what, repr(call()))
    except BaseException as error:
        tell(what, type(error).__name__, str(error), type(error.__cause__).__name__)

class Listener(ConsumerRebalanceListener):
    fails = False

    def on_partitions_assigned(self, assigned):
        tell("assigned", sorted(tp.partition for tp in assigned))
        if self.fails:
            raise ValueError("the service's own")

    def on_partitions_revoked(self, revoked):
        tell("revoked", sorted(tp.partition for tp in revoked))

def consumer(**more):
    return KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
        partition_assignment_strategy=[RangeAssignor], **more
    )

def told(records):
    return sorted([r.partition, r.offset, r.value.decode(), r.key and r.key.decode()] for r in records)

polling, listener = consumer(), Listener()
polling.subscribe([topic], listener=listener)
records = []
while len(records) < 20:
    records += [record for part in polling.poll(timeout_ms=500).values() for record in part]
tell("polled", told(records))
attempt("commit", polling.commit)
attempt("refused", lambda: polling.commit({TopicPartition(topic, 0): OffsetAndMetadata(1, "x" * 9999, -1)}))
attempt("negative", lambda: polling.poll(timeout_ms=-1))
polling.unsubscribe()
attempt("unsubscribed", lambda: polling.poll(timeout_ms=0))
attempt("committed", lambda: polling.committed(TopicPartition(topic, 0)))
polling.close()
attempt("closed", lambda: polling.poll(timeout_ms=0))

failing, listener.fails = consumer(), True
failing.subscribe([topic], listener=listener)
attempt("fails", lambda: failing.poll(timeout_ms=20000))
failing.close()

iterating = consumer(consumer_timeout_ms=700)
iterating.subscribe([topic])
iterating.poll(timeout_ms=0)
while not iterating.assignment():
    iterating.poll(timeout_ms=200)
iterating.seek_to_beginning()
tell("iterated", told(iterating))
attempt("again", lambda: next(iterating))
iterating.close()
attempt("over", lambda: next(iterating))
"""


def test_a_service_does_the_same(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:  # fmt: skip
    """Its records, callbacks and exceptions, by poll and as an iterator; and the recorder saw what it did."""
    topic = kafka_topic(partitions=2)
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)
    for number in range(20):
        producer.send(topic, b"%d" % number, key=b"k" if number % 3 else None, partition=number % 2)
    producer.close()

    def lines(**environment: str) -> list[Any]:
        group = environment.get(recorder.GROUP, f"g-{uuid.uuid4().hex[:8]}")
        done = subprocess.run(
            [sys.executable, "-c", SERVICE, kafka_broker.bootstrap, group, topic],
            env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.replace(group, "GROUP").splitlines()]

    recorded = lines(**{
        recorder.FILE: str(tmp_path / "record"), recorder.GROUP: "g-recorded" + uuid.uuid4().hex[:8],
        "PYTHONPATH": os.pathsep.join((str(Path(recorder.__file__).parents[1]), os.environ.get("PYTHONPATH", ""))),
    })  # fmt: skip

    assert recorded == lines()
    (path,) = tmp_path.glob("record.*")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    kinds = {number: [row["kind"] for row in rows if row["consumer"] == number] for number in range(3)}
    assert [(of[0], of[-1], "error" in of) for of in kinds.values()] == [("start", "stop", False)] * 3
    consumed = {
        number: sum(
            run["count"]
            for row in rows
            if (row["kind"], row["consumer"]) == ("consume", number)
            for run in row["offsets"]
        )
        for number in (0, 2)
    }
    assert consumed[0] == 20
    assert consumed[2] >= 20
    assert kinds[0].count("commit_ok") == 1
    assert kinds[0].count("commit_fail") == kinds[0].count("commit_begin") - 1
    for of in kinds.values():
        for name in ("assigned", "revoke"):
            assert of.count(f"{name}_begin") == of.count(f"{name}_end") >= 1
