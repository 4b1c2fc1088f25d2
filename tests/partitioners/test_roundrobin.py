"""Round robin: Java's traces, the law of at most one, threads."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.core.roundrobin import RoundRobin
from producers.strategies import RoundRobinStrategy

from . import vectors
from .vectors import view

CASES = vectors.load("roundrobin.jsonl")


@pytest.mark.source("apache/kafka 4.3.0 RoundRobinPartitioner")
@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_replays_java(case):
    robin, topic, chosen = RoundRobin(), view(case["cluster"]), []
    for op in case["ops"]:
        if "cluster" in op:
            topic = view(op["cluster"])
        else:
            chosen += [robin.choose(topic) for _ in range(op["send"])]
    assert chosen == case["expected"]


@given(
    leaders=st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=12),
    sends=st.integers(0, 100),
    start=st.integers(0, 2**31 - 1),
)
def test_counts_differ_by_one_at_most_and_only_candidates_are_chosen(leaders, sends, start):
    """Also across the point where Java's int counter wraps: there, and only there, a cycle may be cut short."""
    topic, robin = view(leaders), RoundRobin(start)
    counts = Counter(robin.choose(topic) for _ in range(sends))
    assert set(counts) <= set(topic.candidates)
    wraps = start + sends > 2**31
    assert max(counts.values(), default=0) - min((counts[p] for p in topic.candidates), default=0) <= 1 + wraps


def test_the_counter_wraps_like_javas_int():
    robin, topic = RoundRobin(2**31 - 2), view([0] * 7)
    n = 2**31
    assert [robin.choose(topic) for _ in range(4)] == [(n - 2) % 7, (n - 1) % 7, 0, 1]


def test_topics_count_apart():
    strategy, a, b = RoundRobinStrategy(), view([0] * 3, "a"), view([0] * 3, "b")
    assert [strategy.choose(t, 1) for t in (a, b, a, b, a)] == [0, 0, 1, 1, 2]


def test_random_start_is_drawn_once_a_topic():
    strategy = RoundRobinStrategy(start=vectors.Draws([5, 7]))
    a, b = view([0] * 6, "a"), view([0] * 6, "b")
    assert [strategy.choose(t, 1) for t in (a, b, a, b)] == [5, 1, 0, 2]


@pytest.mark.parametrize("partitions", [6, 7, 1000])
def test_four_threads_of_a_thousand_records_differ_by_one_at_most(eager_switching, partitions):
    strategy, topic, together = RoundRobinStrategy(), view([0] * partitions), Barrier(4, timeout=30)

    def send():
        together.wait()
        return Counter(strategy.choose(topic, 100) for _ in range(1000))

    with ThreadPoolExecutor(4) as pool:
        counts = sum((f.result(60) for f in [pool.submit(send) for _ in range(4)]), Counter())
    assert counts.total() == 4000
    assert max(counts.values()) - min(counts[p] for p in topic.partitions) <= 1
