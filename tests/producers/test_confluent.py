"""confluent-kafka's real producer on a real broker, records placed by our partitioners and read back."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.error import KeySerializationError, ValueSerializationError
from confluent_kafka.serialization import StringSerializer
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, NewPartitions, ResourcePattern, ResourceType
from kafka.partitioner import DefaultPartitioner as KafkaPythonDefault

from kafka_assignors.integration.broker import start_broker
from kafka_assignors.producers import (
    PRESETS,
    ConfigError,
    Counters,
    DefaultPartitioner,
    ExplicitPartitioner,
    InvalidPartition,
    KeyHashPartitioner,
    NoPartitions,
    NotAuthorized,
    RandomPartitioner,
    RoundRobinPartitioner,
    UniformPartitioner,
    UnknownPartition,
    partition_for_key,
)
from kafka_assignors.producers.confluent import PartitioningProducer, native_twin
from tests.support.producers.reading import DEADLINE_S, read_back, read_whole
from tests.support.waiting import finished, until

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


LIBRDKAFKAS = [
    f"librdkafka-{name}{random}" for name in ("consistent", "murmur2", "fnv1a") for random in ("", "-random")
]


@pytest.mark.parametrize("preset", ["java", "librdkafka", "sarama", *LIBRDKAFKAS])
def test_the_native_twin_places_like_python(kafka_broker, kafka_topic, make, preset):
    topic = kafka_topic(partitions=7, name=f"twin-{preset}")
    native = make(KeyHashPartitioner(preset, "random"))
    assert native.native == native_twin(KeyHashPartitioner(preset, "random")) is not None
    assert isinstance(native, PartitioningProducer)
    assert type(native).produce is Producer.produce, "a twin costs no call through Python"
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
    everywhere, like_empty = set(range(7)), {partition_for_key(b"", 7, preset)}
    assert set(nulls) == (like_empty if PRESETS[preset].null_is_empty else everywhere)
    empties = {partition for partition, _, value in records if value == b"empty"}
    assert empties == (everywhere if PRESETS[preset].empty_is_null else like_empty)
    assert native.cluster.asked == 0


def test_only_partitioners_that_say_it_all_have_a_twin():
    assert native_twin(RandomPartitioner()) == "random"
    assert native_twin(DefaultPartitioner("random")) == "murmur2_random"
    assert native_twin(KeyHashPartitioner("librdkafka-murmur2")) == "murmur2", "null_keys changes nothing"
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
    sending.produce(
        topic, b"v", partition=np.int64(other), headers=[("h", b"1")], callback=lambda *report: heard.append(report)
    )
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


@pytest.mark.parametrize("named", [int, np.int64])
def test_an_added_partition_is_found_by_refresh_and_an_absent_one_raises_in_time(kafka_admin, kafka_topic, make, named):
    topic, heard = kafka_topic(partitions=2), []
    sending = make(ExplicitPartitioner(lambda _t, _k, value: named(value), policy="refresh", refresh_timeout_ms=5000))
    sending.produce(topic, b"1")
    kafka_admin.create_partitions({topic: NewPartitions(total_count=5)})
    sending.produce(topic, b"4", on_delivery=lambda error, message: heard.append((error, message.partition())))
    sending.flush(DEADLINE_S)
    assert heard == [(None, 4)]
    hasty = make(ExplicitPartitioner(lambda *_: 99, policy="refresh", refresh_timeout_ms=300))
    with pytest.raises(UnknownPartition, match=r"returned 99 .*0\.\.4; waited 0\.3 s"):
        finished(lambda: hasty.produce(topic, b"v"), within_s=20)


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
    with pytest.raises(InvalidPartition, match=rf"'explicit' returned {answer!r}.*{topic!r}.*0\.\.5"):
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


def test_sticky_records_without_a_key_use_all_partitions(kafka_broker, kafka_topic, make):
    """librdkafka reports no batches: the partition changes after a batch of bytes."""
    topic, sending = kafka_topic(partitions=4), make(DefaultPartitioner("sticky", seed=1))
    for _ in range(3000):
        sending.produce(topic, b"v" * 100)
    sending.flush(DEADLINE_S)
    counts = Counter(partition for partition, _, _ in read_back(kafka_broker, topic, 3000))
    assert set(counts) == set(range(4))
    assert max(counts.values()) < 1500, "324,000 bytes are 20 batches"


@pytest.mark.source("KAFKA-9965")
@pytest.mark.parametrize("rule", [RoundRobinPartitioner, lambda **o: ExplicitPartitioner(lambda *_: None, **o)])
def test_round_robin_stays_exact_when_the_queue_is_full_and_a_record_is_sent_again(
    kafka_broker, kafka_topic, make, rule
):
    topic, counters, refused = kafka_topic(partitions=4), Counters(), 0
    sending = make(rule(counters=counters), {"queue.buffering.max.messages": 5})
    for i in range(300):
        while True:
            try:
                sending.produce(topic, b"%d" % i)
                break
            except BufferError:
                refused += 1
                sending.poll(0.02)
    sending.flush(DEADLINE_S)
    assert refused > 20, "the queue was never full: this test shows nothing"
    assert Counter(p for p, _, _ in read_back(kafka_broker, topic, 300)) == dict.fromkeys(range(4), 75)
    assert (counters.topic(topic).records, counters.topic(topic).partitions) == (300, dict.fromkeys(range(4), 75))


def test_a_configured_on_delivery_hears_of_every_record_though_backlog_is_counted(kafka_topic, make):
    topic, heard, own, uniform = kafka_topic(partitions=3), [], [], UniformPartitioner(batch_bytes=500)
    sending = make(uniform, {"on_delivery": lambda error, message: heard.append((error, message.value()))})
    for i in range(20):
        sending.produce(topic, b"%d" % i, partition=i % 3 if i % 4 == 0 else -1)
    sending.produce(topic, b"own", on_delivery=lambda error, message: own.append(message.value()))
    sending.flush(DEADLINE_S)
    assert sorted(heard) == sorted((None, b"%d" % i) for i in range(20))
    assert own == [b"own"]


def test_backlog_ends_though_only_errors_are_reported(kafka_topic, make):
    """What the user wants to hear is one thing, what the partitioner has to hear another."""
    topic, heard, uniform = kafka_topic(partitions=3), [], UniformPartitioner(batch_bytes=500)
    settings = {"delivery.report.only.error": True, "linger.ms": 200}
    sending = make(uniform, {**settings, "on_delivery": lambda error, message: heard.append(error)})
    for _ in range(50):
        sending.produce(topic, b"v" * 100)
    assert sum(uniform.pending_bytes(topic, p) for p in range(3)) == 5000
    sending.flush(DEADLINE_S)
    assert sum(uniform.pending_bytes(topic, p) for p in range(3)) == 0
    assert heard == []
    own = []
    sending.produce(topic, b"lost", on_delivery=lambda error, message: own.append(error.code()))
    sending.produce(topic, b"lost", partition=1)
    sending.purge()
    sending.flush(DEADLINE_S)
    assert own == [KafkaError._PURGE_QUEUE]
    assert [error.code() for error in heard] == [KafkaError._PURGE_QUEUE]
    assert sum(uniform.pending_bytes(topic, p) for p in range(3)) == 0


@pytest.mark.parametrize("null_keys", ["uniform", "random"])
def test_a_batch_is_placed_record_by_record(kafka_broker, kafka_topic, make, null_keys):
    """`random` is librdkafka's own partitioner, `uniform` ours."""
    topic, sending = kafka_topic(partitions=7), make(DefaultPartitioner(null_keys))
    assert (sending.native is None) == (null_keys == "uniform")
    heard = []
    messages = [{"key": key, "value": b"v"} for key in KEYS]
    assert sending.produce_batch(topic, messages, on_delivery=lambda *report: heard.append(report)) == len(KEYS)
    sending.flush(DEADLINE_S)
    placed = {key: partition for partition, key, _ in read_back(kafka_broker, topic, len(KEYS))}
    assert placed == {key: partition_for_key(key, 7) for key in KEYS}
    assert [error for error, _ in heard] == [None] * len(KEYS)
    assert messages == [{"key": key, "value": b"v"} for key in KEYS], "the caller's own are left alone"


