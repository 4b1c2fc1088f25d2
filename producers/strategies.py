"""The pure rules of `core` for many topics and threads: what every client file stands on.

A strategy makes a `Rule` for each topic it meets. `Rule.choose` is told of a record that no key places, and
`Rule.choose_again` when the client found that this record opens a new batch, and asks once more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from .core.backlog import Backlog
from .core.random_pick import RandomPick
from .core.roundrobin import RoundRobin
from .core.rule import Rule
from .core.sticky import StickyCache
from .core.topic import Draw, TopicView
from .core.uniform import Uniform
from .errors import ConfigError

BATCH_BYTES = 16384
"""The default `batch_size` of kafka-python and of Java."""

_Rule = TypeVar("_Rule", bound=Rule)


class Strategy(Generic[_Rule]):
    """Where records without a key go, whatever their topic.

    Args:
        make: Makes the rule of one topic.
    """

    def __init__(self, make: Callable[[], _Rule]) -> None:
        self._make = make
        self._topics: dict[str, _Rule] = {}

    def topic(self, name: str) -> _Rule:
        """The rule of one topic, always the same."""
        rule = self._topics.get(name)
        if rule is None:  # setdefault: of two threads that come first, both must get the same one
            rule = self._topics.setdefault(name, self._make())
        return rule

    def choose(self, view: TopicView, size: int) -> int:
        """The partition of one record, see `Rule.choose`."""
        return self.topic(view.topic).choose(view, size)


class RoundRobinStrategy(Strategy[RoundRobin]):
    """`RoundRobin` per topic.

    Args:
        start: Where a topic's counter starts: a number, or a random source.
        chunk: Records in a row for the same partition.
    """

    def __init__(self, start: int | Draw = 0, chunk: int = 1) -> None:
        RoundRobin(0 if callable(start) else start, chunk)  # a bad argument is told now, not at the first record
        super().__init__(lambda: RoundRobin(start() if callable(start) else start, chunk))


class RandomStrategy(Strategy[RandomPick]):
    """Any partition for each record."""

    def __init__(self, draw: Draw) -> None:
        super().__init__(lambda: RandomPick(draw))


class StickyStrategy(Strategy["StickyRule"]):
    """`StickyCache` per topic, changing partition at each new batch.

    Args:
        draw: Random source.
        batch_bytes: Change after that many bytes too: for clients that report new batches for some records only. None:
            the client reports them all.

    Unlike Java, a sticky partition that has lost its leader or is gone is left at once if another one is there.
    """

    def __init__(self, draw: Draw, batch_bytes: int | None = None) -> None:
        if batch_bytes is not None and (type(batch_bytes) is not int or batch_bytes < 1):
            raise ConfigError(f"batch_bytes must be an int of at least 1, not {batch_bytes!r}")
        super().__init__(lambda: StickyRule(StickyCache(draw), batch_bytes))


class StickyRule(Rule):
    """`StickyStrategy` of one topic."""

    __slots__ = ("_batch_bytes", "_cache", "_lock", "_produced_bytes")

    def __init__(self, cache: StickyCache, batch_bytes: int | None) -> None:
        self._cache = cache
        self._batch_bytes = float("inf") if batch_bytes is None else batch_bytes
        self._produced_bytes = 0  # on the sticky partition since it was chosen
        self._lock = threading.Lock()

    def choose(self, view: TopicView, size: int) -> int:
        """The sticky partition, or another one when its batch is full."""
        with self._lock:
            return self._choose(view, size)

    def choose_again(self, view: TopicView, size: int, previous: int) -> int:
        """Another partition, unless another record has changed it already."""
        with self._lock:
            if self._cache.new_batch(view, previous) != previous:
                self._produced_bytes = 0
            return self._choose(view, size)

    def _choose(self, view: TopicView, size: int) -> int:
        partition = self._cache.choose(view)
        if self._produced_bytes >= self._batch_bytes or not view.is_candidate(partition):
            partition = self._cache.new_batch(view, partition)
            self._produced_bytes = 0
        self._produced_bytes += size
        return partition


class UniformStrategy(Strategy["UniformRule"]):
    """`Uniform` per topic, and its backlog.

    Args:
        draw: Random source.
        batch_bytes: The producer's batch size in bytes.
        rack, local_share: See `Uniform`.
        availability_timeout_s: See `Backlog.queues`; 0: never.
        clock: Seconds, never going back.

    A client's report of a new batch is the moment when all batches of the partition are full: Java's condition for a
    change at the batch size. Unlike Java, a partition that has lost its leader or is gone is left at once if another
    one is there. Backlog counts once `sent` is called; the queues are weighed anew at a change of partition, though
    not more than once in n / 32 changes, which keeps the price of a record the same for any number n of partitions.
    """

    def __init__(
        self,
        draw: Draw,
        batch_bytes: int = BATCH_BYTES,
        *,
        rack: str | None = None,
        local_share: float = 1.0,
        availability_timeout_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        uniform = partial(Uniform, draw, batch_bytes, rack=rack, local_share=local_share)
        uniform()  # a bad argument is told now, not at the first record
        super().__init__(lambda: UniformRule(uniform, availability_timeout_s, clock))

    def sent(self, topic: str, partition: int, size: int) -> Callable[..., None]:
        """A record went to the client.

        Returns:
            What to call, with any arguments, once it is acknowledged or has failed for good.
        """
        return self.topic(topic).sent(partition, size)

    def pending_bytes(self, topic: str, partition: int) -> int:
        """Bytes sent to a partition and not yet acknowledged, as far as `sent` was told."""
        return self.topic(topic).pending_bytes(partition)


class UniformRule(Rule):
    """`UniformStrategy` of one topic."""

    __slots__ = ("_backlog", "_changes", "_clock", "_lock", "_timeout_s", "_uniform")

    def __init__(self, uniform: Callable[..., Uniform], timeout_s: float, clock: Callable[[], float]) -> None:
        self._uniform = uniform(queues=self._queues)
        self._backlog = Backlog()
        self._timeout_s = timeout_s
        self._clock = clock
        self._changes = 0  # until the queues are weighed again
        self._lock = threading.Lock()

    def choose(self, view: TopicView, size: int) -> int:
        """The partition under way, or the next one after its bytes."""
        with self._lock:
            return self._uniform.take(view, size).partition

    def choose_again(self, view: TopicView, size: int, previous: int) -> int:
        """The same partition, or the next one if enough was produced."""
        with self._lock:
            self._uniform.take_back(view, size, previous)
            return self._uniform.take(view, size).partition

    def sent(self, partition: int, size: int) -> Callable[..., None]:
        """See `UniformStrategy.sent`."""
        with self._lock:
            token = self._backlog.sent(partition, size, self._clock())

        def done(*_: object) -> None:
            with self._lock:
                self._backlog.done(partition, token)

        return done

    def pending_bytes(self, partition: int) -> int:
        """See `UniformStrategy.pending_bytes`."""
        with self._lock:
            return self._backlog.pending_bytes(partition)

    def _queues(self, view: TopicView) -> tuple[list[tuple[int, int]], int] | None:
        if self._backlog.idle:
            self._changes = 0
            return [], 0
        self._changes -= 1
        if self._changes > 0:
            return None
        self._changes = len(view.candidates) // 32
        return self._backlog.queues(view, self._uniform.batch_bytes, self._clock(), self._timeout_s)
