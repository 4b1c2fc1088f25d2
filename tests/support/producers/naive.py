"""The round robin that everybody writes first."""

from __future__ import annotations

from typing import Any

from kafka.partitioner import Partitioner


class NaiveRoundRobin(Partitioner):
    """Counts both calls for a record that opens a batch (KAFKA-9965): every other partition stays empty."""

    def __init__(self) -> None:
        self._next = -1

    def partition(
        self, topic: str, key: Any, serialized_key: Any, value: Any, serialized_value: Any, cluster: Any
    ) -> int:
        self._next += 1
        partitions: list[int] = sorted(cluster.partitions_for_topic(topic))
        return partitions[self._next % len(partitions)]
