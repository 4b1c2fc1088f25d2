"""The tolerance between two clocks: what the broker dates and what members and the harness date. Pure.

All processes of a run share the machine's clocks, yet a record of the coordinator's log has the broker's time, in whole
milliseconds and read before the record is written. Each comparison of such a time with a member's grants the slack.
"""

from __future__ import annotations

SLACK_MS = 100
"""Tolerance: the broker's clock has whole milliseconds, and polled records may be reported just after a callback."""
SLACK_NS = SLACK_MS * 1_000_000


def surely_before(one_ns: int, other_ns: int) -> bool:
    """Whether a time lies before another one of another process's clock: by more than `SLACK_MS`.

    >>> surely_before(0, 100_000_000), surely_before(0, 100_000_001)
    (False, True)
    """
    return one_ns + SLACK_NS < other_ns


def around(ns: int) -> tuple[int, int]:
    """The first and the last time on another process's clock that may be this one."""
    return ns - SLACK_NS, ns + SLACK_NS
