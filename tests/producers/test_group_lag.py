"""`GroupLag` on a real broker: a slow consumer's partition gets fewer records; old lag and refused rights are told."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from contextlib import closing
from typing import Any, ClassVar

import pytest
from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.errors import GroupAuthorizationFailedError, KafkaTimeoutError, NotCoordinatorError
from kafka.structs import OffsetAndTimestamp

from benchmarks.residence import consuming
from kafka_assignors.producers import ConfigError, UniformPartitioner, aiokafka, confluent, group_lag
from kafka_assignors.producers.group_lag import GroupLag
from tests.support.producers.sender import producer
from tests.support.waiting import until

FAST_S, SLOW_S = 0.002, 0.008
DEADLINE_S = 90


@pytest.mark.broker
def test_the_partition_of_a_slow_consumer_gets_less_than_half_its_share(kafka_broker, kafka_topic):
    """One of four consumers needs four times as long. Lag-aware and plain KIP-794 place the same number of records."""
    topic, group = kafka_topic(partitions=4), "slow-consumer"
    speeds = {0: SLOW_S, 1: FAST_S, 2: FAST_S, 3: FAST_S}
    with (
        consuming(kafka_broker.bootstrap, topic, group, speeds, lambda *_: None),
        GroupLag(group, interval_s=0.2, window_s=5, bootstrap_servers=kafka_broker.bootstrap) as lag,
        producer(kafka_broker, UniformPartitioner(lag=lag, batch_bytes=1, seed=1)) as aware,
        producer(kafka_broker, UniformPartitioner(batch_bytes=1, seed=1)) as plain,
    ):
        latest: deque[int] = deque(maxlen=400)
        everywhere: Counter[int] = Counter()
        deadline = time.monotonic() + DEADLINE_S
        while len(latest) < 400 or latest.count(0) > 400 / 4 / 2:
            assert time.monotonic() < deadline, f"{Counter(latest)} of the latest 400 records; {lag(topic)}"
            sent = [(aware.send(topic, b"v" * 100), plain.send(topic, b"v" * 100)) for _ in range(50)]
            latest += [theirs.get(DEADLINE_S).partition for theirs, _ in sent]
            everywhere.update(other.get(DEADLINE_S).partition for _, other in sent)
        reading = lag(topic)
    assert reading.drain_s[0] > max(reading.drain_s[p] for p in (1, 2, 3))
    assert everywhere[0] / everywhere.total() == pytest.approx(1 / 4, abs=0.1), "KIP-794 does not see consumers"
    assert set(latest) == {0, 1, 2, 3}, "the slow one gets some"


@pytest.mark.broker
def test_lag_is_the_group_s_and_ends_with_its_thread(kafka_broker, kafka_topic):
    topic, group = kafka_topic(partitions=2), "lag-of-two"
    with (
        producer(kafka_broker, UniformPartitioner(seed=1)) as sending,
        closing(KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap)) as admin,
        GroupLag(group, interval_s=0.05, window_s=1, bootstrap_servers=kafka_broker.bootstrap) as lag,
    ):
        for partition in (0, 0, 0, 1):
            sending.send(topic, b"v", partition=partition).get(DEADLINE_S)
        assert lag(topic) is None
        at = {TopicPartition(topic, p): OffsetAndMetadata(offset, "", -1) for p, offset in ((0, 1), (1, 1))}
        admin.alter_group_offsets(group, at)
        until(lambda: (seen := lag(topic)) is not None and seen.drain_s.get(0), "drain time of partition 0")
        assert lag(topic).drain_s[1] == 0.0, "it has no lag"
        assert lag("another") is None
    assert not lag._thread.is_alive()
    assert lag(topic) is not None, "the last reading stays: its time tells that it is old"


@pytest.mark.broker
def test_every_client_sends_fewer_records_to_a_partition_that_nobody_consumes(kafka_broker, kafka_topic):
    topic = kafka_topic(partitions=4)
    lag = {(topic, p): math.inf if p == 0 else 0.0 for p in range(4)}
    make = lambda: UniformPartitioner(lag=lag, adaptive=False, batch_bytes=1, seed=1)
    placed: dict[str, list[int]] = {"kafka-python": [], "confluent": [], "aiokafka": []}
    with producer(kafka_broker, make()) as sending:
        futures = [sending.send(topic, b"v") for _ in range(300)]
        placed["kafka-python"] = [future.get(DEADLINE_S).partition for future in futures]
    native = confluent.PartitioningProducer({"bootstrap.servers": kafka_broker.bootstrap}, make())
    for _ in range(300):
        native.produce(topic, b"v", on_delivery=lambda _, message: placed["confluent"].append(message.partition()))
    native.flush(DEADLINE_S)

    async def send() -> None:
        async with aiokafka.PartitioningProducer(bootstrap_servers=kafka_broker.bootstrap, partitioner=make()) as other:
            futures = [await other.send(topic, b"v") for _ in range(300)]
            placed["aiokafka"] = [(await future).partition for future in futures]

    asyncio.run(send())
    for client, partitions in placed.items():
        assert len(partitions) == 300, client
        assert 0 <= partitions.count(0) < 300 / 4 / 2, client
        assert {1, 2, 3} <= set(partitions), client


class Admin:
    """A `KafkaAdminClient` that follows a script: an exception, or {partition: (committed, end)} of topic ``t``."""

    made: ClassVar[list[Admin]] = []
    script: ClassVar[list[Any]] = []

    def __init__(self, **settings):
        self.closed = False
        Admin.made.append(self)

    def list_group_offsets(self, group):
        assert not self.closed
        self.now = Admin.script.pop(0) if len(Admin.script) > 1 else Admin.script[0]
        if isinstance(self.now, Exception):
            raise self.now
        return {group: {TopicPartition("t", p): OffsetAndMetadata(at, "", -1) for p, (at, _) in self.now.items()}}

    def list_partition_offsets(self, asked):
        return {tp: OffsetAndTimestamp(self.now[tp.partition][1], 0, None) for tp in asked}

    def close(self):
        self.closed = True


@pytest.fixture
def admin(monkeypatch):
    """Sets the script; gives the clients that were made."""
    monkeypatch.setattr(group_lag, "KafkaAdminClient", Admin)
    monkeypatch.setattr(Admin, "made", [])

    def scripted(*script):
        monkeypatch.setattr(Admin, "script", list(script))
        return Admin.made

    return scripted


def quick_lag():
    return GroupLag("g", interval_s=0.01, window_s=5)


def test_a_failed_sample_opens_another_connection_and_sampling_goes_on(admin, caplog):
    """kafka-python's admin client asks the first coordinator for ever, also after that has moved."""
    made = admin(NotCoordinatorError(), NotCoordinatorError(), {0: (5, 9)}, {0: (7, 9)})
    with quick_lag() as lag:
        lag("t")
        until(lambda: (seen := lag("t")) is not None and seen.drain_s.get(0), "drain time of partition 0")
    assert [each.closed for each in made] == [True] * 3
    assert caplog.messages == [], "a coordinator that moves is no news"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            GroupAuthorizationFailedError(),
            "its user lacks the permission Describe on Group g; an administrator can grant it",
        ),
        (KafkaTimeoutError("no route"), "offsets committed by the group are unknown: KafkaTimeoutError"),
        ({}, "it has committed no offset, or its user lacks the permission Describe on Topic t"),
    ],
)
def test_what_lasts_is_told_once(admin, answer, says, caplog, monkeypatch):
    admin(answer)
    monkeypatch.setattr(group_lag, "_LONGEST_PAUSE_S", 0.01)
    with quick_lag() as lag:
        lag("t")
        until(lambda: caplog.messages, "a warning")
        before = len(Admin.made) + lag._unseen["t"]
        until(lambda: len(Admin.made) + lag._unseen["t"] > before + 5, "more samples")
        assert lag("t") is None
    (told,) = caplog.messages
    assert says in told


def test_arguments_are_checked_before_anything_is_reached():
    for given, says in (
        ({"group": ""}, "group must be the id"),
        ({"group": "g", "interval_s": 0}, "interval_s must be a number above 0"),
        ({"group": "g", "interval_s": 1, "window_s": 3}, "must span several samples"),
    ):
        with pytest.raises(ConfigError, match=says):
            GroupLag(**given)
