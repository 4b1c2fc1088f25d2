"""Why a member is gone, as far as the coordinator's log proves it. Plain functions over values.

The coordinator writes that a generation has other members, never why. A member that asked to leave and one whose
session or rebalance timeout ran out look the same. But no timeout can run out early. A member that was there a shorter
time ago than its timeouts allow must have been taken out by a request: its own, or an administrator's.
"""

from __future__ import annotations

LEFT = "leave"
"""A request to leave is proven."""

UNPROVEN = "left or expired"
"""The log fits both."""

MARGIN_MS = 100
"""Timestamps of one request are read at different moments of its processing."""


def cause(last_seen_ms: int | None, joined_ms: int | None, timeout_ms: int | None) -> str:
    """`LEFT` or `UNPROVEN`.

    Args:
        last_seen_ms: Broker's clock, when the member is last known to have been in the group: the join that completed
            its last generation, or a later commit of a topic-partition that it owned. Both restart its session timer.
        joined_ms: Broker's clock, when the join completed that it isn't part of: it was gone by then.
        timeout_ms: The shorter one of its session and rebalance timeouts.

        None: the log doesn't tell.

    Source: apache/kafka ``group-coordinator`` ``GroupMetadataManager``: ``rescheduleClassicGroupMemberHeartbeat`` is
    called for joins, syncs, heartbeats and commits; a rebalance waits for a member for its rebalance timeout.

    >>> cause(1_000, 7_500, 45_000), cause(1_000, 46_200, 45_000)
    ('leave', 'left or expired')
    """
    if last_seen_ms is None or joined_ms is None or timeout_ms is None:
        return UNPROVEN
    return LEFT if joined_ms - last_seen_ms < timeout_ms - MARGIN_MS else UNPROVEN
