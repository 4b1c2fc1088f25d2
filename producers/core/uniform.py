"""The same number of bytes for each partition (KIP-794)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from ..errors import ConfigError
from .topic import Draw, TopicView


class Stay:
    """One stay on a partition; compared by identity, since the next stay may be on the same partition."""

    __slots__ = ("partition", "produced_bytes", "view")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.produced_bytes = 0
        self.view: TopicView | None = None  # the one that was last asked whether it has the partition


class _Table:
    """Partitions and the running sums of their weights."""

    __slots__ = ("ids", "sums")

    def __init__(self, loads: Sequence[tuple[int, int]], longest: int) -> None:
        self.sums = tuple(accumulate(longest + 1 - queue for _, queue in loads))
        self.ids = tuple(partition for partition, _ in loads)

    def pick(self, number: int) -> int:
        return self.ids[bisect_right(self.sums, number % self.sums[-1])]


Queues = Callable[[TopicView], "tuple[Sequence[tuple[int, int]], int] | None"]
"""Asked before each change: what `Uniform.set_loads` shall be given, or None to leave the loads as they are."""


class Uniform:
    """Sticks to a partition for about a batch of bytes, then draws the next.

    Args:
        draw: Random source.
        batch_bytes: The producer's batch size in bytes. A stay ends when this much was produced and a batch has just
            been filled, or when twice as much was produced: leaving at the first count alone would leave a fraction of
            a batch behind on every partition (KAFKA-14156).
        rack: Prefer partitions whose leader is there, as long as there are any (KIP-1123).
        local_share: The most that goes to the rack: of the stays, this share (0 to 1) at random; the rest goes to the
            other racks, if any. Below 1 it keeps producers of one zone from filling that zone's partitions alone.
        queues: Where backlog is known from.

    A stay may be followed by one on the same partition. With few records all of them stay together: 24 small ones fit
    into one batch. KIP-480 changes partition with each batch instead, however small, and so favours slow brokers.

    Not thread-safe: the caller holds a lock per topic.

    Cost: O(1) a record; O(log n) a change with loads known.
    Source: KIP-794, KIP-1123, apache/kafka ``BuiltInPartitioner``.
    """

    __slots__ = ("_draw", "_loads", "_local_share", "_queues", "_rack", "_stay", "batch_bytes")

    def __init__(
        self,
        draw: Draw,
        batch_bytes: int,
        *,
        rack: str | None = None,
        local_share: float = 1.0,
        queues: Queues | None = None,
    ) -> None:
        if type(batch_bytes) is not int or batch_bytes < 1:
            raise ConfigError(f"batch_bytes must be an int of at least 1, not {batch_bytes!r}")
        if rack is not None and (not isinstance(rack, str) or not rack.strip()):
            raise ConfigError(f"rack must be the name of a rack (broker.rack of the brokers near by), not {rack!r}")
        if isinstance(local_share, bool) or not isinstance(local_share, (int, float)) or not 0 <= local_share <= 1:
            raise ConfigError(f"local_share must be a number from 0 to 1, not {local_share!r}")
        if local_share != 1 and rack is None:
            raise ConfigError("local_share says how much goes to rack at most: give rack too")
        self.batch_bytes = batch_bytes
        self._draw = draw
        self._rack = rack
        self._local_share = local_share
        self._queues = queues
        self._stay: Stay | None = None
        self._loads: tuple[Sequence[tuple[int, int]], _Table] | None = None

    def take(self, view: TopicView, size: int) -> Stay:
        """Where a record goes that is appended for sure, its bytes counted: `current` and `produced` in one.

        A partition that is gone or has lost its leader is left first.
        """
        stay = self._stay
        if stay is None or stay.view is not view:
            stay = self._enter(view)
        stay.produced_bytes += size
        if stay.produced_bytes >= 2 * self.batch_bytes:
            self._stay = Stay(self._next(view))
        return stay

    def _enter(self, view: TopicView) -> Stay:
        """The stay under way if the view still has its partition, else a new one."""
        stay = self._stay
        if stay is None or not view.is_candidate(stay.partition):
            stay = self.leave(view)
            if not view.is_candidate(stay.partition):  # the loads are older than the view
                self._loads = None
                self._stay = stay = Stay(self._any(view.candidates))
        stay.view = view
        return stay

    def current(self, view: TopicView) -> Stay:
        """Where the next record goes."""
        if self._stay is None:
            self._stay = Stay(self._next(view))
        return self._stay

    def produced(self, stay: Stay, size: int, view: TopicView, *, boundary: bool) -> bool:
        """Count a record's bytes and change partition when due.

        Args:
            stay: What `current` gave for the record. Nothing happens when it is over already.
            size: Bytes the record takes in its batch; 0 to ask for a change that was put off.
            view: The topic.
            boundary: Every batch of the partition is full: leaving now leaves no fraction behind.

        Returns:
            Whether a new stay began.
        """
        if stay is not self._stay:
            return False
        stay.produced_bytes += size
        if stay.produced_bytes >= (self.batch_bytes if boundary else 2 * self.batch_bytes):
            self._stay = Stay(self._next(view))
            return True
        return False

    def take_back(self, view: TopicView, size: int, partition: int) -> None:
        """Uncount a record that `take` placed there, as it was not appended: all batches of the partition are full.

        So the stay ends if it has its bytes. Nothing happens when it is over already.
        """
        stay = self._stay
        if stay is not None and stay.partition == partition:
            stay.produced_bytes -= size
            self.produced(stay, 0, view, boundary=True)

    def leave(self, view: TopicView) -> Stay:
        """Begin a new stay at once: the partition is gone or has lost its leader."""
        self._stay = Stay(self._next(view))
        return self._stay

    def set_loads(self, loads: Sequence[tuple[int, int]], partitions: int) -> None:
        """Prefer partitions with short queues from now on.

        Args:
            loads: (partition, queued batches) of the partitions that may be chosen; empty to forget the loads.
            partitions: How many there are with those that are left out, because their broker takes nothing.

        Weights are ``longest queue + 1 - queue``, so every listed partition keeps one of at least 1. Loads that say
        nothing (fewer than two partitions, or all queues alike and none left out) are forgotten.
        """
        queues = [queued for _, queued in loads]
        if not loads or partitions < 2 or (len(set(queues)) == 1 and len(loads) == partitions):
            self._loads = None
        else:
            self._loads = tuple(loads), _Table(loads, max(queues))

    def _next(self, view: TopicView) -> int:
        if self._queues is not None:
            loads = self._queues(view)
            if loads is not None:
                self.set_loads(*loads)
        among = () if self._rack is None else self._near(view, self._rack)
        if self._loads is None:
            return self._any(among or view.candidates)
        rows, table = self._loads
        if among:
            # As in Java: the near ones that the loads leave to choose from, else whatever they leave.
            wanted = frozenset(among)
            near = [row for row in rows if row[0] in wanted]
            if near:
                table = _Table(near, max(queue for _, queue in rows))
        return table.pick(self._draw())

    def _any(self, ids: Sequence[int]) -> int:
        return ids[self._draw() % len(ids)]

    def _near(self, view: TopicView, rack: str) -> tuple[int, ...]:
        """Where to choose from for the sake of the rack; empty: anywhere."""
        local = view.in_rack(rack)
        if local and self._local_share < 1 and self._draw() >= self._local_share * 2**31:
            return view.led_by(frozenset(broker for broker in view.brokers if broker.rack != rack)) or local
        return local
