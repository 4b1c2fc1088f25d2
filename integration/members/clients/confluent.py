"""librdkafka's consumer in one process, through confluent-kafka. Takes the path of its configuration.

Like Java's VerifiableConsumer it prints one JSON object per line, which `verifiable_process` turns into events. It also
reports lost partitions (``partitions_lost``). librdkafka doesn't expose its generation.

Exit codes: 0 after SIGTERM, 1 after an error, which it prints, 2 without confluent-kafka.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from kafka_assignors.extras import install

from ..config import MemberConfig
from ..control import Control
from .json_lines import say, text

_BATCH, _POLL_S = 500, 0.1


def settings(config: MemberConfig) -> dict[str, Any]:
    """Librdkafka's configuration. Further settings have its own names, with ``_`` for ``.``."""
    return {
        **config.connection().librdkafka(),
        **config.dotted(),
        **_protocol(config),
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 200,
        **{name.replace("_", "."): value for name, value in config.consumer.items()},
    }


def _protocol(config: MemberConfig) -> dict[str, Any]:
    """The settings of the group's protocol. Those of the other one would make librdkafka refuse the configuration."""
    if config.broker_assigned:
        # A member that is cut off reads on until the coordinator answers again: librdkafka has no session of its own
        # there. By default it waits up to 10 s between attempts to connect.
        return {
            "group.protocol": "consumer",
            "group.remote.assignor": config.assignors[0],
            "reconnect.backoff.max.ms": 1000,
        }
    return {
        "session.timeout.ms": config.session_timeout_ms,
        "heartbeat.interval.ms": config.heartbeat_interval_ms,
        "partition.assignment.strategy": ",".join(config.assignors),
    }


class _Batch:
    """Records that were consumed and not committed yet."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._ends: dict[tuple[str, int], int] = {}

    def add(self, record: Any) -> None:
        place = record.topic(), record.partition()
        self._ends[place] = record.offset() + 1
        key, value = (text(part) for part in (record.key(), record.value()))
        say("record_data", key=key, value=value, topic=place[0], partition=place[1], offset=record.offset())

    def finish(self) -> None:
        """Report that the records were consumed, and commit them."""
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
        KafkaException: The client couldn't recover from it, e.g. from another member with its instance id.
    """
    from confluent_kafka import Consumer

    consumer, control = Consumer(settings(config)), Control()
    control.listen()
    consume(consumer, _subscription(config.topics, config.pattern), _Batch(consumer), stop, control)


def _subscription(topics: Iterable[str], pattern: str | None) -> list[str]:
    """The argument of librdkafka's ``subscribe``: a name with ``^`` is a pattern.

    librdkafka checks it as an extended POSIX expression, without ``(?:``, and the broker resolves it by RE2J. The
    broker wants a match of the whole name; our patterns match from its beginning on, as kafka-python's do.
    """
    return [*topics] if pattern is None else [f"^({pattern.replace('(?:', '(')}).*"]


class RecordHandler(Protocol):
    """Handles a member's records."""

    def add(self, record: Any) -> None:
        """Take a record."""

    def finish(self) -> None:
        """Finish the records taken so far."""


def consume(
    consumer: Any, topics: Sequence[str], batches: RecordHandler, stop: threading.Event, control: Control | None = None
) -> None:
    """Poll until told to stop, finishing each batch, then leave the group. `control` may stall or resubscribe it.

    Raises:
        KafkaException: The client couldn't recover from it.
    """
    from confluent_kafka import KafkaError, KafkaException

    def callback(name: str) -> Any:
        def tell(_consumer: Any, partitions: Iterable[Any]) -> None:
            batches.finish()  # report records before the callback that follows them
            say(name, partitions=[{"topic": tp.topic, "partition": tp.partition} for tp in partitions])

        return tell

    def subscribe(names: Sequence[str]) -> None:
        try:
            consumer.subscribe(
                list(names),
                on_assign=callback("partitions_assigned"),
                on_revoke=callback("partitions_revoked"),
                on_lost=callback("partitions_lost"),
            )
        except KafkaException as error:
            raise KafkaException(
                f"librdkafka refuses to subscribe to {', '.join(names)}: {error}; a pattern must be an extended POSIX "
                "regular expression, such as orders-[0-9]+"
            ) from error

    subscribe(topics)
    say("startup_complete")
    try:
        while not stop.is_set():
            if control is not None:
                _stand_still(control, stop)
                if (wanted := control.subscription()) is not None:
                    subscribe(_subscription(wanted.get("topics", ()), wanted.get("pattern")))
            # Poll single records: a batch of librdkafka's could have records of partitions revoked in the meantime.
            for number in range(_BATCH):
                record = consumer.poll(0 if number else _POLL_S)
                if record is None:
                    break
                if (error := record.error()) is None:
                    batches.add(record)
                # A refused instance id (KIP-848) is told once, by this code without the flag.
                elif error.fatal() or error.code() == KafkaError._FATAL:
                    raise KafkaException(error)
                else:
                    say("error", error=error.name(), message=error.str())
            batches.finish()
    finally:
        consumer.close()
    say("shutdown_complete")


def _stand_still(control: Control, stop: threading.Event) -> None:
    if control.stalls:
        say("stalled")
        while not control.wait_to_poll(_POLL_S) and not stop.is_set():
            pass  # until told to continue or to end
        say("resumed")


def main(argv: Sequence[str], consume_until: Callable[[MemberConfig, threading.Event], None] = run) -> int:
    """Run one member from the configuration file in `argv`. The module lists the exit codes."""
    if len(argv) != 1:
        print("usage: python -m kafka_assignors.integration.members.clients.confluent CONFIG.json", file=sys.stderr)
        return 2
    config = MemberConfig.from_json(Path(argv[0]).read_text("utf-8"))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        from confluent_kafka import KafkaException
    except ImportError:
        print(f"error: confluent-kafka is missing; run: {install('confluent')}", file=sys.stderr)
        return 2
    try:
        consume_until(config, stop)
    except KafkaException as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
