"""A cluster of which one broker is slow, and the share of each partition."""

from __future__ import annotations

from kafka_assignors.integration.broker.cluster import Cluster
from tests.support.producers.reading import read_back

DEADLINE_S = 60


def lie(cluster: Cluster, topic: str, placed: list[int]) -> bool:
    """Record i lies on the partition that its acknowledgement named, once."""
    records = sorted((int(value), partition) for partition, _, value in read_back(cluster, topic, len(placed)))
    return records == list(enumerate(placed))


def share(placed: list[int], partitions: set[int]) -> float:
    return sum(partition in partitions for partition in placed) / len(placed)
