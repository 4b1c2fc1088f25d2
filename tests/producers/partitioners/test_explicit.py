"""Explicit partitions, and that a wrong answer of any partitioner raises at once."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from aiokafka.cluster import ClusterMetadata
from aiokafka.protocol.metadata import MetadataResponse_v1
from kafka.partitioner import Partitioner
from kafka.partitioner import StickyPartitioner as KafkaPythonSticky

from kafka_assignors.producers import (
    CheckedPartitioner,
    ConfigError,
    DefaultPartitioner,
    ExplicitPartitioner,
    InvalidPartition,
    UnknownName,
    UnknownPartition,
)
from tests.support.producers.clusters import cluster
from tests.support.producers.sending import Sender


class Answers(CheckedPartitioner):
    """A partitioner of a user's own that answers what it is told to."""

    name = "mine"

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def choose(self, view, record):
        return self.answer


WRONG = [-1, -7, 6, 99, None, True, False, "1", 1.0, b"1", [1], np.float64(1), np.int64(6), np.bool_(True)]


@pytest.mark.parametrize("answer", WRONG, ids=[f"{type(a).__name__} {a!r}" for a in WRONG])
@pytest.mark.parametrize("key", [None, b"k"])
def test_a_wrong_answer_raises_and_names_strategy_topic_value_and_range(answer, key):
    with pytest.raises(InvalidPartition) as caught:
        Sender(Answers(answer), cluster({"orders": [0] * 6})).send("orders", key=key)
    assert (caught.value.partitioner, caught.value.topic, caught.value.value) == ("mine", "orders", answer)
    for part in ("'mine'", "'orders'", repr(answer), "0..5"):
        assert part in str(caught.value)


@pytest.mark.parametrize("answer", [0, 5, np.int64(3), np.uint8(3)])
def test_a_right_answer_of_any_integer_kind_becomes_an_int(answer):
    placed = Sender(Answers(answer), cluster({"t": [0] * 6})).send("t")
    assert (type(placed), placed) == (int, int(answer))


def test_the_function_sees_topic_key_and_value():
    seen = []
    ours = ExplicitPartitioner(lambda *record: seen.append(record) or 4)
    assert Sender(ours, cluster({"t": [0] * 6})).send("t", {"id": 1}, key=b"k") == 4
    assert seen == [("t", b"k", {"id": 1})]


def test_by_default_the_value_names_its_partition():
    sender = Sender(ExplicitPartitioner(policy="error"), cluster({"t": [0] * 6}))
    assert sender.send("t", {"partition": 3}) == 3
    assert sender.send("t", SimpleNamespace(partition=5)) == 5
    for value in (b"bytes", {"other": 1}, SimpleNamespace()):
        with pytest.raises(InvalidPartition, match="returned None"):  # str.partition is a method, not an answer
            sender.send("t", value)


def test_a_leaderless_partition_stays_explicit():
    assert Sender(ExplicitPartitioner(lambda *_: 1), cluster({"t": [0, -1, 0]})).send("t") == 1


@pytest.mark.parametrize("batch_bytes", [1, 16384])
def test_named_partitions_are_kept_and_the_others_go_round(batch_bytes):
    """-1 and None mean "no matter which"; the round robin among them is exact whatever else is sent."""
    sender = Sender(ExplicitPartitioner(), cluster({"t": [0] * 6}), batch_bytes)
    rest = []
    for i in range(600):
        named = (None, -1, i % 6)[i % 3]
        placed = sender.send("t", {"partition": named})
        if i % 3 == 2:
            assert placed == named
        else:
            rest.append(placed)
    assert rest == [i % 6 for i in range(400)]


@pytest.mark.parametrize("answer", [None, -1, -2, 6])
def test_policy_error_raises_and_says_what_else_there_is(answer):
    sender = Sender(ExplicitPartitioner(lambda *_: answer, policy="error"), cluster({"t": [0] * 6}))
    with pytest.raises(InvalidPartition, match=r"'explicit' returned .* 't'.*0\.\.5; or use policy='fallback'"):
        sender.send("t")


@pytest.mark.parametrize("policy", ["error", "fallback"])
@pytest.mark.parametrize("answer", ["1", 1.0, True])
def test_what_is_no_integer_raises_under_any_policy(policy, answer):
    with pytest.raises(InvalidPartition, match=f"returned {answer!r}"):
        Sender(ExplicitPartitioner(lambda *_: answer, policy=policy), cluster({"t": [0] * 6})).send("t")


def test_an_unknown_partition_is_logged_once_a_topic_and_placed_by_the_fallback(caplog):
    sender = Sender(ExplicitPartitioner(lambda *_: 99), cluster({"t": [0] * 6, "u": [0] * 2}))
    with caplog.at_level(logging.WARNING, logger="kafka_assignors.producers"):
        assert [sender.send(topic) for topic in "ttutt"] == [0, 1, 0, 2, 3]
    assert [record.args[:2] for record in caplog.records] == [(99, "t"), (99, "u")]


def test_no_partition_is_nothing_to_log(caplog):
    sender = Sender(ExplicitPartitioner(), cluster({"t": [0] * 6}))
    with caplog.at_level(logging.WARNING, logger="kafka_assignors.producers"):
        sender.send("t", {"partition": -1})
        sender.send("t", {"partition": None})
    assert caplog.records == []


def test_any_kafka_python_partitioner_is_a_fallback():
    sender = Sender(ExplicitPartitioner(fallback=DefaultPartitioner()), cluster({"t": [0] * 7}))
    assert sender.send("t", key=b"") == 2
    sticky = Sender(ExplicitPartitioner(fallback=KafkaPythonSticky()), cluster({"t": [0] * 7}), batch_bytes=1)
    placed = [sticky.send("t") for _ in range(100)]
    assert all(a != b for a, b in pairwise(placed)), "it hears of each new batch, and changes"


def test_a_fallback_that_answers_wrongly_is_caught():
    class Broken(Partitioner):
        def partition(self, topic, key, serialized_key, value, serialized_value, cluster):
            return 6

    with pytest.raises(InvalidPartition, match="returned 6"):
        Sender(ExplicitPartitioner(fallback=Broken()), cluster({"t": [0] * 6})).send("t")


@pytest.mark.source("aiokafka 0.14.0 cluster.py: request_update calls is_done of an asyncio future")
def test_aiokafkas_metadata_may_be_asked_for_while_it_is():
    """Its second question raises AttributeError; whoever sends through it is told of the partition, and asks again."""

    async def twice():
        metadata = ClusterMetadata()
        nodes, partitions = [(1, "h", 9092, None)], [(0, p, 1, [1], [1]) for p in range(2)]
        metadata.update_metadata(
            MetadataResponse_v1(brokers=nodes, controller_id=1, topics=[(0, "t", False, partitions)])
        )
        sender = Sender(ExplicitPartitioner(lambda *_: 4, policy="refresh"), metadata)
        for _ in range(2):
            with pytest.raises(UnknownPartition, match="returned 4"):
                sender.send("t")

    asyncio.run(twice())


def test_arguments_are_checked():
    with pytest.raises(UnknownName, match="unknown policy 'ignore'; known: error, refresh, fallback"):
        ExplicitPartitioner(policy="ignore")
    with pytest.raises(ConfigError, match="partition must be callable"):
        ExplicitPartitioner(3)
    with pytest.raises(ConfigError, match=r"fallback must be an instance of kafka\.partitioner\.Partitioner"):
        ExplicitPartitioner(fallback=DefaultPartitioner)
    with pytest.raises(ConfigError, match="fallback is not used"):
        ExplicitPartitioner(policy="error", fallback=DefaultPartitioner())
