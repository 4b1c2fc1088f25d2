"""Dealing the partitions of one topic to members with room."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace


def dealt(count: int, having: Sequence[int], room: list[int], turn: int) -> list[int]:
    """Deal each partition to the member with room that has the fewest of the topic; return each one's receiver.

    Args:
        count: Number of partitions; at most the sum of `room`.
        having: Partitions of the topic that each member has already.
        room: How many more each member takes; counted down in place.
        turn: The member that comes first among equals; the next topic's is the one after the last receiver.

    >>> dealt(4, [0, 0, 1], [2, 2, 2], turn=1)
    [1, 0, 1, 2]
    """
    queue = [(having[i], (i - turn) % len(room), i) for i, left in enumerate(room) if left]
    heapify(queue)
    receivers = []
    for _ in range(count):
        has, place, i = queue[0]
        receivers.append(i)
        room[i] -= 1
        if room[i]:
            heapreplace(queue, (has + 1, place, i))
        else:
            heappop(queue)
    return receivers
