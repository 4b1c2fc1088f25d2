"""One partition after the other."""

from __future__ import annotations

from itertools import count

from .topic import TopicView


class RoundRobin:
    """The round robin of one topic.

    Args:
        start: First value of the counter. Java's RoundRobinPartitioner starts at 0, the producers up to 2.3 at random.

    The counter indexes the partitions that have a leader (all, when none has one) and goes on over metadata changes.
    While those stay the same, any number of choices is spread with a difference of at most 1. Threads may share it:
    `itertools.count` advances atomically.

    `choose` advances once per call, so it must be called once per record. A client that asks twice for one record when
    a batch is opened must be given its first answer again (KAFKA-9965: otherwise every other partition stays empty).

    Cost: O(1) a choice.
    Source: KIP-369, apache/kafka ``RoundRobinPartitioner``.
    """

    __slots__ = ("_count",)

    def __init__(self, start: int = 0) -> None:
        self._count = count(start)

    def choose(self, view: TopicView) -> int:
        """The next partition."""
        candidates = view.candidates
        # Java's counter is an int that wraps and is then masked; 31 bits of an unbounded one run the same cycle.
        return candidates[(next(self._count) & 0x7FFFFFFF) % len(candidates)]
