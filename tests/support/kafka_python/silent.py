"""Consumers whose broker never says a word. They join a group when they are polled, and these are not."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.base import Generation
from kafka.structs import TopicPartition

MakeConsumer = Callable[..., Any]


@contextmanager
def silent_consumers() -> Iterator[MakeConsumer]:
    """Makes consumers with assignors and settings, and closes them at the end; ``made`` has them."""
    made: list[Any] = []

    def make(*strategy: Any, **config: Any) -> Any:
        settings = {"group_id": "g", "api_version": (2, 5), "partition_assignment_strategy": list(strategy), **config}
        made.append(KafkaConsumer(bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}", **settings))
        return made[-1]

    make.made = made  # type: ignore[attr-defined]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield make
        for each in made:
            each.close(autocommit=False, timeout_ms=100)


def holding(consumer: Any, *partitions: int, assignor: str = "cooperative-sticky", listener: Any = None) -> Any:
    """The consumer as it is in generation 7, in which an assignor gave it these partitions of topic ``t``."""
    consumer.subscribe(["t"], listener=listener)
    consumer._coordinator._generation = Generation(7, "m-1", assignor)
    consumer._subscription.assign_from_subscribed([TopicPartition("t", p) for p in partitions])
    return consumer
