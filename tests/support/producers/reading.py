"""What a broker stores, read back by an independent consumer."""

from __future__ import annotations

import time
from contextlib import closing

from kafka import KafkaConsumer, TopicPartition

DEADLINE_S = 60


def read_back(broker, topic, records):
    """(partition, key, value) of so many records."""
    return [(r.partition, r.key, r.value) for r in read_whole(broker, topic, records)]


def read_whole(broker, topic, records):
    """So many records, as kafka-python describes them."""
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap, metrics_enabled=False)) as consumer:
        partitions = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        messages, deadline = [], time.monotonic() + DEADLINE_S
        while len(messages) < records:
            assert time.monotonic() < deadline, f"{len(messages)} of {records} records of {topic} within {DEADLINE_S} s"
            for batch in consumer.poll(timeout_ms=500).values():
                messages += batch
    return messages
