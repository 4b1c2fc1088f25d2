"""Placement by where leaders are and how they do, on three brokers in three racks that stall, die and come back.

Whatever happens, every record is acknowledged in the end, and lies where its producer was told.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack, closing
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions

from kafka_assignors.producers import (
    DefaultPartitioner,
    ExplicitPartitioner,
    GeographicPartitioner,
    RoundRobinPartitioner,
    UniformPartitioner,
    partition_for_key,
)
from tests.support.producers.reading import read_back
from tests.support.producers.sender import producer
from tests.support.producers.shares import DEADLINE_S, lie, share
from tests.support.waiting import until

pytestmark = pytest.mark.broker
# Ended brokers are noticed soon, and a record waits for its new leader.
PATIENT = {"request_timeout_ms": 5000, "retry_backoff_ms": 100, "metadata_max_age_ms": 1000, "linger_ms": 5}


def send(sending: Any, topic: str, numbers: range) -> list[int]:
    """The partitions of records without a key, acknowledged."""
    futures = [sending.send(topic, b"%0100d" % i) for i in numbers]
    return [future.get(DEADLINE_S).partition for future in futures]


@pytest.mark.release("test_cluster.py places on three brokers")
def test_a_broker_dies_and_what_was_acknowledged_lies_where_it_was_said(cluster, kafka_cluster_topic):
    """Retries stay on the record's partition; a keyed record's partition is the key's, whoever leads it."""
    keyed, unkeyed = (kafka_cluster_topic(partitions=6, name="dies") for _ in range(2))
    patient = {"enable_idempotence": True, **PATIENT}
    with (
        producer(cluster, DefaultPartitioner(), **patient) as hashing,
        producer(cluster, RoundRobinPartitioner(), **patient) as turning,
    ):
        by_key, in_turn = [], []
        for i in range(900):
            by_key.append(hashing.send(keyed, b"%0100d" % i, key=b"k%d" % i))
            in_turn.append(turning.send(unkeyed, b"%0100d" % i))
            if i == 300:
                hashing.flush(DEADLINE_S)
                cluster.nodes[1].kill()
        hashed, turned = ([future.get(DEADLINE_S).partition for future in futures] for futures in (by_key, in_turn))

    assert hashed == [partition_for_key(b"k%d" % i, 6) for i in range(900)]
    assert lie(cluster, keyed, hashed)
    assert lie(cluster, unkeyed, turned)


@pytest.mark.long  # long: waits for a stalled broker; partitioners/test_adaptive.py has the shares
@pytest.mark.source("KIP-794")
def test_a_stalled_broker_gets_less_than_half_its_share_and_more_again_afterwards(cluster, kafka_cluster_topic):
    """Node 3 leads a third of the partitions and freezes while the others go on acknowledging."""
    topic = kafka_cluster_topic(placed=[[1], [2], [3]] * 2, name="stalls")
    theirs, said = {2, 5}, []
    chooser = UniformPartitioner(
        batch_bytes=500, seed=3, on_choice=lambda topic, key, partition: said.append(partition)
    )
    with producer(cluster, chooser, batch_size=500, linger_ms=0) as sending:
        chooser.attach(sending)
        placed = send(sending, topic, range(600))
        before = share(placed, theirs)
        during, others = [], []
        cluster.nodes[2].pause()
        try:
            for i in range(600, 3000):
                during.append(sending.send(topic, b"%0100d" % i))
                if said[-1] not in theirs:
                    others.append(during[-1])
                if i % 40 == 39:
                    until(lambda: all(future.is_done for future in others), "the others acknowledge", DEADLINE_S)
        finally:
            cluster.nodes[2].resume()  # closing the producer waits for what it has
        placed += [future.get(DEADLINE_S).partition for future in during]
        until(lambda: all(chooser.pending_bytes(topic, p) == 0 for p in range(6)), "no backlog is left", DEADLINE_S)
        placed += send(sending, topic, range(3000, 4200))

    assert before > 1 / 6
    assert share(placed[600:3000], theirs) < 1 / 6
    assert share(placed[3000:], theirs) > 1 / 6
    assert lie(cluster, topic, placed)


