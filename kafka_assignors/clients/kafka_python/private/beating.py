"""When a member sends its heartbeats: early after it adopted a generation (`Beats`), in phase with others (`Phase`)."""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable
from typing import Any

from .membership import is_cooperative
from .names import BEATS, PHASE, missing


class Beats:
    """Early heartbeats of a cooperative member that has adopted an assignment.

    A cooperative rebalance has two rounds: the second one begins when the members that had to revoke partitions join
    again, and all others learn of it by their next heartbeat, up to ``heartbeat_interval_ms`` later (3 s by default).
    Until then nobody reads these partitions. So a member sends a heartbeat as soon as it has adopted an assignment,
    four more `FIRST_WAIT_S` apart, then each after twice as long, until one tells of a rebalance or the wait reaches
    the interval: 11 requests in 3 s. Each waits for the answer to the one before.
    """

    FIRST_WAIT_S = 0.025
    """A member that revokes, or leaves, needs some 50 to 100 ms, so the others ask often in that time."""
    FIRST = 4
    """Heartbeats that follow the one at once, this far apart."""

    def __init__(self) -> None:
        self._due_s = self._wait_s = math.inf
        self._interval_s = 0.0
        self._evenly = 0  # early heartbeats that are still to come before the wait doubles
        self._notify: Callable[[], None] | None = None

    def watch(self, coordinator: Any) -> None:
        """Take hold of a coordinator's heartbeats; does nothing if a private name is missing."""
        if any(missing(coordinator, path) for path in BEATS):
            return
        heartbeat = coordinator.heartbeat
        self._interval_s = coordinator.config["heartbeat_interval_ms"] / 1000
        self._notify = coordinator._heartbeat_wakeup.notify
        usual, sent = heartbeat.time_to_next_heartbeat, heartbeat.sent_heartbeat

        def time_to_next_heartbeat() -> float:
            return min(float(usual()), max(0.0, self._due_s - time.monotonic()))

        def sent_heartbeat() -> None:
            sent()
            early = self._wait_s < self._interval_s
            self._due_s = time.monotonic() + self._wait_s if early else math.inf
            self._evenly -= 1
            if self._evenly <= 0:
                self._wait_s = 2 * self._wait_s if early else math.inf

        heartbeat.time_to_next_heartbeat, heartbeat.sent_heartbeat = time_to_next_heartbeat, sent_heartbeat

    def begin(self) -> None:
        """The member has adopted an assignment; call it on kafka-python's own thread."""
        if self._notify is not None:
            self._due_s, self._wait_s, self._evenly = time.monotonic(), self.FIRST_WAIT_S, self.FIRST
            self._notify()

    def end(self) -> None:
        """The group rebalances again, or the member is in it no more."""
        self._due_s = self._wait_s = math.inf


class Phase:
    """The heartbeats of an eager member: at the same moments as those of the other members of its group.

    An eager member stops reading when a heartbeat tells it of a rebalance, and nobody reads its partitions until the
    last member has heard of it. kafka-python sends each heartbeat an interval after the one before, so members drift
    apart with every delay of one of them. This sends them at multiples of the interval on the wall clock, later by an
    offset that is a hash of the group's id, because not all groups should send theirs at once.

    Clocks that differ cost no more than heartbeats at any phase. There are never more heartbeats than intervals, and
    at most 1.1 intervals from one to the next.
    """

    LEAST_SHARE = 0.1
    """Of an interval: a multiple that is nearer than this is left out, else a timer that ends early sends two."""

    def __init__(self) -> None:
        self._due_s = 0.0
        self._interval_s = self._offset_s = 0.0

    def watch(self, coordinator: Any) -> None:
        """Take hold of a coordinator's heartbeats; does nothing if a private name is missing."""
        if any(missing(coordinator, path) for path in PHASE):
            return
        heartbeat = coordinator.heartbeat
        config = coordinator.config
        self._interval_s = config["heartbeat_interval_ms"] / 1000
        self._offset_s = zlib.crc32(str(config["group_id"]).encode()) / 2**32 * self._interval_s
        usual, sent, reset = heartbeat.time_to_next_heartbeat, heartbeat.sent_heartbeat, heartbeat.reset_timeouts

        def time_to_next_heartbeat() -> float:
            if heartbeat.heartbeat_failed or is_cooperative(coordinator):
                return float(usual())
            return max(0.0, self._due_s - time.monotonic())

        def sent_heartbeat() -> None:
            sent()
            self._plan()

        def reset_timeouts() -> None:
            reset()
            self._plan()

        heartbeat.time_to_next_heartbeat = time_to_next_heartbeat
        heartbeat.sent_heartbeat, heartbeat.reset_timeouts = sent_heartbeat, reset_timeouts
        self._plan()

    def _plan(self) -> None:
        wait_s = self._interval_s - (time.time() - self._offset_s) % self._interval_s
        if wait_s < self.LEAST_SHARE * self._interval_s:
            wait_s += self._interval_s
        self._due_s = time.monotonic() + wait_s
