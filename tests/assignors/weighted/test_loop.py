"""When a member asks for a rebalance, and when it doesn't."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest

from kafka_assignors.core.weighted.loop import Loop, reference
from kafka_assignors.errors import ConfigError


def asked(loop: Loop, work: object, seconds: int, capacity: float = 1.0) -> list[int]:
    """The seconds at which it asks, if it is told of no rebalance. `work`: what it measures at a second."""
    times = []
    for second in range(seconds):
        found = loop.check(float(second), work(second), capacity)  # type: ignore[operator]
        if found is not None and found.act:
            times.append(second)
    return times


def watching(every_s: float = 10.0, **options: float) -> Loop:
    loop = Loop(every_s, **options)  # type: ignore[arg-type]
    loop.rebalanced(0.0, 0.5, 1.0, leads=False)
    return loop


def test_jitter_of_a_fifth_for_an_hour_is_no_reason() -> None:
    draw = random.Random(1)
    assert asked(watching(), lambda _: 0.5 * draw.uniform(0.8, 1.2) if draw.random() < 0.5 else 0.5, 3600) == []


def test_work_far_above_the_bound_is_one_as_soon_as_the_group_has_rested() -> None:
    (first, *_) = asked(watching(), lambda second: 0.5 if second < 100 else 0.7, 200)
    assert 100 <= first < 111
    (first, *_) = asked(watching(), lambda _: 0.7, 200)
    assert 60 <= first < 71


def test_work_above_the_bound_is_one_after_three_checks() -> None:
    (first, *_) = asked(watching(), lambda second: 0.5 if second < 100 else 0.6, 200)
    assert 120 <= first < 131


def test_small_works_are_no_reason_in_seconds_and_one_in_records() -> None:
    for of_capacity, times in ((0.01, 0), (0.0, 1)):
        loop = Loop(10.0, of_capacity=of_capacity)
        loop.rebalanced(0.0, 0.004, 1.0, leads=False)
        assert len(asked(loop, lambda _: 0.008, 70)) == times


def test_a_member_compares_its_work_with_its_capacity() -> None:
    assert asked(watching(), lambda _: 0.9, 200, capacity=2.0) == []
    assert asked(watching(), lambda _: 0.9, 200, capacity=0.0) == []


def test_the_leader_asks_for_weights_less_and_less_often() -> None:
    loop = Loop(5.0)
    loop.rebalanced(0.0, None, 0.0, leads=True)
    times = []
    for second in range(1000):
        found = loop.check(float(second), 0.1, 1.0)
        if found is not None and found.act:
            times.append(second)
            loop.rebalanced(float(second), 0.1, 0.5, leads=True)  # half of the members have no meter
    assert len(times) == 5
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps == sorted(gaps)


def test_only_the_leader_asks_for_weights() -> None:
    loop = Loop(5.0)
    loop.rebalanced(0.0, None, 0.0, leads=False)
    assert asked(loop, lambda _: 0.9, 1000) == []


def test_a_member_without_figures_and_one_that_shall_not_ask() -> None:
    assert asked(watching(), lambda _: None, 300) == []
    silent = Loop()
    silent.rebalanced(0.0, 0.1, 1.0, leads=True)
    assert asked(silent, lambda _: 0.9, 300) == []


def test_what_the_leader_could_not_better_is_no_reason() -> None:
    assert reference(1.0, 1.04, 0.05) == 1.0
    assert reference(1.0, 2.1, 0.05) == 2.0


def test_a_source_that_lags_by_ten_seconds_does_not_make_the_group_oscillate() -> None:
    """Two members, one partition too many at the first; weights are seen ten seconds late."""
    loops = [Loop(5.0, jitter=0.0), Loop(5.0, jitter=1.0)]
    for loop in loops:
        loop.rebalanced(0.0, 1.0, 1.0, leads=False)
    history = [(1.6, 0.4)] * 11
    asks = 0
    for second in range(600):
        seen, real = history[-11], history[-1]
        for loop, work in zip(loops, seen, strict=True):
            found = loop.check(float(second), work, 1.0)
            if found is not None and found.act:
                asks += 1
                real = (1.0, 1.0)
                for each in loops:
                    each.rebalanced(float(second), 1.0, 1.0, leads=False)
        history.append(real)
    assert asks == 1


@pytest.mark.parametrize(
    "options", [{"every_s": 0}, {"every_s": math.nan}, {"every_s": True}, {"rest_s": -1}, {"rest_s": math.inf}]
)
def test_wrong_times_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="seconds above 0"):
        Loop(**options)  # type: ignore[arg-type]
