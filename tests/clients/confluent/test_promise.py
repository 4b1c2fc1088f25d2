"""The bridge's promise, at least once and nothing committed that isn't finished, under random schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.errors import HarnessError
from tests.support.confluent.schedule import Schedule, told

pytestmark = pytest.mark.broker
AT_ONCE = 8
"""Schedules wait most of their time, so several are played side by side."""


@pytest.fixture
def play(kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path) -> Callable[[Iterable[int]], list[str]]:
    """Play the schedules of some seeds; what isn't as promised."""

    def played(seeds: Iterable[int]) -> list[str]:
        schedules = [Schedule.drawn(seed) for seed in seeds]
        topics = [kafka_topic(partitions=each.partitions) for each in schedules]

        def one(schedule: Schedule, topic: str) -> str | None:
            try:
                verdict = schedule.play(kafka_broker.bootstrap, topic, tmp_path / str(schedule.seed))
            except HarnessError as error:  # the others go on
                return f"{schedule}: {type(error).__name__}: {error}"
            return told(schedule, verdict)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            return [wrong for wrong in pool.map(one, schedules, topics) if wrong is not None]

    return played


# long: two more schedules, in which a member is evicted, as in test_consumer.py
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_nothing_is_committed_that_is_not_finished(play: Callable[[Iterable[int]], list[str]], seed: int) -> None:
    assert play([seed]) == []


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("piece", range(10))
def test_nothing_is_committed_that_is_not_finished_in_200_schedules(
    play: Callable[[Iterable[int]], list[str]], piece: int
) -> None:
    assert play(range(1000 + 20 * piece, 1020 + 20 * piece)) == []
