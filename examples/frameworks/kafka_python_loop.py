"""kafka-python: poll and send at its defaults. It polls, to see SIGTERM: ``for message in consumer`` waits."""

import os
import signal

from kafka import KafkaConsumer, KafkaProducer

stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append("SIGTERM"))
producer = KafkaProducer(bootstrap_servers=os.environ["BROKER"])
consumer = KafkaConsumer(
    os.environ["TOPIC"],
    bootstrap_servers=os.environ["BROKER"],
    group_id=os.environ["GROUP"],
    auto_offset_reset="earliest",
)
while not stopping:
    for messages in consumer.poll(timeout_ms=500).values():
        for message in messages:
            producer.send(os.environ["OUTPUT"], message.value)  # one output for each order
consumer.close()
producer.close()
