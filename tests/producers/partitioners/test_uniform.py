"""Uniform by bytes (KIP-794): Java's traces, the rules one by one, an even spread, threads."""

from __future__ import annotations

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from kafka_assignors.producers import partition_for_key
from kafka_assignors.producers.core.topic import TopicView
from kafka_assignors.producers.core.uniform import UniformChoice
from kafka_assignors.producers.errors import ConfigError
from kafka_assignors.producers.partitioners.interface.topic_rule import TopicRule
from tests.support.producers import vectors
from tests.support.producers.vectors import Draws, repeat, view

CASES = vectors.load("builtin_kip794.jsonl")
RACKS = vectors.load("builtin_kip1123.jsonl")
ACCUMULATOR = vectors.load("accumulator_kip794.jsonl")


class Java(UniformChoice):
    """What production runs without the one step in which it differs: Java stays on a partition that lost its leader."""

    def _keeps(self, view, partition):
        return True


def load(uniform, row):
    """Tell the loads as Java's accumulator tells them."""
    rows = list(zip(row["partition_ids"], row["queue_sizes"], strict=True))
    uniform.set_loads(rows[: row["length"]], len(rows))


@pytest.mark.source("apache/kafka 4.3.0 BuiltInPartitioner; with racks 4.4.0")
@pytest.mark.parametrize("case", [*CASES, *RACKS], ids=[c["name"] for c in [*CASES, *RACKS]])
def test_replays_java(case):
    """`current` draws at the end of a stay, as Java does, not when the next record comes."""
    draws, racks = Draws(case["draws"]), case.get("racks")
    uniform = Java(draws, case["sticky_batch_size"], rack=case.get("rack"))
    topic, trace = view(case["cluster"], racks=racks), []
    for op in case["ops"]:
        if "cluster" in op:
            topic = view(op["cluster"], racks=racks)
        elif "load" in op:
            load(uniform, op["load"])
        elif "no_load" in op:
            uniform.set_loads([], 0)
        else:
            partition = uniform.choose(topic, op["append"])
            produced = uniform.produced_bytes
            if op["switch"]:
                uniform.boundary(partition)
            following = uniform.current(topic)
            trace.append([partition, following, uniform.produced_bytes < produced, draws.used])
    assert trace == case["trace"]


@pytest.mark.source("apache/kafka 4.3.0 RecordAccumulator around BuiltInPartitioner")
@pytest.mark.parametrize("case", ACCUMULATOR, ids=[c["name"] for c in ACCUMULATOR])
def test_replays_java_inside_its_accumulator(case):
    """Each send as kafka-python makes it: placed, and placed again if all batches of the partition are full.

    Java's row tells by an update of 0 bytes at a boundary that they are. The last update has the record's bytes.
    """
    draws = Draws(case["draws"])
    rule, topic, n = TopicRule(Java(draws, case["batch_size"])), view(case["cluster"]), len(case["cluster"])
    trace = iter(case["trace"])
    placed = 0
    for op in case["ops"]:
        if "cluster" in op:
            topic = view(op["cluster"])
        elif "sender" in op:
            row = next(trace)
            if "load" in row:
                load(rule.rule, row["load"] or {"partition_ids": [], "queue_sizes": [], "length": 0})
        elif "send" in op:
            row = next(trace)
            if "key" in op:
                assert row["p"] == partition_for_key(bytes.fromhex(op["key"]), n)
                continue
            *before, (size, boundary, _) = row["updates"]
            chosen = rule.choose(topic, size)
            if before:
                assert [zero[:2] for zero in before] == [[0, True]] * len(before)
                chosen = rule.choose_again(topic, size, chosen)
            uniform = rule.rule
            assert isinstance(uniform, UniformChoice)
            if boundary:  # the record fills its batch to the last byte: kafka-python tells that with the next record
                uniform.boundary(chosen)
            uniform.current(topic)  # draws as soon as a stay is over, as Java does
            assert (chosen, draws.used) == (row["p"], row["draws"])
            placed += 1
    assert next(trace, None) is None
    assert placed > 5


def records(most=60):
    """(bytes, whether it opens a batch) of records."""
    return st.lists(st.tuples(st.integers(0, 60), st.booleans()), min_size=1, max_size=most)


@given(batch=st.integers(1, 50), records=records())
def test_a_stay_ends_exactly_at_a_batch_on_a_boundary_or_at_two(batch, records):
    """Partitions follow each other in turn, so that each change shows."""
    uniform, topic, at, produced = UniformChoice(repeat(0, 1, 2), batch), view([0] * 3), 0, 0
    for size, boundary in records:
        if produced >= 2 * batch:
            at, produced = (at + 1) % 3, 0
        assert uniform.choose(topic, size) == at
        produced += size
        if boundary:
            uniform.boundary(at)
            if produced >= batch:
                at, produced = (at + 1) % 3, 0