def test_a_batch_that_does_not_fit_tells_which_did_not_and_round_robin_stays_exact(kafka_broker, kafka_topic, make):
    topic, counters, refused = kafka_topic(partitions=4), Counters(), 0
    sending = make(RoundRobinPartitioner(counters=counters), {"queue.buffering.max.messages": 30})
    left, heard = [{"value": b"%d" % i, "callback": lambda *report: heard.append(report)} for i in range(300)], []
    while left:
        taken = sending.produce_batch(topic, left)
        failed = [message for message in left if "_error" in message]
        assert taken == len(left) - len(failed)
        assert {message.pop("_error").code() for message in failed} <= {KafkaError._QUEUE_FULL}  # type: ignore[attr-defined]
        refused, left = refused + len(failed), failed
        sending.poll(0.02)
    sending.flush(DEADLINE_S)
    assert refused > 200, "the queue was never full: this test shows nothing"
    assert len(heard) == 300
    assert Counter(p for p, _, _ in read_back(kafka_broker, topic, 300)) == dict.fromkeys(range(4), 75)
    assert counters.topic(topic).records == 300


def test_a_batch_names_partitions_and_what_it_must_not_be_is_told(kafka_broker, kafka_topic, make):
    topic, sending = kafka_topic(partitions=4), make(RoundRobinPartitioner())
    named = [{"value": b"a", "partition": 3}, {"value": b"b"}, {"value": b"c", "partition": np.int64(2)}]
    assert sending.produce_batch(topic, named) == 3
    assert sending.produce_batch(topic, [{"value": b"d"}, {"value": b"e", "partition": 0}], partition=1) == 2
    assert sending.produce_batch(topic, []) == 0
    sending.flush(DEADLINE_S)
    placed = {value: partition for partition, _, value in read_back(kafka_broker, topic, 5)}
    assert placed == {b"a": 3, b"b": 0, b"c": 2, b"d": 1, b"e": 0}
    for wrong in ({"value": b"v"}, [b"v"], [{"value": 5}]):
        with pytest.raises(TypeError):
            sending.produce_batch(topic, wrong)
    assert sending.produce_batch(topic, [{"value": b"f"}]) == 1
    sending.flush(DEADLINE_S)
    assert (1, None, b"f") in read_back(kafka_broker, topic, 6), "the turn of what was refused came again"


