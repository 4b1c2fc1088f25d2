"""Backlog, availability and racks of the uniform partitioner; geography; all over chosen leaders."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaProducer
from kafka.errors import MessageSizeTooLargeError
from kafka.future import Future
from scipy.stats import chisquare

from kafka_assignors.producers import (
    ConfigError,
    Counters,
    DefaultPartitioner,
    ExplicitPartitioner,
    GeographicPartitioner,
    UniformPartitioner,
    host_like,
    partition_for_key,
    rack_is,
)
from kafka_assignors.producers.core.backlog import Backlog
from kafka_assignors.producers.core.topic import PartitionLeader, TopicView
from kafka_assignors.producers.core.uniform import UniformChoice
from tests.support.producers.clusters import cluster, response
from tests.support.producers.sending import Sender
from tests.support.producers.vectors import repeat

BROKERS = [PartitionLeader(i, f"kafka{i}.{zone}.example", f"rack-{zone}") for i, zone in enumerate("abc")]


def view(leaders, topic="t"):
    """leader id per partition (-1: none) -> the topic, leaders in three racks."""
    led = {p: BROKERS[leader] for p, leader in enumerate(leaders) if leader != -1}
    return TopicView(topic, range(len(leaders)), led, led)


def source(seed):
    rng = random.Random(seed)
    return lambda: rng.getrandbits(31)


def stays(uniform, topic, count):
    """How often each partition is stayed on."""
    return Counter(uniform.choose(topic, 2 * uniform.batch_bytes) for _ in range(count))


def adaptive(seed, batch_bytes, *, clock=lambda: 0.0, timeout_s=0.0):
    """A uniform rule that knows its backlog."""
    return UniformChoice(source(seed), batch_bytes, backlog=Backlog(clock, timeout_s))


def test_backlog_counts_what_waits_and_how_long():
    backlog = Backlog(iter([5.0, 6.0]).__next__)
    assert backlog.idle
    first, second = backlog.sent(1, 100), backlog.sent(1, 50)
    assert (backlog.idle, backlog.pending_bytes(1), backlog.oldest(1), backlog.oldest(0)) == (False, 150, 5.0, None)
    backlog.done(1, first)
    backlog.done(1, first)
    assert (backlog.pending_bytes(1), backlog.oldest(1)) == (50, 6.0)
    backlog.done(1, second)
    assert (backlog.pending_bytes(1), backlog.oldest(1)) == (0, None)


@given(steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 500)), max_size=40), seed=st.integers(0, 99))
def test_backlog_ends_at_zero_in_any_order(steps, seed):
    backlog = Backlog(lambda: 0.0)
    tokens = [(p, backlog.sent(p, size)) for p, size in steps]
    assert sum(backlog.pending_bytes(p) for p in range(4)) == sum(size for _, size in steps)
    random.Random(seed).shuffle(tokens)
    for p, token in tokens:
        backlog.done(p, token)
    assert [backlog.pending_bytes(p) for p in range(4)] == [0] * 4


def test_queues_are_batches_and_a_late_leader_is_left_out_with_all_its_partitions():
    clock, topic = [0.0], view([0, 1, 2, 0, 1, 2])
    backlog, patient = Backlog(lambda: clock[0], 1.0), Backlog(lambda: clock[0])
    for each in (backlog, patient):
        each.sent(0, 250)
    clock[0] = 0.9
    assert backlog.queues(topic, 100)[0][0] == (0, 3), "not late yet"
    clock[0] = 9.5
    for each in (backlog, patient):
        each.sent(1, 100)
    clock[0] = 10.0
    assert patient.queues(topic, 100) == ([(0, 3), (1, 1), (2, 0), (3, 0), (4, 0), (5, 0)], 6)
    assert backlog.queues(topic, 100) == ([(1, 1), (2, 0), (4, 0), (5, 0)], 6)


def test_a_partition_with_backlog_gets_the_share_its_queue_leaves():
    """Queues 0, 3, 1 weigh 4, 1, 3."""
    uniform, topic = adaptive(1, 100), view([0, 1, 2])
    uniform.backlog.sent(1, 300)
    uniform.backlog.sent(2, 100)
    counts = stays(uniform, topic, 8000)
    assert all(abs(counts[p] / 8000 - share / 8) < 0.02 for p, share in enumerate((4, 1, 3)))


def test_a_stalled_leader_gets_less_than_half_its_share_and_all_of_it_afterwards():
    """Acknowledgements of every leader but one come at once; that one's come at the end."""
    uniform, topic, waiting = adaptive(2, 100), view([0, 1, 2] * 2), []
    counts = Counter()
    for _ in range(1000):
        partition = uniform.choose(topic, 200)
        counts[partition % 3] += 1
        token = uniform.backlog.sent(partition, 200)
        if partition % 3 == 1:
            waiting.append((partition, token))
        else:
            uniform.backlog.done(partition, token)
    assert 0 < counts[1] < 1000 / 3 / 2
    for done in waiting:
        uniform.backlog.done(*done)
    after = Counter(uniform.choose(topic, 200) % 3 for _ in range(3000))
    assert chisquare([after[i] for i in range(3)]).pvalue > 0.001


