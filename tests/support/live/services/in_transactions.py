"""A service that sends outputs and offsets in one transaction: each record has one output, also after a kill."""

from __future__ import annotations

from .beginnings import BEGINNINGS

_CONFLUENT = """
import uuid

producer = Producer({
    "bootstrap.servers": address, "transactional.id": str(uuid.uuid4()), "transaction.timeout.ms": 5000,
})
producer.init_transactions()
consumer = make()
consumer.subscribe([topic])
while not stop:
    batch = [message for message in consumer.consume(BATCH, 0.2) if message.error() is None]
    if not batch:
        continue
    producer.begin_transaction()
    ends = {}
    for message in batch:
        producer.produce(output, message.value())
        ends[message.partition()] = message.offset() + 1
    try:
        offsets = [TopicPartition(topic, *place) for place in ends.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        producer.commit_transaction()
    except KafkaException:
        producer.abort_transaction()
        for place in consumer.committed(consumer.assignment()):
            consumer.seek(place)
consumer.close()
"""

PROGRAMS = {"confluent-kafka": BEGINNINGS["confluent-kafka"] + _CONFLUENT}
"""Client -> the service's program."""