def test_serializers_work_as_with_serializing_producer_and_the_partitioner_sees_both_forms(
    kafka_broker, kafka_topic, make
):
    topic, seen, contexts = kafka_topic(partitions=6), [], []

    def serialize(value, context):
        contexts.append((context.topic, context.field, context.headers))
        return repr(value).encode()

    chooser = ExplicitPartitioner(lambda *record: seen.append(record) or record[2]["partition"])
    sending = make(chooser, {"key.serializer": StringSerializer(), "value.serializer": serialize})
    sending.produce(topic, key="k", value={"partition": 4}, headers=[("h", b"1")])
    assert sending.produce_batch(topic, [{"key": "k", "value": {"partition": 5}}]) == 1
    sending.flush(DEADLINE_S)
    assert seen == [(topic, b"k", {"partition": 4}), (topic, b"k", {"partition": 5})]
    assert contexts == [(topic, "value", [("h", b"1")]), (topic, "value", None)]
    assert sorted(read_back(kafka_broker, topic, 2)) == [(4, b"k", b"{'partition': 4}"), (5, b"k", b"{'partition': 5}")]
    native = make(KeyHashPartitioner("java", "random"), {"key.serializer": StringSerializer()})
    assert native.native == "murmur2_random"
    native.produce(topic, b"native", "key")
    native.flush(DEADLINE_S)
    assert (partition_for_key(b"key", 6), b"key", b"native") in read_back(kafka_broker, topic, 3)


