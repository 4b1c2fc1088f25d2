"""A service with threads, or tasks: they work on the records that one of them polls."""

from __future__ import annotations

from .beginnings import BEGINNINGS

SHARED = "two threads on one consumer"

_WORK = """
def seconds(offset):
    return 1.0 if offset % 25 == 0 else 0.005  # some records take long
"""

_KAFKA_PYTHON = """
import threading
from concurrent.futures import ThreadPoolExecutor

consumer, one_at_a_time = make(), threading.Lock()
consumer.subscribe([topic])

def poll():
    return [record for records in consumer.poll(timeout_ms=100).values() for record in records]

def commit():
    producer.flush()
    try:
        consumer.commit()
    except KafkaError:
        pass  # a rebalance: whoever gets the partition reads these records again

def work(record):
    time.sleep(seconds(record.offset))
    producer.send(output, record.value)

def poll_work_and_commit():
    while not stop:
        with one_at_a_time:  # a consumer is not thread-safe
            batch = poll()
        for record in batch:
            work(record)
        with one_at_a_time:
            commit()

with ThreadPoolExecutor(4) as pool:
    if fault == "two threads on one consumer":
        for thread in [pool.submit(poll_work_and_commit) for _ in range(2)]:
            thread.result()
    while not stop:
        list(pool.map(work, poll()))
        commit()
producer.close()
consumer.close()
"""

_CONFLUENT = """
from concurrent.futures import ThreadPoolExecutor

consumer = make()
consumer.subscribe([topic])

def poll():
    return [message for message in consumer.consume(BATCH, 0.1) if message.error() is None]

def commit():
    producer.flush()
    try:
        consumer.commit(asynchronous=False)
    except KafkaException:
        pass  # nothing to commit, or a rebalance: whoever gets the partition reads these records again

def work(message):
    time.sleep(seconds(message.offset()))
    producer.produce(output, message.value())

def poll_work_and_commit():
    while not stop:
        for message in poll():
            work(message)
        commit()

with ThreadPoolExecutor(4) as pool:
    if fault == "two threads on one consumer":
        for thread in [pool.submit(poll_work_and_commit) for _ in range(2)]:
            thread.result()
    while not stop:
        list(pool.map(work, poll()))
        commit()
producer.flush()
consumer.close()
"""

_AIOKAFKA = """
class Waiting(ConsumerRebalanceListener):
    def __init__(self, busy):
        self.busy = busy
    async def on_partitions_revoked(self, revoked):
        async with self.busy:
            pass
    async def on_partitions_assigned(self, assigned):
        pass

async def main():
    busy, producer, consumer = asyncio.Lock(), await begin(), await make()
    consumer.subscribe([topic], listener=Waiting(busy))

    async def poll():
        polled = await consumer.getmany(timeout_ms=100, max_records=BATCH)
        return [record for records in polled.values() for record in records]

    async def commit():
        try:
            await consumer.commit()
        except KafkaError:
            pass  # a rebalance: whoever gets the partition reads these records again

    async def work(record):
        await asyncio.sleep(seconds(record.offset))
        await producer.send_and_wait(output, record.value)

    async def poll_work_and_commit():
        while not stop:
            for record in await poll():
                await work(record)
            await commit()

    if fault == "two threads on one consumer":
        await asyncio.gather(poll_work_and_commit(), poll_work_and_commit())
    while not stop:
        batch = await poll()
        async with busy:
            await asyncio.gather(*map(work, batch))
            await commit()
    await producer.stop()
    await consumer.stop()

asyncio.run(main())
"""

PROGRAMS = {
    client: BEGINNINGS[client] + _WORK + program
    for client, program in (("kafka-python", _KAFKA_PYTHON), ("confluent-kafka", _CONFLUENT), ("aiokafka", _AIOKAFKA))
}
"""Client -> the service's program."""