def test_the_availability_timeout_stops_a_late_leader_and_ends_with_its_first_acknowledgement():
    clock = [0.0]
    uniform = adaptive(3, 100, timeout_s=1.0, clock=lambda: clock[0])
    topic = view([0, 1, 2] * 2)
    token = uniform.backlog.sent(1, 10)
    clock[0] = 1.5
    assert {p % 3 for p in stays(uniform, topic, 300)} == {0, 2}
    uniform.backlog.done(1, token)
    assert {p % 3 for p in stays(uniform, topic, 300)} == {0, 1, 2}


def test_when_every_leader_is_late_all_are_used():
    uniform = adaptive(4, 100, timeout_s=1.0, clock=iter(range(10**6)).__next__)
    for p in range(3):
        uniform.backlog.sent(p, 10)
    assert set(stays(uniform, view([0, 1, 2]), 100)) == {0, 1, 2}


def test_many_partitions_are_weighed_once_in_many_changes():
    topic, asked = view([0, 1, 2] * 1000), []
    uniform = adaptive(5, 100, timeout_s=1.0, clock=lambda: asked.append(1) or 0.0)
    uniform.backlog.sent(1, 10)
    stays(uniform, topic, 930)
    assert 5 < len(asked) <= 1 + 930 // 93 + 1


@pytest.mark.source("KIP-1123")
def test_records_stay_in_the_rack_while_it_has_leaders():
    uniform = UniformChoice(source(6), 100, rack="rack-b")
    assert set(stays(uniform, view([0, 1, 2] * 2), 500)) == {1, 4}
    assert chisquare(list(stays(uniform, view([0, 1, 2] * 2), 2000).values())).pvalue > 0.001
    assert set(stays(uniform, view([0, -1, 2, 0, 1, 2]), 500)) == {4}
    assert set(stays(uniform, view([0, -1, 2, 0, -1, 2]), 500)) == {0, 2, 3, 5}, "no local leader: anywhere"
    assert set(stays(uniform, view([-1] * 3), 500)) == {0, 1, 2}
    assert set(stays(UniformChoice(source(7), 100, rack="rack-z"), view([0, 1, 2]), 500)) == {0, 1, 2}


def test_racks_come_before_backlog_and_backlog_counts_within_the_rack():
    uniform, topic = UniformChoice(source(8), 100, rack="rack-b"), view([0, 1, 2] * 2)
    uniform.set_loads([(0, 0), (1, 3), (2, 0), (3, 0), (4, 1), (5, 0)], 6)
    counts = stays(uniform, topic, 4000)
    assert set(counts) == {1, 4}
    assert abs(counts[1] / 4000 - 1 / 4) < 0.02, "weights 1 and 3"
    uniform.set_loads([(0, 1), (2, 0), (3, 0), (5, 0)], 6)
    uniform.choose(topic, 200)
    assert set(stays(uniform, topic, 500)) == {0, 2, 3, 5}, "the near ones are all left out"