def test_serializers_that_fail_or_cannot_work_are_told(kafka_topic, make):
    topic = kafka_topic(partitions=2)
    for half, error in (("key", KeySerializationError), ("value", ValueSerializationError)):
        with pytest.raises(error):
            make(settings={f"{half}.serializer": lambda data, context: 1 / 0}).produce(topic, b"v", b"k")
        with pytest.raises(ConfigError, match=rf"{half}\.serializer must be callable"):
            make(settings={f"{half}.serializer": "utf-8"})
        with pytest.raises(ConfigError, match=rf"config has {half}\.serializer\.builder"):
            make(settings={f"{half}.serializer.builder": object()})


def test_a_sender_does_not_wait_while_another_waits_for_a_missing_topic(kafka_admin, kafka_topic, make):
    present, missing = kafka_topic(partitions=2), kafka_topic(partitions=2, name="late") + "-not-yet"
    sending = make(RoundRobinPartitioner(), metadata_timeout_ms=10 * DEADLINE_S * 1000)
    waiting, other = (threading.Thread(target=sending.produce, args=(topic, b"v")) for topic in (missing, present))
    waiting.start()
    try:
        until(lambda: sending.cluster.asked > 1, "the thread asks for the missing topic", DEADLINE_S)
        other.start()
        until(lambda: not other.is_alive(), "the other thread sends", DEADLINE_S)
        assert waiting.is_alive(), "it still waits"
    finally:
        kafka_admin.create_topics({missing: {"num_partitions": 2, "replication_factor": 1}})
        waiting.join(DEADLINE_S)
    assert not waiting.is_alive()


def test_a_partitioner_written_for_kafka_python_serves_as_well(kafka_broker, kafka_topic, make):
    topic, sending = kafka_topic(partitions=7), make(KafkaPythonDefault())
    for key in KEYS:
        sending.produce(topic, b"v", key)
    sending.flush(DEADLINE_S)
    placed = {key: partition for partition, key, _ in read_back(kafka_broker, topic, len(KEYS))}
    assert placed == {key: partition_for_key(key, 7) for key in KEYS}


def test_a_fallback_counts_backlog_too(kafka_topic, make):
    topic, uniform = kafka_topic(partitions=3), UniformPartitioner(batch_bytes=500)
    sending = make(ExplicitPartitioner(lambda *_: None, fallback=uniform))
    for _ in range(20):
        sending.produce(topic, b"v" * 100)
    assert sum(uniform.pending_bytes(topic, p) for p in range(3)) == 2000
    sending.flush(DEADLINE_S)
    assert sum(uniform.pending_bytes(topic, p) for p in range(3)) == 0


def test_a_topic_that_this_producer_must_not_see_is_told_as_that():
    """A broker whose ACLs deny the topic to everybody; it exists."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with (
        start_broker(settings=settings) as broker,
        closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin,
    ):
        admin.create_topics({"secret": {"num_partitions": 2, "replication_factor": 1}})
        admin.wait_for_topics(["secret"])
        everybody = ("User:*", "*", ACLOperation.DESCRIBE, ACLPermissionType.DENY)
        admin.create_acls([ACL(*everybody, ResourcePattern(ResourceType.TOPIC, "secret"))])
        until(lambda: "secret" not in admin.list_topics(), "the broker knows of the ACL", DEADLINE_S)
        sending = PartitioningProducer({"bootstrap.servers": broker.bootstrap})
        with pytest.raises(
            NotAuthorized, match="topic 'secret': this producer is not authorized to describe it; grant"
        ):
            sending.produce("secret", b"v", b"k")
        with pytest.raises(NoPartitions, match="topic 'no/topic'"):
            sending.produce("no/topic", b"v", b"k")
