"""How long records wait, from their acknowledgement until a member of the group has them. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from kafka_assignors.history.events import Event

from .ledger import GroupRecord

Window = tuple[int, int]
"""Begin and end, monotonic ns; both are included."""


@dataclass(frozen=True)
class Delays:
    """The delays of the records that a group consumed.

    Args:
        at_ns: When each record was acknowledged, ascending.
        ms: The delay of each in ms; 0 if a member had it before its producer knew.
    """

    at_ns: Sequence[int]
    ms: Sequence[float]

    @classmethod
    def of(cls, record: GroupRecord, acks: Iterable[Event]) -> Delays:
        """The delays of acknowledged records until a member first consumed them; without that, law C3 names them.

        Cost: O(n log n) for n records.
        """
        first: dict[tuple[str, int, int], int] = {}
        for event in record.events["consume"]:
            for run in event.data["offsets"]:
                for offset in range(run["first"], run["last"] + 1):
                    first.setdefault((run["topic"], run["partition"], offset), event.mono_ns)
        delays = sorted(
            (ack.mono_ns, max(0.0, (at_ns - ack.mono_ns) / 1e6))
            for ack in acks
            if (at_ns := first.get((ack.data["topic"], ack.data["partition"], ack.data["offset"]))) is not None
        )
        return cls([at_ns for at_ns, _ in delays], [ms for _, ms in delays])

    def within(self, *windows: Window) -> list[float]:
        """The delays in ms of the records that were acknowledged in one of these windows, which do not overlap."""
        return [
            ms
            for from_ns, until_ns in windows
            for ms in self.ms[bisect_left(self.at_ns, from_ns) : bisect_right(self.at_ns, until_ns)]
        ]


def spread(ms: Sequence[float]) -> Mapping[str, float]:
    """``p50_ms``, ``p99_ms`` (nearest rank) and ``most_ms`` of delays; empty without any."""
    ranked = sorted(ms)
    ranks = {"p50_ms": 50, "p99_ms": 99, "most_ms": 100} if ranked else {}
    return {name: ranked[ceil(len(ranked) * percent / 100) - 1] for name, percent in ranks.items()}
