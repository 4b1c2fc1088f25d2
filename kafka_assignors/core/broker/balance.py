"""Which reader of a topic gets the next partition, and which one gives it: the least and the most loaded, in turns.

Source: ``UniformHeterogeneousAssignmentBuilder.MemberAssignmentBalancer`` of apache/kafka 4.3.0.
"""

from __future__ import annotations

from collections.abc import Sequence


class Balancer:
    """Two ranges over a topic's readers, sorted by load: the least loaded grow upwards, the most loaded downwards.

    Each range has a level, the load of all its members. When every member of a range had its turn, the level moves by
    one, and the range takes in the members at that level.

    Args:
        load: Number of partitions per member; the caller changes it after each turn.
        readers: Indices of the topic's readers in `load`, ascending; at least one.
    """

    def __init__(self, load: list[int], readers: Sequence[int]) -> None:
        self._load = load
        self._sorted = sorted(readers, key=lambda m: (load[m], m))
        least, most = load[self._sorted[0]], load[self._sorted[-1]]
        self.imbalance = most - least
        self._low_end, self._low_level, self._low_next = 0, least - 1, 0
        self._high_start = self._high_end = len(self._sorted)
        self._high_level, self._high_next = most + 1, len(self._sorted) - 1

    def is_balanced(self) -> bool:
        """Whether a move from the most to the least loaded would not make loads more even."""
        return self._high_level - self._low_level <= 1

    def next_least(self) -> int:
        """The reader that gets the next partition."""
        if self._low_next >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._sorted) and self._at(self._low_end) == self._low_level:
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return self._sorted[self._low_next - 1]

    def next_most(self) -> int:
        """The reader that gives the next partition; -1 if no reader has one to give."""
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_level = self._at(self._high_start - 1)  # every member of the range was excluded
            else:
                self._high_level -= 1
            while self._high_start > 0 and self._at(self._high_start - 1) == self._high_level:
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return -1
        self._high_next -= 1
        return self._sorted[self._high_next + 1]

    def exclude_most(self) -> None:
        """Take the reader that `next_most` returned last out of the range: it has no partition of the topic."""
        out, last = self._high_next + 1, self._high_end - 1
        self._sorted[out], self._sorted[last] = self._sorted[last], self._sorted[out]
        self._high_end -= 1

    def _at(self, i: int) -> int:
        return self._load[self._sorted[i]]
