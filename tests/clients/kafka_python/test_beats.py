"""Early heartbeats of a cooperative member (`private.beating.Beats`), of a coordinator that never reaches a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors.clients.kafka_python import private

INTERVAL_MS = 3000


class Heartbeat:
    """kafka-python's, at an hour that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.last_send = self.now

    def time_to_next_heartbeat(self) -> float:
        return max(0.0, self.last_send + INTERVAL_MS / 1000 - self.now)

    def sent_heartbeat(self) -> None:
        self.last_send = self.now


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> tuple[Heartbeat, private.beating.Beats]:
    heartbeat = Heartbeat()
    monkeypatch.setattr(private.beating.time, "monotonic", lambda: heartbeat.now)
    coordinator: Any = SimpleNamespace(
        heartbeat=heartbeat,
        config={"heartbeat_interval_ms": INTERVAL_MS},
        _heartbeat_wakeup=SimpleNamespace(notify=lambda: None),
    )
    beats = private.beating.Beats()
    beats.watch(coordinator)
    return heartbeat, beats


def waits(heartbeat: Heartbeat, count: int) -> list[float]:
    """How many ms the loop waits before each of the next heartbeats."""
    found = []
    for _ in range(count):
        found.append(round(1000 * heartbeat.time_to_next_heartbeat()))
        heartbeat.now += heartbeat.time_to_next_heartbeat()
        heartbeat.sent_heartbeat()
    return found


def test_after_an_adoption_heartbeats_come_early_up_to_the_interval(
    watched: tuple[Heartbeat, private.beating.Beats],
) -> None:
    heartbeat, beats = watched
    assert waits(heartbeat, 2) == [INTERVAL_MS] * 2, "at rest: no more than before"

    beats.begin()

    assert waits(heartbeat, 11) == [0, 25, 25, 25, 25, 50, 100, 200, 400, 800, 1600]
    assert waits(heartbeat, 2) == [INTERVAL_MS] * 2


def test_the_news_of_a_rebalance_ends_them(watched: tuple[Heartbeat, private.beating.Beats]) -> None:
    heartbeat, beats = watched
    beats.begin()
    assert waits(heartbeat, 3) == [0, 25, 25]

    beats.end()

    assert waits(heartbeat, 2) == [INTERVAL_MS] * 2


def test_each_adoption_begins_them_anew(watched: tuple[Heartbeat, private.beating.Beats]) -> None:
    heartbeat, beats = watched
    for _ in range(2):
        beats.begin()
        assert waits(heartbeat, 6) == [0, 25, 25, 25, 25, 50]
