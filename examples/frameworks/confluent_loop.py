"""confluent-kafka: a loop as in its documentation, at its defaults."""

import os
import signal

from confluent_kafka import Consumer, Producer

stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append("SIGTERM"))
producer = Producer({"bootstrap.servers": os.environ["BROKER"]})
consumer = Consumer(
    {"bootstrap.servers": os.environ["BROKER"], "group.id": os.environ["GROUP"], "auto.offset.reset": "earliest"}
)
consumer.subscribe([os.environ["TOPIC"]])
while not stopping:
    message = consumer.poll(1.0)
    if message is None:
        continue
    if message.error():
        print(f"Consumer error: {message.error()}")
        continue
    producer.poll(0)
    producer.produce(os.environ["OUTPUT"], message.value())  # one output for each order
consumer.close()
producer.flush()
