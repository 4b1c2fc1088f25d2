"""A service that commits every two seconds, and before it gives partitions up."""

from __future__ import annotations

from .beginnings import BEGINNINGS

UNCOMMITTED = "gives partitions up without a commit"

_KAFKA_PYTHON = """
consumer, due = make(), 0.0

class Commits(AsyncConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked):
        if fault == "gives partitions up without a commit":
            return
        producer.flush()
        try:
            await consumer.commit_async()
        except KafkaError:
            pass  # they are lost: whoever got them reads these records again
    async def on_partitions_assigned(self, assigned):
        pass

consumer.subscribe([topic], listener=Commits())
while not stop:
    for records in consumer.poll(timeout_ms=200).values():
        for record in records:
            producer.send(output, record.value)
    if time.monotonic() > due:
        due = time.monotonic() + 2
        producer.flush()
        try:
            consumer.commit()
        except KafkaError:
            pass  # a rebalance: these are committed as they are given up
consumer.close()
producer.close()
"""

_CONFLUENT = """
consumer, due = make(), 0.0

def commit(*_):
    producer.flush()
    try:
        consumer.commit(asynchronous=False)
    except KafkaException:
        pass  # nothing to commit, or they are lost: whoever got them reads these records again

if fault == "gives partitions up without a commit":
    consumer.subscribe([topic])
else:
    consumer.subscribe([topic], on_revoke=commit)
while not stop:
    message = consumer.poll(0.2)
    if message is not None and message.error() is None:
        producer.produce(output, message.value())
    if time.monotonic() > due:
        due = time.monotonic() + 2
        commit()
consumer.close()
producer.flush()
"""

_AIOKAFKA = """
class Commits(ConsumerRebalanceListener):
    def __init__(self, busy, commit):
        self.busy, self.commit = busy, commit
    async def on_partitions_revoked(self, revoked):
        async with self.busy:
            if fault != "gives partitions up without a commit":
                await self.commit()
    async def on_partitions_assigned(self, assigned):
        pass

async def main():
    busy, due, producer, consumer = asyncio.Lock(), 0.0, await begin(), await make()

    async def commit():
        try:
            await consumer.commit()
        except KafkaError:
            pass  # they are lost: whoever got them reads these records again

    consumer.subscribe([topic], listener=Commits(busy, commit))
    while not stop:
        polled = await consumer.getmany(timeout_ms=200, max_records=BATCH)
        async with busy:
            for records in polled.values():
                for record in records:
                    await producer.send_and_wait(output, record.value)
            if time.monotonic() > due:
                due = time.monotonic() + 2
                await commit()
    if fault != "gives partitions up without a commit":
        await commit()  # a consumer that is stopped calls no listener
    await consumer.stop()
    await producer.stop()

asyncio.run(main())
"""

PROGRAMS = {
    client: BEGINNINGS[client] + program
    for client, program in (("kafka-python", _KAFKA_PYTHON), ("confluent-kafka", _CONFLUENT), ("aiokafka", _AIOKAFKA))
}
"""Client -> the service's program."""
