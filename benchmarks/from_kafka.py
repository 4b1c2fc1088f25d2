"""`report run` over topics whose records all have distinct keys, read from a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.topics import create_topics

from .distinct import WARM, measured
from .result import Result, WrongAnswer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES = (1_000_000, 3_000_000, 10_000_000)
_PARTITIONS = {"orders": 12, "payments": 6, "audit": 3}
_COUNTS = (12, 24)
_VALUE = b"v" * 84


def run(quick: bool) -> Iterator[Result]:
    """``from-kafka-N``: all tables of N records with N distinct keys of 16 bytes, as `report run` writes them.

    Each size has its own session; CPU and memory include the broker's. The quick form is the first size.
    """
    before: Result | None = None
    with start_broker("jvm") as broker:
        _fill(broker.bootstrap, WARM)
        for size in SIZES[:1] if quick else SIZES:
            _fill(broker.bootstrap, size)
            before = measured(f"from-kafka-{size // 1_000_000}m", size, before, partial(_written, broker.bootstrap))
            yield before


def _topics(size: int) -> dict[str, int]:
    return {f"{name}-{size}": count for name, count in _PARTITIONS.items()}


def _fill(bootstrap: str, size: int) -> None:
    """Send `size` records with distinct keys to the topics of this size, as librdkafka places them."""
    topics = _topics(size)
    create_topics(bootstrap, topics)
    names = [name for name, count in topics.items() for _ in range(count)]
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for n in range(size):
        while True:
            try:
                producer.produce(names[n % len(names)], _VALUE, b"customer-%07d" % n)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def _written(bootstrap: str, spark: SparkSession, size: int) -> dict[str, int]:
    """Write all tables of the topics of this size, and check their counts."""
    from kafka_assignors.pipeline.progress import Progress
    from kafka_assignors.pipeline.run import RunOptions, write_run, written
    from kafka_assignors.pipeline.sources.snapshot import Source

    with TemporaryDirectory(prefix="from-kafka-") as out:
        snapshot = Source(bootstrap, list(_topics(size))).snapshot()
        options = RunOptions(out=out, run_id="run", reference="librdkafka", counts=_COUNTS)
        records = write_run(spark, bootstrap, snapshot, options, Progress())["rows"]["records"]
        keys = written(spark, out, "partition_keys").agg({"keys": "sum"}).collect()[0][0]
    if (records, keys) != (size, size):
        raise WrongAnswer(f"{records} records and {keys} keys of {size}")
    return {"records": records}
