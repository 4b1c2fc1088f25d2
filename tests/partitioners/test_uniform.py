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

from producers import partition_for_key
from producers.core.topic import TopicView
from producers.core.uniform import Uniform
from producers.errors import ConfigError
from producers.strategies import UniformStrategy

from . import vectors
from .vectors import Draws, repeat, view

CASES = vectors.load("builtin_kip794.jsonl")
ACCUMULATOR = vectors.load("accumulator_kip794.jsonl")


@pytest.mark.source("apache/kafka 4.3.0 BuiltInPartitioner")
@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_replays_java(case):
    draws = Draws(case["draws"])
    uniform, topic, trace = Uniform(draws, case["sticky_batch_size"]), view(case["cluster"]), []
    for op in case["ops"]:
        if "cluster" in op:
            topic = view(op["cluster"])
        elif "load" in op:
            load = op["load"]
            rows = list(zip(load["partition_ids"], load["queue_sizes"], strict=True))
            uniform.set_loads(rows[: load["length"]], len(rows))
        elif "no_load" in op:
            uniform.set_loads([], 0)
        else:
            stay = uniform.current(topic)
            switched = uniform.produced(stay, op["append"], topic, boundary=op["switch"])
            trace.append([stay.partition, uniform.current(topic).partition, switched, draws.used])
    assert trace == case["trace"]


@pytest.mark.source("apache/kafka 4.3.0 RecordAccumulator around BuiltInPartitioner")
@pytest.mark.parametrize("case", ACCUMULATOR, ids=[c["name"] for c in ACCUMULATOR])
def test_replays_java_inside_its_accumulator(case):
    """Each send: changes put off are made up for (0 bytes), the record is placed, its bytes are counted."""
    draws = Draws(case["draws"])
    uniform, topic, n = Uniform(draws, case["batch_size"]), view(case["cluster"]), len(case["cluster"])
    trace = iter(case["trace"])
    placed = 0
    for op in case["ops"]:
        if "cluster" in op:
            topic = view(op["cluster"])
        elif "sender" in op:
            row = next(trace)
            if "load" in row:
                load = row["load"] or {"partition_ids": [], "queue_sizes": [], "length": 0}
                rows = list(zip(load["partition_ids"], load["queue_sizes"], strict=True))
                uniform.set_loads(rows[: load["length"]], len(rows))
        elif "send" in op:
            row = next(trace)
            if "key" in op:
                assert row["p"] == partition_for_key(bytes.fromhex(op["key"]), n)
                continue
            stay = uniform.current(topic)
            for size, boundary, switched in row["updates"]:
                stay = uniform.current(topic)
                assert uniform.produced(stay, size, topic, boundary=boundary) == switched
            assert (stay.partition, draws.used) == (row["p"], row["draws"])
            placed += 1
    assert next(trace, None) is None
    assert placed > 5


@given(
    batch=st.integers(1, 50),
    records=st.lists(st.tuples(st.integers(0, 60), st.booleans()), min_size=1, max_size=60),
)
def test_a_stay_ends_exactly_at_a_batch_on_a_boundary_or_at_two(batch, records):
    uniform, topic, produced = Uniform(repeat(0, 1, 2), batch), view([0] * 3), 0
    for size, boundary in records:
        stay = uniform.current(topic)
        produced += size
        switched = uniform.produced(stay, size, topic, boundary=boundary)
        assert switched == (produced >= 2 * batch or (boundary and produced >= batch))
        assert (uniform.current(topic) is stay) == (not switched)
        produced = 0 if switched else produced


def test_bytes_of_a_stay_that_is_over_do_not_count_for_the_next():
    uniform, topic = Uniform(repeat(0), 10), view([0])
    old = uniform.current(topic)
    assert uniform.produced(old, 20, topic, boundary=False)
    new = uniform.current(topic)
    assert new is not old
    assert not uniform.produced(old, 1000, topic, boundary=True)
    assert (uniform.current(topic), new.produced_bytes) == (new, 0)


@pytest.mark.source("KIP-794, the example of queue sizes 0, 3, 1")
def test_loads_weigh_as_in_java():
    uniform, topic = Uniform(repeat(*range(8)), 1), view([0] * 3)
    uniform.set_loads([(0, 0), (1, 3), (2, 1)], 3)
    seen = []
    for _ in range(8):
        stay = uniform.current(topic)
        seen.append(stay.partition)
        assert uniform.produced(stay, 2, topic, boundary=True)
    assert Counter(seen) == {0: 4, 1: 1, 2: 3}


def test_a_thousand_changes_are_even():
    uniform, topic = Uniform(_source(20260101), 100), view([0] * 6)
    stays = Counter()
    for _ in range(3000):
        stay = uniform.current(topic)
        stays[stay.partition] += 1
        assert uniform.produced(stay, 100, topic, boundary=True)
    assert chisquare([stays[p] for p in range(6)]).pvalue > 0.001


def test_strategy_counts_a_record_once_though_the_client_asks_twice():
    """9 bytes short of a batch: if the record that opens a batch counted twice, the partition would change."""
    strategy, topic = UniformStrategy(repeat(0, 1), batch_bytes=100), view([0, 0])
    rule = strategy.topic("t")
    assert rule.choose(topic, 91) == 0
    assert rule.choose(topic, 5) == 0
    assert rule.choose_again(topic, 5, 0) == 0, "91 produced: not yet"
    assert rule.choose(topic, 5) == 0
    assert rule.choose_again(topic, 5, 0) == 0, "96 produced: not yet, the record itself is not in"
    assert rule.choose(topic, 1) == 0
    assert rule.choose_again(topic, 1, 0) == 1, "101 produced, the batch is full: now"


def test_strategy_changes_at_two_batches_without_any_report():
    strategy, topic = UniformStrategy(repeat(0, 1), batch_bytes=100), view([0, 0])
    assert [strategy.choose(topic, 50) for _ in range(9)] == [0, 0, 0, 0, 1, 1, 1, 1, 0]


def test_strategy_leaves_a_partition_without_a_leader_and_one_that_is_gone():
    strategy = UniformStrategy(repeat(2, 1))
    assert [strategy.choose(view([0, 0, 0]), 1), strategy.choose(view([0, 0, -1]), 1)] == [2, 1]
    strategy = UniformStrategy(repeat(2, 1))
    assert [strategy.choose(view([-1] * 3), 1), strategy.choose(TopicView("t", [0, 1], []), 1)] == [2, 1]


@pytest.mark.parametrize("batch_bytes", [0, -5, 2.0, None])
def test_a_wrong_batch_size_is_refused_at_once(batch_bytes):
    with pytest.raises(ConfigError, match="batch_bytes must be an int of at least 1"):
        UniformStrategy(repeat(0), batch_bytes=batch_bytes)


def test_threads_lose_no_bytes(eager_switching):
    alternate = repeat(0, 1)

    def draw():
        time.sleep(0)  # gives way in the middle of a change
        return alternate()

    strategy, topic, together = UniformStrategy(draw, batch_bytes=50), view([0, 0]), Barrier(4, timeout=30)

    def send():
        together.wait()
        return Counter(strategy.choose(topic, 10) for _ in range(3000))

    with ThreadPoolExecutor(4) as pool:
        counts = sum((f.result(60) for f in [pool.submit(send) for _ in range(4)]), Counter())
    assert counts == {0: 6000, 1: 6000}


def _source(seed):
    rng = random.Random(seed)
    return lambda: rng.getrandbits(31)
