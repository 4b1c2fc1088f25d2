"""Lag of a topic's consumers as weights of its partitions: fewer records where they would wait longer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from statistics import median
from typing import Generic, NamedTuple, TypeVar

from .topic import TopicView

FLOOR = 0.05
"""The least weight, as a share of the median. Without records a partition would show no lag, however slow it is."""
REFRESH_S = 1.0
"""Minimum seconds between two calls of a source for one topic."""
_CLOCK_ERROR_S = 1.0  # a reading may be this much younger than now: another thread's clock was read later

Key = TypeVar("Key", bound=Hashable)


class LagReading(NamedTuple):
    """The lag of one topic's consumers.

    Args:
        drain_s: partition -> its drain time: seconds until a record that is sent now is consumed, that is records
            behind (end offset - committed offset) / records consumed per second. ``math.inf``: nothing is consumed.
        at_s: The moment of the measurement, from ``time.monotonic()``.
    """

    drain_s: Mapping[int, float]
    at_s: float


LagSource = Callable[[str], "LagReading | None"]
"""Topic -> the latest reading; None: nothing is known. It is called while a record is sent, so it must not wait."""


def weights_of(drain_s: Mapping[int, float], view: TopicView) -> dict[int, float] | None:
    """Weight of each partition of the topic that may get records without a key: 1 / (1 + drain time).

    Args:
        drain_s: partition -> drain time in seconds. A partition missing here has the median weight.
        view: The topic.

    Returns:
        partition -> weight, none below 5 % of the median of those that are consumed at all; None if no drain time is
        known.

    Cost: O(n log n).

    >>> weights_of({0: 1, 1: 3, 2: 1}, TopicView("t", range(4), range(4)))
    {0: 0.5, 1: 0.25, 2: 0.5, 3: 0.5}
    """
    weights = {p: 1 / (1 + drain_s[p]) for p in view.candidates if p in drain_s}
    if not weights:
        return None
    consumed = [weight for weight in weights.values() if weight > 0]
    middle = median(consumed) if consumed else 1.0
    return {p: max(weights.get(p, middle), FLOOR * middle) for p in view.candidates}


def flaw(drain_s: object) -> str | None:
    """The error in drain times, or None."""
    if not isinstance(drain_s, Mapping):
        return f"must be a mapping partition -> seconds, not {drain_s!r:.80}"
    for partition, seconds in drain_s.items():
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 0:
            return f"partition {partition!r}: must be seconds of at least 0, not {seconds!r}"
    return None


class LagWeights:
    """The weights of one topic's partitions, cached between two readings.

    `clock` (monotonic seconds) is that of the readings. `tell` is called with (topic, kind of reason, its text) each
    time that weights are missing. Not thread-safe: the caller holds a lock.

    Cost: a look at the clock; O(n log n) once per new reading.
    """

    __slots__ = ("_asked_s", "_began_s", "_clock", "_max_age_s", "_reading", "_source", "_tell", "_view", "_weights")

    def __init__(
        self, source: LagSource, clock: Callable[[], float], max_age_s: float, tell: Callable[[str, str, str], None]
    ) -> None:
        self._source, self._clock, self._max_age_s, self._tell = source, clock, max_age_s, tell
        self._began_s: float | None = None  # time of the first call of the source
        self._asked_s = 0.0
        self._reading: LagReading | None = None
        self._view: TopicView | None = None  # the view and the reading that the weights are of
        self._weights: dict[int, float] | None = None

    def weights(self, view: TopicView) -> Mapping[int, float] | None:
        """The weight per partition, the same object until it changes. None: place by KIP-794 without lag."""
        now = self._clock()
        if self._began_s is None or now - self._asked_s >= REFRESH_S:
            if self._began_s is None:
                self._began_s = now
            self._asked_s = now
            reading = self._read(view.topic, now)
            if reading is not self._reading:
                self._reading, self._view = reading, None
        reading = self._reading
        if reading is not None and now - reading.at_s <= self._max_age_s:
            if self._view is not view:
                self._view, self._weights = view, weights_of(reading.drain_s, view)
            if self._weights is not None:
                return self._weights
            reading = None
        if now - (self._began_s if reading is None else reading.at_s) > self._max_age_s:
            self._tell(view.topic, "old", f"is unknown or older than {self._max_age_s:g} s")
        return None

    def _read(self, topic: str, now: float) -> LagReading | None:
        try:
            reading = self._source(topic)
        except Exception as problem:  # a source is the user's code, and a record must not fail because of it
            self._tell(topic, "error", f"can't be read: {problem!r}")
            return self._reading
        if reading is None:
            return self._reading
        wrong = flaw(reading.drain_s)
        if wrong is None and not reading.at_s <= now + _CLOCK_ERROR_S:
            wrong = f"at_s={reading.at_s!r} is in the future of time.monotonic(), {now:.0f}"
        if wrong is not None:
            self._tell(topic, "invalid", f"is invalid: {wrong}")
            return None
        return reading


class DrainMeter(Generic[Key]):
    """Drain times by a group's committed offsets, sampled again and again. Keys are topic-partitions.

    Args:
        window_s: Consumed records per second are counted over this time, and the least lag is taken of the last third
            of it: between two commits consumed records look like lag.

    A partition that is behind and has not moved within the window has the time since it moved as its drain time.

    Cost: O(n) per sample and sample of the last third; ``window_s`` / interval samples are kept.
    """

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._samples: deque[tuple[float, dict[Key, tuple[int, int]]]] = deque()  # (at, key -> (committed, lag))
        self._moved_s: dict[Key, float] = {}  # when it last moved or had no lag

    def sample(self, at_s: float, offsets: Mapping[Key, tuple[int, int]]) -> dict[Key, float]:
        """Drain time in seconds of each partition whose speed is known.

        `at_s` is the monotonic time of this sample; `offsets` has (committed offset, end offset) per key.
        """
        now = {key: (committed, max(end - committed, 0)) for key, (committed, end) in offsets.items()}
        last = self._samples[-1][1] if self._samples else {}
        while len(self._samples) > 1 and self._samples[1][0] <= at_s - self._window_s:
            self._samples.popleft()
        self._samples.append((at_s, now))
        recent = [sampled for since_s, sampled in self._samples if since_s > at_s - self._window_s / 3]
        moved_s, drain_s = dict[Key, float](), dict[Key, float]()
        for key, (committed, lag) in now.items():
            stands = lag and key in self._moved_s and committed == last.get(key, (-1, 0))[0]
            moved_s[key] = self._moved_s[key] if stands else at_s
            least = min(sampled[key][1] for sampled in recent if key in sampled)
            began_s, first = next((since_s, sampled[key]) for since_s, sampled in self._samples if key in sampled)
            done = committed - first[0]  # below 0, the offset was reset
            if not least:
                drain_s[key] = 0.0
            elif done > 0:
                drain_s[key] = least * (at_s - began_s) / done
            elif done == 0 and at_s > began_s:
                drain_s[key] = at_s - moved_s[key]
        self._moved_s = moved_s
        return drain_s
