"""Many threads, one partitioner: through each client's real producer, and that topics do not wait for each other."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import random
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, get_ident
from typing import Any

import pytest

from kafka_assignors.producers import (
    CheckedPartitioner,
    Counters,
    DefaultPartitioner,
    GeographicPartitioner,
    RandomPartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
    UniformPartitioner,
    aiokafka,
    confluent,
    partition_for_key,
)
from tests.support.producers.clusters import cluster
from tests.support.producers.reading import DEADLINE_S, read_back
from tests.support.producers.sender import producer

THREADS, EACH, PARTITIONS = 4, 600, 6
RULES: dict[str, Callable[..., CheckedPartitioner]] = {
    "roundrobin": RoundRobinPartitioner,
    "default": DefaultPartitioner,
    "uniform": lambda **observing: UniformPartitioner(batch_bytes=500, **observing),
    "sticky": lambda **observing: StickyPartitioner(batch_bytes=500, **observing),
    "geographic": lambda **observing: GeographicPartitioner(lambda leader, record: True, **observing),
}
Placed = dict[bytes, int]
"""value -> partition, as acknowledged."""


def key_of(number: int) -> bytes | None:
    """Every third record has a key."""
    return b"k%d" % number if number % 3 == 0 else None


def in_threads(work: Callable[[range], Placed]) -> Placed:
    """All threads begin at once; each has its own numbers. An exception of any is raised here."""
    together = Barrier(THREADS, timeout=DEADLINE_S)

    def start(thread: int) -> Placed:
        together.wait()
        return work(range(thread * EACH, (thread + 1) * EACH))

    with ThreadPoolExecutor(THREADS) as pool:
        done = [pool.submit(start, thread) for thread in range(THREADS)]
        return {value: partition for each in done for value, partition in each.result(2 * DEADLINE_S).items()}


def with_kafka_python(broker: Any, topic: str, chooser: CheckedPartitioner) -> Placed:
    with producer(broker, chooser, batch_size=400, linger_ms=5) as client:
        if isinstance(chooser, UniformPartitioner):
            chooser.attach(client)

        def send(numbers: range) -> Placed:
            futures = {b"%d" % i: client.send(topic, b"%d" % i, key=key_of(i)) for i in numbers}
            return {value: future.get(DEADLINE_S).partition for value, future in futures.items()}

        return in_threads(send)


def with_confluent(broker: Any, topic: str, chooser: CheckedPartitioner) -> Placed:
    """One producer for all threads; each of them also serves callbacks, whosever they are."""
    client = confluent.PartitioningProducer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5}, chooser)
    placed: Placed = {}

    def heard(error: object, message: Any) -> None:
        assert error is None
        placed[message.value()] = message.partition()

    def send(numbers: range) -> Placed:
        for i in numbers:
            client.produce(topic, b"%d" % i, key_of(i), on_delivery=heard)
            client.poll(0)
        assert client.flush(DEADLINE_S) == 0
        return {}

    in_threads(send)
    return placed


def with_aiokafka(broker: Any, topic: str, chooser: CheckedPartitioner) -> Placed:
    """aiokafka's producers belong to one loop: a loop and a producer a thread, all with one partitioner."""

    async def work(numbers: range) -> Placed:
        client = aiokafka.PartitioningProducer(bootstrap_servers=broker.bootstrap, partitioner=chooser, linger_ms=5)
        async with client:
            sent = await asyncio.gather(*(client.send_and_wait(topic, b"%d" % i, key=key_of(i)) for i in numbers))
        return {b"%d" % i: record.partition for i, record in zip(numbers, sent, strict=True)}

    return in_threads(lambda numbers: asyncio.run(asyncio.wait_for(work(numbers), DEADLINE_S)))


SENT = [
    *((with_kafka_python, rule) for rule in RULES),
    (with_confluent, "uniform"),
    (with_aiokafka, "uniform"),
    # long: each rule and each client is above
    *(
        pytest.param(send, rule, marks=pytest.mark.long)
        for send in (with_confluent, with_aiokafka)
        for rule in RULES
        if rule != "uniform"
    ),
]


