"""Round robin: each partition in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import count

from ..errors import ConfigError
from .rule import Rule
from .topic import TopicView


class RoundRobin(Rule):
    """The round robin of one topic.

    Args:
        start: First value of the counter. Java's RoundRobinPartitioner starts at 0; producers up to 2.3 start at
            random.
        chunk: Consecutive records per partition. More than 1 fills batches better; the counts then differ by at most
            `chunk`.

    The counter indexes the partitions with a leader (all, if none has one) and continues over metadata changes. While
    these partitions stay the same, their counts differ by at most 1. Threads may share it: `itertools.count` and
    `deque` advance atomically.

    `choose` advances once per call, so it must be called once per record. A choice that the client did not use goes to
    the next record (`take_back`). A client that asks twice for one record when it opens a batch must get its first
    answer again (KAFKA-9965: otherwise every other partition stays empty).

    Cost: O(1) per choice; O(n) if it was taken back.
    Source: KIP-369, apache/kafka ``RoundRobinPartitioner``.
    """

    thread_safe = True
    __slots__ = ("_chunk", "_count", "_taken_back")

    def __init__(self, start: int = 0, chunk: int = 1) -> None:
        if type(start) is not int or start < 0:
            raise ConfigError(f"start must be an int of at least 0, not {start!r}")
        if type(chunk) is not int or chunk < 1:
            raise ConfigError(f"chunk must be an int of at least 1, not {chunk!r}")
        self._chunk = chunk
        self._count = count(start * chunk)
        self._taken_back: deque[int] = deque()  # partitions of unused turns, the oldest first

    def choose(self, view: TopicView, size: int = 0) -> int:
        """The next partition; `size` is ignored."""
        del size
        return self.among(view.candidates)

    def among(self, candidates: Sequence[int]) -> int:
        """The next of the given partitions."""
        while self._taken_back:
            try:
                partition = self._taken_back.popleft()
            except IndexError:  # another thread took it
                break
            if partition in candidates:
                return partition
        # Java's counter is an int that wraps and is then masked; 31 bits of an unbounded counter give the same cycle.
        turn = next(self._count) if self._chunk == 1 else next(self._count) // self._chunk
        return candidates[(turn & 0x7FFFFFFF) % len(candidates)]

    def take_back(self, size: int, partition: int) -> None:
        """Give this turn to the next record; `size` is ignored."""
        del size
        self._taken_back.append(partition)
