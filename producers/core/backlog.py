"""Records that were sent and are not acknowledged yet."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from .topic import TopicView


class Backlog:
    """The unacknowledged records of one topic.

    They are counted around ``send``: a client's queues are private, and records in flight to a stalled broker count.

    Args:
        clock: Monotonic seconds.
        timeout_s: Exclude all partitions of a leader whose oldest unacknowledged record is older than this; 0: never.

    Not thread-safe: the caller holds a lock.

    Cost: O(1) per record sent and per record done.
    """

    __slots__ = ("_bytes", "_changes", "_clock", "_next", "_timeout_s", "_waiting")

    def __init__(self, clock: Callable[[], float], timeout_s: float = 0.0) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._bytes: dict[int, int] = {}  # partition -> unacknowledged bytes
        self._waiting: dict[int, OrderedDict[int, tuple[float, int]]] = {}  # partition -> token -> (sent at, bytes)
        self._next = 0
        self._changes = 0  # countdown to the next weighing

    def sent(self, partition: int, size: int) -> int:
        """A record was passed to the client; returns a token for `done`."""
        self._next += 1
        self._waiting.setdefault(partition, OrderedDict())[self._next] = self._clock(), size
        self._bytes[partition] = self._bytes.get(partition, 0) + size
        return self._next

    def done(self, partition: int, token: int) -> None:
        """The record is acknowledged, or has failed for good. A second call does nothing."""
        waiting = self._waiting.get(partition)
        entry = waiting.pop(token, None) if waiting is not None else None
        if entry is not None:
            self._bytes[partition] -= entry[1]

    @property
    def idle(self) -> bool:
        """Whether nothing was ever sent, so that the backlog of this topic is not counted."""
        return not self._next

    def pending_bytes(self, partition: int) -> int:
        """Unacknowledged bytes of a partition."""
        return self._bytes.get(partition, 0)

    def oldest(self, partition: int) -> float | None:
        """Time at which the partition's oldest unacknowledged record was sent; None without one."""
        waiting = self._waiting.get(partition)
        return next(iter(waiting.values()))[0] if waiting else None

    def weigh(self, view: TopicView, batch_bytes: int) -> tuple[list[tuple[int, int]], int] | None:
        """The queues, recomputed once per n / 32 changes of partition; None if the last ones still apply.

        This makes the cost per record independent of the number n of partitions.
        """
        if self.idle:
            return [], 0
        self._changes -= 1
        if self._changes > 0:
            return None
        self._changes = len(view.candidates) // 32
        return self.queues(view, batch_bytes)

    def queues(self, view: TopicView, batch_bytes: int) -> tuple[list[tuple[int, int]], int]:
        """For `UniformChoice.set_loads`: [(partition, batches)] to choose from, and the number of candidates.

        Batches have `batch_bytes`, the last one is possibly partial. If a partition's leader is unknown, only its own
        records can make it late.

        Cost: O(n).
        """
        late: set[object] = set()
        if self._timeout_s:
            now = self._clock()
            for partition in self._waiting:
                oldest = self.oldest(partition)
                if oldest is not None and now - oldest > self._timeout_s:
                    late.add(view.leaders.get(partition, partition))
        pending = self._bytes
        ids = [p for p in view.candidates if not late or view.leaders.get(p, p) not in late]
        return [(p, -(-pending.get(p, 0) // batch_bytes)) for p in ids], len(view.candidates)