@pytest.mark.source("kafka-clients 4.4.0 BuiltInPartitioner#createPartitionLoadStatsForThisRackIfNeeded")
@pytest.mark.parametrize(
    ("queues", "weights"),
    [
        ({1: 0, 4: 1, 0: 10}, {1: 2, 4: 1}),  # with the longest queue of the topic: 11 to 10
        ({1: 3, 4: 3, 0: 0}, {1: 1, 4: 1}),
        ({1: 5, 4: 0, 0: 1}, {1: 1, 4: 6}),
        ({4: 7, 0: 0, 2: 3}, {4: 1}),  # partition 1 is left out: its leader is late
        ({0: 2, 2: 0, 3: 1}, {0: 1, 2: 3, 3: 2}),  # so are all of the rack: the topic's weights
    ],
)
def test_weights_come_from_the_longest_queue_of_the_rack(queues, weights):
    """One draw for each unit of weight finds each partition as often as it weighs."""
    total = sum(weights.values())
    uniform, topic = UniformChoice(iter(range(total)).__next__, 100, rack="rack-b"), view([0, 1, 2] * 2)
    uniform.set_loads(sorted(queues.items()), 6)
    assert stays(uniform, topic, total) == weights


@pytest.mark.parametrize("share", [0.0, 0.7])
def test_no_more_than_the_local_share_goes_to_the_rack(share):
    counts = stays(UniformChoice(source(9), 100, rack="rack-b", local_share=share), view([0, 1, 2] * 2), 6000)
    assert abs((counts[1] + counts[4]) / 6000 - share) < 0.02
    assert set(counts) >= {0, 2, 3, 5}
    only = UniformChoice(source(9), 100, rack="rack-b", local_share=share)
    assert set(stays(only, view([1, 1]), 100)) == {0, 1}, "there is no other rack"


def test_keys_lie_where_java_puts_them_with_racks_or_without():
    metadata = cluster({"t": [0, 1, 2] * 2})
    for ours in (UniformPartitioner(rack="x"), UniformPartitioner(availability_timeout_ms=50)):
        sender = Sender(ours, metadata)
        assert all(sender.send("t", key=b"%d" % i) == partition_for_key(b"%d" % i, 6) for i in range(200))
    ignoring = Sender(UniformPartitioner(ignore_keys=True, batch_bytes=100, seed=1), metadata)
    for _ in range(600):
        ignoring.send("t", b"v" * 100, key=b"one key")
    assert set(ignoring.placed) == set(range(6))


def test_a_leader_that_moves_by_a_hint_is_noticed():
    """KIP-951: the leader of partition 1 moves without a metadata update."""
    metadata = cluster({"t": [0, 1, 0, 1]})
    at_one = Sender(GeographicPartitioner(lambda leader, record: leader.id == 1), metadata)
    assert {at_one.send("t") for _ in range(10)} == {1, 3}
    metadata._partitions["t"][1].leader_id = 0
    assert {at_one.send("t") for _ in range(10)} == {3}


def test_geography_in_order_of_preference_balanced_and_without_an_error():
    metadata = cluster({"t": [0, 1, 2, 0, 1, 2]})
    ours = GeographicPartitioner(lambda leader, record: leader.id == 9, host_like("b1", "b2"))
    sender = Sender(ours, metadata, batch_bytes=1)
    for _ in range(400):
        sender.send("t")
    assert sender.placed == dict.fromkeys((1, 2, 4, 5), 100)
    metadata.update_metadata(response({"t": [0, -1, -1, 0, -1, -1]}))
    sender.placed.clear()
    for _ in range(100):
        sender.send("t")
    assert sender.placed == {0: 50, 3: 50}, "nothing matches: all that have a leader"
    default = Sender(GeographicPartitioner("nowhere", fallback=DefaultPartitioner()), metadata)
    assert default.send("t", key=b"k") == partition_for_key(b"k", 6)


