"""Round robin: Java's traces, the law of at most one, threads."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.producers import RoundRobinPartitioner
from kafka_assignors.producers.core.round_robin import RoundRobin
from tests.support.producers import vectors
from tests.support.producers.clusters import cluster
from tests.support.producers.vectors import view

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
    ours, metadata = RoundRobinPartitioner(), cluster({"a": [0] * 3, "b": [0] * 3})
    assert [ours.partition(topic, None, None, b"v", b"v", metadata) for topic in "ababa"] == [0, 0, 1, 1, 2]


def test_random_start_is_drawn_once_a_topic():
    drawn = random.Random(7)
    first, second = (drawn.getrandbits(31) for _ in range(2))
    ours, metadata = RoundRobinPartitioner(random_start=True, seed=7), cluster({"a": [0] * 6, "b": [0] * 6})
    placed = [ours.partition(topic, None, None, b"v", b"v", metadata) for topic in "abab"]
    assert placed == [n % 6 for n in (first, second, first + 1, second + 1)]


@pytest.mark.parametrize("partitions", [6, 7, 1000])
def test_four_threads_of_a_thousand_records_differ_by_one_at_most(eager_switching, partitions):
    robin, topic, together = RoundRobin(), view([0] * partitions), Barrier(4, timeout=30)

    def send():
        together.wait()
        return Counter(robin.choose(topic) for _ in range(1000))

    with ThreadPoolExecutor(4) as pool:
        counts = sum((f.result(60) for f in [pool.submit(send) for _ in range(4)]), Counter())
    assert counts.total() == 4000
    assert max(counts.values()) - min(counts[p] for p in topic.partitions) <= 1


@given(n=st.integers(1, 6), chunk=st.integers(1, 3), refused=st.lists(st.booleans(), max_size=60))
def test_what_is_taken_back_is_as_if_it_had_never_come(n, chunk, refused):
    """Some choices are not used by the client: those that are used lie as if there had been no others."""
    topic, robin, plain = view([0] * n), RoundRobin(chunk=chunk), RoundRobin(chunk=chunk)
    used = []
    for refuse in refused:
        partition = robin.choose(topic)
        if refuse:
            robin.take_back(1, partition)
        else:
            used.append(partition)
    assert used == [plain.choose(topic) for _ in used]


def test_a_turn_of_a_partition_that_lost_its_leader_is_not_given_to_the_next_record():
    robin = RoundRobin()
    robin.take_back(1, robin.choose(view([0, 0, 0])))
    assert [robin.choose(view([-1, 0, 0])) for _ in range(2)] == [2, 1]


def test_threads_that_take_back_still_differ_by_one_at_most(eager_switching):
    """Every third choice is refused, in any thread."""
    robin, topic, together = RoundRobin(), view([0] * 6), Barrier(4, timeout=30)

    def send():
        together.wait()
        used = Counter()
        for i in range(3000):
            partition = robin.choose(topic)
            if i % 3:
                used[partition] += 1
            else:
                robin.take_back(1, partition)
        return used

    with ThreadPoolExecutor(4) as pool:
        counts = sum((f.result(60) for f in [pool.submit(send) for _ in range(4)]), Counter())
    assert counts.total() == 8000
    assert max(counts.values()) - min(counts.values()) <= 1
