"""Lets a ``KafkaConsumer`` measure its own work: a member's meter and its loop see what is polled.

kafka-python asks its coordinator at the beginning of each poll, and its fetcher hands out the records at the end. What
happens between the end of a poll that returned records and the beginning of the next is their processing. With the
iterator of the consumer it is the same for a batch of records.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from ..core.weighted.meter import Meter
from ..fact_log import log

TICK_S = 1.0
"""Seconds between two looks at offsets."""


def measure(coordinator: Any, fetcher: Any, meter: Meter | None, tick: Callable[[float], None]) -> None:
    """Measure what a consumer does from now on.

    Args:
        coordinator: The consumer's.
        fetcher: The consumer's.
        meter: Measures the work; None: only `tick` is called.
        tick: Called with the clock's seconds before a poll, once in `TICK_S`, on the thread that polls.
    """
    begin = _Beginning(meter, tick)
    poll = coordinator.poll

    @functools.wraps(poll)
    def polled(*args: Any, **kwargs: Any) -> Any:
        begin()
        return poll(*args, **kwargs)

    coordinator.poll = polled
    if meter is None:
        return
    fetch, handed, clock = fetcher.fetch_records, meter.handed, time.monotonic

    @functools.wraps(fetch)
    def fetched(*args: Any, **kwargs: Any) -> Any:
        answer = fetch(*args, **kwargs)
        if records := answer[0]:
            handed({partition: len(each) for partition, each in records.items()}, clock())
        return answer

    fetcher.fetch_records = fetched


class _Beginning:
    """What happens at the beginning of a poll. A failure ends the measuring, never the poll."""

    def __init__(self, meter: Meter | None, tick: Callable[[float], None]) -> None:
        self._meter, self._tick, self._next, self._works = meter, tick, 0.0, True

    def __call__(self) -> None:
        if not self._works:
            return
        now = time.monotonic()
        try:
            if self._meter is not None:
                self._meter.asked(now)
            if now >= self._next:
                self._next = now + TICK_S
                self._tick(now)
        except Exception as error:
            self._works = False
            log.warning(
                "the load meter stops, and what it measured last is told: %s: %s", type(error).__name__, error,
                exc_info=True,
            )  # fmt: skip