@pytest.mark.long  # long: waits for a stalled broker; partitioners/test_adaptive.py has the shares
@pytest.mark.source("KIP-794, partitioner.availability.timeout.ms")
def test_a_leader_that_is_late_gets_nothing_until_it_acknowledges_again(cluster, kafka_cluster_topic):
    """Node 3 freezes: once its oldest record is three seconds old it is left out, and back with its first answer.

    The other nodes answer in less, on a busy machine, too.
    """
    late_s = 3.0
    topic, theirs, sent = kafka_cluster_topic(placed=[[1], [2], [3]] * 2, name="late"), {2, 5}, []
    said: list[int] = []
    chooser = UniformPartitioner(
        batch_bytes=100,
        availability_timeout_ms=1000 * late_s,
        seed=7,
        on_choice=lambda topic, key, partition: said.append(partition),
    )
    with producer(cluster, chooser, linger_ms=0) as sending:
        chooser.attach(sending)

        def place(records: int) -> set[int]:
            """Where so many records go; all but node 3 acknowledge theirs."""
            begin = len(sent)
            where = []
            for i in range(begin, begin + records):
                sent.append(sending.send(topic, b"%0100d" % i))
                where.append(said[-1])
            until(
                lambda: all(f.is_done for f, p in zip(sent[begin:], where, strict=True) if p not in theirs),
                "the others acknowledge",
                DEADLINE_S,
            )
            return set(where)

        until(lambda: place(60) & theirs, "node 3 gets its share", DEADLINE_S)
        cluster.nodes[2].pause()
        try:
            until(lambda: place(60) & theirs, "a record waits for node 3", DEADLINE_S)
            began = time.monotonic()
            until(lambda: place(60) and time.monotonic() - began > late_s, "it is late", DEADLINE_S)
            until(lambda: not place(60) & theirs, "the stay on its partition ends", DEADLINE_S)
            assert not place(600) & theirs
        finally:
            cluster.nodes[2].resume()
        until(lambda: place(60) & theirs, "node 3 is back", DEADLINE_S)
        placed = [future.get(DEADLINE_S).partition for future in sent]
    assert lie(cluster, topic, placed)


@pytest.mark.long  # long: a second death; the first test has one, partitioners/test_uniform.py has racks
@pytest.mark.source("KIP-1123")
def test_records_go_to_leaders_in_the_rack_and_elsewhere_when_they_die(cluster, kafka_cluster_topic):
    """Node 2 is rack b: it leads two partitions of six, and then nothing."""
    choosers = {"rack": UniformPartitioner(batch_bytes=500, rack="b", seed=5), "geo": GeographicPartitioner("b")}
    topics = {name: kafka_cluster_topic(placed=[[1, 2, 3], [2, 3, 1], [3, 1, 2]] * 2, name=name) for name in choosers}
    placed: dict[str, list[int]] = {}
    with ExitStack() as stack:
        patient = {"enable_idempotence": True, **PATIENT}
        sending = {name: stack.enter_context(producer(cluster, each, **patient)) for name, each in choosers.items()}
        for name, topic in topics.items():
            placed[name] = send(sending[name], topic, range(600))
            assert set(placed[name]) == {1, 4}, name
            assert 0.35 < share(placed[name], {1}) < 0.65, name
        cluster.nodes[1].kill()
        for name, topic in topics.items():
            placed[name] += send(sending[name], topic, range(600, 900))
            after = send(sending[name], topic, range(900, 1500))
            assert set(after) == set(range(6)), f"{name}: with no leader in rack b all partitions are as good"
            placed[name] += after

    for name, topic in topics.items():
        assert lie(cluster, topic, placed[name]), name


def test_a_partition_added_a_moment_ago_is_found(kafka_cluster, kafka_cluster_topic):
    """The producer has seen two partitions; a record names the fourth."""
    topic = kafka_cluster_topic(partitions=2, name="grows")
    chooser = ExplicitPartitioner(lambda topic, key, value: int(key), policy="refresh", refresh_timeout_ms=20_000)
    with producer(kafka_cluster, chooser, metadata_max_age_ms=300_000) as sending:
        assert sending.send(topic, b"old", key=b"1").get(DEADLINE_S).partition == 1
        with closing(KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap)) as admin:
            admin.create_partitions({topic: NewPartitions(total_count=4)})
        assert sending.send(topic, b"new", key=b"3").get(DEADLINE_S).partition == 3
    assert Counter(read_back(kafka_cluster, topic, 2)) == Counter([(1, b"1", b"old"), (3, b"3", b"new")])
