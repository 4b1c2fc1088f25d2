"""The same keys through every client and through Java's own producer, on three brokers in three racks.

Everything is read back and compared record by record: what counts is where a record lies, not what a producer says.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewPartitions
from scipy.stats import chisquare

from kafka_assignors.integration.broker.cluster import Cluster
from kafka_assignors.integration.broker.java import LiveJava
from kafka_assignors.producers import DefaultPartitioner, RoundRobinPartitioner, aiokafka, confluent, partition_for_key
from tests.support.producers.naive import NaiveRoundRobin
from tests.support.producers.reading import read_back
from tests.support.producers.sender import producer

pytestmark = pytest.mark.broker
DEADLINE_S = 120
LARGEST = 3 << 20
"""Bytes of a request, for a key of 1 MiB."""


def keys(many: int) -> list[bytes | None]:
    """Different keys: empty, text in several scripts, every byte, every length from 1 to 64, 1 MiB; 50 nulls."""
    rng = random.Random(17)
    found = [b"", "ключ".encode(), "中文键".encode(), "🔑".encode(), bytes(range(256)), bytes(range(128, 256)), b"\x00"]
    found += [rng.randbytes(size) for size in (257, 300, 1000, 5000, 1 << 20)]
    found += [bytes(rng.choices(range(128, 256), k=size)) for size in range(2, 65)]  # Java's bytes are signed
    found += [rng.randbytes(size) for size in range(3, 65)]
    found += [f"пользователь-{i}".encode() for i in range(300)]
    found += [b"user-%d" % i for i in range(many - len(found))]
    assert len(set(found)) == len(found) == many
    return [*found, *[None] * 50]


def with_kafka_python(bootstrap: str, topic: str, sent: list[bytes | None], value: bytes) -> list[int]:
    """Partitions, as acknowledged."""
    client = KafkaProducer(
        bootstrap_servers=bootstrap, partitioner=DefaultPartitioner(), linger_ms=5, max_request_size=LARGEST
    )
    with closing(client):
        futures = [client.send(topic, value, key=key) for key in sent]
        return [future.get(DEADLINE_S).partition for future in futures]


def with_confluent(bootstrap: str, topic: str, sent: list[bytes | None], value: bytes) -> list[int]:
    placed = [-1] * len(sent)
    config = {"bootstrap.servers": bootstrap, "linger.ms": 5, "message.max.bytes": LARGEST}
    client = confluent.PartitioningProducer(config, DefaultPartitioner())
    for i, key in enumerate(sent):

        def heard(error: object, message: Any, i: int = i) -> None:
            assert error is None
            placed[i] = message.partition()

        client.produce(topic, value, key, on_delivery=heard)
    assert client.flush(DEADLINE_S) == 0
    return placed


def with_aiokafka(bootstrap: str, topic: str, sent: list[bytes | None], value: bytes) -> list[int]:
    async def work() -> list[int]:
        client = aiokafka.PartitioningProducer(
            bootstrap_servers=bootstrap.split(","), partitioner=DefaultPartitioner(), linger_ms=5,
            max_request_size=LARGEST, request_timeout_ms=1000 * DEADLINE_S,
        )  # fmt: skip
        await client.start()
        try:
            futures = [await client.send(topic, value, key) for key in sent]
            return [(await future).partition for future in futures]
        finally:
            await client.stop()

    return asyncio.run(asyncio.wait_for(work(), DEADLINE_S))


def with_java(java: LiveJava, bootstrap: str, topic: str, sent: list[bytes | None], value: bytes) -> None:
    """By one call of Java's own producer: a call per record would take longer than the rest of the test."""
    lang, util = java.classes.java.lang, java.classes.java.util
    record = java.classes.org.apache.kafka.clients.producer.ProducerRecord
    records = util.ArrayList([record(topic, key, value) for key in sent])
    with closing(java.producer(bootstrap, acks="all", linger_ms=5, max_request_size=LARGEST)) as client:
        named = lang.Class.forName
        signature = lang.invoke.MethodType.methodType(
            named("java.util.concurrent.Future"), named("org.apache.kafka.clients.producer.ProducerRecord")
        )
        send = lang.invoke.MethodHandles.publicLookup().findVirtual(client.getClass(), "send", signature).bindTo(client)
        records.forEach(lang.invoke.MethodHandleProxies.asInterfaceInstance(named("java.util.function.Consumer"), send))


def grow(cluster: Cluster, topic: str, partitions: int) -> None:
    """More partitions, and every broker knows of them and their leaders."""
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
        admin.create_partitions({topic: NewPartitions(total_count=partitions)})
    for bootstrap in cluster.bootstrap.split(","):
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            deadline = time.monotonic() + DEADLINE_S
            while True:
                (described,) = admin.describe_topics([topic])
                if sum(p["leader_id"] >= 0 for p in described["partitions"]) == partitions:
                    break
                assert time.monotonic() < deadline, f"{bootstrap} knows {described}"


@pytest.mark.source("Java's producer 4.3.0 places alike, also after 6 -> 9 partitions")
# long: more keys of one kind; all kinds are among the first thousand
@pytest.mark.parametrize("many", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_every_client_places_every_key_as_java_does_also_when_the_topic_grew(
    many, kafka_cluster, kafka_cluster_topic, kafka_java
):
    topic = kafka_cluster_topic(partitions=6, name="keys", replicas=1, configs={"max.message.bytes": str(LARGEST)})
    sent, bootstrap = keys(many), kafka_cluster.bootstrap
    clients = {
        "kafka-python": (with_kafka_python, sent),
        "confluent-kafka": (with_confluent, sent),
        "aiokafka": (with_aiokafka, sent[::5]),  # the slowest by far
    }
    acknowledged: dict[str, tuple[list[bytes | None], list[int]]] = {}
    for partitions in (6, 9):
        if partitions > 6:
            grow(kafka_cluster, topic, partitions)
        for client, (produce, theirs) in clients.items():
            name = f"{client} on {partitions}"
            acknowledged[name] = theirs, produce(bootstrap, topic, theirs, name.encode())
        with_java(kafka_java, bootstrap, topic, sent, b"java on %d" % partitions)
        acknowledged[f"java on {partitions}"] = sent, []

    found: dict[str, dict[bytes | None, list[int]]] = {}
    for partition, key, value in read_back(
        kafka_cluster, topic, sum(len(theirs) for theirs, _ in acknowledged.values())
    ):
        found.setdefault(value.decode(), {}).setdefault(key, []).append(partition)
    assert set(found) == set(acknowledged)
    for name, (theirs, told) in acknowledged.items():
        partitions, placed = int(name.split()[-1]), found[name]
        nulls = placed.pop(None)
        assert len(nulls) == theirs.count(None), name
        assert set(nulls) <= set(range(partitions)), name
        keyed = [key for key in theirs if key is not None]
        assert placed == {key: [partition_for_key(key, partitions)] for key in keyed}, name
        assert placed == {key: found[f"java on {partitions}"][key] for key in keyed}, name
        if told:
            said = [partition for key, partition in zip(theirs, told, strict=True) if key is not None]
            assert said == [placed[key][0] for key in keyed], name
    assert {partition for (partition,) in found["java on 9"].values()} == set(range(9))


@pytest.mark.long  # long: test_broker.py sends the same to one broker; the number of brokers does not count
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
