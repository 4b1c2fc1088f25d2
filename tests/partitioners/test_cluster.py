"""The same keys through every client and through Java's own producer, on three brokers in three racks.

Everything is read back and compared record by record: what counts is where a record lies, not what a producer says.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaProducer
from scipy.stats import chisquare

from integration.java import LiveJava
from producers import DefaultPartitioner, RoundRobinPartitioner, aiokafka, confluent, partition_for_key

from .naive import NaiveRoundRobin
from .reading import read_back
from .test_broker import producer

pytestmark = pytest.mark.broker
DEADLINE_S = 60


def keys() -> list[bytes]:
    """1,200 different keys: empty, text in several scripts, every byte, long ones, every length from 1 to 64."""
    rng = random.Random(17)
    found = [b"", "ключ".encode(), "中文键".encode(), "🔑".encode(), bytes(range(256)), bytes(range(128, 256)), b"\x00"]
    found += [rng.randbytes(size) for size in (257, 300, 1000, 5000)]
    found += [bytes(rng.choices(range(128, 256), k=size)) for size in range(2, 65)]  # Java's bytes are signed
    found += [rng.randbytes(size) for size in range(3, 65)]
    found += [f"пользователь-{i}".encode() for i in range(300)]
    found += [b"user-%d" % i for i in range(1200 - len(found))]
    assert len(set(found)) == len(found) == 1200
    return found


def with_kafka_python(bootstrap: str, topic: str, sent: list[bytes]) -> dict[bytes, int]:
    """key -> partition, as acknowledged."""
    with closing(KafkaProducer(bootstrap_servers=bootstrap, partitioner=DefaultPartitioner(), linger_ms=5)) as client:
        futures = {key: client.send(topic, b"kafka-python", key=key) for key in sent}
        return {key: future.get(DEADLINE_S).partition for key, future in futures.items()}


def with_confluent(bootstrap: str, topic: str, sent: list[bytes]) -> dict[bytes, int]:
    placed = {}

    def heard(error: object, message: Any) -> None:
        assert error is None
        placed[message.key() or b""] = message.partition()

    client = confluent.PartitioningProducer({"bootstrap.servers": bootstrap, "linger.ms": 5}, DefaultPartitioner())
    for key in sent:
        client.produce(topic, b"confluent-kafka", key, on_delivery=heard)
    assert client.flush(DEADLINE_S) == 0
    return placed


def with_aiokafka(bootstrap: str, topic: str, sent: list[bytes]) -> dict[bytes, int]:
    async def work() -> dict[bytes, int]:
        servers = bootstrap.split(",")
        client = aiokafka.PartitioningProducer(bootstrap_servers=servers, partitioner=DefaultPartitioner(), linger_ms=5)
        await client.start()
        try:
            futures = {key: await client.send(topic, b"aiokafka", key) for key in sent}
            return {key: (await future).partition for key, future in futures.items()}
        finally:
            await client.stop()

    return asyncio.run(asyncio.wait_for(work(), DEADLINE_S))


def with_java(java: LiveJava, bootstrap: str, topic: str, sent: list[bytes]) -> dict[bytes, int]:
    record = java.classes.org.apache.kafka.clients.producer.ProducerRecord
    client = java.producer(bootstrap, acks="all", linger_ms=5)
    try:
        futures = {key: client.send(record(topic, key, b"java")) for key in sent}
        return {key: future.get().partition() for key, future in futures.items()}
    finally:
        client.close()


@pytest.mark.parametrize("partitions", [7, 12])
def test_every_client_places_every_key_as_java_does(kafka_cluster, kafka_cluster_topic, kafka_java, partitions):
    topic, sent = kafka_cluster_topic(partitions=partitions, name="keys"), keys()
    acknowledged = {
        "kafka-python": with_kafka_python(kafka_cluster.bootstrap, topic, sent),
        "confluent-kafka": with_confluent(kafka_cluster.bootstrap, topic, sent),
        "aiokafka": with_aiokafka(kafka_cluster.bootstrap, topic, sent),
        "java": with_java(kafka_java, kafka_cluster.bootstrap, topic, sent),
    }

    placed: dict[str, dict[bytes, int]] = {client: {} for client in acknowledged}
    for partition, key, value in read_back(kafka_cluster, topic, len(placed) * len(sent)):
        assert key not in placed[value.decode()], "a record lies there twice"
        placed[value.decode()][key] = partition
    assert placed == acknowledged
    assert placed == dict.fromkeys(placed, placed["java"])
    assert placed["java"] == {key: partition_for_key(key, partitions) for key in sent}
    assert set(placed["java"].values()) == set(range(partitions))


@pytest.mark.source("KAFKA-9965")
@pytest.mark.parametrize("wait_for_each", [True, False], ids=["sync", "async"])
def test_300_records_on_6_partitions_are_50_each_over_three_brokers(kafka_cluster, kafka_cluster_topic, wait_for_each):
    """The control of the sync form shows the bug; async batches hide it now and then."""
    counts = {}
    for name, chooser in (("naive", NaiveRoundRobin()), ("ours", RoundRobinPartitioner())):
        topic = kafka_cluster_topic(partitions=6, name=f"rr-{name}")
        with producer(kafka_cluster, chooser) as sending:
            for i in range(300):
                future = sending.send(topic, b"%d" % i)
                if wait_for_each:
                    future.get(DEADLINE_S)
            sending.flush(DEADLINE_S)
        counts[name] = Counter(partition for partition, _, _ in read_back(kafka_cluster, topic, 300))

    assert counts["ours"] == dict.fromkeys(range(6), 50)
    if wait_for_each:
        assert counts["naive"] == {1: 100, 3: 100, 5: 100}
    else:
        assert counts["naive"] != counts["ours"]


class Draws(random.Random):
    """A seeded source that keeps what it gave: one draw per stay."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drawn: list[int] = []

    def getrandbits(self, k: int) -> int:
        self.drawn.append(super().getrandbits(k))
        return self.drawn[-1]


@pytest.mark.source("KIP-794")
def test_uniform_spreads_over_all_partitions_within_two_percent(kafka_cluster, kafka_cluster_topic):
    """Each stay is two records of about 100 bytes: 4,000 changes of partition."""
    topic, draws, records = kafka_cluster_topic(partitions=6, name="uniform"), Draws(794), 8000
    with producer(kafka_cluster, DefaultPartitioner("uniform", batch_bytes=100, rng=draws), linger_ms=5) as sending:
        futures = [sending.send(topic, b"%0100d" % i) for i in range(records)]
        for future in futures:
            future.get(DEADLINE_S)
    found = read_back(kafka_cluster, topic, records)

    assert sorted(value for _, _, value in found) == [b"%0100d" % i for i in range(records)]
    assert len(draws.drawn) >= 1000
    assert chisquare(list(Counter(draw % 6 for draw in draws.drawn).values())).pvalue > 0.001
    shares = {partition: count / records for partition, count in Counter(p for p, _, _ in found).items()}
    assert max(abs(shares.get(p, 0) - 1 / 6) for p in range(6)) < 0.02, shares
