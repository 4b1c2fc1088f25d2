"""A service with the recorder does on a real broker what it does without it."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.recorder import kafka_assignors_recorder as recorder
from tests.support.further import further
from tests.support.kafka_python.sent import sent
from tests.support.programs import python

pytestmark = pytest.mark.broker

BEGIN = """
import json, sys

bootstrap, group, topic = sys.argv[1:]

def tell(what, *more):
    print(json.dumps([what, *more]), flush=True)
"""
KAFKA_PYTHON = """
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from kafka_assignors import RangeAssignor

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
polling.subscribe([topic])
while not polling.assignment():
    polling.poll(timeout_ms=200, max_records=1)
producer, place = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=group), TopicPartition(topic, 0)
attempt("too early", producer.begin_transaction)
producer.init_transactions()
for offset, end in (7, producer.commit_transaction), (8, producer.abort_transaction):
    attempt("begin", producer.begin_transaction)
    offsets = {place: OffsetAndMetadata(offset, "", -1)}
    attempt("send", lambda: producer.send_offsets_to_transaction(offsets, polling.group_metadata()))
    attempt("end", end)
attempt("back", lambda: polling.seek(place, 7))
attempt("in a transaction", lambda: polling.committed(place))
producer.close()
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
CONFLUENT = """
from confluent_kafka import Consumer, DeserializingConsumer, Producer, TopicPartition

def attempt(what, call):
    try:
        tell(what, repr(call()))
    except BaseException as error:
        tell(what, type(error).__name__, str(error), type(error.__cause__).__name__)

settings = {
    "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
    "session.timeout.ms": 10000,
}

def places(partitions):
    return sorted((tp.partition, tp.offset, tp.error and tp.error.name()) for tp in partitions)

def record(message):
    return [message.partition(), message.offset(), str(message.value()), message.key() and message.key().decode()]

def committed(error, partitions):
    tell("on_commit", error and error.name(), places(partitions))

given = {**settings, "on_commit": committed}
polling = Consumer(given)
tell("settings", sorted(given), type(polling).__name__, type(polling).__module__)
attempt("wrong", lambda: polling.subscribe([topic], on_assign=7))
polling.subscribe(
    [topic], on_assign=lambda _, partitions: tell("assigned", places(partitions)),
    on_revoke=lambda _, partitions: tell("revoked", places(partitions)),
)
records = []
while len(records) < 20:
    message = polling.poll(1.0)
    if message is not None:
        assert message.error() is None, message.error()
        records.append(message)
tell("polled", sorted(map(record, records)))
attempt("commit", lambda: places(polling.commit(asynchronous=False)))
attempt("message", lambda: places(polling.commit(records[-1], asynchronous=False)) and None)
long = [TopicPartition(topic, 0, 1, "x" * 9999)]
attempt("refused", lambda: places(polling.commit(offsets=long, asynchronous=False)))
attempt("both", lambda: polling.commit(message=records[0], offsets=[]))
attempt("later", lambda: polling.commit(offsets=[TopicPartition(topic, 0, 1)]))
polling.poll(3.0)
attempt("unknown", lambda: polling.poll(nothing=1))
attempt("none", lambda: polling.consume(0, 0.1))
producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": group})
attempt("too early", producer.begin_transaction)
producer.init_transactions()
for offset, end in (7, producer.commit_transaction), (8, producer.abort_transaction):
    attempt("begin", producer.begin_transaction)
    offsets = [TopicPartition(topic, 0, offset)]
    attempt("send", lambda: producer.send_offsets_to_transaction(offsets, polling.consumer_group_metadata()))
    attempt("end", end)
attempt("back", lambda: polling.seek(TopicPartition(topic, 0, 7)))
attempt("in a transaction", lambda: places(polling.committed([TopicPartition(topic, 0)])))
polling.close()
attempt("closed", lambda: polling.poll(0))
attempt("commit closed", lambda: polling.commit())

def fails(*_):
    raise ValueError("the service's own")

failing = Consumer(settings)
failing.subscribe([topic], on_assign=fails)
attempt("fails", lambda: failing.poll(20.0))
failing.close()

with DeserializingConsumer({**settings, "value.deserializer": lambda value, _: {"read": value.decode()}}) as reading:
    reading.subscribe(
        [topic],
        on_assign=lambda own, partitions: own.assign([TopicPartition(tp.topic, tp.partition, 0) for tp in partitions]),
    )
    records = []
    while len(records) < 20:
        message = reading.poll(1.0)
        if message is not None:
            records.append(message)
    tell("deserialized", sorted({str(record(message)) for message in records}))
    attempt("consume", lambda: reading.consume(1))
"""
AIOKAFKA = """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition

async def attempt(what, call):
    try:
        tell(what, repr(await call()))
    except BaseException as error:
        tell(what, type(error).__name__, str(error), type(error.__cause__).__name__)

class Listener(ConsumerRebalanceListener):
    async def on_partitions_assigned(self, assigned):
        tell("assigned", sorted(tp.partition for tp in assigned))

    async def on_partitions_revoked(self, revoked):
        tell("revoked", sorted(tp.partition for tp in revoked))

def consumer():
    return AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )

def told(records):
    return sorted([r.partition, r.offset, r.value.decode(), r.key and r.key.decode()] for r in records)

async def main():
    many = consumer()
    await many.start()
    many.subscribe([topic], listener=Listener())
    records = []
    while len(records) < 20:
        records += [record for part in (await many.getmany(timeout_ms=500)).values() for record in part]
    tell("read", told(records))
    await attempt("commit", many.commit)
    await attempt("refused", lambda: many.commit({TopicPartition(topic, 0): (1, "x" * 9999)}))
    await attempt("wrong", lambda: many.getmany(max_records=-1))
    producer, place = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=group), TopicPartition(topic, 0)
    await producer.start()
    await attempt("too early", producer.commit_transaction)
    for offset, end in (7, producer.commit_transaction), (8, producer.abort_transaction):
        await attempt("begin", producer.begin_transaction)
        await attempt("send", lambda: producer.send_offsets_to_transaction({place: offset}, group))
        await attempt("end", end)
    await attempt("back", lambda: many.seek_to_committed(place))
    await producer.stop()
    tell("unsubscribe", repr(many.unsubscribe()))
    await many.stop()
    await attempt("stopped", many.getone)

    one = consumer()
    await one.start()
    one.subscribe([topic])
    while not one.assignment():
        await one.getmany(timeout_ms=200)
    await one.seek_to_beginning()
    records = []
    async for record in one:
        records.append(record)
        if len(records) == 20:
            break
    tell("iterated", told(records))
    await one.stop()
    await attempt("over", one.__anext__)

asyncio.run(main())
"""
SERVICES = {"kafka-python": KAFKA_PYTHON, "confluent-kafka": CONFLUENT, "aiokafka": AIOKAFKA}


