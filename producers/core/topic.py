"""The partitioner's view of a topic."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ..errors import InvalidPartition, NoPartitions

Draw = Callable[[], int]
"""A random source: each call returns an int, uniform over 31 bits (``random.Random(seed).getrandbits(31)``). Java also
takes a draw modulo the number of candidates; the bias is below n / 2**31."""


class PartitionLeader(NamedTuple):
    """A partition's leader in metadata."""

    id: int
    host: str
    rack: str | None


class TopicView:
    """The partitions of one topic at one moment; immutable.

    Args:
        partitions: All partition ids, in any order, including those without a leader. Keyed records go to any of these.
        available: Partitions that have a leader.
        leaders: partition -> leader, for partitioners that need it; an absent leader is unknown.

    Attributes:
        partitions: Ascending ids.
        available: Ascending ids with a leader; may be empty.
        brokers: The distinct leaders.
        candidates: Partitions for records without a key: `available`, or `partitions` if none has a leader.

    Raises:
        NoPartitions: `partitions` is empty.

    Cost: O(n log n) to build; build it once per metadata change.
    """

    __slots__ = ("_all", "_candidates", "_led", "available", "brokers", "candidates", "leaders", "partitions", "topic")

    def __init__(
        self,
        topic: str,
        partitions: Iterable[int],
        available: Iterable[int],
        leaders: Mapping[int, PartitionLeader] | None = None,
    ) -> None:
        self.topic = topic
        self.partitions = tuple(sorted(partitions))
        if not self.partitions:
            raise NoPartitions(f"topic {topic!r} has no partitions in metadata; was it just created or deleted?")
        self.available = tuple(sorted(available))
        self.candidates = self.available or self.partitions
        self._all = frozenset(self.partitions)
        self._candidates = frozenset(self.candidates)
        self.leaders = dict(leaders or {})
        self.brokers = frozenset(self.leaders.values())
        self._led: dict[frozenset[PartitionLeader], tuple[int, ...]] = {}

    def __contains__(self, partition: object) -> bool:
        """Whether the topic has this partition."""
        return partition in self._all

    def is_candidate(self, partition: int) -> bool:
        """Whether a record without a key may go to this partition."""
        return partition in self._candidates

    def led_by(self, brokers: frozenset[PartitionLeader]) -> tuple[int, ...]:
        """Ascending ids of the available partitions that these brokers lead. Cost: O(n) once, then a look-up."""
        partitions = self._led.get(brokers)
        if partitions is None:
            partitions = self._led[brokers] = tuple(p for p in self.available if self.leaders.get(p) in brokers)
        return partitions

    def in_rack(self, rack: str) -> tuple[int, ...]:
        """Ascending ids of the available partitions whose leader is in that rack."""
        return self.led_by(frozenset(broker for broker in self.brokers if broker.rack == rack))

    def check(self, partitioner: str, answer: object) -> int:
        """Validate the answer of the named partitioner and return it as an int.

        Other integer types (NumPy's) are accepted, bools are not.

        Raises:
            InvalidPartition: The answer is not an integer, or not one of the topic's partitions.
        """
        if type(answer) is int and answer in self._all:
            return answer
        if not isinstance(answer, bool):
            try:
                number = operator.index(answer)  # type: ignore[arg-type]
            except TypeError:
                pass
            else:
                if number in self._all:
                    return number
        raise InvalidPartition(partitioner, self.topic, answer, self.partitions)
