"""Names of assignors and partitioners: ours, kafka-python's own (``kafka-python:NAME``), or any (``module:Class``)."""

from __future__ import annotations

PEER = "kafka-python"
COOPERATIVE = "cooperative-sticky"
"""The only assignor whose members always keep their partitions while they rebalance."""
EITHER = frozenset({"weighted", "lag", "cooperative-copartitioned"})
"""Assignors whose members keep their partitions or not, depending on their consumers' lists of assignors."""
JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
"""Protocol name -> Java's class."""
