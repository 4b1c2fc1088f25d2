"""aiokafka's real producer on a real broker, records placed by our partitioners and read back."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import numpy as np
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError
from kafka.admin import NewPartitions

from kafka_assignors.producers import (
    ConfigError,
    Counters,
    DefaultPartitioner,
    ExplicitPartitioner,
    GeographicPartitioner,
    InvalidPartition,
    KeyHashPartitioner,
    RoundRobinPartitioner,
    UniformPartitioner,
    UnknownName,
    UnknownPartition,
    partition_for_key,
)
from kafka_assignors.producers.aiokafka import KeyPartitioner, PartitioningProducer
from tests.support.producers.reading import DEADLINE_S, read_back

pytestmark = pytest.mark.broker
KEYS = [b"", "ключ".encode(), bytes(range(256)), b"x" * 300, *(b"user-%d" % i for i in range(1000))]


def run(broker, work, producer=PartitioningProducer, **options):
    """What `work` gives with a started producer."""

    async def all_of_it():
        sending = producer(bootstrap_servers=broker.bootstrap, **options)
        await sending.start()
        try:
            return await asyncio.wait_for(work(sending), DEADLINE_S)
        finally:
            await sending.stop()

    return asyncio.run(all_of_it())


def send_keys(topic):
    async def work(sending):
        for future in [await sending.send(topic, b"v", key) for key in KEYS]:
            await future

    return work


@pytest.mark.parametrize("preset", ["java", "sarama"])
@pytest.mark.parametrize("how", ["function", "wrapper"])
def test_keys_lie_where_the_preset_says(kafka_broker, kafka_topic, preset, how):
    topic = kafka_topic(partitions=7, name=f"aio-{preset}")
    if how == "function":
        run(kafka_broker, send_keys(topic), AIOKafkaProducer, partitioner=KeyPartitioner(preset))
    else:
        run(kafka_broker, send_keys(topic), partitioner=KeyHashPartitioner(preset))
    placed = {key: partition for partition, key, _ in read_back(kafka_broker, topic, len(KEYS))}
    assert placed == {key: partition_for_key(key, 7, preset) for key in KEYS}


def test_the_function_sorts_and_keeps_records_without_a_key_off_leaderless_partitions():
    place = KeyPartitioner(seed=1)
    assert {place(b"kafka", order, order) for order in ([2, 0, 1], [0, 1, 2], [1, 2, 0])} == {
        partition_for_key(b"kafka", 3)
    }
    assert {place(None, [0, 1, 2, 3], [3, 1]) for _ in range(100)} == {1, 3}
    assert {place(None, [1, 0], []) for _ in range(100)} == {0, 1}
    assert {KeyPartitioner("librdkafka", seed=1)(b"", [0, 1, 2], [2]) for _ in range(10)} == {2}
    with pytest.raises(UnknownName, match="unknown preset"):
        KeyPartitioner("nobody")


def test_round_robin_is_exact_from_many_tasks(kafka_broker, kafka_topic):
    topic = kafka_topic(partitions=6)

    async def work(sending):
        await asyncio.gather(*(sending.send_and_wait(topic, b"%d" % i) for i in range(300)))

    run(kafka_broker, work, partitioner=RoundRobinPartitioner())
    assert Counter(p for p, _, _ in read_back(kafka_broker, topic, 300)) == dict.fromkeys(range(6), 50)


def test_the_partitioner_sees_what_was_given_and_the_broker_gets_what_was_serialized(kafka_broker, kafka_topic):
    topic, seen = kafka_topic(partitions=6), []

    async def work(sending):
        return await sending.send_and_wait(topic, {"partition": 4}, key="k")

    chooser = ExplicitPartitioner(lambda *record: seen.append(record) or record[2]["partition"])
    placed = run(
        kafka_broker, work, partitioner=chooser, key_serializer=str.encode, value_serializer=lambda v: repr(v).encode()
    )
    assert placed.partition == 4
    assert seen == [(topic, b"k", {"partition": 4})]
    assert read_back(kafka_broker, topic, 1) == [(4, b"k", b"{'partition': 4}")]


def test_backlog_is_counted_until_it_is_acknowledged(kafka_broker, kafka_topic):
    topic, uniform = kafka_topic(partitions=3), UniformPartitioner(batch_bytes=500)

    async def work(sending):
        futures = [await sending.send(topic, b"v" * 100) for _ in range(100)]
        waiting = sum(uniform.pending_bytes(topic, p) for p in range(3))
        await asyncio.gather(*futures)
        await asyncio.sleep(0)  # callbacks of futures run in the loop's next round
        return waiting, sum(uniform.pending_bytes(topic, p) for p in range(3))

    before, after = run(kafka_broker, work, partitioner=uniform, linger_ms=50)
    assert before > 0 == after


def test_an_added_partition_is_found_by_refresh_and_an_absent_one_raises_in_time(
    kafka_broker, kafka_admin, kafka_topic
):
    topic = kafka_topic(partitions=2)
    chooser = ExplicitPartitioner(lambda _t, _k, value: int(value), policy="refresh", refresh_timeout_ms=3000)

    async def work(sending):
        await sending.send_and_wait(topic, b"1")
        await asyncio.to_thread(kafka_admin.create_partitions, {topic: NewPartitions(total_count=5)})
        placed = await sending.send_and_wait(topic, b"4")
        with pytest.raises(UnknownPartition, match=r"returned 99 .*0\.\.4; waited 3 s"):
            await sending.send(topic, b"99")
        return placed.partition

    assert run(kafka_broker, work, partitioner=chooser) == 4


@pytest.mark.parametrize("answer", [6, None])
def test_a_wrong_answer_raises_from_send(kafka_broker, kafka_topic, answer):
    topic = kafka_topic(partitions=6)

    async def work(sending):
        with pytest.raises(InvalidPartition, match=rf"'explicit' returned {answer!r}.*{topic!r}.*0\.\.5"):
            await sending.send(topic, b"v")
        with pytest.raises(InvalidPartition, match=r"'send\(partition=...\)' returned 6"):
            await sending.send(topic, b"v", partition=6)
        assert (await sending.send_and_wait(topic, b"v", partition=5)).partition == 5

    run(kafka_broker, work, partitioner=ExplicitPartitioner(lambda *_: answer, policy="error"))


def test_what_is_no_partitioner_is_refused():
    with pytest.raises(ConfigError, match="partitioner must be a partitioner of this package"):
        PartitioningProducer(partitioner=DefaultPartitioner)


def test_sticky_records_without_a_key_use_all_partitions(kafka_broker, kafka_topic):
    """aiokafka reports no batches: the partition changes after a batch of bytes."""
    topic = kafka_topic(partitions=4)

    async def work(sending):
        await asyncio.gather(*[await sending.send(topic, b"v" * 100) for _ in range(3000)])

    run(kafka_broker, work, partitioner=DefaultPartitioner("sticky", seed=1))
    counts = Counter(partition for partition, _, _ in read_back(kafka_broker, topic, 3000))
    assert set(counts) == set(range(4))
    assert max(counts.values()) < 1500, "324,000 bytes are 20 batches"


def test_refresh_asks_for_metadata_a_few_times_a_second(kafka_broker, kafka_topic):
    topic, asked = kafka_topic(partitions=2), []

    async def work(sending):
        force = sending.client.force_metadata_update
        sending.client.force_metadata_update = lambda: asked.append(time.monotonic()) or force()
        with pytest.raises(UnknownPartition):
            await sending.send(topic, b"99")

    chooser = ExplicitPartitioner(lambda *_: 99, policy="refresh", refresh_timeout_ms=1000)
    run(kafka_broker, work, partitioner=GeographicPartitioner("nowhere", fallback=chooser))
    # ten a second, after the client has asked three times at once as it met the topic
    assert 1 < len(asked) <= 3 + 10 * (asked[-1] - asked[0])


@pytest.mark.source("KAFKA-9965")
def test_records_that_are_refused_or_cancelled_leave_no_trace(kafka_broker, kafka_topic):
    """Too large; or cancelled while they wait for a batch to be sent: round robin goes on as if there had been none."""
    topic, counters, chosen = kafka_topic(partitions=4), Counters(), []

    async def work(sending):
        for i in range(20):
            with pytest.raises(MessageSizeTooLargeError):
                await sending.send(topic, b"v" * 5000)
            await sending.send_and_wait(topic, b"%d" % i)
        tasks = [asyncio.create_task(sending.send(topic, b"v" * 100)) for _ in range(80)]
        while len(chosen) < 2 * 20 + 80:
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        futures = [future for future in ended if not isinstance(future, BaseException)]
        for i in range(100 - 20 - len(futures)):
            futures.append(await sending.send(topic, b"%d" % i))
        await asyncio.gather(*futures)
        return sum(isinstance(future, asyncio.CancelledError) for future in ended)

    chooser = RoundRobinPartitioner(counters=counters, on_choice=lambda *choice: chosen.append(choice))
    cancelled = run(kafka_broker, work, partitioner=chooser, max_batch_size=300, max_request_size=4000)
    assert cancelled > 20, "none waited for room: this test shows nothing"
    assert Counter(p for p, _, _ in read_back(kafka_broker, topic, 100)) == dict.fromkeys(range(4), 25)
    assert (counters.topic(topic).records, counters.topic(topic).partitions) == (100, dict.fromkeys(range(4), 25))


def test_a_partition_is_named_by_any_kind_of_integer_but_not_by_true(kafka_broker, kafka_topic):
    topic = kafka_topic(partitions=6)

    async def work(sending):
        with pytest.raises(InvalidPartition, match=r"returned True \(bool\)"):
            await sending.send(topic, b"v", partition=True)
        return (await sending.send_and_wait(topic, b"v", partition=np.int64(5))).partition

    assert run(kafka_broker, work) == 5
