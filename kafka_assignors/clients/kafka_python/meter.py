"""Lets a ``KafkaConsumer`` measure its own work: a member's meter and its loop see what is polled.

kafka-python asks its coordinator at the beginning of each poll, and its fetcher hands out the records at the end. The
time between the end of a poll that returned records and the beginning of the next is that of their processing. For the
iterator of the consumer, this holds for each batch of records.

A consumer whose polls return one record each, and which processes it at once, would notice the cost of measuring each
poll. The meter therefore measures windows of `WINDOW` polls, and rests after a fast window.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from ...core.weighted.meter import Meter
from ..fact_log import log

TICK_S = 1.0
"""Seconds between two calls of `tick`, which reads offsets."""
WINDOW = 16
"""Number of polls that are measured one after another."""
FAST_S = 0.001
"""Seconds per poll, processing included, below which a window is fast."""
REST = 4
"""The meter rests for this multiple of the time that a fast window took. That is 64 ms at most. A rest depends
on time, not on a count of polls, so that no partition is always polled during rests."""


def measure(coordinator: Any, fetcher: Any, meter: Meter | None, tick: Callable[[float], None]) -> None:
    """Measure what a consumer does from now on; without a meter, only call `tick`.

    The polling thread calls `tick` before a poll, at most once per `TICK_S`, with the clock's seconds.
    """
    poll, fetch = coordinator.poll, None if meter is None else fetcher.fetch_records
    clock, due, works = time.monotonic, 0.0, True
    resting, until = False, 0.0
    polls, began = 0, 0.0  # of the window
    handed = None if meter is None else meter.handed
    asked = None if meter is None else meter.asked

    # Plain closures: with one record per poll, each further call would be a noticeable part of the poll.
    @functools.wraps(poll)
    def polled(*args: Any, **kwargs: Any) -> Any:
        nonlocal due, works, resting, until, polls, began
        if works:  # a failure ends the measuring, never the poll
            now = clock()
            if resting:
                if now < until:
                    return poll(*args, **kwargs)
                resting, polls, began = False, 0, now
            try:
                if asked is not None:
                    asked(now)
                    polls += 1
                    if polls > WINDOW:
                        spent = now - began
                        resting, until = spent < WINDOW * FAST_S, now + REST * spent
                        polls, began = 1, now
                if now >= due:
                    due = now + TICK_S
                    tick(now)
            except Exception as error:
                works = False
                log.warning(
                    "the load meter stops, and what it measured last is told: %s: %s", type(error).__name__, error,
                    exc_info=True,
                )  # fmt: skip
        return poll(*args, **kwargs)

    coordinator.poll = polled
    if fetch is None or handed is None:
        return

    @functools.wraps(fetch)
    def fetched(*args: Any, **kwargs: Any) -> Any:
        answer = fetch(*args, **kwargs)
        if not resting and (records := answer[0]):
            counts = {}
            for partition, batch in records.items():
                counts[partition] = len(batch)
            handed(counts, clock())
        return answer

    fetcher.fetch_records = fetched