def test_the_record_may_say_where_it_belongs():
    metadata = cluster({"t": [0, 1] * 3})
    home = GeographicPartitioner(lambda leader, record: leader.id == record.value["home"])
    sender = Sender(home, metadata)
    placed = {h: Counter(sender.send("t", {"home": h}) for _ in range(300)) for h in (0, 1)}
    assert placed == {0: dict.fromkeys((0, 2, 4), 100), 1: dict.fromkeys((1, 3, 5), 100)}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: UniformPartitioner(rack=" "), "rack must be the name of a rack"),
        (lambda: UniformPartitioner(local_share=0.5), "give rack too"),
        (lambda: UniformPartitioner(rack="a", local_share=1.5), "local_share must be a number from 0 to 1"),
        (lambda: UniformPartitioner(availability_timeout_ms=-1), "availability_timeout_ms must be"),
        (lambda: UniformPartitioner(availability_timeout_ms=5, adaptive=False), "needs adaptive=True"),
        (lambda: UniformPartitioner(adaptive=False).attach(None), "attach counts the backlog"),
        (GeographicPartitioner, "needs prefer"),
        (lambda: GeographicPartitioner(3), "prefer must be a rack's name or callable"),
        (lambda: GeographicPartitioner(""), "not blank"),
        (rack_is, "one or more names"),
        (lambda: GeographicPartitioner("a", fallback=3), "fallback must be an instance"),
    ],
)
def test_arguments_are_checked(make, says):
    with pytest.raises(ConfigError, match=says):
        make()


@pytest.mark.broker
def test_an_attached_producer_counts_until_it_is_acknowledged(kafka_broker, kafka_topic):
    topic, uniform = kafka_topic(partitions=6), UniformPartitioner(batch_bytes=500, seed=1)
    with closing(
        KafkaProducer(
            bootstrap_servers=kafka_broker.bootstrap, partitioner=uniform, linger_ms=300, batch_size=10**6,
            metrics_enabled=False,
        )
    ) as sending:  # fmt: skip
        uniform.attach(sending)
        uniform.attach(sending)
        futures = [sending.send(topic, b"v" * 92, key=b"k%d" % i if i % 2 else None) for i in range(100)]
        waiting = [uniform.pending_bytes(topic, p) for p in range(6)]
        assert sum(waiting) == sum(100 + (len(b"k%d" % i) if i % 2 else 0) for i in range(100)), "keys count as well"
        assert {future.get(60).topic for future in futures} == {topic}
        assert [uniform.pending_bytes(topic, p) for p in range(6)] == [0] * 6


def test_draws_of_a_stuck_source_still_end():
    assert UniformChoice(repeat(0), 10, rack="rack-a").choose(view([0, 1]), 1) == 0


class Producer:
    """As much of a `KafkaProducer` as `attach` looks at."""

    def __init__(self, partitioner, fails=()):
        self.config = {"partitioner": partitioner}
        self._metadata = cluster({"t": [0] * 4})
        self._fails = list(fails)
        self.futures = []

    def send(self, topic, value=None, key=None, partition=None):
        if partition is None:
            partition = self.config["partitioner"].partition(topic, key, key, value, value, self._metadata)
        if self._fails and self._fails.pop(0):
            raise MessageSizeTooLargeError
        self.futures.append(Future())
        return self.futures[-1]


def test_attaching_twice_counts_once():
    first, second = UniformPartitioner(), UniformPartitioner()
    producer = Producer(ExplicitPartitioner(lambda *_: None, fallback=first))
    for each in (first, first):
        each.attach(producer)
    producer.send("t", b"v" * 92)
    assert sum(first.pending_bytes("t", p) for p in range(4)) == 100
    with pytest.raises(ConfigError, match="attach needs the KafkaProducer that uses this partitioner"):
        second.attach(producer)


def test_a_record_that_an_attached_producer_refuses_leaves_no_trace():
    refused = [i % 3 == 0 for i in range(60)]
    ours, plain = (UniformPartitioner(seed=1, batch_bytes=100, counters=Counters()) for _ in range(2))
    sending, other = Producer(ours, refused), Producer(plain)
    ours.attach(sending)
    plain.attach(other)
    for refuse in refused:
        if refuse:
            with pytest.raises(MessageSizeTooLargeError):
                sending.send("t", b"v" * 42)
        else:
            sending.send("t", b"v" * 42)
            other.send("t", b"v" * 42)
    assert ours.counters.topic("t") == plain.counters.topic("t")
    assert [ours.pending_bytes("t", p) for p in range(4)] == [plain.pending_bytes("t", p) for p in range(4)]
