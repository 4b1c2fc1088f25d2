"""KeyHashPartitioner's modes, counters, and round robin in chunks, over kafka-python's real metadata."""

from __future__ import annotations

import logging
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.producers import (
    PRESETS,
    ConfigError,
    Counters,
    DefaultPartitioner,
    ExplicitPartitioner,
    KeyHashPartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
    UniformPartitioner,
    UnknownName,
    partition_for_key,
    partitioner,
)
from kafka_assignors.producers.core.keys.hotkeys import HotKeys
from kafka_assignors.producers.core.round_robin import RoundRobin
from kafka_assignors.producers.kafka_python import Record
from tests.support.producers.clusters import cluster, response
from tests.support.producers.sending import Sender
from tests.support.producers.vectors import view

KEYS = [b"user-%d" % i for i in range(300)]


class Asked(KeyHashPartitioner):
    """Its own `choose` delegates every record."""

    def choose(self, view, record):
        return super().choose(view, record)


@pytest.mark.parametrize("preset", PRESETS)
def test_keys_new_and_seen_lie_where_the_preset_says(preset):
    sender = Sender(KeyHashPartitioner(preset), cluster({"t": [0, -1, 0, -1, 0, 0, -1]}))
    for key in KEYS * 2:
        assert sender.send("t", key=key) == partition_for_key(key, 7, preset)
        assert sender.partitioner.partition("t", None, bytearray(key), b"", b"", sender.cluster) == partition_for_key(
            key, 7, preset
        )


@pytest.mark.parametrize("preset", PRESETS)
def test_an_empty_key_is_a_key_except_to_librdkafka(preset):
    sender = Sender(KeyHashPartitioner(preset, "random", seed=1), cluster({"t": [0] * 7}))
    placed = {sender.send("t", key=b"") for _ in range(200)}
    assert placed == (set(range(7)) if PRESETS[preset].empty_is_null else {partition_for_key(b"", 7, preset)})


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kind", [KeyHashPartitioner, Asked])
def test_no_key_is_an_empty_key_to_three_of_librdkafkas(preset, kind):
    """Also to a subclass that is asked for every record, and with another rule for records without a key."""
    for null_keys in ("random", "round_robin"):
        sender = Sender(kind(preset, null_keys, seed=1), cluster({"t": [0] * 7}))
        placed = {sender.send("t", key=None) for _ in range(200)}
        like_empty = {partition_for_key(b"", 7, preset)}
        assert placed == (like_empty if PRESETS[preset].null_is_empty else set(range(7)))


def test_a_frozen_modulus_keeps_every_key_where_it_was():
    metadata = cluster({"t": [0] * 6})
    sender = Sender(KeyHashPartitioner(modulus=6, seed=1, batch_bytes=50), metadata)
    before = {key: sender.send("t", key=key) for key in KEYS}
    assert before == {key: partition_for_key(key, 6) for key in KEYS}
    metadata.update_metadata(response({"t": [0] * 10}))
    assert {key: sender.send("t", key=key) for key in KEYS} == before
    assert {sender.send("t", b"v" * 100) for _ in range(500)} == set(range(10)), "records without a key go everywhere"
    metadata.update_metadata(response({"t": [0] * 5}))
    with pytest.raises(ConfigError, match="modulus=6 places keys over 6 partitions, but topic 't' has 5"):
        sender.send("t", key=b"k")


def test_consistent_says_loudly_that_it_is_alone(caplog):
    with caplog.at_level(logging.WARNING, logger="kafka_assignors.producers"):
        KeyHashPartitioner("consistent")
        KeyHashPartitioner("java")
    assert ["places keys like no other client" in r.message for r in caplog.records] == [True]


