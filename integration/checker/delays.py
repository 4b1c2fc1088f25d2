"""How long records wait, from their acknowledgement until a member of the group has them. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event
from kafka_assignors.history.events.bodies import AckBody, ConsumeBody

from .ledger import Acked, GroupRecord

Window = tuple[int, int]
"""Begin and end, monotonic ns; both are included."""


@dataclass(frozen=True)
class Delays:
    """The delays of the records that a group consumed."""

    at_ns: Sequence[int]  # when each record was acknowledged, ascending
    ms: Sequence[float]  # the delay of each in ms; 0 if a member had it before its producer knew

    @classmethod
    def of(cls, record: GroupRecord, acked: Mapping[TopicPartition, Acked]) -> Delays:
        """The delays of acknowledged records until a member first consumed them; without that, law C3 names them.

        Cost: O(n log n) for n events and records that were acknowledged, however many offsets a run has.
        """
        waiting = {tp: _Waiting(rows) for tp, rows in acked.items()}
        delays = sorted(
            (ack.mono_ns, max(0.0, (event.mono_ns - ack.mono_ns) / 1e6))
            for event in record.events.of(ConsumeBody)
            for run in event.body.offsets
            if (place := waiting.get(run.tp)) is not None
            for ack in place.taken(run.first, run.last)
        )
        return cls([at_ns for at_ns, _ in delays], [ms for _, ms in delays])

    def within(self, *windows: Window) -> list[float]:
        """The delays in ms of the records that were acknowledged in one of these windows, which do not overlap."""
        return [
            ms
            for from_ns, until_ns in windows
            for ms in self.ms[bisect_left(self.at_ns, from_ns) : bisect_right(self.at_ns, until_ns)]
        ]


class _Waiting:
    """Acknowledged records of one topic-partition that no member has consumed yet."""

    def __init__(self, acked: Acked) -> None:
        self._acked = acked
        # for each the next that waits, itself at first, as in a disjoint-set forest
        self._after = list(range(len(acked.offsets) + 1))

    def taken(self, first: int, last: int) -> Iterator[Event[AckBody]]:
        """Take the records of these offsets that still wait."""
        (offsets, acks), after = self._acked, self._after
        end = bisect_right(offsets, last)
        at = self._next(bisect_left(offsets, first))
        while at < end:
            yield acks[at]
            after[at] = at + 1
            at = self._next(at + 1)

    def _next(self, at: int) -> int:
        """The first one from there on that waits; shortens the way for those who ask later."""
        after = self._after
        while after[at] != at:
            after[at] = after[after[at]]
            at = after[at]
        return at


def spread(ms: Sequence[float]) -> Mapping[str, float]:
    """``p50_ms``, ``p99_ms`` (nearest rank) and ``most_ms`` of delays; empty without any."""
    ranked = sorted(ms)
    ranks = {"p50_ms": 50, "p99_ms": 99, "most_ms": 100} if ranked else {}
    return {name: ranked[ceil(len(ranked) * percent / 100) - 1] for name, percent in ranks.items()}
