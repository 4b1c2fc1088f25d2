"""A whole `send` with our partitioners, beside the same client with its own."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaProducer
from kafka.partitioner import DefaultPartitioner as KafkaPythonDefault

from kafka_assignors.integration.broker import start_broker
from kafka_assignors.producers import DefaultPartitioner
from kafka_assignors.producers.aiokafka import KeyPartitioner
from kafka_assignors.producers.aiokafka import PartitioningProducer as AioPartitioningProducer
from kafka_assignors.producers.confluent import PartitioningProducer

from .result import Result, in_turns

_TOPIC = "send"
_VALUE = b"v" * 100
_KEYS = [b"user-%015d" % (i * 7919 % 5000) for i in range(5000)]
_DEADLINE_S = 60


class Cost(NamedTuple):
    """What one record took, in us: on the clock until the last acknowledgement, and CPU time of all our threads."""

    wall: float
    cpu: float


def run(quick: bool) -> Iterator[Result]:
    """``CLIENT/FORM``: wall time per record until all are acknowledged; ``…/cpu``: CPU time of the process.

    100 bytes, one of 5,000 seen keys, 12 partitions, ``acks=1``.
    """
    records, rounds = (5_000, 3) if quick else (20_000, 15)
    with start_broker() as broker:
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
            admin.create_topics({_TOPIC: {"num_partitions": 12, "replication_factor": 1}})
            admin.wait_for_topics([_TOPIC])
        for name, ours, peer, whose in _pairs(broker.bootstrap):
            yield from _results(name, lambda: ours(records), lambda: peer(records), rounds, whose)  # noqa: B023


Send = Callable[[int], Cost]


def _pairs(bootstrap: str) -> Iterator[tuple[str, Send, Send, str]]:
    """Name, ours, the peer, and what the peer is."""
    yield (
        "kafka-python",
        lambda n: _kafka_python(bootstrap, DefaultPartitioner(), n),
        lambda n: _kafka_python(bootstrap, KafkaPythonDefault(), n),
        "kafka-python DefaultPartitioner",
    )
    settings = {"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}

    def librdkafka(records: int) -> Cost:
        return _confluent(lambda: Producer({**settings, "partitioner": "murmur2_random"}), records)

    for form, null_keys in (("chosen-in-python", "uniform"), ("twin", "random")):
        yield (
            f"confluent-kafka/{form}",
            lambda n, how=null_keys: _confluent(  # type: ignore[misc]
                lambda: PartitioningProducer(settings, DefaultPartitioner(null_keys=how)), n
            ),
            librdkafka,
            "librdkafka murmur2_random",
        )

    def aiokafka(records: int) -> Cost:
        return asyncio.run(_aiokafka(AIOKafkaProducer, bootstrap, {}, records))

    yield (
        "aiokafka/function",
        lambda n: asyncio.run(_aiokafka(AIOKafkaProducer, bootstrap, {"partitioner": KeyPartitioner()}, n)),
        aiokafka,
        "aiokafka DefaultPartitioner",
    )
    yield (
        "aiokafka/producer",
        lambda n: asyncio.run(_aiokafka(AioPartitioningProducer, bootstrap, {"partitioner": DefaultPartitioner()}, n)),
        aiokafka,
        "aiokafka DefaultPartitioner",
    )


def _results(
    name: str, ours: Callable[[], Cost], peer: Callable[[], Cost], rounds: int, whose: str
) -> Iterator[Result]:
    cpu: dict[str, list[float]] = {"ours": [], "peer": []}

    def both(who: str, measure: Callable[[], Cost]) -> float:
        cost = measure()
        cpu[who].append(cost.cpu)
        return cost.wall

    value, peer_value, raw = in_turns(lambda: both("ours", ours), lambda: both("peer", peer), rounds)
    yield Result(name, value, "us/record", whose, peer_value, _spread(raw), raw)
    medians = (statistics.median(cpu[who]) for who in ("ours", "peer"))
    yield Result(f"{name}/cpu", next(medians), "us/record", whose, next(medians), _spread(cpu), cpu)


def _spread(raw: dict[str, list[float]]) -> str:
    """The middle half of the ratios of neighbours."""
    ratios = [theirs / ours for ours, theirs in zip(raw["ours"], raw["peer"], strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    return f"middle half of {len(ratios)} pairs: {low:.2f} to {high:.2f}"


class _Clock:
    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def per(self, records: int) -> Cost:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return Cost(wall / records * 1e6, cpu / records * 1e6)


def _kafka_python(bootstrap: str, partitioner: Any, records: int) -> Cost:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks=1, linger_ms=20, partitioner=partitioner, metrics_enabled=False
    )
    with closing(producer):
        for key in _KEYS:  # connections, metadata, and keys seen once
            producer.send(_TOPIC, _VALUE, key=key)
        producer.flush(_DEADLINE_S)
        clock = _Clock()
        for i in range(records):
            producer.send(_TOPIC, _VALUE, key=_KEYS[i % len(_KEYS)])
        producer.flush(_DEADLINE_S)
        return clock.per(records)


def _confluent(make: Callable[[], Producer], records: int) -> Cost:
    producer = make()
    for key in _KEYS:
        producer.produce(_TOPIC, _VALUE, key)
    _flushed(producer)
    clock = _Clock()
    for i in range(records):
        producer.produce(_TOPIC, _VALUE, _KEYS[i % len(_KEYS)])
    _flushed(producer)
    return clock.per(records)


def _flushed(producer: Producer) -> None:
    left = producer.flush(_DEADLINE_S)
    if left:
        raise TimeoutError(f"{left} records were not acknowledged within {_DEADLINE_S} s")


async def _aiokafka(kind: Any, bootstrap: str, options: dict[str, Any], records: int) -> Cost:
    async with kind(bootstrap_servers=bootstrap, acks=1, linger_ms=20, **options) as producer:
        for key in _KEYS:
            await producer.send(_TOPIC, _VALUE, key)
        await asyncio.wait_for(producer.flush(), _DEADLINE_S)
        clock = _Clock()
        for i in range(records):
            await producer.send(_TOPIC, _VALUE, _KEYS[i % len(_KEYS)])
        await asyncio.wait_for(producer.flush(), _DEADLINE_S)
        return clock.per(records)
