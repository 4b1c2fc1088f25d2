"""Consumers that are polled on threads of this process."""

from __future__ import annotations

import threading
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer

from kafka_assignors.integration.broker import Broker

DEADLINE_S = 30


class Polling(threading.Thread):
    """A consumer that is polled time after time until it is told to stop. An error of a poll is raised by `stop`.

    Args:
        strategy: Its ``partition_assignment_strategy``.
        poll_ms: How long one poll lasts. Without our guard, kafka-python 3.0.12 throws away a join that
            completes between two of them.
        listener: Told of assigned, revoked and lost partitions, on the consumer's thread.
    """

    def __init__(
        self, broker: Broker, group: str, topics: list[str], strategy: list[Any], name: str,
        poll_ms: int = 1000, listener: ConsumerRebalanceListener | None = None, **config: Any,
    ) -> None:  # fmt: skip
        super().__init__(daemon=True)
        settings = {"session_timeout_ms": 2000, "heartbeat_interval_ms": 300, "retry_backoff_ms": 50, **config}
        self.consumer = KafkaConsumer(
            bootstrap_servers=broker.bootstrap, group_id=group, client_id=name,
            partition_assignment_strategy=strategy, **settings,
        )  # fmt: skip
        self.topics, self.poll_ms, self.listener = topics, poll_ms, listener
        self.done = threading.Event()
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.consumer.subscribe(self.topics, listener=self.listener)
            while not self.done.is_set():
                self.polled(self.consumer.poll(timeout_ms=self.poll_ms))
        except Exception as error:
            self.error = error

    def polled(self, records: Any) -> None:
        """What a poll returned; nothing is done with it here."""

    @property
    def generation(self) -> int:
        return int(self.consumer.group_metadata().generation_id)

    @property
    def partitions(self) -> list[int]:
        """Partition ids of all its topics."""
        return sorted(p for _, p in self.consumer.assignment())

    def stop(self) -> None:
        self.done.set()
        self.join(DEADLINE_S)
        self.consumer.close()
        if self.error is not None:
            raise self.error
