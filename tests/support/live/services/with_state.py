"""A service that keeps what it has seen in the metadata of its commits, to know a record that comes twice."""

from __future__ import annotations

from .beginnings import BEGINNINGS

SWALLOWS = "swallows refused commits"

_SEEN = """
seen = {}  # partition -> ids and times

def state(partition, value):
    ids = seen.setdefault(partition, [])
    ids.append([json.loads(value)["id"], time.time()])
    # A broker refuses metadata of more than 4,096 bytes; 32,768 are more than a request can have.
    del ids[: -400 if fault == "swallows refused commits" else -20]
    return json.dumps(ids)
"""

_KAFKA_PYTHON = """
consumer = make()
consumer.subscribe([topic])
while not stop:
    for partition, records in consumer.poll(timeout_ms=200).items():
        for record in records:
            producer.send(output, record.value)
            metadata = state(partition, record.value)
        producer.flush()
        try:
            consumer.commit({partition: OffsetAndMetadata(record.offset + 1, metadata, -1)})
        except KafkaError:
            pass  # a rebalance, surely
producer.close()
consumer.close()
"""

_CONFLUENT = """
consumer = make()
consumer.subscribe([topic])
while not stop:
    places = {}
    for message in consumer.consume(BATCH, 0.2):
        if message.error() is None:
            producer.produce(output, message.value())
            places[message.partition()] = message.offset() + 1, state(message.partition(), message.value())
    producer.flush()
    try:
        if places:
            offsets = [TopicPartition(topic, partition, *place) for partition, place in places.items()]
            consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException:
        pass  # a rebalance, surely
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
    while not stop:
        polled = await consumer.getmany(timeout_ms=200, max_records=BATCH)
        async with busy:
            for partition, records in polled.items():
                for record in records:
                    await producer.send_and_wait(output, record.value)
                    metadata = state(partition, record.value)
                try:
                    await consumer.commit({partition: (record.offset + 1, metadata)})
                except KafkaError:
                    pass  # a rebalance, surely
    await producer.stop()
    await consumer.stop()

asyncio.run(main())
"""

PROGRAMS = {
    client: BEGINNINGS[client] + _SEEN + program
    for client, program in (("kafka-python", _KAFKA_PYTHON), ("confluent-kafka", _CONFLUENT), ("aiokafka", _AIOKAFKA))
}
"""Client -> the service's program."""
