"""The same number of bytes for each partition (KIP-794)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from ..errors import ConfigError
from .topic import Draw, TopicView


class Stay:
    """One stay on a partition; compared by identity, since the next stay may be on the same partition."""

    __slots__ = ("partition", "produced_bytes")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.produced_bytes = 0


class Uniform:
    """Sticks to a partition for about a batch of bytes, then draws the next.

    Args:
        draw: Random source.
        batch_bytes: The producer's batch size in bytes. A stay ends when this much was produced and a batch has just
            been filled, or when twice as much was produced: leaving at the first count alone would leave a fraction of
            a batch behind on every partition (KAFKA-14156).

    A stay may be followed by one on the same partition. With few records all of them stay together: 24 small ones fit
    into one batch. KIP-480 changes partition with each batch instead, however small, and so favours slow brokers.

    Not thread-safe: the caller holds a lock per topic.

    Cost: O(1) a record; O(log n) a change with loads known.
    Source: KIP-794, apache/kafka ``BuiltInPartitioner``.
    """

    __slots__ = ("_draw", "_loads", "_stay", "batch_bytes")

    def __init__(self, draw: Draw, batch_bytes: int) -> None:
        if type(batch_bytes) is not int or batch_bytes < 1:
            raise ConfigError(f"batch_bytes must be an int of at least 1, not {batch_bytes!r}")
        self.batch_bytes = batch_bytes
        self._draw = draw
        self._stay: Stay | None = None
        self._loads: tuple[tuple[int, ...], tuple[int, ...]] | None = None  # running sums of weights, partition ids

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

    def take_back(self, stay: Stay, size: int) -> None:
        """Uncount a record that was not appended after all."""
        stay.produced_bytes -= size

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
            return
        longest = max(queues)
        self._loads = tuple(accumulate(longest + 1 - q for q in queues)), tuple(p for p, _ in loads)

    def _next(self, view: TopicView) -> int:
        if self._loads is None:
            return view.candidates[self._draw() % len(view.candidates)]
        sums, ids = self._loads
        return ids[bisect_right(sums, self._draw() % sums[-1])]
