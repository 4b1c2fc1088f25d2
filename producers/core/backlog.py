"""What was sent and is not yet acknowledged."""

from __future__ import annotations

from collections import OrderedDict

from .topic import TopicView


class Backlog:
    """The unacknowledged records of one topic.

    Not thread-safe: the caller holds a lock. Times are seconds of the caller's clock, which must not go back.

    Cost: O(1) a record sent and a record done.
    """

    __slots__ = ("_bytes", "_next", "_waiting")

    def __init__(self) -> None:
        self._bytes: dict[int, int] = {}  # partition -> unacknowledged bytes
        self._waiting: dict[int, OrderedDict[int, tuple[float, int]]] = {}  # partition -> token -> (sent at, bytes)
        self._next = 0

    def sent(self, partition: int, size: int, now: float) -> int:
        """A record went to the client; gives a token for `done`."""
        self._next += 1
        self._waiting.setdefault(partition, OrderedDict())[self._next] = now, size
        self._bytes[partition] = self._bytes.get(partition, 0) + size
        return self._next

    def done(self, partition: int, token: int) -> None:
        """The record is acknowledged, or has failed for good. A second time does nothing."""
        waiting = self._waiting.get(partition)
        found = waiting.pop(token, None) if waiting is not None else None
        if found is not None:
            self._bytes[partition] -= found[1]

    @property
    def idle(self) -> bool:
        """Whether nothing was ever sent: backlog is not counted for this topic."""
        return not self._next

    def pending_bytes(self, partition: int) -> int:
        """Unacknowledged bytes of a partition."""
        return self._bytes.get(partition, 0)

    def oldest(self, partition: int) -> float | None:
        """When the partition's oldest unacknowledged record was sent; None without one."""
        waiting = self._waiting.get(partition)
        return next(iter(waiting.values()))[0] if waiting else None

    def queues(
        self, view: TopicView, batch_bytes: int, now: float, timeout_s: float
    ) -> tuple[list[tuple[int, int]], int]:
        """The topic's queues, as `Uniform.set_loads` takes them.

        Args:
            view: The topic.
            batch_bytes: Queues are counted in batches of that size, the last one not full.
            now: By the clock of `sent`.
            timeout_s: Leave out all partitions of a leader whose oldest unacknowledged record is older; 0: none. A
                partition whose leader is not known speaks for itself alone.

        Returns:
            [(partition, batches)] of the partitions to choose from, and the number of candidates.

        Cost: O(n).
        """
        late: set[object] = set()
        if timeout_s:
            for partition in self._waiting:
                oldest = self.oldest(partition)
                if oldest is not None and now - oldest > timeout_s:
                    late.add(view.leaders.get(partition, partition))
        pending = self._bytes
        ids = [p for p in view.candidates if not late or view.leaders.get(p, p) not in late]
        return [(p, -(-pending.get(p, 0) // batch_bytes)) for p in ids], len(view.candidates)
