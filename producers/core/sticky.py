"""One partition until a batch is full, then another (KIP-480)."""

from __future__ import annotations

from .topic import Draw, TopicView

_REDRAWS = 128  # a fair source fails that often once in 2**128; a stuck one must not hang the producer


class StickyCache:
    """The sticky partition of one topic.

    Args:
        draw: Random source.

    Not thread-safe: the caller holds a lock per topic.

    Cost: O(1) a choice, two draws on average for a change.
    Source: KIP-480, apache/kafka 3.9 ``StickyPartitionCache``.
    """

    __slots__ = ("_draw", "partition")

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self.partition: int | None = None  # the sticky partition, None before the first choice

    def choose(self, view: TopicView) -> int:
        """The sticky partition; drawn when there is none yet. It is kept even when it lost its leader, as in Java."""
        return self._change(view) if self.partition is None else self.partition

    def new_batch(self, view: TopicView, previous: int) -> int:
        """A batch of partition `previous` is full: stick to another one.

        Does nothing when the sticky partition is not `previous`: another record has changed it already.
        """
        if self.partition is None or self.partition == previous:
            return self._change(view)
        return self.partition

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
        self.partition = chosen
        return chosen
