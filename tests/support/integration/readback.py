"""What a topic has, read by a client."""

from __future__ import annotations

import time
from contextlib import closing

from kafka import KafkaConsumer, TopicPartition


def read(bootstrap: str, topic: str, count: int, within_s: float) -> set[bytes]:
    """Every value of so many partitions, from the start to the end offsets of now."""
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, metrics_enabled=False)) as consumer:
        tps = [TopicPartition(topic, p) for p in range(count)]
        consumer.assign(tps)
        ends = consumer.end_offsets(tps)
        consumer.seek_to_beginning(*tps)
        values: set[bytes] = set()
        deadline = time.monotonic() + within_s
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            assert time.monotonic() < deadline, f"{topic} was not read to its end within {within_s:g} s"
            for records in consumer.poll(timeout_ms=500).values():
                values |= {record.value for record in records}
        return values
