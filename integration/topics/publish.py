"""Publishes a history to a topic, for readers on other machines such as ``pipeline run --events-topic``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from kafka import KafkaProducer
from kafka.errors import KafkaError

from kafka_assignors.connection import Connection

from ..broker.ready import require_broker
from ..errors import HarnessError
from .topics import Topics

_TIMEOUT_S = 60


def publish(bootstrap: str | Connection, topic: str, folder: Path) -> int:
    """Send every line of a folder's ``*.jsonl`` files to a topic, one record each; wait for all acknowledgements.

    A record's key is its file's name, which keeps the events of one source in order; its value is the line. A torn last
    line is left out, as in `History.load`. The producer retries unacknowledged records, so a line may occur twice;
    ``src``, ``member`` and ``seq`` identify it within its run. A topic that doesn't exist is created with one
    partition. Returns the number of lines sent.

    Raises:
        BrokerUnreachable: No broker answers.
        HarnessError: A line isn't accepted; the message names it.
    """
    require_broker(bootstrap)
    with closing(Topics(bootstrap)) as there:
        if not there.counts([topic]):
            there.create({topic: 1})
    with closing(KafkaProducer(**Connection.of(bootstrap).kafka_python(), acks="all", linger_ms=20)) as producer:
        sent = []
        for name, number, line in _lines(folder):
            try:
                sent.append((name, number, producer.send(topic, line, key=name.encode())))
            except KafkaError as error:
                raise _refused(topic, name, number, error) from error
        for name, number, future in sent:
            try:
                future.get(_TIMEOUT_S)
            except KafkaError as error:
                raise _refused(topic, name, number, error) from error
    return len(sent)


def _lines(folder: Path) -> Iterator[tuple[str, int, bytes]]:
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
            yield path.name, number, line


def _refused(topic: str, name: str, number: int, error: KafkaError) -> HarnessError:
    return HarnessError(f"topic {topic!r} rejects {name}:{number}: {type(error).__name__}: {error}")
