"""The partitioners behind kafka-python's interface, over its real metadata and its real accumulator."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from kafka.cluster import ClusterMetadata
from kafka.partitioner import DefaultPartitioner as KafkaPythonDefault
from kafka.structs import TopicPartition
from scipy.stats import chisquare

from kafka_assignors.producers import (
    PARTITIONERS,
    PRESETS,
    CheckedPartitioner,
    ConfigError,
    DefaultPartitioner,
    ExplicitPartitioner,
    KeyHashPartitioner,
    NoPartitions,
    RandomPartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
    UnknownName,
    partition_for_key,
    partitioner,
)
from kafka_assignors.producers.core.keys.keyed import preset_named
from kafka_assignors.producers.kafka_python import Record
from tests.support.producers.clusters import UNKNOWN_TOPIC, cluster, response
from tests.support.producers.naive import NaiveRoundRobin
from tests.support.producers.sending import Sender

KEYS = [b"", b"a", "ключ".encode(), bytes(range(256)), b"x" * 300, *(b"user-%d" % i for i in range(200))]


@pytest.mark.parametrize("leaders", [[0, 1, 2, 0, 1, 2, 0], [-1, 1, -1, 0, 1, -1, 0], [-1] * 7])
def test_keys_go_where_kafka_python_and_java_put_them_leaders_or_not(leaders):
    metadata, ours, theirs = cluster({"t": leaders}), DefaultPartitioner(), KafkaPythonDefault()
    for key in KEYS * 2:
        placed = ours.partition("t", key, key, b"v", b"v", metadata)
        assert placed == theirs.partition("t", key, key, b"v", b"v", metadata) == partition_for_key(key, 7)


def test_an_empty_key_is_a_key():
    sender = Sender(DefaultPartitioner(), cluster({"t": [0] * 7}))
    assert {sender.send("t", key=b"") for _ in range(50)} == {2}


@pytest.mark.source("KAFKA-9965")
def test_round_robin_is_exact_where_the_naive_one_leaves_every_other_partition_empty():
    metadata = cluster({"t": [0] * 6})
    naive, ours = (Sender(p, metadata, batch_bytes=1) for p in (NaiveRoundRobin(), RoundRobinPartitioner()))
    for _ in range(300):
        naive.send("t")
        ours.send("t")
    assert naive.placed == {1: 100, 3: 100, 5: 100}
    assert ours.placed == dict.fromkeys(range(6), 50)
    assert ours.asked == 600, "each record opened a batch and was asked for twice, or this test shows nothing"


@pytest.mark.parametrize("batch_bytes", [1, 200, 16384])
@pytest.mark.parametrize("keyed", [0, 1, 2])
def test_round_robin_ignores_keys_and_batches(batch_bytes, keyed):
    """Of three records, `keyed` have a key, which kafka-python never reports a batch of."""
    sender = Sender(RoundRobinPartitioner(), cluster({"t": [0] * 7, "u": [0] * 7}), batch_bytes)
    topics = ["t"] * 25 + ["u"] * 3
    for i in range(700):
        topic = topics[i % 28]
        before = sender.placed.copy()
        sender.send(topic, key=b"k" if i % 3 < keyed else None)
        if topic == "u":
            sender.placed = before
    assert sender.placed.total() == 625
    assert max(sender.placed.values()) - min(sender.placed.values()) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("null_keys", ["round_robin", "random"])
def test_null_keys_that_go_on_with_each_record_keep_the_first_answer(null_keys):
    answers = []
    ours = DefaultPartitioner(null_keys, seed=5, on_choice=lambda *choice: answers.append(choice))
    sender = Sender(ours, cluster({"t": [0] * 6}), batch_bytes=1)
    for _ in range(3000):
        sender.send("t")
    assert sender.asked == len(answers) == 6000
    assert answers[0::2] == answers[1::2]
    if null_keys == "round_robin":
        assert sender.placed == dict.fromkeys(range(6), 500)
    else:
        assert chisquare(list(sender.placed.values())).pvalue > 0.001


@pytest.mark.slow
def test_uniform_null_keys_get_the_same_number_of_bytes_and_fill_their_batches():
    sender = Sender(DefaultPartitioner(batch_bytes=500, seed=7), cluster({"t": [0] * 6}), batch_bytes=500)
    placed = [sender.send("t", b"v" * 90) for _ in range(12000)]
    assert len(_runs(placed)) >= 1000
    assert all(0.85 < sender.placed[p] * 6 / 12000 < 1.15 for p in range(6))  # 3 deviations of 2,000 draws
    batches = sum(len(queue) for queue in sender.accumulator._batches.values())
    assert batches <= 12000 / 4 * 1.02, "4 records of 90 bytes fit into a batch of 500 with its header: full batches"


def test_24_small_records_share_a_partition_with_uniform_and_part_with_sticky():
    metadata = cluster({"t": [0] * 6})
    for null_keys, partitions in (("uniform", 1), ("sticky", 6)):
        sender = Sender(DefaultPartitioner(null_keys, seed=1), metadata, batch_bytes=1)
        for _ in range(24):
            sender.send("t", b"v" * 100)
        assert len(sender.placed) == partitions


@pytest.mark.parametrize("make", [lambda: DefaultPartitioner("sticky", seed=3), lambda: StickyPartitioner(seed=3)])
def test_sticky_changes_with_each_batch_of_records_without_keys(make):
    sender = Sender(make(), cluster({"t": [0] * 6}), batch_bytes=1000)
    placed = [sender.send("t", b"v" * 100) for _ in range(6000)]
    assert 5 <= 6000 / len(_runs(placed)) <= 9, "a batch of 1000 bytes takes 8 records of 100"
    assert set(sender.placed) == set(range(6))


@pytest.mark.slow
def test_sticky_changes_for_records_with_keys_though_no_batch_is_reported():
    sender = Sender(StickyPartitioner(seed=3, batch_bytes=1000), cluster({"t": [0] * 6}), batch_bytes=1000)
    placed = [sender.send("t", b"v" * 100, key=b"k") for _ in range(6000)]
    assert sender.asked == 6000
    assert {len(run) for run in _runs(placed)[:-1]} == {10}  # 109 bytes a record
    assert set(sender.placed) == set(range(6))


@pytest.mark.slow
def test_leaderless_partitions_get_no_unkeyed_record_until_all_are_leaderless():
    for name in PARTITIONERS:
        sender = Sender(partitioner(name), cluster({"t": [-1, 0, -1, 1]}), batch_bytes=1)
        for _ in range(200):
            sender.send("t")
        assert set(sender.placed) <= {1, 3}, name
        sender = Sender(partitioner(name), cluster({"t": [-1, -1]}), batch_bytes=1)
        for _ in range(200):
            sender.send("t")
        assert set(sender.placed) <= {0, 1}, name
        assert sender.placed.total() == 200


def test_a_leader_lost_without_a_metadata_update_is_noticed_and_so_is_its_return():
    """KIP-951: a produce response names the new leader; kafka-python changes its record in place."""
    metadata = cluster({"t": [0, 0, 0]})
    sender = Sender(RoundRobinPartitioner(), metadata)
    assert [sender.send("t") for _ in range(3)] == [0, 1, 2]
    assert metadata.update_partition_leader(TopicPartition("t", 1), -1, 2)
    assert {sender.send("t") for _ in range(30)} == {0, 2}
    assert metadata.update_partition_leader(TopicPartition("t", 1), 0, 3)
    assert {sender.send("t") for _ in range(10)} == {0, 1, 2}


@pytest.mark.slow
def test_grown_and_shrunk_topics_are_noticed_at_the_next_record():
    for name in PARTITIONERS:
        metadata = cluster({"t": [0, 0]})
        sender = Sender(partitioner(name, seed=1) if name != "explicit" else ExplicitPartitioner(), metadata, 1)
        for step in (2, 5, 1, 3):
            metadata.update_metadata(response({"t": [0] * step}))
            sender.placed.clear()
            for i in range(400):
                sender.send("t", b"v" * 400, key=b"%d" % i if name in ("default", "uniform", "keyhash") else None)
            assert set(sender.placed) == set(range(step)), (name, step)


class CountingMetadata(ClusterMetadata):
    """Real metadata that counts how often a partition set is made."""

    sets = 0

    def partitions_for_topic(self, topic):
        self.sets += 1
        return super().partitions_for_topic(topic)


@pytest.mark.parametrize("name", PARTITIONERS)
@pytest.mark.parametrize("key", [None, b"k"])
def test_partitions_are_read_once_per_metadata_update(name, key):
    metadata = CountingMetadata(bootstrap_servers=["localhost:1"])
    ours = partitioner(name)
    readers = 2 if name == "explicit" else 1  # it and its fallback
    for updates in (1, 2):
        metadata.update_metadata(response({"t": [0] * 100}))
        for _ in range(500):
            ours.partition("t", key, key, b"v", b"v", metadata)
        assert metadata.sets == updates * readers


def test_another_kind_of_cluster_is_read_for_each_record():
    class Plain:
        n = 2

        def partitions_for_topic(self, topic):
            return set(range(self.n)) if topic == "t" else None

        def available_partitions_for_topic(self, topic):
            return self.partitions_for_topic(topic)

    metadata, ours = Plain(), DefaultPartitioner()
    assert ours.partition("t", b"k", b"k", None, None, metadata) == partition_for_key(b"k", 2)
    metadata.n = 7
    assert ours.partition("t", b"k", b"k", None, None, metadata) == partition_for_key(b"k", 7)
    with pytest.raises(NoPartitions):
        ours.partition("u", b"k", b"k", None, None, metadata)


@pytest.mark.parametrize("name", PARTITIONERS)
@pytest.mark.parametrize("key", [None, b"k"])
def test_an_absent_topic_and_one_without_partitions_are_named(name, key):
    metadata = cluster({"t": [0], "empty": [], "broken": [0]}, errors={"broken": UNKNOWN_TOPIC})
    for topic, why in (("gone", "not in the cluster's metadata"), ("broken", "not in"), ("empty", "has no partitions")):
        with pytest.raises(NoPartitions, match=f"topic '{topic}'.*{why}"):
            partitioner(name).partition(topic, key, key, b"v", b"v", metadata)


@pytest.mark.parametrize("name", PARTITIONERS)
def test_one_seed_gives_one_sequence_and_the_same_as_its_own_source(name):
    def sequence(**options):
        if name == "roundrobin":
            options["random_start"] = True
        sender = Sender(partitioner(name, **options), cluster({"t": [0] * 50}), batch_bytes=1)
        return [sender.send("t", b"v" * 9000) for _ in range(40)]

    assert sequence(seed=1) == sequence(seed=1) == sequence(rng=random.Random(1))
    assert sequence(seed=1) != sequence(seed=2)


@pytest.mark.slow
def test_random_without_a_seed_differs_and_is_even():
    metadata = cluster({"t": [0] * 6})
    first, second = (Sender(RandomPartitioner(), metadata) for _ in range(2))
    assert [first.send("t") for _ in range(100)] != [second.send("t") for _ in range(100)]
    sender = Sender(RandomPartitioner(seed=11), metadata, batch_bytes=100)
    for _ in range(6000):
        sender.send("t")
    assert chisquare([sender.placed[p] for p in range(6)]).pvalue > 0.001


def test_the_last_choice_a_hook_hears_during_a_send_is_where_the_record_goes():
    for name in PARTITIONERS:
        heard = []
        ours = partitioner(
            name, on_choice=lambda topic, key, partition, heard=heard: heard.append((topic, key, partition))
        )
        sender = Sender(ours, cluster({"t": [0] * 6}), batch_bytes=1)
        for key in [None, b"a", None, None, b"b"] * 20:
            placed = sender.send("t", b"v" * 5000, key=key)
            assert heard[-1] == ("t", key, placed), name


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTITIONERS)
def test_threads_share_a_partitioner(eager_switching, name):
    metadata, together = cluster({"t": [0] * 6}), Barrier(4, timeout=30)
    ours = partitioner(name)
    senders = [Sender(ours, metadata, batch_bytes=1) for _ in range(4)]

    def send(sender):
        together.wait()
        for _ in range(1000):
            sender.send("t", b"v" * 5000)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(send, sender) for sender in senders]:
            done.result(60)
    placed = sum((sender.placed for sender in senders), Counter())
    assert placed.total() == 4000
    assert set(placed) == set(range(6))
    if name in ("roundrobin", "explicit"):
        assert max(placed.values()) - min(placed.values()) <= 1


def test_the_second_answer_for_a_record_does_not_go_to_another_threads_record():
    metadata, ours = cluster({"t": [0] * 6}), RoundRobinPartitioner()

    def ask():
        return ours.partition("t", None, None, b"v", b"v", metadata)

    with ThreadPoolExecutor(1) as other:
        assert ask() == 0
        ours.on_new_batch("t", metadata, 0)
        assert other.submit(ask).result(30) == 1
        assert [ask(), ask()] == [0, 2]


def test_names_and_options_are_checked():
    assert list(PARTITIONERS) == ["default", "roundrobin", "sticky", "random", "explicit", "uniform", "keyhash"]
    assert all(type(partitioner(name)) is cls for name, cls in PARTITIONERS.items())
    with pytest.raises(
        UnknownName, match="unknown partitioner 'robin'; known: default, roundrobin, sticky, random, ex"
    ):
        partitioner("robin")
    with pytest.raises(ConfigError, match=r"partitioner 'random': .*'speed'"):
        partitioner("random", speed=1)
    with pytest.raises(UnknownName, match="'rr'; known: uniform, sticky, round_robin, random"):
        DefaultPartitioner("rr")
    with pytest.raises(ConfigError, match="batch_bytes must be an int of at least 1, not 0"):
        DefaultPartitioner("random", batch_bytes=0)
    for name in PARTITIONERS:
        with pytest.raises(ConfigError, match="rng or seed, not both"):
            partitioner(name, seed=1, rng=random.Random(1))
        with pytest.raises(ConfigError, match=r"rng must be a random\.Random, not 5"):
            partitioner(name, rng=5)
        with pytest.raises(ConfigError, match="on_choice must be callable"):
            partitioner(name, on_choice="log")


def _runs(placed):
    """Neighbours that are equal, together."""
    runs = [[placed[0]]]
    for partition in placed[1:]:
        if partition == runs[-1][0]:
            runs[-1].append(partition)
        else:
            runs.append([partition])
    return runs


@pytest.mark.parametrize("name", PARTITIONERS)
def test_a_subclass_is_asked_for_every_record_and_may_leave_it_to_the_partitioner(name):
    """Every third record is the subclass's; the others lie as if there were no subclass."""

    class Mine(PARTITIONERS[name]):
        def choose(self, view, record):
            return 5 if record.value.startswith(b"mine") else super().choose(view, record)

    metadata = cluster({"t": [0] * 6})
    seeded = {} if name == "roundrobin" else {"seed": 4}
    mine, plain = (Sender(make(**seeded), metadata, batch_bytes=10**6) for make in (Mine, PARTITIONERS[name]))
    for i in range(300):
        key = None if i % 2 else b"%d" % i
        if i % 3:
            assert mine.send("t", b"v" * 1000, key=key) == plain.send("t", b"v" * 1000, key=key)
        else:
            assert mine.send("t", b"mine", key=key) == 5
    if name == "random":  # another draw is as good
        return
    refused = Record("t", None, None, b"v", b"v", metadata)
    chosen = mine.partitioner.partition(*refused)
    mine.partitioner.undo(refused, chosen)()
    assert mine.send("t", b"v") == plain.send("t", b"v")
    mine.partitioner.undo(refused, mine.partitioner.partition("t", None, None, b"mine", b"mine", metadata))()
    assert [mine.send("t", b"v") for _ in range(9)] == [plain.send("t", b"v") for _ in range(9)]


