"""A producer with a partitioner of ours."""

from __future__ import annotations

from contextlib import closing

from kafka import KafkaProducer


def producer(broker, partitioner, **settings):
    return closing(
        KafkaProducer(
            bootstrap_servers=broker.bootstrap, partitioner=partitioner, acks="all", metrics_enabled=False,
            **{"linger_ms": 0, **settings},
        )
    )  # fmt: skip