@pytest.mark.broker
@pytest.mark.parametrize(("send", "rule"), SENT)
def test_threads_share_a_partitioner_and_each_record_lies_where_it_was_counted(kafka_broker, kafka_topic, send, rule):
    topic, counters = kafka_topic(partitions=PARTITIONS, name=f"threads-{rule}"), Counters()
    placed = send(kafka_broker, topic, RULES[rule](counters=counters))

    assert set(placed) == {b"%d" % i for i in range(THREADS * EACH)}, "every record is acknowledged"
    found = read_back(kafka_broker, topic, THREADS * EACH)
    assert Counter(found) == Counter((p, key_of(int(value)), value) for value, p in placed.items())
    counted = counters.topic(topic)
    assert (counted.records, counted.partitions) == (THREADS * EACH, dict(Counter(placed.values())))
    if rule in ("default", "uniform"):
        keys = {value: key_of(int(value)) for value in placed}
        assert all(placed[v] == partition_for_key(key, PARTITIONS) for v, key in keys.items() if key is not None)
    if rule in ("roundrobin", "geographic"):
        assert counted.partitions == dict.fromkeys(range(PARTITIONS), THREADS * EACH // PARTITIONS)


class Stops(random.Random):
    """A source of random numbers that, in one thread, stops in the middle of a choice until it may go on."""

    def __init__(self) -> None:
        super().__init__(1)
        self.who: int | None = None
        self.stopped, self.may_go_on = Event(), Event()

    def getrandbits(self, k: int) -> int:
        if get_ident() == self.who:
            self.stopped.set()
            assert self.may_go_on.wait(DEADLINE_S)
        return super().getrandbits(k)


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: UniformPartitioner(rng=rng, batch_bytes=1),
        lambda rng: StickyPartitioner(rng=rng, batch_bytes=1),
        lambda rng: RoundRobinPartitioner(rng=rng, random_start=True),
        lambda rng: RandomPartitioner(rng=rng),
    ],
    ids=["uniform", "sticky", "roundrobin", "random"],
)
def test_topics_do_not_wait_for_each_other(make):
    """A thread stands still in the middle of its choice for one topic; another one places a thousand in another."""
    source, metadata = Stops(), cluster({"a": [0] * 6, "b": [0] * 6})
    ours = make(source)

    def place(topic: str, records: int) -> list[int]:
        return [ours.partition(topic, None, None, b"v", b"v", metadata) for _ in range(records)]

    def stand_still() -> list[int]:
        source.who = get_ident()
        return place("a", 1)

    with ThreadPoolExecutor(2) as pool:
        standing = pool.submit(stand_still)
        try:
            assert source.stopped.wait(DEADLINE_S)
            assert len(pool.submit(place, "b", 1000).result(DEADLINE_S)) == 1000
            assert not standing.done()
        finally:
            source.may_go_on.set()
        assert standing.result(DEADLINE_S)[0] in range(6)


def in_child(work: Callable[[], object]) -> int:
    """The exit code of a forked process that does this; it is killed if it does not end in time."""
    child = os.fork()
    if child == 0:
        signal.alarm(DEADLINE_S)
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: UniformPartitioner(batch_bytes=1, **options),
        lambda **options: StickyPartitioner(batch_bytes=1, **options),
    ],
    ids=["uniform", "sticky"],
)
def test_a_forked_process_does_not_wait_for_its_parents_threads(make):
    """A thread of the parent stands still in the middle of a choice when the process is forked."""
    source, metadata, counters = Stops(), cluster({"a": [0] * 6}), Counters()
    ours = make(rng=source, counters=counters)

    def place() -> int:
        return ours.partition("a", None, None, b"v", b"v", metadata)

    def stand_still() -> int:
        source.who = get_ident()
        return place()

    with ThreadPoolExecutor(1) as pool:
        standing = pool.submit(stand_still)
        try:
            assert source.stopped.wait(DEADLINE_S)
            with counters._lock:
                assert in_child(place) == 0
        finally:
            source.may_go_on.set()
        assert standing.result(DEADLINE_S) in range(6)


@pytest.mark.slow
def test_forked_processes_do_not_place_alike():
    """Workers of one server: were all to draw the same, all would fill one partition at a time, together."""
    metadata, ours = cluster({"a": [0] * 1000}), RandomPartitioner()
    reading, writing = os.pipe()

    def place() -> None:
        os.write(writing, b"%d\n" % ours.partition("a", None, None, b"v", b"v", metadata))

    for _ in range(8):
        assert in_child(place) == 0
    os.close(writing)
    placed = os.read(reading, 10_000).split()
    os.close(reading)
    assert len(placed) == 8
    assert len(set(placed)) > 4


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_partitioner_is_not_copied_and_says_why(copied):
    with pytest.raises(
        TypeError, match=r"a RoundRobinPartitioner cannot be copied .* make one in the process that sends"
    ):
        copied(RoundRobinPartitioner())
