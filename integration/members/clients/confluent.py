"""librdkafka's consumer in one process, by confluent-kafka. Takes the path of its configuration.

It speaks as Java's VerifiableConsumer does, a JSON object a line on standard output, which `verifiable` turns into
events. librdkafka tells, beyond that, of lost partitions: ``partitions_lost``. It doesn't tell its generation.

Exit codes: 0 after SIGTERM, 1 after an error, told in a line, 2 without confluent-kafka.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from ..config import MemberConfig
from .json_lines import say, text

_BATCH, _POLL_S = 500, 0.1


def settings(config: MemberConfig) -> dict[str, Any]:
    """Librdkafka's configuration; further settings by its own names, ``_`` for ``.``."""
    return {
        **config.connection().librdkafka(),
        "client.id": config.member,
        "group.id": config.group,
        "session.timeout.ms": config.session_timeout_ms,
        "heartbeat.interval.ms": config.heartbeat_interval_ms,
        "partition.assignment.strategy": ",".join(config.assignors),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 200,
        **({} if config.instance_id is None else {"group.instance.id": config.instance_id}),
        **({} if config.rack is None else {"client.rack": config.rack}),
        **{name.replace("_", "."): value for name, value in config.consumer.items()},
    }


class _Batch:
    """What was consumed and not committed yet."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._ends: dict[tuple[str, int], int] = {}

    def add(self, record: Any) -> None:
        """Tell of a record."""
        place = record.topic(), record.partition()
        self._ends[place] = record.offset() + 1
        key, value = (text(part) for part in (record.key(), record.value()))
        say("record_data", key=key, value=value, topic=place[0], partition=place[1], offset=record.offset())

    def finish(self) -> None:
        """Tell that they were consumed, and commit them."""
        from confluent_kafka import KafkaException, TopicPartition

        if not self._ends:
            return
        due = [TopicPartition(*place, offset) for place, offset in sorted(self._ends.items())]
        self._ends.clear()
        say("records_consumed", count=len(due), partitions=[])
        rows = [{"topic": tp.topic, "partition": tp.partition, "offset": tp.offset} for tp in due]
        try:
            self._consumer.commit(offsets=due, asynchronous=False)
        except KafkaException as error:
            say("offsets_committed", offsets=rows, success=False, error=str(error))
        else:
            say("offsets_committed", offsets=rows, success=True)


def run(config: MemberConfig, stop: threading.Event) -> None:
    """Consume until told to stop, then leave the group.

    Raises:
        KafkaException: What the client couldn't recover from, such as another member with its instance id.
    """
    from confluent_kafka import Consumer

    consumer = Consumer(settings(config))
    consume(consumer, config.topics, _Batch(consumer), stop)


class Batches(Protocol):
    """What a member does with its records."""

    def add(self, record: Any) -> None:
        """Take a record."""

    def finish(self) -> None:
        """Be done with those that were taken."""


def consume(consumer: Any, topics: Iterable[str], batches: Batches, stop: threading.Event) -> None:
    """Poll until told to stop, each time finish what came, then leave the group.

    Raises:
        KafkaException: What the client couldn't recover from.
    """
    from confluent_kafka import KafkaException

    def callback(name: str) -> Any:
        def tell(_consumer: Any, partitions: Iterable[Any]) -> None:
            batches.finish()  # what was consumed before comes before
            say(name, partitions=[{"topic": tp.topic, "partition": tp.partition} for tp in partitions])

        return tell

    consumer.subscribe(
        list(topics),
        on_assign=callback("partitions_assigned"),
        on_revoke=callback("partitions_revoked"),
        on_lost=callback("partitions_lost"),
    )
    say("startup_complete")
    try:
        while not stop.is_set():
            # One at a time: a batch of librdkafka's could hold records of partitions that a callback took meanwhile.
            for number in range(_BATCH):
                record = consumer.poll(0 if number else _POLL_S)
                if record is None:
                    break
                if (error := record.error()) is None:
                    batches.add(record)
                elif error.fatal():
                    raise KafkaException(error)
            batches.finish()
    finally:
        consumer.close()
    say("shutdown_complete")


def main(argv: Sequence[str], consume_until: Callable[[MemberConfig, threading.Event], None] = run) -> int:
    """Run one member; see the module for the exit codes.

    Args:
        argv: The path of its configuration.
        consume_until: What it does until it is told to stop.
    """
    if len(argv) != 1:
        print("usage: python -m kafka_assignors.integration.members.clients.confluent CONFIG.json", file=sys.stderr)
        return 2
    config = MemberConfig.from_json(Path(argv[0]).read_text("utf-8"))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        from confluent_kafka import KafkaException
    except ImportError:
        print("error: confluent-kafka is missing; run: pip install 'kafka-assignors[confluent]'", file=sys.stderr)
        return 2
    try:
        consume_until(config, stop)
    except KafkaException as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
