"""Uniform rule: the same number of bytes for each partition (KIP-794)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

from ..errors import ConfigError
from .backlog import Backlog
from .lag import LagWeights
from .rule import Rule
from .topic import Draw, TopicView


class _Table:
    """Partitions and the cumulative sums of their weights."""

    __slots__ = ("ids", "sums")

    def __init__(self, ids: Sequence[int], sums: Sequence[int]) -> None:
        self.ids, self.sums = ids, sums

    @classmethod
    def by_queues(cls, rows: Sequence[tuple[int, int]]) -> _Table:
        """(partition, queued batches): each weighs the longest queue + 1 - its own, as in Java."""
        return cls([partition for partition, _ in rows], list(accumulate(_queue_weights(rows))))

    @classmethod
    def by_lag(cls, rows: Sequence[tuple[int, int]], weights: Mapping[int, float]) -> _Table:
        """The weights by queues, times those by lag."""
        sums = list(accumulate(queue * weights[p] for (p, _), queue in zip(rows, _queue_weights(rows), strict=True)))
        # Scaled to the range of a draw: its remainder is then the draw itself.
        return cls([partition for partition, _ in rows], [int(total / sums[-1] * 2**31) for total in sums])

    def pick(self, number: int) -> int:
        return self.ids[bisect_right(self.sums, number % self.sums[-1])]


def _queue_weights(rows: Sequence[tuple[int, int]]) -> list[int]:
    longest = max(queue for _, queue in rows)
    return [longest + 1 - queue for _, queue in rows]


class UniformChoice(Rule):
    """Sticks to a partition for about a batch of bytes, then draws the next.

    Args:
        batch_bytes: The producer's batch size in bytes. A stay ends when this many bytes were produced and a batch has
            just been filled, or when twice as many were produced. Leaving at the first count alone would leave a
            partial batch behind on every partition (KAFKA-14156).
        rack: Prefer partitions whose leader is in this rack, as long as there are any (KIP-1123).
        local_share: Maximum share (0 to 1) of stays in the rack, chosen at random; the rest goes to other racks, if
            any. Below 1, producers of one zone do not fill only that zone's partitions.
        backlog: Records that are sent and not acknowledged yet; None: all partitions have the same weight.
        lag: Weights by the lag of consumers, which multiply those by backlog; None: consumers do not count.

    Consecutive stays may be on the same partition. With few records, all of them stay together: 24 small ones fit into
    one batch. KIP-480 instead changes the partition with each batch, however small, and so favours slow brokers.

    Unlike Java, the next partition is drawn when the first record of a stay comes, not when the previous stay ends, and
    a partition that has no leader or no longer exists is left at once, if there is another one.

    Not thread-safe: the caller holds a lock per topic.

    Cost: O(1) per record; O(log n) per change with known loads.
    Source: KIP-794, KIP-1123, apache/kafka ``BuiltInPartitioner``.
    """

    __slots__ = (
        "_draw", "_lag", "_local_share", "_most_bytes", "_queues", "_rack", "_tables", "_view", "_weighed", "_weights",
        "backlog", "batch_bytes", "partition", "produced_bytes",
    )  # fmt: skip

    def __init__(
        self,
        draw: Draw,
        batch_bytes: int,
        *,
        rack: str | None = None,
        local_share: float = 1.0,
        backlog: Backlog | None = None,
        lag: LagWeights | None = None,
    ) -> None:
        if type(batch_bytes) is not int or batch_bytes < 1:
            raise ConfigError(f"batch_bytes must be an int of at least 1, not {batch_bytes!r}")
        if rack is not None and (not isinstance(rack, str) or not rack.strip()):
            raise ConfigError(f"rack must be the name of a rack (broker.rack of nearby brokers), not {rack!r}")
        if isinstance(local_share, bool) or not isinstance(local_share, (int, float)) or not 0 <= local_share <= 1:
            raise ConfigError(f"local_share must be a number from 0 to 1, not {local_share!r}")
        if local_share != 1 and rack is None:
            raise ConfigError("local_share limits the share of rack: give rack too")
        self.batch_bytes = batch_bytes
        self._most_bytes = 2 * batch_bytes
        self._draw = draw
        self._rack = rack
        self._local_share = local_share
        self.backlog = backlog
        self.partition: int | None = None  # partition of the current stay; None between two stays
        self.produced_bytes = 0  # in this stay
        self._view: TopicView | None = None  # the view last checked for the partition
        self._lag = lag
        self._queues: tuple[tuple[int, int], ...] | None = None  # (partition, queued batches)
        self._weights: Mapping[int, float] | None = None  # by lag
        self._weighed: TopicView | None = None  # the view that the tables are of
        self._tables: dict[int, tuple[Sequence[int], _Table]] = {}  # id of the partitions to choose from -> their table

    def choose(self, view: TopicView, size: int) -> int:
        """The current partition, or the next one after its bytes; counts the record's bytes."""
        if self._view is not view or self.produced_bytes >= self._most_bytes:
            self.current(view)
        self.produced_bytes += size
        return self.partition  # type: ignore[return-value]  # `current` has set it

    def choose_again(self, view: TopicView, size: int, previous: int) -> int:
        """The same partition, or the next one if enough was produced."""
        self.take_back(size, previous)
        self.boundary(previous)
        return self.choose(view, size)

    def take_back(self, size: int, partition: int) -> None:
        """Subtract the bytes, if the stay on that partition has not ended."""
        if partition == self.partition:
            self.produced_bytes = max(self.produced_bytes - size, 0)  # an earlier stay may have counted it

    def boundary(self, partition: int) -> None:
        """All batches of a partition are full, so that leaving it leaves no partial batch: leave if it has its bytes.

        Does nothing if the stay on it has ended.
        """
        if partition == self.partition and self.produced_bytes >= self.batch_bytes:
            self.partition = self._view = None

    def current(self, view: TopicView) -> int:
        """The partition of the next record, whatever its size."""
        if self.partition is None or self.produced_bytes >= self._most_bytes or not self._keeps(view, self.partition):
            self.partition, self.produced_bytes = self._next(view), 0
            if not self._keeps(view, self.partition):  # the loads are older than the view
                self.set_loads((), 0)
                self.partition = self._any(view.candidates)
        self._view = view
        return self.partition

    def _keeps(self, view: TopicView, partition: int) -> bool:
        """Whether a stay on that partition may begin or continue."""
        return view.is_candidate(partition)

    def set_loads(self, loads: Sequence[tuple[int, int]], partitions: int) -> None:
        """Prefer partitions with short queues from now on.

        Args:
            loads: (partition, queued batches) of the partitions that may be chosen; empty to forget the loads.
            partitions: Number of partitions including those excluded because their broker is unresponsive.

        Weights are ``longest queue + 1 - queue``, so every listed partition has a weight of at least 1. Uninformative
        loads (fewer than two partitions, or equal queues without exclusions) are forgotten.
        """
        queues = {queued for _, queued in loads}
        uninformative = not loads or partitions < 2 or (len(queues) == 1 and len(loads) == partitions)
        changed = None if uninformative else tuple(loads)
        if changed != self._queues:
            self._queues = changed
            self._tables.clear()

    def _next(self, view: TopicView) -> int:
        loads = None if self.backlog is None else self.backlog.weigh(view, self.batch_bytes)
        if loads is not None:
            self.set_loads(*loads)
        weights = None if self._lag is None else self._lag.weights(view)
        if weights is not self._weights or view is not self._weighed:
            self._weights, self._weighed = weights, view
            self._tables.clear()
        near = () if self._rack is None else self._near(view, self._rack)
        among = near or view.candidates
        if self._queues is None and weights is None:
            return self._any(among)
        if id(among) not in self._tables:
            self._tables[id(among)] = among, self._table(view, near)
        return self._tables[id(among)][1].pick(self._draw())

    def _table(self, view: TopicView, near: Sequence[int]) -> _Table:
        """The weights of the partitions to choose from.

        As in Java: the near partitions among those that the loads permit, else all of these. Weights come from the
        longest queue among them: a queue elsewhere must not level the differences between them.
        """
        rows = [(p, 0) for p in near or view.candidates] if self._queues is None else list(self._queues)
        wanted = frozenset(near)
        rows = [row for row in rows if row[0] in wanted] or rows
        if self._weights is None:
            return _Table.by_queues(rows)
        weights = self._weights  # of the view's candidates; the loads may be older than the view
        rows = [row for row in rows if row[0] in weights] or [(p, 0) for p in view.candidates]
        return _Table.by_lag(rows, weights)

    def _any(self, ids: Sequence[int]) -> int:
        return ids[self._draw() % len(ids)]

    def _near(self, view: TopicView, rack: str) -> tuple[int, ...]:
        """Partitions to choose from because of the rack; empty for any."""
        local = view.in_rack(rack)
        if local and self._local_share < 1 and self._draw() >= self._local_share * 2**31:
            return view.led_by(frozenset(broker for broker in view.brokers if broker.rack != rack)) or local
        return local
