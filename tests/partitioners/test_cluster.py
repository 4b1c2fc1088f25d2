"""The same keys through kafka-python and through Java's own producer, on three brokers in three racks.

Everything is read back and compared record by record: what counts is where a record lies, not what a producer says.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from scipy.stats import chisquare

from producers import DefaultPartitioner, RoundRobinPartitioner, partition_for_key

from .naive import NaiveRoundRobin
from .test_broker import producer, read_back

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


@pytest.mark.parametrize("partitions", [7, 12])
def test_python_and_java_place_every_key_alike(kafka_cluster, kafka_cluster_topic, kafka_java, partitions):
    topic, sent = kafka_cluster_topic(partitions=partitions, name="keys"), keys()
    with producer(kafka_cluster, DefaultPartitioner(), linger_ms=5) as ours:
        told = {key: ours.send(topic, b"python", key=key) for key in sent}
        acknowledged = {"python": {key: future.get(DEADLINE_S).partition for key, future in told.items()}}
    theirs = kafka_java.producer(kafka_cluster.bootstrap, acks="all", linger_ms=5)
    try:
        record = kafka_java.classes.org.apache.kafka.clients.producer.ProducerRecord
        futures = {key: theirs.send(record(topic, key, b"java")) for key in sent}
        acknowledged["java"] = {key: future.get().partition() for key, future in futures.items()}
    finally:
        theirs.close()

    placed: dict[str, dict[bytes, int]] = {"python": {}, "java": {}}
    for partition, key, value in read_back(kafka_cluster, topic, 2 * len(sent)):
        assert key not in placed[value.decode()], "a record lies there twice"
        placed[value.decode()][key] = partition
    assert placed == acknowledged
    assert placed["python"] == placed["java"] == {key: partition_for_key(key, partitions) for key in sent}
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
