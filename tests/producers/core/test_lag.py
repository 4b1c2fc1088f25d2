"""Weights by lag: the law 1 / (1 + drain time), its floor, old and invalid readings; drain times of commits."""

from __future__ import annotations

import math
import random
from collections import Counter
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.producers.core.backlog import Backlog
from kafka_assignors.producers.core.lag import FLOOR, REFRESH_S, DrainMeter, LagReading, LagWeights, flaw, weights_of
from kafka_assignors.producers.core.topic import PartitionLeader, TopicView
from kafka_assignors.producers.core.uniform import UniformChoice

DRAINS = st.one_of(st.just(0), st.just(math.inf), st.floats(0, 1e6), st.integers(0, 10**9))


def any_known(drains):
    return any(seconds is not None for seconds in drains)


def view(partitions, leaders=None):
    return TopicView("t", range(partitions), range(partitions), leaders)


def spread(uniform, topic, draws=1024):
    """partition -> its share, with draws at equal distances over the whole range."""
    counts = Counter(uniform.choose(topic, 2 * uniform.batch_bytes) for _ in range(draws))
    return {p: counts[p] / draws for p in topic.partitions}


def even_draws(count=1024):
    return iter([2**31 * i // count for i in range(count)]).__next__


def by_lag(drain_s, draw=None, **options):
    source = lambda topic: LagReading(drain_s, 0.0)
    return UniformChoice(
        draw or even_draws(), 100, lag=LagWeights(source, lambda: 0.0, 10.0, lambda *_: None), **options
    )


@given(drains=st.lists(st.one_of(DRAINS, st.none()), min_size=1, max_size=8).filter(any_known))
def test_shares_follow_the_law_and_its_floor(drains):
    known = {p: s for p, s in enumerate(drains) if s is not None}
    topic = view(len(drains))

    shares = spread(by_lag(known), topic)

    weights = {p: 1 / (1 + s) for p, s in known.items()}
    consumed = [weight for weight in weights.values() if weight > 0] or [1.0]
    lawful = {p: max(weights.get(p, median(consumed)), 0.05 * median(consumed)) for p in topic.partitions}
    for p in topic.partitions:
        assert shares[p] == pytest.approx(lawful[p] / sum(lawful.values()), abs=2 / 1024)


@given(drains=st.dictionaries(st.integers(0, 7), DRAINS, min_size=1))
def test_more_lag_never_weighs_more_and_nobody_is_below_the_floor(drains):
    weights = weights_of(drains, view(8))
    by_drain = [weights[p] for _, p in sorted((s, p) for p, s in drains.items())]
    assert by_drain == sorted(by_drain, reverse=True)
    consumed = [1 / (1 + s) for s in drains.values() if s != math.inf]
    assert min(weights.values()) >= FLOOR * (median(consumed) if consumed else 1) > 0


@pytest.mark.slow
@given(drains=st.lists(DRAINS, min_size=2, max_size=6), seed=st.integers(0, 2**32))
def test_a_seed_decides_everything(drains, seed):
    def placed():
        source = random.Random(seed)
        uniform = by_lag(dict(enumerate(drains)), lambda: source.getrandbits(31))
        return [uniform.choose(view(len(drains)), 60) for _ in range(200)]

    assert placed() == placed()


@given(lag=st.integers(0, 5), queues=st.lists(st.integers(0, 5), min_size=2, max_size=5))
def test_lag_multiplies_the_weights_of_kip_794(lag, queues):
    """Partition 0 is behind; the queues are batches that wait in the producer."""
    backlog = Backlog(lambda: 0.0)
    for p, queue in enumerate(queues):
        backlog.sent(p, 100 * queue)
    weights = [max(queues) + 1 - queue for queue in queues]
    weights[0] *= max(1 / (1 + lag), 0.05)

    shares = spread(by_lag(dict.fromkeys(range(len(queues)), 0) | {0: lag}, backlog=backlog), view(len(queues)))

    for p, weight in enumerate(weights):
        assert shares[p] == pytest.approx(weight / sum(weights), abs=2 / 1024)


def test_lag_counts_within_the_rack():
    near, far = PartitionLeader(0, "a", "near"), PartitionLeader(1, "b", "far")
    topic = view(4, {0: near, 1: near, 2: far, 3: far})
    assert spread(by_lag({0: 0, 1: 2, 2: 0, 3: 0}, rack="near"), topic) == pytest.approx(
        {0: 3 / 4, 1: 1 / 4, 2: 0, 3: 0}, abs=0.001
    )


def test_a_late_leader_gets_nothing_however_little_its_consumers_lag():
    clock = [0.0]
    backlog = Backlog(lambda: clock[0], timeout_s=1.0)
    backlog.sent(0, 10)
    clock[0] = 2.0
    assert set(spread(by_lag({0: 0, 1: 50, 2: 60}, backlog=backlog), view(3))) == {0, 1, 2}
    backlog.sent(1, 10)
    uniform = by_lag({0: 0, 1: 50, 2: 60}, backlog=backlog)
    assert spread(uniform, view(3))[0] == 0


class Told:
    def __init__(self):
        self.kinds = []

    def __call__(self, topic, kind, sentence):
        assert topic == "t"
        assert sentence
        self.kinds.append(kind)


@given(ages=st.lists(st.floats(0, 30), min_size=1, max_size=20), max_age_s=st.floats(1, 10))
def test_an_old_reading_does_not_count(ages, max_age_s):
    """Each step the clock is this much later than the reading."""
    told, now = Told(), [0.0]
    lag = LagWeights(lambda topic: LagReading({0: 0.0, 1: 1.0}, 0.0), lambda: now[0], max_age_s, told)
    for age in sorted(ages):
        now[0] = age
        fresh = age <= max_age_s
        assert lag.weights(view(2)) == ({0: 1.0, 1: 0.5} if fresh else None)
        assert (told.kinds == []) == fresh


def test_a_source_is_asked_once_a_second_and_its_weights_are_kept():
    now, asked = [100.0], []

    def source(topic):
        asked.append(topic)
        return LagReading({0: 0.0, 1: float(len(asked))}, now[0])

    lag, topic = LagWeights(source, lambda: now[0], 10.0, Told()), view(2)
    first = lag.weights(topic)
    now[0] += REFRESH_S / 2
    assert lag.weights(topic) is first
    assert asked == ["t"]
    now[0] += REFRESH_S / 2
    assert lag.weights(topic) == {0: 1.0, 1: 1 / 3}
    assert asked == ["t", "t"]


def test_nothing_is_told_before_a_source_had_its_time():
    told, now, known = Told(), [0.0], [None]
    lag = LagWeights(lambda topic: known[0], lambda: now[0], 5.0, told)
    for now[0] in (0.0, 4.0):
        assert lag.weights(view(2)) is None
    assert told.kinds == []
    now[0] = 6.0
    assert lag.weights(view(2)) is None
    assert told.kinds == ["old"]
    known[0], now[0] = LagReading({}, 7.0), 7.0
    assert lag.weights(view(2)) is None
    assert told.kinds == ["old"] * 2, "a reading that knows no partition of the topic is no reading"
    known[0], now[0] = LagReading({0: 1}, 8.0), 8.0
    assert lag.weights(view(2)) == {0: 0.5, 1: 0.5}


@pytest.mark.parametrize(
    ("reading", "kind"),
    [
        (LagReading({0: -1}, 0.0), "invalid"),
        (LagReading({0: math.nan}, 0.0), "invalid"),
        (LagReading({0: "3"}, 0.0), "invalid"),
        (LagReading({0: True}, 0.0), "invalid"),
        (LagReading({0: 1}, 1e9), "invalid"),  # wall-clock time
        (LagReading({0: 1}, math.nan), "invalid"),
        (LagReading([1, 2], 0.0), "invalid"),
        (OSError("no route to host"), "error"),
    ],
)
def test_a_bad_reading_is_told_and_never_raises(reading, kind):
    def source(topic):
        if isinstance(reading, Exception):
            raise reading
        return reading

    told = Told()
    assert LagWeights(source, lambda: 0.0, 10.0, told).weights(view(2)) is None
    assert told.kinds == [kind]


def test_a_source_that_fails_now_and_then_keeps_its_last_reading():
    answers, now, told = [LagReading({0: 0, 1: 3}, 0.0), OSError(), OSError()], [0.0], Told()

    def source(topic):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    lag = LagWeights(source, lambda: now[0], 1.5, told)
    for now[0] in (0.0, 1.0):
        assert lag.weights(view(2)) == {0: 1.0, 1: 0.25}
    now[0] = 2.0
    assert lag.weights(view(2)) is None
    assert told.kinds == ["error", "error", "old"]


def test_what_is_wrong_with_drain_times_is_named():
    assert flaw({0: 0, 1: 2.5, 2: math.inf}) is None
    assert "partition 7" in flaw({0: 0, 7: -2})
    assert "-2" in flaw({0: 0, 7: -2})
    assert "mapping" in flaw(3)


def sampled(meter, *samples):
    """(time, {partition: (committed, end)}), ...; the last answer."""
    for at_s, offsets in samples:
        drain_s = meter.sample(at_s, offsets)
    return drain_s


def test_a_drain_time_is_lag_by_the_speed_within_the_window():
    meter = DrainMeter(10.0)
    assert meter.sample(0.0, {0: (0, 100), 1: (5, 5)}) == {1: 0.0}, "of partition 0 the speed is not known"
    assert meter.sample(5.0, {0: (50, 150), 1: (5, 5)}) == {0: 10.0, 1: 0.0}
    assert meter.sample(10.0, {0: (100, 200), 1: (5, 5)})[0] == 10.0
    assert meter.sample(15.0, {0: (300, 700), 1: (5, 5)})[0] == 400 / 25, "the first sample has left the window"


def test_a_partition_that_stands_has_waited_since_it_moved_last():
    meter = DrainMeter(4.0)
    offsets = {0: (10, 90)}
    assert sampled(meter, (0.0, {0: (0, 80)}), (2.0, offsets), (5.0, offsets), (6.0, offsets)) == {0: 4.0}
    assert meter.sample(20.0, {0: (10, 95)}) == {0: 18.0}
    assert meter.sample(21.0, {0: (95, 95)}) == {0: 0.0}
    assert meter.sample(26.0, {0: (95, 96)})[0] == 5.0, "since it had no lag"


def test_records_between_two_commits_are_no_lag_and_a_lag_that_lasts_is():
    """Consumed as fast as they come, and committed every third second: of the last 5 s, one sample has no lag."""
    meter = DrainMeter(15.0)
    for second in range(20):
        assert not any(meter.sample(float(second), {0: (100 * (second - second % 3), 100 * second)}).values())
    for second in range(20, 23):
        assert not any(meter.sample(float(second), {0: (1800, 100 * second)}).values())
    assert meter.sample(23.0, {0: (1800, 2300)})[0] > 1.0


def test_a_partition_is_measured_from_its_own_first_commit():
    """The group begins while it is sampled: nothing, then one partition, then two."""
    meter = DrainMeter(15.0)
    assert sampled(meter, (0.0, {}), (1.0, {}), (2.0, {0: (10, 90)})) == {}
    assert meter.sample(4.0, {0: (30, 90), 1: (0, 40)}) == {0: 6.0}
    assert meter.sample(6.0, {0: (50, 90), 1: (20, 40)}) == {0: 4.0, 1: 2.0}


def test_an_offset_that_is_reset_has_no_speed():
    meter = DrainMeter(10.0)
    assert sampled(meter, (0.0, {0: (50, 90)}), (1.0, {0: (60, 90)})) == {0: 3.0}
    assert meter.sample(2.0, {0: (10, 90)}) == {}
    assert meter.sample(3.0, {}) == {}
    assert meter.sample(4.0, {0: (20, 90)}) == {}, "it comes back: not known since when"


@given(speed=st.integers(1, 1000), every=st.integers(1, 5), seconds=st.integers(12, 40))
def test_commits_in_bursts_show_the_speed_of_the_consumer(speed, every, seconds):
    """A consumer commits each few seconds; more is always waiting."""
    meter, end = DrainMeter(15.0), 10**6
    for second in range(seconds + 1):
        committed = speed * (second - second % every)
        drain_s = meter.sample(float(second), {0: (committed, end)})
    true_s = (end - committed) / speed
    assert drain_s[0] == pytest.approx(true_s, rel=every / (min(seconds, 15) - every))
