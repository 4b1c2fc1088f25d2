"""The closed loop in virtual time: placement, consumers that commit now and then, samples of their lag, weights."""

from __future__ import annotations

import bisect
import random
from collections import Counter
from typing import NamedTuple

import pytest

from kafka_assignors.producers.core.lag import DrainMeter, LagReading, LagWeights
from kafka_assignors.producers.core.topic import TopicView
from kafka_assignors.producers.core.uniform import UniformChoice

RECORD_BYTES, BATCH_BYTES = 100, 1000
SLOW, FAST = 100.0, 400.0
"""Records per second of a consumer."""


class Played(NamedTuple):
    p95_s: float  # from sending to consumption
    shares: list[float]  # of the last quarter of the records


def played(
    rate: float, speeds: list[float], *, aware: bool, commits_s: float = 1.0, late_s: float = 0.0, seconds: int = 40
) -> Played:
    """Records at a constant rate. Partition p's consumer takes 1 / speeds[p]; its lag is sampled about once a second.

    Readings reach the partitioner `late_s` later than they are sampled.
    """
    now, rng, meter, view = [0.0], random.Random(1), DrainMeter(15.0), TopicView("t", range(4), range(4))
    readings: list[LagReading] = []
    sample_s = 1.0  # of the next sample
    source = lambda topic: next((each for each in reversed(readings) if each.at_s <= now[0] - late_s), None)
    lag = LagWeights(source, lambda: now[0], 10.0 + late_s, lambda *_: None) if aware else None
    uniform = UniformChoice(lambda: rng.getrandbits(31), BATCH_BYTES, lag=lag)
    phases = [rng.random() * commits_s for _ in speeds]
    consumed_s: list[list[float]] = [[] for _ in speeds]  # when each record of a partition is done
    waited_s, placed = [], []
    for i in range(int(rate * seconds)):
        now[0] = i / rate
        if now[0] >= sample_s:
            sample_s += rng.uniform(0.5, 1.5)
            offsets = {}
            for p, done_s in enumerate(consumed_s):
                committed_s = phases[p] + (now[0] - phases[p]) // commits_s * commits_s
                offsets[p] = bisect.bisect_right(done_s, committed_s), len(done_s)
            readings.append(LagReading(meter.sample(now[0], offsets), now[0]))
        partition = uniform.choose(view, RECORD_BYTES)
        done_s = consumed_s[partition]
        done_s.append(max(done_s[-1] if done_s else 0.0, now[0]) + 1 / speeds[partition])
        waited_s.append(done_s[-1] - now[0])
        placed.append(partition)
    late = Counter(placed[-len(placed) // 4 :])
    return Played(sorted(waited_s)[len(waited_s) * 95 // 100], [late[p] / late.total() for p in range(4)])


@pytest.mark.parametrize("commits_s", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("late_s", [0.0, 10.0])
def test_records_wait_at_most_half_as_long_where_one_consumer_is_four_times_slower(commits_s, late_s):
    """600 records a second: KIP-794 sends 150 of them to a consumer that takes 100."""
    speeds = [SLOW, FAST, FAST, FAST]
    aware = played(600, speeds, aware=True, commits_s=commits_s, late_s=late_s)
    plain = played(600, speeds, aware=False)

    assert aware.p95_s <= plain.p95_s / 2
    assert aware.shares[0] <= 0.2 < plain.shares[0]


def test_a_stopped_consumer_gets_the_floor():
    """Nobody commits on partition 0: at last it weighs 5 % of the median."""
    stopped = played(600, [1e-3, FAST, FAST, FAST], aware=True, seconds=120)

    assert stopped.shares[0] <= 0.03
    assert min(stopped.shares) > 0


def test_equal_consumers_get_equal_shares():
    shares = played(600, [FAST] * 4, aware=True, seconds=120).shares

    assert max(shares) <= 1.25 * min(shares)
