"""`UniformPartitioner(lag=...)`: what it accepts, what it does without, and what it says."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter

import pytest
from kafka import TopicPartition

from kafka_assignors.producers import (
    ConfigError,
    DefaultPartitioner,
    ExplicitPartitioner,
    LagReading,
    UniformPartitioner,
)
from tests.support.producers.clusters import cluster

METADATA = cluster({"t": [0] * 4, "u": [0] * 4})


def placed(partitioner, topic="t", count=2000):
    counts = Counter(partitioner.partition(topic, None, None, b"v", b"v", METADATA) for _ in range(count))
    return [counts[p] / count for p in range(4)]


def uniform(**options):
    return UniformPartitioner(batch_bytes=1, seed=3, **options)


EVEN = pytest.approx([1 / 4] * 4, abs=0.05)
BEHIND = pytest.approx([1 / 13, 4 / 13, 4 / 13, 4 / 13], abs=0.05)


@pytest.mark.parametrize(
    "lag",
    [
        {("t", 0): 3, ("t", 1): 0, ("t", 2): 0, ("t", 3): 0},
        {TopicPartition("t", p): 3.0 if p == 0 else 0.0 for p in range(4)},
        {("t", 0): 3, ("t", 1): 0, ("t", 3): 0, ("u", 2): 50},  # an absent partition has the median
        lambda topic: {p: 3.0 if topic == "t" and p == 0 else 0.0 for p in range(4)},
        lambda topic: LagReading({0: 3, 1: 0, 2: 0, 3: 0}, time.monotonic() - 5),
    ],
    ids=["tuples", "topic-partitions", "gaps", "function", "reading"],
)
def test_a_partition_whose_consumer_is_behind_gets_fewer_records(lag):
    assert placed(uniform(lag=lag)) == BEHIND


def test_a_mapping_may_change_while_it_is_used():
    lag = {("t", p): 0.0 for p in range(4)}
    ours = uniform(lag=lag)
    assert placed(ours) == EVEN
    lag[("t", 0)] = 3.0
    ours._topics.rule("t").rule._lag._asked_s -= 1  # a second later
    assert placed(ours) == BEHIND


@pytest.mark.parametrize(
    ("lag", "says"),
    [
        (lambda topic: {0: math.nan}, "is invalid: partition 0: must be seconds"),
        (lambda topic: 1 / 0, "can't be read: ZeroDivisionError"),
        (lambda topic: LagReading({0: 50}, time.time() + 1e6), "in the future of time.monotonic"),
        (lambda topic: LagReading({0: 50}, time.monotonic() - 11), "is unknown or older than 10 s"),
    ],
)
def test_without_usable_lag_kip_794_places_alone_and_the_log_says_so_once(lag, says, caplog):
    ours, plain = uniform(lag=lag), uniform()
    with caplog.at_level(logging.WARNING):
        assert placed(ours) == placed(plain) == EVEN
        ours._topics.rule("t").rule._lag._asked_s -= 1
        placed(ours)
        assert len(caplog.messages) == 1
        placed(ours, "u")
    assert len(caplog.messages) == 2, "once per topic"
    assert all(says in message for message in caplog.messages)
    assert "topic 't'" in caplog.messages[0]


def test_records_with_a_key_stay_where_they_are():
    ours, plain = uniform(lag={("t", p): 50.0 * p for p in range(4)}), DefaultPartitioner()
    for key in (b"%d" % i for i in range(200)):
        assert len({each.partition("t", key, key, None, None, METADATA) for each in (ours, plain)}) == 1


def test_it_serves_as_a_fallback():
    ours = ExplicitPartitioner(lambda *_: None, fallback=uniform(lag={("t", 0): 3, ("t", 1): 0}))
    assert placed(ours)[0] < 0.15


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"lag": 3}, "lag must be a mapping or a function of the topic, such as GroupLag, not 3"),
        ({"lag": {"t": 3}}, r"lag must map \(topic, partition\) to seconds, as \{\('orders', 0\): 12.5\}, not 't'"),
        ({"lag": {("t", 0): -1}}, r"partition \('t', 0\): must be seconds of at least 0, not -1"),
        ({"lag_max_age_ms": 5}, "give lag too"),
        ({"lag": {}, "lag_max_age_ms": -5}, "lag_max_age_ms must be a number of at least 0, not -5"),
    ],
)
def test_arguments_are_checked(options, says):
    with pytest.raises(ConfigError, match=says):
        UniformPartitioner(**options)
