"""A service whose database is gone once: it closes its consumer, and makes another one."""

from __future__ import annotations

from .beginnings import BEGINNINGS

UNCLOSED = "makes a consumer anew without closing the first"

_DATABASE = """
calls = []

def database():
    calls.append(1)
    if len(calls) == 4:
        raise ConnectionError("the database is gone")
"""

_KAFKA_PYTHON = """
consumers = []

def again():
    if consumers and fault != "makes a consumer anew without closing the first":
        consumers[-1].close()
    consumers.append(make())
    consumers[-1].subscribe([topic])
    return consumers[-1]

consumer = again()
while not stop:
    batch = [record for records in consumer.poll(timeout_ms=200).values() for record in records]
    if not batch:
        continue
    try:
        database()
    except ConnectionError:
        consumer = again()
        continue
    for record in batch:
        producer.send(output, record.value)
    producer.flush()
    try:
        consumer.commit()
    except KafkaError:
        pass  # a rebalance: whoever gets the partition reads these records again
producer.close()
consumer.close()
"""

_CONFLUENT = """
consumers = []

def again():
    if consumers and fault != "makes a consumer anew without closing the first":
        consumers[-1].close()
    consumers.append(make())
    consumers[-1].subscribe([topic])
    return consumers[-1]

consumer = again()
while not stop:
    batch = [message for message in consumer.consume(BATCH, 0.2) if message.error() is None]
    if not batch:
        continue
    try:
        database()
    except ConnectionError:
        consumer = again()
        continue
    for message in batch:
        producer.produce(output, message.value())
    producer.flush()
    try:
        consumer.commit(asynchronous=False)
    except KafkaException:
        pass  # a rebalance: whoever gets the partition reads these records again
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
    busy, producer, consumers = asyncio.Lock(), await begin(), []

    async def again():
        if consumers and fault != "makes a consumer anew without closing the first":
            await consumers[-1].stop()
        consumers.append(await make())
        consumers[-1].subscribe([topic], listener=Waiting(busy))
        return consumers[-1]

    consumer = await again()
    while not stop:
        polled = await consumer.getmany(timeout_ms=200, max_records=BATCH)
        batch = [record for records in polled.values() for record in records]
        if not batch:
            continue
        try:
            database()
        except ConnectionError:
            consumer = await again()
            continue
        async with busy:
            for record in batch:
                await producer.send_and_wait(output, record.value)
            try:
                await consumer.commit()
            except KafkaError:
                pass  # a rebalance: whoever gets the partition reads these records again
    await producer.stop()
    await consumer.stop()

asyncio.run(main())
"""

PROGRAMS = {
    client: BEGINNINGS[client] + _DATABASE + program
    for client, program in (("kafka-python", _KAFKA_PYTHON), ("confluent-kafka", _CONFLUENT), ("aiokafka", _AIOKAFKA))
}
"""Client -> the service's program."""
