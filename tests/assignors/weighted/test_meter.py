"""The meter: seconds per record, rate and lag from what a consumer sees, and what is kept of them."""

from __future__ import annotations

import math
import random

import pytest

from kafka_assignors.core.weighted.meter import BATCH_S, MATURE_S, STALE_S, Meter
from kafka_assignors.core.weighted.model import work
from kafka_assignors.errors import ConfigError

SLOW, FAST, THIRD = ("t", 0), ("t", 1), ("u", 0)


def fed(meter: Meter, rates: dict[tuple[str, int], float], until_s: float = 60.0, lag: int = 0) -> None:
    """Offsets of partitions whose records are read as they come, once a second."""
    for second in range(int(until_s) + 1):
        for partition, rate in rates.items():
            end = int(second * rate)
            meter.saw(partition, max(end - lag, 0), end, float(second))


def test_batches_of_several_partitions_separate_the_slow_one() -> None:
    cost = {SLOW: 0.02, FAST: 0.001, THIRD: 0.002}
    draw, meter, now = random.Random(3), Meter(), 0.0
    for _ in range(400):
        batch = {each: draw.randint(1, 20) for each in draw.sample(list(cost), draw.randint(1, 3))}
        meter.handed(batch, now)
        now += sum(n * cost[each] for each, n in batch.items())
        meter.asked(now)
        now += draw.random()  # waiting for records is no processing
    fed(meter, dict.fromkeys(cost, 10.0))
    weights = meter.weights(list(cost), 1, 60.0)
    for (topic, partition), seconds in cost.items():
        assert weights[topic][partition] == pytest.approx(10 * seconds, rel=0.2)


def test_records_one_by_one_are_measured_as_in_batches() -> None:
    """Runs of one partition, short and long, with others between them."""
    cost = {SLOW: 0.02, FAST: 0.001}
    meter, now = Meter(), 0.0
    for partition, records in ((SLOW, 3), (FAST, 40), (SLOW, 1), (FAST, 5), (SLOW, 50), (FAST, 1)):
        for _ in range(records):
            meter.handed({partition: 1}, now)
            now += cost[partition]
            meter.asked(now)
    fed(meter, dict.fromkeys(cost, 10.0))
    weights = meter.weights(list(cost), 1, 60.0)["t"]
    assert weights.tolist() == pytest.approx([10 * cost[SLOW], 10 * cost[FAST]])
    assert meter.weights(list(cost), 1, 60.0)["t"].tolist() == weights.tolist()


def test_work_is_seconds_times_arrivals_and_a_part_of_the_lag() -> None:
    meter = Meter()
    meter.handed({SLOW: 10}, 0.0)
    meter.asked(0.05)
    fed(meter, {SLOW: 100.0}, lag=3000)
    assert meter.weights([SLOW], 1, 60.0)["t"][0] == pytest.approx(work(100, 3000, 0.005))


@pytest.mark.parametrize(("kind", "expected"), [("records", 100 + 30 / 300), ("lag", 30.0)])
def test_without_seconds_records_or_lag_are_measured(kind: str, expected: float) -> None:
    meter = Meter(kind)
    fed(meter, {FAST: 100.0}, lag=30)
    assert meter.weights([FAST], 1, 60.0)["t"][1] == pytest.approx(expected)


def test_a_partition_without_records_takes_as_long_as_others_of_its_topic() -> None:
    meter = Meter()
    for each, seconds in ((SLOW, 0.02), (THIRD, 0.5)):
        meter.handed({each: 1}, 0.0)
        meter.asked(seconds)
    fed(meter, {SLOW: 1.0, FAST: 4.0, THIRD: 1.0})
    assert meter.weights([SLOW, FAST, THIRD], 1, 60.0)["t"][1] == pytest.approx(4 * 0.02)


def test_too_early_nothing_is_told_and_records_consumed_stand_for_arrivals_in_the_end() -> None:
    meter = Meter("records")
    meter.saw(SLOW, 0, 10_000, 0.0)
    assert meter.weights([SLOW], 1, MATURE_S) == {}
    meter.saw(SLOW, 300, 10_000, STALE_S)  # the end offset is old: records wait in memory
    assert meter.weights([SLOW], 1, STALE_S)["t"][0] == pytest.approx(work(300 / STALE_S, 9_700))


def test_an_end_offset_that_stays_is_no_silence_while_records_wait_in_memory() -> None:
    meter = Meter("records")
    for second in range(101):
        meter.saw(SLOW, 10 * second, 1_000 * (second // 50 + 1), float(second))  # fetched twice
    assert meter.weights([SLOW], 1, 100.0)["t"][0] == pytest.approx(work(20, 3_000 - 1_000), rel=0.01)


def test_clocks_that_jump_and_offsets_that_go_back_leave_sound_figures() -> None:
    meter = Meter()
    for begin, end in ((0.0, 0.01), (5.0, 5.0 + BATCH_S + 1), (900.0, 3.0)):
        meter.handed({SLOW: 1}, begin)
        meter.asked(end)
    fed(meter, {SLOW: 10.0})
    meter.saw(SLOW, 5, 7, 61.0)  # the topic was made anew
    meter.saw(SLOW, 6, 8, 2.0)  # the clock went back
    for second in range(3, 20):
        meter.saw(SLOW, 10 * second, 10 * second, float(second))
    assert meter.weights([SLOW], 1, 20.0)["t"][0] == pytest.approx(0.1, rel=0.2)


def test_what_the_leader_told_holds_until_it_is_measured() -> None:
    meter = Meter("records")
    meter.learn({"t": ([0], [50.0])}, [SLOW], 4)
    assert meter.weights([SLOW], 4, 0.0)["t"][0] == 50.0
    fed(meter, {SLOW: 10.0}, until_s=9)
    soon = meter.weights([SLOW], 4, 9.0)["t"][0]
    fed(meter, {SLOW: 10.0})
    assert 10 < soon < 50
    assert meter.weights([SLOW], 4, 60.0)["t"][0] == pytest.approx(10, rel=0.05)


def test_a_lost_partition_is_known_for_one_more_generation() -> None:
    meter = Meter("records")
    meter.learn({}, [SLOW, FAST], 4)
    fed(meter, {SLOW: 10.0, FAST: 20.0})
    meter.weights([SLOW, FAST], 4, 60.0)  # the join that begins generation 5
    meter.learn({}, [SLOW], 5)
    assert not math.isnan(meter.weights([SLOW], 5, 61.0)["t"][1])
    meter.learn({}, [SLOW], 6)
    assert len(meter.weights([SLOW], 6, 62.0)["t"]) == 1


def test_between_the_rounds_of_a_hand_over_weights_stay() -> None:
    meter = Meter("records")
    fed(meter, {SLOW: 10.0})
    before = meter.weights([SLOW], 4, 60.0)["t"][0]
    meter.learn({}, [SLOW], 5, settling=True)
    for second in range(61, 90):
        meter.saw(SLOW, 1000 * second, 1000 * second, float(second))
    assert meter.weights([SLOW], 5, 90.0)["t"][0] == before
    meter.learn({}, [SLOW], 6)
    assert meter.weights([SLOW], 6, 90.0)["t"][0] > 2 * before


def test_another_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="'work', 'records', 'lag'"):
        Meter("bytes")
