"""When a running group should move partitions: not on jitter, and without oscillation."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

AT_ONCE = 1.25
"""Multiple of the bound above which a group acts at once."""
IN_A_ROW = 1.10
"""Multiple of the bound above which a group acts after `CHECKS` consecutive checks."""
CHECKS = 3
GAIN = 0.05
"""Minimum relative decrease of the greatest work / capacity."""
OF_CAPACITY = 0.01
"""Minimum decrease as a part of a member's capacity, if works are seconds per second."""
GROUP_S = 60.0
"""Seconds that a group rests after it moved something."""
PARTITION_S = 600.0
"""Seconds that a partition stays after it moved."""


@dataclass(frozen=True)
class Judgement:
    """Whether to act, that is to move partitions that have an owner; and why, in one sentence."""

    act: bool
    why: str


def verdict(
    now: float,
    then: float,
    bound: float,
    *,
    checks: int = 0,
    since_s: float | None = None,
    of_capacity: float = OF_CAPACITY,
) -> Judgement:
    """Judge one check of a group.

    Args:
        now: The greatest work / capacity of the current assignment, with current works.
        then: The same after the moves, with the same works: a member's own history would lag behind.
        bound: The lower bound.
        checks: Number of consecutive checks before this one that were above `IN_A_ROW`.
        since_s: Seconds since the group last moved something; None if it never did.
        of_capacity: Minimum gain as a part of a member's capacity; 0 if works aren't seconds per second.

    >>> verdict(now=1.2, then=1.02, bound=1.0)
    Judgement(act=False, why='1.20 of the bound, above 1.10 in 1 check of 3')
    >>> verdict(now=1.2, then=1.02, bound=1.0, checks=2).act
    True
    """
    ratio = now / bound if bound > 0 else 1.0
    times = checks + 1
    if ratio <= IN_A_ROW:
        return Judgement(False, f"{multiple(ratio)} of the bound, not above {IN_A_ROW:.2f}")
    if ratio <= AT_ONCE and times < CHECKS:
        many = f"{times} check{'s' if times > 1 else ''}"
        return Judgement(False, f"{multiple(ratio)} of the bound, above {IN_A_ROW:.2f} in {many} of {CHECKS}")
    if since_s is not None and since_s < GROUP_S:
        return Judgement(False, f"the group moved a partition {since_s:.0f} s ago, less than {GROUP_S:.0f}")
    gain = now - then
    if gain < GAIN * now:
        return Judgement(False, f"{multiple(ratio)} of the bound, but the moves would gain less than {GAIN:.0%}")
    if gain < of_capacity:
        least = f"{of_capacity:.0%} of a member's capacity"
        return Judgement(False, f"{multiple(ratio)} of the bound, but the moves would gain less than {least}")
    return Judgement(True, f"{multiple(ratio)} of the bound; the moves gain {gain / now:.0%}")


def multiple(value: float) -> str:
    """A multiple of the bound or the mean, as text: two decimals, and four digits from a thousand on.

    >>> multiple(1.4832), multiple(58081104451.49)
    ('1.48', '5.808e+10')
    """
    return f"{value:.2f}" if value < 1000 else f"{value:.4g}"


def rested(since_s: float | None) -> bool:
    """Whether a partition may move again, given the seconds since its last move; None if it never moved."""
    return since_s is None or since_s >= PARTITION_S


class Rests:
    """Which of a member's partitions moved to it in the last `rest_s` seconds, too recently to move again.

    No message says where a partition comes from. But a hand-over is told to all members, and the partitions that had
    no owner before it were assigned when it began. Times are monotonic seconds.
    """

    def __init__(self, rest_s: float) -> None:
        self._rest_s = rest_s
        self._moved_at: dict[tuple[str, int], float] = {}  # when a partition moved here from a living member
        self._handing_over = False  # the last assignment withheld partitions for the next one

    def adopted(
        self, had: Collection[tuple[str, int]], owned: Collection[tuple[str, int]], moves: tuple[int, int], now: float
    ) -> None:
        """Note an assignment; `moves`: how many partitions the leader moved and withheld, in the whole group."""
        moved, withheld = moves
        came = self._handing_over or moved > 0
        self._moved_at = {
            tp: now if came and tp not in had else self._moved_at[tp]
            for tp in owned
            if (came and tp not in had) or tp in self._moved_at
        }
        self._handing_over = withheld > 0

    def resting(self, owned: Collection[tuple[str, int]], now: float) -> list[tuple[str, int]]:
        """Those of these partitions that must stay."""
        return [tp for tp in owned if now - self._moved_at.get(tp, -math.inf) < self._rest_s]
