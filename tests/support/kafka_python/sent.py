"""Records that a test sends before it goes on."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any

from kafka import KafkaProducer


def sent(bootstrap: str, topic: str, records: Iterable[dict[str, Any]]) -> None:
    """Send records, each as the arguments of ``KafkaProducer.send``, and wait until the broker has them."""
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for record in records:
            producer.send(topic, **record)
        producer.flush()
