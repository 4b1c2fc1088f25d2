"""Why a member left, as far as the coordinator's log proves it. Plain functions over values.

The coordinator records that a generation has other members, never why. A member that asked to leave and one whose
session or rebalance timeout expired look the same. But a timeout cannot expire early: if a member was last seen less
than its timeouts ago, a request must have removed it, either its own or an administrator's.
"""

from __future__ import annotations

LEFT = "leave"
"""A request to leave is proven."""

UNPROVEN = "left or expired"
"""The log is consistent with both causes."""

MARGIN_MS = 100
"""Tolerance, because timestamps of one request are read at different moments of its processing."""


def cause(last_seen_ms: int | None, joined_ms: int | None, timeout_ms: int | None) -> str:
    """`LEFT` or `UNPROVEN`. An argument is None if the log does not have it.

    Args:
        last_seen_ms: Broker's clock when the member is last known to have been in the group: the join that completed
            its last generation, or a later commit of a topic-partition that it owned. Both restart its session timer.
        joined_ms: Broker's clock when the first join without it completed: it was gone by then.
        timeout_ms: The shorter of its session and rebalance timeouts.

    Source: apache/kafka ``group-coordinator`` ``GroupMetadataManager``: ``rescheduleClassicGroupMemberHeartbeat`` is
    called for joins, syncs, heartbeats and commits; a rebalance waits for a member for its rebalance timeout.

    >>> cause(1_000, 7_500, 45_000), cause(1_000, 46_200, 45_000)
    ('leave', 'left or expired')
    """
    if last_seen_ms is None or joined_ms is None or timeout_ms is None:
        return UNPROVEN
    return LEFT if joined_ms - last_seen_ms < timeout_ms - MARGIN_MS else UNPROVEN
