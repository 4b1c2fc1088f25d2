"""The sticky partition of KIP-480: Java's traces, the rules one by one, rotation by bytes, threads."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.producers import partition_for_key
from kafka_assignors.producers.core.sticky import StickyChoice
from kafka_assignors.producers.core.topic import TopicView
from kafka_assignors.producers.errors import ConfigError
from kafka_assignors.producers.partitioners.interface.topic_rule import TopicRule
from tests.support.producers import vectors
from tests.support.producers.vectors import Draws, repeat, view

CASES = vectors.load("sticky_kip480.jsonl")
BATCH_BYTES = 100


class Java(StickyChoice):
    """What production runs without the one step in which it differs: Java keeps a partition that lost its leader."""

    def _keeps(self, view, partition):
        return True


@pytest.mark.source("apache/kafka 3.9.0 DefaultPartitioner, UniformStickyPartitioner")
@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_replays_java(case):
    draws = Draws(case["draws"])
    rules, topics, trace = {}, case["cluster"], []
    for op in case["ops"]:
        if "cluster" in op:
            topics = op["cluster"]
            continue
        record = op.get("send") or op["new_batch"]
        name = record["topic"]
        topic = view(topics[name], name)
        rule = rules.setdefault(name, Java(draws, BATCH_BYTES))
        if "new_batch" in op:
            rule.new_batch(topic, record["prev"])
            trace.append([None, draws.used])
        elif record["key"] is not None and case["partitioner"] == "default":
            trace.append([partition_for_key(bytes.fromhex(record["key"]), len(topic.partitions)), draws.used])
        else:
            trace.append([rule.choose(topic, 0), draws.used])  # no bytes: Java counts batches alone
    assert trace == case["trace"]


def test_the_partition_stays_until_its_batch_is_full_and_then_changes():
    rule, topic = StickyChoice(repeat(1, 1, 2), BATCH_BYTES), view([0, 0, 0])
    assert [rule.choose(topic, 1), rule.choose(topic, 1)] == [1, 1]
    rule.new_batch(topic, 1)
    assert rule.choose(topic, 1) == 2, "the second draw is 1 again and is thrown away"


def test_a_report_about_another_partition_changes_nothing():
    rule, topic = StickyChoice(Draws([1]), BATCH_BYTES), view([0, 0, 0])
    assert rule.choose(topic, 1) == 1
    rule.new_batch(topic, 0)
    assert rule.choose(topic, 1) == 1


@pytest.mark.slow
@given(n=st.integers(2, 8), numbers=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5))
def test_a_new_batch_never_stays_when_there_is_another_partition_even_with_a_stuck_source(n, numbers):
    rule, topic = StickyChoice(repeat(*numbers), BATCH_BYTES), view([0] * n)
    before = rule.choose(topic, 1)
    rule.new_batch(topic, before)
    assert rule.choose(topic, 1) != before


def test_one_available_partition_is_taken_without_a_draw():
    rule, topic = StickyChoice(Draws([]), BATCH_BYTES), view([-1, 0, -1])
    assert rule.choose(topic, 1) == 1
    rule.new_batch(topic, 1)
    assert rule.choose(topic, 1) == 1


def test_a_partition_without_a_leader_and_one_that_is_gone_are_left():
    rule = StickyChoice(repeat(2, 1), BATCH_BYTES)
    assert rule.choose(view([0, 0, 0]), 10) == 2
    assert rule.choose(view([0, 0, -1]), 10) == 1
    rule = StickyChoice(repeat(2, 1), BATCH_BYTES)
    assert rule.choose(view([-1, -1, -1]), 10) == 2
    assert rule.choose(TopicView("t", [0, 1], []), 10) == 1


def test_the_partition_changes_after_each_batch_of_bytes():
    rule, topic = StickyChoice(repeat(0, 1, 2), batch_bytes=100), view([0] * 3)
    assert [rule.choose(topic, 40) for _ in range(9)] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_reported_batch_starts_the_byte_count_anew():
    rule, topic = StickyChoice(repeat(0, 1, 2), batch_bytes=100), view([0] * 3)
    assert [rule.choose(topic, 90), rule.choose_again(topic, 90, 0)] == [0, 1]
    assert [rule.choose(topic, 90) for _ in range(3)] == [1, 2, 2]


@given(records=st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=60))
def test_what_is_taken_back_is_as_if_it_had_never_come(records):
    topic = view([0] * 3)
    rule, plain = StickyChoice(repeat(0, 1, 2), BATCH_BYTES), StickyChoice(repeat(0, 1, 2), BATCH_BYTES)
    for size, refused in records:
        partition = rule.choose(topic, size)
        if refused:
            rule.take_back(size, partition)
        else:
            assert partition == plain.choose(topic, size)


@pytest.mark.parametrize("batch_bytes", [0, -1, 1.5, True, None])
def test_a_wrong_batch_size_is_refused(batch_bytes):
    with pytest.raises(ConfigError, match=f"batch_bytes must be an int of at least 1, not {batch_bytes!r}"):
        StickyChoice(repeat(0), batch_bytes=batch_bytes)


@pytest.mark.slow
def test_threads_change_partition_one_after_the_other(eager_switching):
    """Each record fills a batch. Changes made one at a time need one draw each; two at once would draw in vain."""
    in_turn, draws = repeat(0, 1, 2), Counter()

    def draw():
        draws["used"] += 1
        time.sleep(0)  # gives way in the middle of a change
        return in_turn()

    rule, topic, together = TopicRule(StickyChoice(draw, batch_bytes=10)), view([0] * 3), Barrier(4, timeout=30)

    def send():
        together.wait()
        return Counter(rule.choose(topic, 10) for _ in range(1500))

    with ThreadPoolExecutor(4) as pool:
        counts = sum((f.result(60) for f in [pool.submit(send) for _ in range(4)]), Counter())
    assert (counts, draws["used"]) == ({0: 2000, 1: 2000, 2: 2000}, 6000)
