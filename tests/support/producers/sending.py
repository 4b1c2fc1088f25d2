"""`KafkaProducer.send` from the partitioner to the accumulator, without a network: what kafka-python 3.0.12 does."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kafka.cluster import ClusterMetadata
from kafka.partitioner import Partitioner
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.structs import TopicPartition


class Sender:
    """Sends records through a partitioner into kafka-python's own accumulator; nothing leaves it.

    Args:
        partitioner: Under test.
        cluster: Real metadata.
        batch_bytes: 1 makes every record open a batch: the case in which the client asks twice.
    """

    def __init__(self, partitioner: Partitioner, cluster: ClusterMetadata, batch_bytes: int = 16384) -> None:
        self.partitioner, self.cluster = partitioner, cluster
        self.accumulator = RecordAccumulator(batch_size=batch_bytes)
        self.placed: Counter[int] = Counter()
        self.asked = 0

    def send(self, topic: str, value: Any = b"v", key: bytes | None = None) -> int:
        """The partition the record ends on."""
        value_bytes = value if isinstance(value, bytes) else repr(value).encode()
        partition = self._ask(topic, key, value, value_bytes)
        tp = TopicPartition(topic, partition)
        aborted = self.accumulator.append(tp, None, key, value_bytes, [], abort_on_new_batch=key is None)[3]
        if aborted:
            hook = getattr(self.partitioner, "on_new_batch", None)
            if hook is not None:
                hook(topic, self.cluster, partition)
            partition = self._ask(topic, key, value, value_bytes)
            self.accumulator.append(TopicPartition(topic, partition), None, key, value_bytes, [])
        self.placed[partition] += 1
        return partition

    def _ask(self, topic: str, key: bytes | None, value: Any, value_bytes: bytes) -> int:
        self.asked += 1
        partition: int = self.partitioner.partition(topic, key, key, value, value_bytes, self.cluster)
        return partition
