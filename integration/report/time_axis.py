"""The time axis of the drawings: seconds → px, with idle time cut out. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import NamedTuple

IDLE_S = 2.5
"""A longer time in which nothing changes is cut, unless it is a small share of the whole."""
_IDLE_SHARE = 0.08
_KEPT_S = 0.5  # of an idle time, at each of its edges
_WHOLE_S = 2.0
CUT_PX = 12.0


class IdleCut(NamedTuple):
    """An idle time that is not drawn, in seconds."""

    from_s: float
    to_s: float


@dataclass(frozen=True)
class TimeAxis:
    """An axis of `seconds` over `px` that leaves out `cuts`, each drawn as `CUT_PX`.

    >>> axis = TimeAxis(10.0, 100.0, (IdleCut(2.0, 8.0),))
    >>> axis.x(1.0), axis.x(2.0), axis.x(8.0), axis.x(10.0)
    (22.0, 44.0, 56.0, 100.0)
    """

    seconds: float
    px: float
    cuts: tuple[IdleCut, ...] = ()

    @classmethod
    def of(cls, seconds: float, px: float, moments: Iterable[float]) -> TimeAxis:
        """An axis that cuts the times in which no moment lies."""
        longest = max(IDLE_S, _IDLE_SHARE * seconds)
        times = sorted({0.0, seconds, *(at for at in moments if 0 <= at <= seconds)})
        idle = (
            IdleCut(before + _KEPT_S, after - _KEPT_S) for before, after in pairwise(times) if after - before > longest
        )
        return cls(seconds, px, tuple(idle))

    @property
    def drawn_s(self) -> float:
        """The seconds that are drawn."""
        return max(self.seconds - sum(cut.to_s - cut.from_s for cut in self.cuts), 1e-9)

    @property
    def px_per_s(self) -> float:
        """Scale of the drawn seconds."""
        return (self.px - CUT_PX * len(self.cuts)) / self.drawn_s

    def x(self, seconds: float) -> float:
        """Where a moment is, in px; moments outside lie at the nearer edge."""
        at = min(max(seconds, 0.0), self.seconds)
        before = self.cuts[: bisect_right(self.cuts, (at, float("inf")))]
        px = at * self.px_per_s
        for cut in before:
            left_out = cut.to_s - cut.from_s
            inside = min(1.0, (at - cut.from_s) / left_out)
            px += inside * (CUT_PX - left_out * self.px_per_s)
        return px

    @property
    def tick_s(self) -> float:
        """Seconds between two labels: whole seconds, unless less than two are drawn."""
        parts = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
        whole = (1.0, 2, 5, 10, 20, 60, 120, 300, 600, 3600, 86400, 1e9)
        return next(s for s in ((*parts, *whole) if self.drawn_s < _WHOLE_S else whole) if self.drawn_s / s <= 12)

    def ticks(self) -> list[float]:
        """Moments for labels, outside the cuts."""
        step, edges = self.tick_s, [0.0, *(edge for cut in self.cuts for edge in cut), self.seconds]
        # Only what is drawn is walked: a cut may be of any length.
        candidates = (
            k * step
            for begin, end in zip(edges[::2], edges[1::2], strict=True)
            for k in range(ceil(begin / step), int(end / step) + 1)
        )
        return [at for at in candidates if not any(cut.from_s <= at <= cut.to_s for cut in self.cuts)]