@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize("preset", PRESETS)
def test_keys_may_be_any_kind_of_bytes(preset, in_c, monkeypatch):
    """With the hash in C, where confluent_kafka brings it, and without."""
    if not in_c:
        monkeypatch.setattr(
            "kafka_assignors.producers.partitioners.key_hash.fastest", lambda preset: preset_named(preset).place
        )
    metadata, ours = cluster({"t": [0] * 7}), KeyHashPartitioner(preset)
    splitting = KeyHashPartitioner(preset, hot_share=0.9)
    for key in KEYS[1:20]:
        for given in (key, bytearray(key), memoryview(key), memoryview(bytearray(key))):
            for each in (ours, splitting):
                placed = each.partition("t", given, given, b"v", b"v", metadata)
                assert placed == partition_for_key(key, 7, preset)


@pytest.mark.parametrize("name", PARTITIONERS)
def test_metadata_that_changes_while_it_is_read_is_read_again(name):
    """The update comes between two of the calls that make a view."""

    class Growing(ClusterMetadata):
        growing = True

        def partitions_for_topic(self, topic):
            if self.growing:
                self.growing = False
                self.update_metadata(response({"t": [0] * 9}))
            return super().partitions_for_topic(topic)

    metadata = Growing(bootstrap_servers=["localhost:1"])
    metadata.update_metadata(response({"t": [0] * 2}))
    sender = Sender(partitioner(name), metadata, batch_bytes=1)
    for _ in range(400):
        sender.send("t", b"v" * 9000)
    assert set(sender.placed) == set(range(9))


def test_a_topic_made_anew_with_fewer_partitions_while_a_record_is_placed_is_asked_for_again():
    """Another thread reads the new metadata while the subclass still chooses over the old."""
    metadata = cluster({"t": [0] * 6})

    class Slow(CheckedPartitioner):
        asked = 0

        def choose(self, view, record):
            self.asked += 1
            if self.asked == 1:
                metadata.update_metadata(response({"t": [0] * 2}))
                with ThreadPoolExecutor(1) as other:
                    assert other.submit(self.partition, *record).result(30) == 1
            return view.partitions[-1]

    slow = Slow()
    assert slow.partition("t", None, None, b"v", b"v", metadata) == 1
    assert slow.asked == 3
