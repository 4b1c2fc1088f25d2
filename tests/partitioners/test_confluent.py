"""confluent-kafka's real producer on a real broker, records placed by our partitioners and read back."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest
from confluent_kafka import KafkaException, Producer
from kafka.admin import NewPartitions

from producers import (
    ConfigError,
    Counters,
    DefaultPartitioner,
    ExplicitPartitioner,
    InvalidPartition,
    KeyHashPartitioner,
    NoPartitions,
    RandomPartitioner,
    RoundRobinPartitioner,
    UniformPartitioner,
    UnknownPartition,
    partition_for_key,
)
from producers.confluent import PartitioningProducer, native_twin

from .reading import DEADLINE_S, read_back, read_whole

pytestmark = pytest.mark.broker
KEYS = [b"", "ключ".encode(), bytes(range(256)), b"x" * 300, *(b"user-%d" % i for i in range(1000))]


@pytest.fixture
def make(kafka_broker):
    """Producers of ours on the broker; all they sent is acknowledged at the end."""
    made = []

    def producer(partitioner=None, settings=None, **options):
        config = {"bootstrap.servers": kafka_broker.bootstrap, "linger.ms": 5, **(settings or {})}
        made.append(PartitioningProducer(config, partitioner, **options))
        return made[-1]

    yield producer
    for each in made:
        assert each.flush(DEADLINE_S) == 0


@pytest.mark.parametrize("preset", ["java", "sarama-reference", "consistent"])
def test_keys_lie_where_the_preset_says(kafka_broker, kafka_topic, make, preset):
    topic = kafka_topic(partitions=7, name=f"preset-{preset}")
    sending = make(KeyHashPartitioner(preset))
    assert sending.native is None
    for key in KEYS:
        sending.produce(topic, b"v", key)
    sending.flush(DEADLINE_S)
    placed = {key: partition for partition, key, _ in read_back(kafka_broker, topic, len(KEYS))}
    assert placed == {key: partition_for_key(key, 7, preset) for key in KEYS}


@pytest.mark.parametrize("preset", ["java", "librdkafka", "sarama"])
def test_the_native_twin_places_like_python(kafka_broker, kafka_topic, make, preset):
    topic = kafka_topic(partitions=7, name=f"twin-{preset}")
    native = make(KeyHashPartitioner(preset, "random"))
    assert native.native == native_twin(KeyHashPartitioner(preset, "random")) is not None
    ours = make(KeyHashPartitioner(preset, "random", counters=Counters()))
    assert ours.native is None
    keys = [key for key in KEYS if key]
    for sending in (native, ours):
        for key in keys:
            sending.produce(topic, b"v", key)
        for _ in range(350):
            sending.produce(topic, b"null")
        for _ in range(350):
            sending.produce(topic, b"empty", b"")
        sending.flush(DEADLINE_S)
    records = read_back(kafka_broker, topic, 2 * (len(keys) + 700))
    placed = Counter((key, partition) for partition, key, value in records if value == b"v")
    assert placed == {(key, partition_for_key(key, 7, preset)): 2 for key in keys}
    nulls = Counter(partition for partition, _, value in records if value == b"null")
    assert set(nulls) == set(range(7)), "records without a key go everywhere"
    empties = {partition for partition, _, value in records if value == b"empty"}
    assert empties == (set(range(7)) if preset == "librdkafka" else {partition_for_key(b"", 7, preset)})
    assert native.cluster.asked == 0


def test_only_partitioners_that_say_it_all_have_a_twin():
    assert native_twin(RandomPartitioner()) == "random"
    assert native_twin(DefaultPartitioner("random")) == "murmur2_random"
    for python in (
        DefaultPartitioner(),
        DefaultPartitioner("random", seed=1),
        RandomPartitioner(on_choice=print),
        RandomPartitioner(counters=Counters()),
        KeyHashPartitioner("java", "random", modulus=3),
        KeyHashPartitioner("java", "random", hot_share=0.1),
        KeyHashPartitioner("sarama-reference", "random"),
        RoundRobinPartitioner(),
        UniformPartitioner(),
    ):
        assert native_twin(python) is None


def test_round_robin_is_exact_from_four_threads_and_asks_for_metadata_once(kafka_broker, kafka_topic, make):
    topic, together = kafka_topic(partitions=6), threading.Barrier(4, timeout=30)
    sending = make(RoundRobinPartitioner())

    def send():
        together.wait()
        for _ in range(300):
            sending.produce(topic, b"v")

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    sending.flush(DEADLINE_S)
    assert Counter(p for p, _, _ in read_back(kafka_broker, topic, 1200)) == dict.fromkeys(range(6), 200)
    assert sending.cluster.asked == 1


def test_callbacks_headers_and_explicit_partitions_are_untouched(kafka_broker, kafka_topic, make):
    topic, heard = kafka_topic(partitions=6), []
    by_key = partition_for_key(b"key", 6)
    other = (by_key + 1) % 6
    sending = make(UniformPartitioner())
    sending.produce(topic, "text", "key", on_delivery=lambda error, message: heard.append((error, message)))
    sending.produce(topic, b"v", partition=other, headers=[("h", b"1")], callback=lambda *report: heard.append(report))
    sending.flush(DEADLINE_S)
    assert [error for error, _ in heard] == [None, None]
    by_partition = {message.partition(): message for _, message in heard}
    assert set(by_partition) == {other, by_key}
    headers = {record.partition: record.headers for record in read_whole(kafka_broker, topic, 2)}
    assert [(name, value) for name, value in headers[other]] == [("h", b"1")]


def test_backlog_is_counted_until_it_is_acknowledged(kafka_topic, make):
    topic, uniform = kafka_topic(partitions=3), UniformPartitioner(batch_bytes=500)
    sending = make(uniform)
    for _ in range(100):
        sending.produce(topic, b"v" * 100)
    assert sum(uniform.pending_bytes(topic, p) for p in range(3)) == 10_000, "nothing is acknowledged before poll"
    sending.flush(DEADLINE_S)
    assert [uniform.pending_bytes(topic, p) for p in range(3)] == [0, 0, 0]


def test_an_added_partition_is_found_by_refresh_and_an_absent_one_raises_in_time(kafka_admin, kafka_topic, make):
    topic, heard = kafka_topic(partitions=2), []
    sending = make(ExplicitPartitioner(lambda _t, _k, value: int(value), policy="refresh", refresh_timeout_ms=5000))
    sending.produce(topic, b"1")
    kafka_admin.create_partitions({topic: NewPartitions(total_count=5)})
    sending.produce(topic, b"4", on_delivery=lambda error, message: heard.append((error, message.partition())))
    sending.flush(DEADLINE_S)
    assert heard == [(None, 4)]
    hasty = make(ExplicitPartitioner(lambda *_: 99, policy="refresh", refresh_timeout_ms=300))
    began = time.monotonic()
    with pytest.raises(UnknownPartition, match=r"answered 99 .*0\.\.4; waited 0\.3 s"):
        hasty.produce(topic, b"v")
    assert 0.3 <= time.monotonic() - began < 5


def test_growth_is_noticed_when_metadata_is_old(kafka_admin, kafka_topic, make):
    topic = kafka_topic(partitions=2)
    sending = make(RoundRobinPartitioner(), metadata_max_age_ms=200)
    sending.produce(topic, b"v")
    kafka_admin.create_partitions({topic: NewPartitions(total_count=5)})
    used, deadline = set(), time.monotonic() + DEADLINE_S
    while used != set(range(5)):
        assert time.monotonic() < deadline, f"only {used} are used"
        sending.produce(topic, b"v", on_delivery=lambda error, message: used.add(message.partition()))
        sending.poll(0.05)


@pytest.mark.parametrize("answer", [6, None])
def test_a_wrong_answer_raises_from_produce(kafka_topic, make, answer):
    topic = kafka_topic(partitions=6)
    with pytest.raises(InvalidPartition, match=rf"'explicit' answered {answer!r}.*{topic!r}.*0\.\.5"):
        make(ExplicitPartitioner(lambda *_: answer, policy="error")).produce(topic, b"v")


def test_a_topic_that_is_not_there_is_named_and_an_unreachable_cluster_is_told(make):
    with pytest.raises(NoPartitions, match="topic 'no-such-topic' is not in the cluster's metadata"):
        make(metadata_timeout_ms=500).produce("no-such-topic", b"v", b"k")
    nowhere = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    with pytest.raises(KafkaException):
        PartitioningProducer(nowhere, metadata_timeout_ms=500).produce("t", b"v", b"k")


def test_arguments_are_checked_and_it_is_a_producer(make):
    assert isinstance(make(), Producer)
    with pytest.raises(ConfigError, match="config names partitioner='random'"):
        make(settings={"partitioner": "random"})
    with pytest.raises(ConfigError, match="partitioner must be a partitioner of this package"):
        make(RoundRobinPartitioner)
    with pytest.raises(ConfigError, match="metadata_max_age_ms must be a number above 0, not 0"):
        make(metadata_max_age_ms=0)
