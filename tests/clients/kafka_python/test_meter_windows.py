"""The meter measures windows of polls and rests after fast ones: fewer calls, the same figures, no late tick."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors.clients.kafka_python import meter as kafka_meter
from kafka_assignors.core.weighted.meter import Meter


class Consumer:
    """Polls return one record each, of partitions in turn, under a clock of the test.

    Args:
        poll_s: Seconds that each poll takes.
        work_s: Seconds of processing per record, by partition.
    """

    def __init__(self, poll_s: float, work_s: dict[int, float]) -> None:
        self.now, self.polls, self.measured = 100.0, 0, 0
        self.ticks: list[float] = []
        self.meter = Meter()
        self._poll_s, self._work_s = poll_s, work_s
        self._turns = [("t", p) for p in work_s]
        self.idle = False

    def poll(self) -> None:
        self.now += 0.1 if self.idle else self._poll_s / 2

    def fetch_records(self) -> tuple[dict[tuple[str, int], list[str]], bool]:
        self.now += self._poll_s / 2
        turn = self._turns[self.polls % len(self._turns)]
        return ({} if self.idle else {turn: ["record"]}), False

    def started(self) -> Consumer:
        handed = self.meter.handed

        def counted(counts: Any, now: float) -> None:
            self.measured += 1
            handed(counts, now)

        self.meter.handed = counted  # type: ignore[method-assign]
        kafka_meter.measure(self, self, self.meter, self.ticks.append)
        return self

    def run(self, polls: int) -> None:
        for _ in range(polls):
            self.poll()
            for _topic, p in self.fetch_records()[0]:
                self.now += self._work_s[p]
            self.polls += 1

    def seconds(self) -> dict[int, float]:
        """Seconds per record of each partition, as measured."""
        return {p: seconds for (_, p), (seconds, _) in self.meter._seconds.items()}


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(poll_s: float, work_s: dict[int, float]) -> Consumer:
        made = Consumer(poll_s, work_s)
        monkeypatch.setattr(kafka_meter, "time", SimpleNamespace(monotonic=lambda: made.now))
        return made.started()

    return make


def test_a_fast_consumer_is_measured_in_windows_and_every_partition_is_seen(consumer: Any) -> None:
    """16 partitions in turn: a rest that counted polls might meet the same ones each time."""
    work_s = {p: 0.00001 * (p + 1) for p in range(16)}
    made = consumer(0.0001, work_s)
    made.run(20_000)
    assert made.measured < made.polls / 3
    assert made.seconds() == pytest.approx(work_s, rel=0.01)


def test_each_poll_of_a_slow_consumer_is_measured(consumer: Any) -> None:
    made = consumer(0.0001, {0: 0.002, 1: 0.0001})
    made.run(2_000)
    assert made.measured == made.polls
    assert made.seconds() == pytest.approx({0: 0.002, 1: 0.0001}, rel=0.01)


def test_a_partition_that_becomes_slow_during_a_rest_is_measured_after_it(consumer: Any) -> None:
    made = consumer(0.0001, {0: 0.00001})
    made.run(2_000)
    made._work_s[0] = 0.01
    made.run(700)
    assert made.seconds()[0] == pytest.approx(0.01, rel=0.05)


def test_a_rest_delays_no_tick_when_the_records_end(consumer: Any) -> None:
    """Polls without records take longer than a rest: each second has its tick."""
    made = consumer(0.0001, {0: 0.00001})
    made.run(2_000)
    made.idle, made.ticks[:] = True, []
    made.run(100)
    assert len(made.ticks) in (9, 10)
    assert max(b - a for a, b in zip(made.ticks, made.ticks[1:], strict=False)) <= 1.2
