"""A service that sends outputs and offsets in one transaction: each record has one output, also after a kill.

Every fifth transaction is aborted, and its records are read again.
"""

from __future__ import annotations

from .beginnings import BEGINNINGS

_KAFKA_PYTHON = """
import uuid

def begin():
    made = KafkaProducer(
        bootstrap_servers=address, transactional_id=str(uuid.uuid4()), transaction_timeout_ms=5000,
    )
    made.init_transactions()
    return made

producer, batches = begin(), 0
consumer = make()
consumer.subscribe([topic])
while not stop:
    polled = consumer.poll(timeout_ms=200)
    if not polled:
        continue
    batches += 1
    offsets = {tp: OffsetAndMetadata(records[-1].offset + 1, "", -1) for tp, records in polled.items()}
    membership = consumer.group_metadata()
    producer.begin_transaction()
    try:
        for record in (record for records in polled.values() for record in records):
            producer.send(output, record.value)
        producer.send_offsets_to_transaction(offsets, membership)
        if batches % 5 == 0:
            raise KafkaError("every fifth one")
        producer.commit_transaction()
    except KafkaError:
        producer.abort_transaction()
        producer.close()
        producer = begin()  # this one commits refused offsets with its next transaction
        for tp in polled.keys() & consumer.assignment():
            consumer.seek(tp, polled[tp][0].offset)
producer.close()
consumer.close()
"""

_CONFLUENT = """
import uuid

producer = Producer({
    "bootstrap.servers": address, "transactional.id": str(uuid.uuid4()), "transaction.timeout.ms": 5000,
})
producer.init_transactions()
consumer, batches = make(), 0
consumer.subscribe([topic])
while not stop:
    batch = [message for message in consumer.consume(BATCH, 0.2) if message.error() is None]
    if not batch:
        continue
    batches += 1
    producer.begin_transaction()
    begins, ends = {}, {}
    for message in batch:
        producer.produce(output, message.value())
        begins.setdefault(message.partition(), message.offset())
        ends[message.partition()] = message.offset() + 1
    try:
        offsets = [TopicPartition(topic, *place) for place in ends.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        if batches % 5 == 0:
            raise KafkaException("every fifth one")
        producer.commit_transaction()
    except KafkaException:
        producer.abort_transaction()
        for tp in consumer.assignment():
            if tp.partition in begins:
                consumer.seek(TopicPartition(topic, tp.partition, begins[tp.partition]))
consumer.close()
"""

_AIOKAFKA = """
import uuid

class Waiting(ConsumerRebalanceListener):
    # its producer is not told the generation: nothing is given up between a batch and its commit
    def __init__(self, busy):
        self.busy = busy
    async def on_partitions_revoked(self, revoked):
        async with self.busy:
            pass
    async def on_partitions_assigned(self, assigned):
        pass

async def main():
    busy, batches = asyncio.Lock(), 0
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    producer = AIOKafkaProducer(
        bootstrap_servers=address, transactional_id=str(uuid.uuid4()), transaction_timeout_ms=5000,
    )
    await producer.start()
    consumer = await make()
    consumer.subscribe([topic], listener=Waiting(busy))
    while not stop:
        polled = await consumer.getmany(timeout_ms=200, max_records=BATCH)
        if not polled:
            continue
        async with busy:
            batches += 1
            try:
                async with producer.transaction():
                    for record in (record for records in polled.values() for record in records):
                        await producer.send(output, record.value)
                    offsets = {tp: records[-1].offset + 1 for tp, records in polled.items()}
                    await producer.send_offsets_to_transaction(offsets, group)
                    if batches % 5 == 0:
                        raise KafkaError("every fifth one")
            except KafkaError:
                for tp in polled.keys() & consumer.assignment():
                    consumer.seek(tp, polled[tp][0].offset)
    await producer.stop()
    await consumer.stop()

asyncio.run(main())
"""

PROGRAMS = {
    "kafka-python": BEGINNINGS["kafka-python"] + _KAFKA_PYTHON,
    "confluent-kafka": BEGINNINGS["confluent-kafka"] + _CONFLUENT,
    "aiokafka": BEGINNINGS["aiokafka"] + _AIOKAFKA,
}
"""Client -> the service's program."""
