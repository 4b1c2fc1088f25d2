"""An eager member sends its heartbeats when the other members of its group do (`private.beating.Phase`)."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.heartbeat import Heartbeat

from kafka_assignors import RangeAssignor
from kafka_assignors.clients.kafka_python import private
from kafka_assignors.integration.broker import Broker
from tests.support.kafka_python.polling import Polling
from tests.support.waiting import until

INTERVAL_S = 3.0
APART_S = 7.1
"""Of the monotonic clock from the wall clock."""


class Clocks:
    """Both clocks of a process, at an hour that the test sets."""

    now = 1000.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now + APART_S


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    clocks = Clocks()
    monkeypatch.setattr(private.beating.time, "time", clocks.time)
    monkeypatch.setattr(private.beating.time, "monotonic", clocks.monotonic)
    return clocks


def watched(group: str, protocol: RebalanceProtocol = RebalanceProtocol.EAGER) -> Heartbeat:
    """kafka-python's heartbeat of a member of this group, which has just joined."""
    settings = {"group_id": group, "heartbeat_interval_ms": 1000 * INTERVAL_S, "session_timeout_ms": 45_000}
    heartbeat = Heartbeat(**settings)
    private.beating.Phase().watch(SimpleNamespace(heartbeat=heartbeat, config=settings, _rebalance_protocol=protocol))
    heartbeat.reset_timeouts()
    return heartbeat


def sent(clocks: Clocks, heartbeat: Heartbeat, *late_s: float) -> list[float]:
    """When it sends its next heartbeats, each so much later than due; sets the clock to the last one."""
    times = []
    for late in late_s:
        clocks.now += heartbeat.time_to_next_heartbeat() + late
        heartbeat.sent_heartbeat()
        times.append(clocks.now)
    return times


def test_members_that_joined_at_different_times_send_them_together(clocks: Clocks) -> None:
    first = watched("g")
    clocks.now += 1.234
    second = watched("g")
    begun = clocks.now

    mine = sent(clocks, first, 0, 0, 0)
    clocks.now = begun
    theirs = sent(clocks, second, 0, 0, 0)

    assert mine == pytest.approx(theirs)
    assert [b - a for a, b in pairwise(mine)] == pytest.approx([INTERVAL_S] * 2)


@pytest.mark.parametrize("late", [0.004, 0.29, 1.6, 2.6])
def test_a_late_one_does_not_make_the_next_ones_late(clocks: Clocks, late: float) -> None:
    heartbeat = watched("g")
    (due,) = sent(clocks, heartbeat, 0)

    times = sent(clocks, heartbeat, late, 0, 0)

    assert [(at - due) % INTERVAL_S for at in times[1:]] == pytest.approx([0, 0], abs=1e-6)
    assert times[1] - times[0] <= 1.1 * INTERVAL_S
    assert times[2] - due >= 3 * INTERVAL_S - 1e-6, "never more of them than intervals"


def test_a_timer_that_ends_early_sends_one(clocks: Clocks) -> None:
    heartbeat = watched("g")
    first, second = sent(clocks, heartbeat, -0.003, 0.0)
    assert second - first == pytest.approx(INTERVAL_S + 0.003)


def test_groups_send_them_at_different_moments(clocks: Clocks) -> None:
    begun, moments = clocks.now, []
    for number in range(50):
        clocks.now = begun
        moments += sent(clocks, watched(f"g{number}"), 0)
    thirds = {math.floor(moment % INTERVAL_S) for moment in moments}
    assert thirds == {0, 1, 2}


def test_one_that_failed_is_tried_again_soon(clocks: Clocks) -> None:
    heartbeat = watched("g")
    sent(clocks, heartbeat, 0)
    heartbeat.fail_heartbeat()
    assert heartbeat.time_to_next_heartbeat() == pytest.approx(0.1)


def test_those_of_a_cooperative_member_stay_as_they_are(clocks: Clocks) -> None:
    heartbeat = watched("g", RebalanceProtocol.COOPERATIVE)
    assert heartbeat.time_to_next_heartbeat() == pytest.approx(INTERVAL_S)
    clocks.now += 1.7
    heartbeat.sent_heartbeat()
    assert heartbeat.time_to_next_heartbeat() == pytest.approx(INTERVAL_S)


class Beating(Polling):
    """Has the wall clock's time of each heartbeat."""

    def __init__(self, *args: Any, **config: Any) -> None:
        self.beats: list[float] = []
        super().__init__(*args, **config)
        heartbeat = self.consumer._coordinator.heartbeat
        usual = heartbeat.sent_heartbeat

        def sent_heartbeat() -> None:
            self.beats.append(time.time())
            usual()

        heartbeat.sent_heartbeat = sent_heartbeat

    def phases(self, interval_s: float) -> list[float]:
        """Where in the interval its last three were; empty before."""
        return [at % interval_s for at in self.beats[-3:]] if len(self.beats) >= 3 else []


@pytest.mark.long  # long: a live group; the tests above prove the moments by a clock of their own
@pytest.mark.broker
@pytest.mark.timeout(120)
def test_members_of_an_eager_group_send_them_at_one_moment(
    kafka_broker: Broker, kafka_topic: Callable[..., str]
) -> None:
    """A moment of each second that follows from the group's id alone."""
    topic = kafka_topic(partitions=2)
    group, settings = f"group-{topic}", {"session_timeout_ms": 20_000, "heartbeat_interval_ms": 1000}
    moment = zlib.crc32(group.encode()) / 2**32
    with ExitStack() as undo:
        members = [Beating(kafka_broker, group, [topic], [RangeAssignor], name, **settings) for name in "ab"]
        for each in members:
            undo.callback(each.stop)

        def together() -> bool:
            phases = [phase for each in members for phase in each.phases(1.0)]
            return len(phases) == 6 and all((phase - moment) % 1.0 < 0.15 for phase in phases)

        until(together, "the last three of each were in the first part of a second that begins at that moment", 60)