@given(batch=st.integers(1, 50), records=records(), same=st.booleans())
def test_a_record_that_is_asked_for_twice_counts_as_if_its_batch_had_been_opened_before(batch, records, same):
    """Java looks at the batches before it places a record, kafka-python asks again when it has found them full.

    Also when each stay is followed by one on the same partition: bytes of the one never count for the other.
    """
    draws = (0,) if same else (0, 1, 2)
    asked, java, topic = UniformChoice(repeat(*draws), batch), UniformChoice(repeat(*draws), batch), view([0] * 3)
    for size, opens in records:
        chosen = asked.choose(topic, size)
        if opens:
            chosen = asked.choose_again(topic, size, chosen)
            java.boundary(java.current(topic))
        assert (chosen, asked.produced_bytes) == (java.choose(topic, size), java.produced_bytes)


@pytest.mark.slow
@given(batch=st.integers(1, 50), records=records(), same=st.booleans())
def test_what_is_taken_back_is_as_if_it_had_never_come(batch, records, same):
    draws = (0,) if same else (0, 1, 2)
    uniform, plain, topic = UniformChoice(repeat(*draws), batch), UniformChoice(repeat(*draws), batch), view([0] * 3)
    for size, refused in records:
        chosen = uniform.choose(topic, size)
        if refused:
            uniform.take_back(size, chosen)
        else:
            assert (chosen, uniform.produced_bytes) == (plain.choose(topic, size), plain.produced_bytes)


def test_bytes_of_a_stay_that_is_over_are_not_taken_from_the_next():
    """Another thread's record has begun a new stay on the same partition before the first is taken back."""
    uniform, topic = UniformChoice(repeat(0), 10), view([0])
    assert [uniform.choose(topic, 20), uniform.choose(topic, 5)] == [0, 0]
    uniform.take_back(20, 0)
    assert uniform.produced_bytes == 0


@pytest.mark.source("KIP-794, the example of queue sizes 0, 3, 1")
def test_loads_weigh_as_in_java():
    uniform, topic = UniformChoice(repeat(*range(8)), 1), view([0] * 3)
    uniform.set_loads([(0, 0), (1, 3), (2, 1)], 3)
    assert Counter(uniform.choose(topic, 2) for _ in range(8)) == {0: 4, 1: 1, 2: 3}


def test_a_thousand_changes_are_even():
    uniform, topic = UniformChoice(_source(20260101), 100), view([0] * 6)
    stays = Counter(uniform.choose(topic, 200) for _ in range(3000))
    assert chisquare([stays[p] for p in range(6)]).pvalue > 0.001


def test_a_record_counts_once_though_the_client_asks_twice():
    """9 bytes short of a batch: if the record that opens a batch counted twice, the partition would change."""
    rule, topic = UniformChoice(repeat(0, 1), batch_bytes=100), view([0, 0])
    assert rule.choose(topic, 91) == 0
    assert rule.choose(topic, 5) == 0
    assert rule.choose_again(topic, 5, 0) == 0, "91 produced: not yet"
    assert rule.choose(topic, 5) == 0
    assert rule.choose_again(topic, 5, 0) == 0, "96 produced: not yet, the record itself is not in"
    assert rule.choose(topic, 1) == 0
    assert rule.choose_again(topic, 1, 0) == 1, "101 produced, the batch is full: now"


def test_the_partition_changes_at_two_batches_without_any_report():
    rule, topic = UniformChoice(repeat(0, 1), batch_bytes=100), view([0, 0])
    assert [rule.choose(topic, 50) for _ in range(9)] == [0, 0, 0, 0, 1, 1, 1, 1, 0]


def test_a_partition_without_a_leader_and_one_that_is_gone_are_left():
    rule = UniformChoice(repeat(2, 1), 100)
    assert [rule.choose(view([0, 0, 0]), 1), rule.choose(view([0, 0, -1]), 1)] == [2, 1]
    rule = UniformChoice(repeat(2, 1), 100)
    assert [rule.choose(view([-1] * 3), 1), rule.choose(TopicView("t", [0, 1], []), 1)] == [2, 1]


@pytest.mark.parametrize("batch_bytes", [0, -5, 2.0, None])
def test_a_wrong_batch_size_is_refused_at_once(batch_bytes):
    with pytest.raises(ConfigError, match="batch_bytes must be an int of at least 1"):
        UniformChoice(repeat(0), batch_bytes)


def test_threads_lose_no_bytes(eager_switching):
    alternate = repeat(0, 1)

    def draw():
        time.sleep(0)  # gives way in the middle of a change
        return alternate()

    rule, topic, together = TopicRule(UniformChoice(draw, batch_bytes=50)), view([0, 0]), Barrier(4, timeout=30)

    def send():
        together.wait()
        return Counter(rule.choose(topic, 10) for _ in range(3000))

    with ThreadPoolExecutor(4) as pool:
        counts = sum((f.result(60) for f in [pool.submit(send) for _ in range(4)]), Counter())
    assert counts == {0: 6000, 1: 6000}


def _source(seed):
    rng = random.Random(seed)
    return lambda: rng.getrandbits(31)
