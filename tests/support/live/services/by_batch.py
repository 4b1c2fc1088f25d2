"""A service that works on one batch after the other, sends the outputs, and commits."""

from __future__ import annotations

EARLY = "commits before it works"
BY_ITSELF = "commits by itself while a thread works"
IN_FLIGHT = "loses the batch in flight"
LATE_OUTPUTS = "sends outputs after the commit"
TWICE = "sends an output again"
SEEKS = "seeks back"

_BEGIN = """
import signal, sys, time
from concurrent.futures import ThreadPoolExecutor

address, group, topic, output, fault = sys.argv[1:]
itself = fault == "commits by itself while a thread works"
pool, stop, batches = ThreadPoolExecutor(1), [], 0
SESSION_MS, BEAT_MS, WORK_S, BATCH = 10_000, 1000, 0.03, 40

def end(*_):
    stop.append(1)

def twice(record):
    # as after an answer that came too late
    return fault == "sends an output again" and record % 10 == 0
"""

_KAFKA_PYTHON = """
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from kafka_assignors import RangeAssignor

signal.signal(signal.SIGTERM, end)
producer = KafkaProducer(bootstrap_servers=address)
consumer = KafkaConsumer(
    topic, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", session_timeout_ms=SESSION_MS,
    heartbeat_interval_ms=BEAT_MS, enable_auto_commit=itself, auto_commit_interval_ms=100, max_poll_records=BATCH,
    partition_assignment_strategy=[RangeAssignor()],
)

def commit():
    try:
        consumer.commit()
    except KafkaError:
        pass  # a rebalance: whoever gets the partition reads these records again

def work(record):
    time.sleep(WORK_S)
    for _ in range(1 + twice(record.offset)):
        producer.send(output, record.value)

while not stop:
    batch = [record for records in consumer.poll(timeout_ms=200).values() for record in records]
    if not batch:
        continue
    batches += 1
    if fault == "seeks back" and batches == 10:
        consumer.seek_to_beginning()
    if itself:
        for record in batch:
            pool.submit(work, record)
        continue
    if fault in ("commits before it works", "sends outputs after the commit"):
        commit()
    if fault == "sends outputs after the commit":
        time.sleep(WORK_S * len(batch))
    for record in batch:
        if stop and fault == "loses the batch in flight":
            break
        work(record)
    producer.flush()
    if fault not in ("commits before it works", "sends outputs after the commit"):
        commit()
pool.shutdown()
producer.close()
consumer.close()
"""

_CONFLUENT = """
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

signal.signal(signal.SIGTERM, end)
producer = Producer({"bootstrap.servers": address})
consumer = Consumer({
    "bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": BEAT_MS, "enable.auto.commit": itself, "auto.commit.interval.ms": 100,
})
consumer.subscribe([topic])

def commit():
    try:
        consumer.commit(asynchronous=False)
    except KafkaException:
        pass  # a rebalance: whoever gets the partition reads these records again

def work(message):
    time.sleep(WORK_S)
    for _ in range(1 + twice(message.offset())):
        producer.produce(output, message.value())

while not stop:
    batch = [message for message in consumer.consume(BATCH, 0.2) if message.error() is None]
    if not batch:
        continue
    batches += 1
    if fault == "seeks back" and batches == 10:
        for tp in consumer.assignment():
            consumer.seek(TopicPartition(tp.topic, tp.partition, 0))
    if itself:
        for message in batch:
            pool.submit(work, message)
        continue
    if fault in ("commits before it works", "sends outputs after the commit"):
        commit()
    if fault == "sends outputs after the commit":
        time.sleep(WORK_S * len(batch))
    for message in batch:
        if stop and fault == "loses the batch in flight":
            break
        work(message)
    producer.flush()
    if fault not in ("commits before it works", "sends outputs after the commit"):
        commit()
pool.shutdown()
producer.flush()
consumer.close()
"""

_AIOKAFKA = """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka.errors import KafkaError

class Waiting(ConsumerRebalanceListener):
    # aiokafka rebalances in a task of its own: nothing is given up between a batch and its commit
    def __init__(self, busy):
        self.busy = busy
    async def on_partitions_revoked(self, revoked):
        async with self.busy:
            pass
    async def on_partitions_assigned(self, assigned):
        pass

async def main():
    global batches
    busy = asyncio.Lock()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    producer = AIOKafkaProducer(bootstrap_servers=address)
    await producer.start()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=BEAT_MS, enable_auto_commit=itself, auto_commit_interval_ms=100,
    )
    await consumer.start()
    consumer.subscribe([topic], listener=Waiting(busy))

    async def commit():
        try:
            await consumer.commit()
        except KafkaError:
            pass  # a rebalance: whoever gets the partition reads these records again

    async def work(record):
        await asyncio.sleep(WORK_S)
        for _ in range(1 + twice(record.offset)):
            await producer.send_and_wait(output, record.value)

    later = []
    while not stop:
        polled = await consumer.getmany(timeout_ms=200, max_records=BATCH)
        batch = [record for records in polled.values() for record in records]
        if not batch:
            continue
        async with busy:
            batches += 1
            if fault == "seeks back" and batches == 10:
                await consumer.seek_to_beginning()
            if itself:
                later.append(asyncio.create_task(asyncio.wait_for(all_of(batch, work), 600)))
                continue
            if fault in ("commits before it works", "sends outputs after the commit"):
                await commit()
            if fault == "sends outputs after the commit":
                await asyncio.sleep(WORK_S * len(batch))
            for record in batch:
                if stop and fault == "loses the batch in flight":
                    break
                await work(record)
            if fault not in ("commits before it works", "sends outputs after the commit"):
                await commit()
    await asyncio.gather(*later)
    await producer.stop()
    await consumer.stop()

one_at_a_time = asyncio.Lock()

async def all_of(batch, work):
    async with one_at_a_time:  # as a pool of one
        for record in batch:
            await work(record)

asyncio.run(main())
"""

PROGRAMS = {
    "kafka-python": _BEGIN + _KAFKA_PYTHON, "confluent-kafka": _BEGIN + _CONFLUENT, "aiokafka": _BEGIN + _AIOKAFKA,
}  # fmt: skip
"""Client -> the service's program."""
