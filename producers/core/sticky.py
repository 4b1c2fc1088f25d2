"""Sticky rule: one partition until a batch is full, then another (KIP-480)."""

from __future__ import annotations

from ..errors import ConfigError
from .rule import Rule
from .topic import Draw, TopicView

_REDRAWS = 128  # a fair source fails this often once in 2**128; a stuck one must not hang the producer


class StickyChoice(Rule):
    """The sticky partition of one topic.

    Args:
        batch_bytes: The producer's batch size in bytes. The partition changes when the client reports a new batch, and
            after this many bytes: kafka-python only reports batches of records without a key, other clients none.

    Unlike Java, it leaves a partition that has no leader or no longer exists at once, if there is another one.
    Not thread-safe: the caller holds a lock per topic.

    Cost: O(1) per choice, two draws on average per change.
    Source: KIP-480, apache/kafka 3.9 ``StickyPartitionCache``.
    """

    __slots__ = ("_batch_bytes", "_draw", "_produced_bytes", "partition")

    def __init__(self, draw: Draw, batch_bytes: int) -> None:
        if type(batch_bytes) is not int or batch_bytes < 1:
            raise ConfigError(f"batch_bytes must be an int of at least 1, not {batch_bytes!r}")
        self._draw = draw
        self._batch_bytes = batch_bytes
        self._produced_bytes = 0  # bytes on the sticky partition since it was chosen
        self.partition: int | None = None  # the sticky partition, None before the first choice

    def choose(self, view: TopicView, size: int) -> int:
        """The sticky partition, or another one if its batch is full."""
        partition = self.partition
        if partition is None or self._produced_bytes >= self._batch_bytes or not self._keeps(view, partition):
            partition = self._change(view)
        self._produced_bytes += size
        return partition

    def choose_again(self, view: TopicView, size: int, previous: int) -> int:
        """Switch to another partition, unless another record has already done so."""
        self.take_back(size, previous)
        self.new_batch(view, previous)
        return self.choose(view, size)

    def take_back(self, size: int, partition: int) -> None:
        """Subtract the bytes, if the partition is still the sticky one."""
        if partition == self.partition:
            self._produced_bytes = max(self._produced_bytes - size, 0)

    def new_batch(self, view: TopicView, previous: int) -> None:
        """A batch of `previous` is full: stick to another one, unless another record has changed it already."""
        if self.partition is None or self.partition == previous:
            self._change(view)

    def _keeps(self, view: TopicView, partition: int) -> bool:
        """Whether to keep a sticky partition that has room in its batch."""
        return view.is_candidate(partition)

    def _change(self, view: TopicView) -> int:
        old, available = self.partition, view.available
        if not available:
            chosen = view.partitions[self._draw() % len(view.partitions)]  # may be the old one, as in Java
        elif len(available) == 1:
            chosen = available[0]
        else:
            for _ in range(_REDRAWS):
                chosen = available[self._draw() % len(available)]
                if chosen != old:
                    break
            else:
                chosen = next(p for p in available if p != old)
        self.partition, self._produced_bytes = chosen, 0
        return chosen
