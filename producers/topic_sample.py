"""The first keys of a topic, read without a group; with progress on stderr."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

from kafka_assignors.connection import Connection, Right, missing_codec, needing, require_cluster
from kafka_assignors.errors import ClusterError
from kafka_assignors.extras import install
from kafka_assignors.output import going_on, is_quiet

from .core.audit import PlacedKey
from .errors import ClientMissing, NoPartitions

TIMEOUT_S = 30
BOOTSTRAP_TIMEOUT_S = 10

_Bounds = Mapping[int, tuple[int, int]]
"""partition -> (first offset, offset after the last one to read)."""

_Piece = tuple[int, int, list[bytes]]
"""(partition, position after it, keys): some consecutive records."""


class Sample(NamedTuple):
    """The first records of each partition of a topic.

    Offsets count records, also those that compaction removed, and the markers of transactions.
    """

    partitions: int
    placed_keys: Counter[PlacedKey]  # how many records of a key lie on a partition, in the order of reading
    read: int  # offsets
    offsets: int  # of the whole topic


def read_sample(connection: Connection, topic: str, most: int) -> Sample:
    """Read the first `most` offsets of each partition.

    kafka-python reads them; records that it has no codec for are read by confluent-kafka if that is installed.

    Raises:
        ClusterError: No broker answers.
        ConfigError: The records' codec needs a package, which the message names.
        NoPartitions: There is no such topic, or a partition stays silent for `TIMEOUT_S`.
        AccessRefused: The user may not read the topic.
    """
    with needing(connection, Right("Read", "Topic", topic)), closing(_consumer(connection)) as consumer:
        begin, end = _offsets(consumer, connection, topic)
        bounds = {p: (begin[p], min(end[p], begin[p] + most)) for p in begin}
        try:
            placed_keys = _collected(topic, bounds, _by_kafka_python(consumer, topic, bounds))
        except Exception as error:
            if (lacking := missing_codec(error)) is None:
                raise
            if importlib.util.find_spec("confluent_kafka") is None:
                other = f"or install confluent-kafka, which reads every codec: {install('confluent')}"
                raise ClientMissing(f"topic {topic!r}: {lacking}; {other}") from error
            placed_keys = _collected(topic, bounds, _by_confluent(connection, topic, bounds))
    read = sum(last - first for first, last in bounds.values())
    return Sample(len(bounds), placed_keys, read, sum(end[p] - begin[p] for p in begin))


def _consumer(connection: Connection) -> Any:
    try:
        require_cluster(connection, BOOTSTRAP_TIMEOUT_S)
    except ClusterError as problem:
        raise _silent(connection, problem) from problem

    from kafka import KafkaConsumer
    from kafka.errors import KafkaTimeoutError

    try:
        return KafkaConsumer(
            **connection.kafka_python(), bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_S * 1000, enable_auto_commit=False,
            group_id=None, metrics_enabled=False,
        )  # fmt: skip
    except KafkaTimeoutError as problem:
        raise _silent(connection, problem) from problem


def _silent(connection: Connection, problem: Exception) -> ClusterError:
    return ClusterError(
        f"--bootstrap {str(connection)!r}: no broker answered; is one running there, and is this host:port? ({problem})"
    )


def _offsets(consumer: Any, connection: Connection, topic: str) -> tuple[dict[int, int], dict[int, int]]:
    """First offset and end offset per partition."""
    from kafka import TopicPartition

    # List all topics: asking for one by name creates it if the broker auto-creates topics.
    if topic not in consumer.topics() or not (ids := consumer.partitions_for_topic(topic)):
        _require_visible(connection, topic)
        raise NoPartitions(f"topic {topic!r} is not in the cluster's metadata; is the name right?")
    partitions = [TopicPartition(topic, p) for p in sorted(ids)]
    begin, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    return {tp.partition: begin[tp] for tp in partitions}, {tp.partition: end[tp] for tp in partitions}


def _require_visible(connection: Connection, topic: str) -> None:
    """Raise if the topic exists but is hidden: a consumer reports it as absent, the admin client as unauthorized."""
    from kafka import KafkaAdminClient
    from kafka.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError

    with closing(KafkaAdminClient(**connection.kafka_python())) as admin, suppress(UnknownTopicOrPartitionError):
        if admin.describe_topics([topic])[0]["error_code"] == TopicAuthorizationFailedError.errno:
            raise TopicAuthorizationFailedError(topic)


def _collected(topic: str, bounds: _Bounds, pieces: Iterator[_Piece]) -> Counter[PlacedKey]:
    placed_keys: Counter[PlacedKey] = Counter()
    reached = {p: first for p, (first, _) in bounds.items()}
    begun = sum(reached.values())
    with _progress(f"reading {topic}", sum(last for _, last in bounds.values()) - begun) as tell:
        for partition, position, keys in pieces:
            placed_keys.update((partition, key) for key in keys)
            reached[partition] = min(position, bounds[partition][1])
            tell(sum(reached.values()) - begun)
    return placed_keys


def _by_kafka_python(consumer: Any, topic: str, bounds: _Bounds) -> Iterator[_Piece]:
    from kafka import TopicPartition

    until = {TopicPartition(topic, p): last for p, (_, last) in bounds.items()}
    consumer.assign(list(until))
    consumer.seek_to_beginning(*until)
    patience = _Patience()
    while any(consumer.position(tp) < last for tp, last in until.items()):
        batches = consumer.poll(timeout_ms=500)
        patience.spend(bool(batches))
        for tp, batch in batches.items():
            keys = [record.key for record in batch if record.key is not None and record.offset < until[tp]]
            yield tp.partition, batch[-1].offset + 1, keys


def _by_confluent(connection: Connection, topic: str, bounds: _Bounds) -> Iterator[_Piece]:
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    settings = {
        **connection.librdkafka(),
        "group.id": "kafka-assignors-keys",  # librdkafka wants one; it is neither joined nor committed to
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_uncommitted",  # as kafka-python's default
        "log_level": 0,
    }
    waiting = {p: last for p, (first, last) in bounds.items() if first < last}
    patience = _Patience()
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, p, bounds[p][0]) for p in waiting])
        while waiting:
            messages = consumer.consume(1000, 0.5)
            patience.spend(bool(messages))
            for message in messages:
                partition, error = message.partition(), message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED or error.retriable():
                        continue  # no right on the group is needed to read
                    raise KafkaException(error)
                if partition not in waiting:
                    continue
                last, offset = waiting[partition], message.offset()
                key = message.key() if error is None and offset < last else None
                yield partition, offset + 1, [] if key is None else [key]
                if error is not None or offset + 1 >= last:
                    del waiting[partition]
                    consumer.incremental_unassign([TopicPartition(topic, partition)])


class _Patience:
    """Raises `NoPartitions` if nothing arrived for `TIMEOUT_S`."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + TIMEOUT_S

    def spend(self, arrived: bool) -> None:
        if arrived:
            self._deadline = time.monotonic() + TIMEOUT_S
        elif time.monotonic() > self._deadline:
            raise NoPartitions(f"no record arrived for {TIMEOUT_S} s; are all partitions' leaders up?")


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show on stderr how much is done: a bar on a terminal, else a line each `TOLD_EVERY_S`."""
    if is_quiet():
        yield lambda _: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
            task = shown.add_task(what, total=total)
            yield lambda done: shown.update(task, completed=done)
    else:
        last = deque([0], maxlen=1)
        with going_on(what, lambda: f"{last[0]:,} of {total:,} offsets"):
            yield last.append
