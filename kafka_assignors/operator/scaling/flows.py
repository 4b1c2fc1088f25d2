"""What a group has to read and how fast its members read, from looks at committed and end offsets. Pure.

Records that arrive per second come from end offsets, over the last `WINDOW_S`. How many records a member can read per
second, its pace, shows only while it is busy: while each look finds a backlog of `BUSY_S` or more at the pace at which
the member reads. Members that never were busy show what they can read at least.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from statistics import median

from ...core.group import TopicPartition

Offsets = tuple[int | None, int]
"""Committed offset (None: nothing was committed) and end offset of a topic-partition."""

WINDOW_S = 120.0
"""Seconds over which rates are averaged."""

BUSY_S = 10.0
"""Backlog of a busy member, in seconds of reading: two intervals of the clients' automatic commits. The offsets that a
client has read and not yet committed are a part of what looks like a backlog."""

LEAST_S = 20.0
"""Seconds that a measured pace takes at least: a commit, by default every 5 s, has all records since the last one."""

LEAST_OVER_S = LEAST_S + 10.0
"""Seconds of a measurement in which two looks, 5 s from one to the next, surely lie that far apart."""

SHOWN_S = 1800.0
"""Seconds for which it counts what a member that was not busy has read."""

_PACES = 9
"""Measurements of the pace whose median counts."""


@dataclass(frozen=True)
class Flow:
    """A partition: `rate` in records that arrive per second, `lag` in records still to read."""

    rate: float
    lag: int


@dataclass(frozen=True)
class Flows:
    """A group as measured.

    Args:
        partitions: Those that are assigned and were seen twice.
        pace: Records per second that a busy member reads; None if no member was busy.
        shown: Records per second that some member has read at least; 0.0 if none has.
        over_s: Seconds of the measurement.
    """

    partitions: Mapping[TopicPartition, Flow]
    pace: float | None
    shown: float
    over_s: float


@dataclass(frozen=True)
class _Look:
    at_s: float
    owned: Mapping[str, Mapping[TopicPartition, Offsets]]

    @cached_property
    def offsets(self) -> dict[TopicPartition, Offsets]:
        return {tp: offsets for owned in self.owned.values() for tp, offsets in owned.items()}


class FlowMeter:
    """Measures a group from look to look."""

    def __init__(self) -> None:
        self._looks: deque[_Look] = deque()
        self._paces: deque[float] = deque(maxlen=_PACES)
        self._shown: deque[tuple[float, float]] = deque()  # (time, records per second)

    def add(self, owned: Mapping[str, Mapping[TopicPartition, Offsets]], now_s: float) -> None:
        """Take a look: member id -> its partitions. `now_s` is of a clock that never goes back."""
        self._looks.append(_Look(now_s, owned))
        while len(self._looks) > 2 and self._looks[1].at_s <= now_s - WINDOW_S:
            self._looks.popleft()
        paces = dict(self._busy_paces())
        if paces:
            self._paces.append(median(paces.values()))
        while self._shown and self._shown[0][0] < now_s - SHOWN_S:
            self._shown.popleft()

    def flows(self) -> Flows:
        """The group as measured up to the last look."""
        if not self._looks:
            return Flows({}, None, 0.0, 0.0)
        last = self._looks[-1]
        partitions = {}
        for tp, (committed, end) in last.offsets.items():
            if (rate := self._rate(tp)) is not None:
                partitions[tp] = Flow(rate, 0 if committed is None else max(0, end - committed))
        return Flows(
            partitions,
            median(self._paces) if self._paces else None,
            max((pace for _, pace in self._shown), default=0.0),
            last.at_s - self._looks[0].at_s,
        )

    def _rate(self, tp: TopicPartition) -> float | None:
        """Records that arrive per second; None before the second look. A topic that was made anew begins anew."""
        ends = [(look.at_s, look.offsets[tp][1]) for look in self._looks if tp in look.offsets]
        begin = max((n for n in range(1, len(ends)) if ends[n][1] < ends[n - 1][1]), default=0)
        (first_s, first), (last_s, last) = ends[begin], ends[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else None

    def _busy_paces(self) -> list[tuple[str, float]]:
        """Busy members with their pace; what the others have read is kept in `_shown`."""
        last, busy = self._looks[-1], []
        for member, owned in last.owned.items():
            alike = self._alike(member, owned)
            spent = last.at_s - alike[-1].at_s
            if spent < LEAST_S or not owned:
                continue
            read = sum(_committed(alike[0].owned[member])) - sum(_committed(alike[-1].owned[member]))
            if read <= 0:
                continue
            pace = read / spent
            self._shown.append((last.at_s, pace))
            if all(_lag(look.owned[member]) >= BUSY_S * pace for look in alike):
                busy.append((member, pace))
        return busy

    def _alike(self, member: str, owned: Mapping[TopicPartition, Offsets]) -> list[_Look]:
        """The looks since a member has these partitions, the last one first."""
        return list(takewhile(lambda look: _same(look, member, owned), reversed(self._looks)))


def _same(look: _Look, member: str, owned: Mapping[TopicPartition, Offsets]) -> bool:
    """Whether a member has these partitions in a look, and the same of them have a committed offset."""
    then = look.owned.get(member, {})
    return then.keys() == owned.keys() and all((then[tp][0] is None) == (owned[tp][0] is None) for tp in owned)


def _committed(owned: Mapping[TopicPartition, Offsets]) -> list[int]:
    return [committed for committed, _ in owned.values() if committed is not None]


def _lag(owned: Mapping[TopicPartition, Offsets]) -> int:
    return sum(max(0, end - committed) for committed, end in owned.values() if committed is not None)
