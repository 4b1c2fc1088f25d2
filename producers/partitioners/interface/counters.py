"""Count placed records, for metrics."""

from __future__ import annotations

import threading
from collections import Counter
from typing import NamedTuple

from .fork import after_fork


class TopicCounts(NamedTuple):
    """The counts of one topic."""

    records: int
    bytes: int  # keys and values, with the overhead of a record
    switches: int  # records on another partition than the one before
    partitions: dict[int, int]  # partition -> records

    @property
    def shares(self) -> dict[int, float]:
        """Partition -> its share of the records."""
        return {partition: count / self.records for partition, count in sorted(self.partitions.items())}


class Counters:
    """Counts what partitioners place: pass one as ``counters=``, to several partitioners for their sum.

    Threads may share it. Cost: about 1 µs per record, only for partitioners that have one.

    >>> counters = Counters()
    >>> counters.note("orders", 2, 100)
    >>> counters.topic("orders").shares
    {2: 1.0}
    """

    def __init__(self) -> None:
        self._new_lock()
        after_fork(self, Counters._new_lock)
        self._topics: dict[str, _Tally] = {}

    def _new_lock(self) -> None:
        self._lock = threading.Lock()

    def note(self, topic: str, partition: int, size: int) -> None:
        """Count a record on a partition."""
        with self._lock:
            tally = self._topics.get(topic)
            if tally is None:
                tally = self._topics[topic] = _Tally()
            tally.bytes += size
            tally.partitions[partition] += 1
            tally.before, tally.last = tally.last, partition
            tally.switches += tally.before not in (None, partition)

    def take_back(self, topic: str, partition: int, size: int) -> None:
        """Remove a counted record: its client asks again, or rejected it.

        `switches` are exact if no other record was noted in between.
        """
        with self._lock:
            tally = self._topics[topic]
            tally.bytes -= size
            tally.partitions[partition] -= 1
            if tally.last == partition:
                tally.switches -= tally.before not in (None, partition)
                tally.last = tally.before

    @property
    def topics(self) -> list[str]:
        """The topics with records."""
        with self._lock:
            return sorted(self._topics)

    def topic(self, name: str) -> TopicCounts:
        """The counts of one topic; zeros for an unknown one."""
        with self._lock:
            tally = self._topics.get(name, _Tally())
            partitions = {partition: count for partition, count in tally.partitions.items() if count}
            return TopicCounts(sum(partitions.values()), tally.bytes, tally.switches, partitions)


class _Tally:
    __slots__ = ("before", "bytes", "last", "partitions", "switches")

    def __init__(self) -> None:
        self.bytes = 0
        self.switches = 0
        self.partitions: Counter[int] = Counter()
        self.last: int | None = None  # partition of the last record
        self.before: int | None = None  # partition of the record before