@pytest.mark.slow
def test_a_hot_key_is_split_over_its_ways_and_the_others_stay_whole():
    sender = Sender(KeyHashPartitioner(hot_share=0.2, hot_ways=3), cluster({"t": [0] * 10}))
    hot, placed = Counter(), {}
    for i in range(6000):
        if i % 2:
            hot[sender.send("t", key=b"hot")] += 1
        else:
            key = KEYS[i // 2 % 300]
            assert sender.send("t", key=key) == placed.setdefault(key, partition_for_key(key, 10))
    home = partition_for_key(b"hot", 10)
    assert set(hot) == {home, (home + 1) % 10, (home + 2) % 10}
    assert max(hot.values()) < 0.4 * 3000


@given(keys=st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=200))
def test_without_a_hot_key_nothing_moves(keys):
    """No key can have more than its share of 99 %, unless all records are its."""
    hot = HotKeys(0.99)
    assert all(hot.place(key, 1, 5) == 1 for key in keys[:500])


def test_what_is_hot_is_forgotten_when_it_cools():
    hot = HotKeys(0.5)
    assert {hot.place(b"hot", 0, 4) for _ in range(1000)} == {0, 1}
    for i in range(30_000):
        hot.place(b"%d" % i, 2, 4)
    assert {hot.place(b"hot", 0, 4) for _ in range(100)} == {0}


@pytest.mark.slow
def test_a_key_is_split_though_another_was_hot_for_long_before():
    """The first one's partitions overlap the second one's."""
    hot = HotKeys(0.5)
    for _ in range(500_000):
        hot.place(b"first", 0, 4)
    for _ in range(20_000):
        hot.place(b"second", 1, 4)
    counts = Counter(hot.place(b"second", 1, 4) for _ in range(10_000))
    assert set(counts) == {1, 2}
    assert max(counts.values()) < 6000


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0001, 0.0015, 0.01])
def test_a_small_share_is_told_from_none(share):
    """A window of records must be long enough for keys that have few of them, also after it was halved."""
    hot, every, homes = HotKeys(share), int(1 / share / 4), Counter()
    for i in range(int(60 / share)):
        if i % every == 0:
            place = hot.place(b"hot", 0, 4)
            if i > 30 / share:
                homes[place] += 1
        else:
            hot.place(b"%d" % i, 2, 4)
    assert set(homes) == {0, 1}
    assert max(homes.values()) < 0.6 * homes.total()


def test_a_key_that_is_sent_again_and_again_is_not_hot():
    """A full queue: the client takes none of a thousand tries. What was hot stays so."""
    hot, plain = HotKeys(0.5), HotKeys(0.5)
    for each in (hot, plain):
        for i in range(1000):
            each.place(b"hot", 0, 4)
            each.place(b"%d" % i, 2, 4)
            each.place(b"hot", 0, 4)
    for _ in range(1000):
        assert hot.place(b"cold", 3, 4) == 3
        hot.take_back(b"cold", 3)
        hot.take_back(b"hot", hot.place(b"hot", 0, 4))
    assert [hot.place(b"hot", 0, 4) for _ in range(100)] == [plain.place(b"hot", 0, 4) for _ in range(100)]


def test_a_hot_key_that_a_client_does_not_take_is_undone():
    metadata, counters = cluster({"t": [0] * 4}), Counters()
    ours, plain = KeyHashPartitioner(hot_share=0.5, counters=counters), KeyHashPartitioner(hot_share=0.5)
    record = Record("t", b"hot", b"hot", b"v", b"v", metadata)
    for _ in range(2000):
        ours.undo(record, ours.partition(*record))()
        assert ours.partition(*record) == plain.partition(*record)
    assert counters.topic("t").records == 2000
    assert len(counters.topic("t").partitions) == 2