def lines_of(program: str, broker: Broker, topic: str, **environment: str) -> list[Any]:
    """What a service prints."""
    group = environment.get(recorder.GROUP, f"g-{uuid.uuid4().hex[:8]}")
    done = python("-c", BEGIN + program, broker.bootstrap, group, topic, **environment)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.replace(group, "GROUP").splitlines()]


@pytest.mark.parametrize("client", further(SERVICES))
def test_a_service_does_the_same(
    client: str, kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:  # fmt: skip
    """Its records, callbacks and exceptions, in each way of reading; and the recorder saw what it did."""
    topic = kafka_topic(partitions=2)
    records = [{"value": b"%d" % n, "key": b"k" if n % 3 else None, "partition": n % 2} for n in range(20)]
    sent(kafka_broker.bootstrap, topic, records)

    recorded = lines_of(SERVICES[client], kafka_broker, topic, **{
        recorder.FILE: str(tmp_path / "record"), recorder.GROUP: "g-recorded" + uuid.uuid4().hex[:8],
        "PYTHONPATH": os.pathsep.join((str(Path(recorder.__file__).parents[1]), os.environ.get("PYTHONPATH", ""))),
    })  # fmt: skip

    assert recorded == lines_of(SERVICES[client], kafka_broker, topic)
    assert len(recorded) > 6
    (path,) = tmp_path.glob("record.*")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    consumers = [row["consumer"] for row in rows]
    assert consumers == sorted(consumers)  # each is closed before the next one is made
    numbers = sorted(set(consumers))
    kinds = {number: [row["kind"] for row in rows if row["consumer"] == number] for number in numbers}
    assert [(of[0], of[-1], "error" in of) for of in kinds.values()] == [("start", "stop", False)] * len(kinds)
    assert {row["client"] for row in rows if row["kind"] == "start"} == {client}
    consumed = {
        number: sum(
            run["count"]
            for row in rows
            if (row["kind"], row["consumer"]) == ("consume", number)
            for run in row["offsets"]
        )
        for number in (numbers[0], numbers[-1])
    }
    assert consumed[numbers[0]] == 20
    assert consumed[numbers[-1]] >= 20
    assert kinds[numbers[0]].count("commit_ok") >= 1
    assert kinds[numbers[0]].count("commit_fail") >= 1
    assert kinds[numbers[0]].count("commit_begin") == sum(map(kinds[numbers[0]].count, ("commit_ok", "commit_fail")))
    in_transactions = [
        (row["kind"], row["transaction"], [(place["partition"], place["offset"]) for place in row["offsets"]])
        for row in rows
        if "transaction" in row
    ]
    assert in_transactions == [
        ("commit_begin", 1, [(0, 7)]), ("commit_ok", 1, [(0, 7)]),
        ("commit_begin", 2, [(0, 8)]), ("commit_fail", 2, [(0, 8)]),
    ]  # fmt: skip
    (back,) = (row for row in rows if row["kind"] == "rewound")
    assert [(place["partition"], place["offset"]) for place in back["offsets"]] == [(0, 7)]
    for of in kinds.values():
        for name in ("assigned", "revoke"):
            assert of.count(f"{name}_begin") == of.count(f"{name}_end")
        assert of.count("assigned_end") >= 1
