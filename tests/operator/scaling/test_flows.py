"""Rates, lags and the pace of members, measured from looks at offsets."""

from __future__ import annotations

import pytest

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.operator.scaling import FlowMeter
from kafka_assignors.operator.scaling.flows import SHOWN_S, WINDOW_S

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def looks(*rows: tuple[float, dict[str, dict[TopicPartition, tuple[int | None, int]]]]) -> FlowMeter:
    meter = FlowMeter()
    for now_s, owned in rows:
        meter.add(owned, now_s)
    return meter


def test_a_rate_is_of_the_ends_and_the_lag_of_the_last_look() -> None:
    meter = looks((0, {"m": {A: (0, 0), B: (None, 5)}}), (10, {"m": {A: (40, 100), B: (None, 25)}}))

    flows = meter.flows()

    assert (flows.partitions[A].rate, flows.partitions[A].lag) == (10, 60)
    assert (flows.partitions[B].rate, flows.partitions[B].lag) == (2, 0)
    assert flows.over_s == 10
    assert looks((0, {"m": {A: (0, 0)}})).flows().partitions == {}
    assert FlowMeter().flows().partitions == {}


def test_a_partition_keeps_its_rate_when_it_moves() -> None:
    meter = looks((0, {"m": {A: (0, 0)}}), (10, {"n": {A: (50, 100)}}))

    assert meter.flows().partitions[A].rate == 10


def test_a_topic_that_was_made_anew_begins_anew() -> None:
    meter = looks((0, {"m": {A: (900, 1000)}}), (10, {"m": {A: (0, 20)}}), (20, {"m": {A: (10, 60)}}))

    assert meter.flows().partitions[A].rate == 4


def test_rates_are_those_of_the_window() -> None:
    fast = [(float(at), {"m": {A: (at * 100, at * 100)}}) for at in range(0, 100, 10)]
    end = 90 * 100
    slow = [(100.0 + at, {"m": {A: (end + at, end + at)}}) for at in range(0, int(WINDOW_S) + 20, 10)]

    assert looks(*fast, *slow).flows().partitions[A].rate == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("lag", "pace"),
    [
        (2000, 100.0),  # 20 s of reading are waiting all the time
        (500, None),  # 5 s: what it has read and not yet committed may be as much
    ],
)
def test_a_pace_is_known_of_a_busy_member(lag: int, pace: float | None) -> None:
    meter = looks(*((at, {"m": {A: (at * 100, at * 100 + lag)}}) for at in range(0, 40, 5)))

    assert (meter.flows().pace, meter.flows().shown) == (pace, 100)


def test_the_pace_is_the_median_of_the_busy_and_a_member_that_reads_nothing_has_none() -> None:
    def look(at: int) -> dict[str, dict[TopicPartition, tuple[int | None, int]]]:
        paces = {"m": 100, "n": 100, "slow": 5, "stuck": 0}
        return {
            name: {TopicPartition("t", n): (at * pace, at * pace + 50_000)}
            for n, (name, pace) in enumerate(paces.items())
        }

    assert looks(*((at, look(at)) for at in range(0, 40, 5))).flows().pace == 100
    assert looks(*((at, {"stuck": {A: (0, at * 100)}}) for at in range(0, 40, 5))).flows().shown == 0


def test_what_was_read_counts_while_partitions_stay() -> None:
    """A member that gets a partition with a committed offset has not read up to there."""
    meter = looks(
        (0, {"m": {A: (0, 9000)}}), (15, {"m": {A: (150, 9000)}}), (30, {"m": {A: (300, 9000), B: (70_000, 90_000)}})
    )

    assert (meter.flows().pace, meter.flows().shown) == (None, 0)


def test_what_was_shown_is_forgotten() -> None:
    meter = looks((0, {"m": {A: (0, 0)}}), (30, {"m": {A: (3000, 3000)}}))
    assert meter.flows().shown == 100

    meter.add({"m": {A: (3000, 3000)}}, 31 + SHOWN_S)

    assert meter.flows().shown == 0