@pytest.mark.parametrize("chunk", [1, 4])
def test_round_robin_in_chunks(chunk):
    sender = Sender(RoundRobinPartitioner(start=2, chunk=chunk), cluster({"t": [0] * 6}), batch_bytes=1)
    assert [sender.send("t") for _ in range(60)] == [(2 + i // chunk) % 6 for i in range(60)]


@given(chunk=st.integers(1, 9), sends=st.integers(0, 200))
def test_chunks_differ_by_one_chunk_at_most(chunk, sends):
    robin, topic = RoundRobin(3, chunk), view([0] * 5)
    counts = Counter(robin.choose(topic) for _ in range(sends))
    assert max(counts.values(), default=0) - min(counts[p] for p in range(5)) <= chunk


@pytest.mark.parametrize("batch_bytes", [1, 16384])
@pytest.mark.parametrize("make", [DefaultPartitioner, RoundRobinPartitioner, ExplicitPartitioner])
def test_counters_count_each_record_once_where_it_went(make, batch_bytes):
    counters = Counters()
    sender = Sender(make(counters=counters), cluster({"t": [0] * 6}), batch_bytes)
    keys = [None, b"k1", None, b"key-2"] * 50
    placed = [sender.send("t", b"v" * 10, key=key) for key in keys]
    counted = counters.topic("t")
    assert counted.partitions == dict(Counter(placed))
    assert (counted.records, counted.bytes) == (200, sum(18 + len(key or b"") for key in keys))
    assert abs(sum(counted.shares.values()) - 1) < 1e-9
    if batch_bytes > 1 or make is RoundRobinPartitioner:
        assert counted.switches == sum(a != b for a, b in pairwise(placed))
    assert (counters.topics, counters.topic("other").records, counters.topic("other").shares) == (["t"], 0, {})


def test_counters_lose_nothing_among_threads(eager_switching):
    counters, metadata = Counters(), cluster({"t": [0] * 6})
    ours = RoundRobinPartitioner(counters=counters)

    def send():
        sender = Sender(ours, metadata)
        for _ in range(1000):
            sender.send("t", b"v")

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(send) for _ in range(4)]:
            done.result(60)
    assert (counters.topic("t").records, counters.topic("t").bytes) == (4000, 36_000)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"modulus": 0}, "modulus must be an int of at least 1, not 0"),
        ({"hot_share": 1}, "hot_share must be a number between 0 and 1, not 1"),
        ({"hot_share": 0.1, "hot_ways": 1}, "hot_ways must be an int of at least 2, not 1"),
        ({"counters": {}}, "counters must be a kafka_assignors.producers.Counters"),
    ],
)
def test_arguments_are_checked(options, says):
    with pytest.raises(ConfigError, match=says):
        KeyHashPartitioner(**options)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: DefaultPartitioner(seed="7"), "seed must be an int, not '7'"),
        (lambda: RoundRobinPartitioner(random_start="no"), "random_start must be True or False, not 'no'"),
        (lambda: UniformPartitioner(adaptive="no"), "adaptive must be True or False, not 'no'"),
        (lambda: UniformPartitioner(ignore_keys=1), "ignore_keys must be True or False, not 1"),
        (
            lambda: UniformPartitioner().attach(None),
            "attach needs the KafkaProducer that uses this partitioner, not None",
        ),
        (lambda: StickyPartitioner(batch_bytes=None), "batch_bytes must be an int of at least 1, not None"),
        (lambda: KeyHashPartitioner(hot_ways=3), "give hot_share too"),
        (
            lambda: ExplicitPartitioner(fallback=DefaultPartitioner(), seed=1),
            "rng and seed configure the default fallback",
        ),
        (lambda: partitioner(["default"]), r"unknown partitioner \['default'\]; known: default, roundrobin"),
    ],
)
def test_what_would_be_ignored_or_taken_for_something_else_is_refused(make, says):
    with pytest.raises(ConfigError, match=says):
        make()


def test_more_arguments_are_checked():
    with pytest.raises(UnknownName, match="unknown preset 'mine'; known: java"):
        KeyHashPartitioner("mine")
    for options in ({"chunk": 0}, {"start": -1}, {"start": 1, "random_start": True}):
        with pytest.raises(ConfigError):
            RoundRobinPartitioner(**options)
    with pytest.raises(ConfigError, match="refresh_timeout_ms must be a number above 0"):
        ExplicitPartitioner(policy="refresh", refresh_timeout_ms=0)
