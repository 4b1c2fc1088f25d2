"""The pure rules of `core` for many topics and threads: what every client file stands on.

A strategy places records that no key places. It is told of a record with `choose`, and with `new_batch` when the client
found that this record opens a new batch and will ask again.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .core import random_pick
from .core.backlog import Backlog
from .core.roundrobin import RoundRobin
from .core.sticky import StickyCache
from .core.topic import Draw, TopicView
from .core.uniform import Queues, Stay, Uniform
from .errors import ConfigError

BATCH_BYTES = 16384
"""The default `batch_size` of kafka-python and of Java."""

_State = TypeVar("_State")


class Strategy(ABC):
    """Where records without a key go."""

    @abstractmethod
    def choose(self, view: TopicView, size: int) -> int:
        """The partition of one record.

        Args:
            view: The topic.
            size: Bytes the record takes in its batch, about.
        """

    def new_batch(self, view: TopicView, previous: int) -> bool:
        """The record just placed on `previous` would open a new batch there, and the client asks for it once more.

        Returns:
            Whether to choose again. False: the record keeps `previous`. A strategy that goes on with every choice has
            to answer False, or half of its choices are thrown away (KAFKA-9965).
        """
        del view, previous
        return False


class RoundRobinStrategy(Strategy):
    """`RoundRobin` per topic.

    Args:
        start: Where a topic's counter starts: a number, or a random source.
        chunk: Records in a row for the same partition.
    """

    def __init__(self, start: int | Draw = 0, chunk: int = 1) -> None:
        RoundRobin(0 if callable(start) else start, chunk)  # a bad argument is told now, not at the first record
        self._start = start
        self._chunk = chunk
        self._topics: dict[str, RoundRobin] = {}

    def choose(self, view: TopicView, size: int) -> int:
        """The partition of one record; `size` does not matter."""
        del size
        counter = self._topics.get(view.topic)
        if counter is None:  # setdefault: of two threads that come first, both must count with the same counter
            start = self._start() if callable(self._start) else self._start
            counter = self._topics.setdefault(view.topic, RoundRobin(start, self._chunk))
        return counter.choose(view)


class RandomStrategy(Strategy):
    """Any partition for each record."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def choose(self, view: TopicView, size: int) -> int:
        """The partition of one record; `size` does not matter."""
        del size
        return random_pick.choose(view, self._draw)


@dataclass
class _Locked(Generic[_State]):
    """One topic's state and its lock: topics do not wait for each other."""

    state: _State
    lock: threading.Lock = field(default_factory=threading.Lock)


class StickyStrategy(Strategy):
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
        self._draw = draw
        self._batch_bytes = batch_bytes
        self._topics: dict[str, _Locked[_StickyTopic]] = {}

    def _topic(self, name: str) -> _Locked[_StickyTopic]:
        return self._topics.get(name) or self._topics.setdefault(name, _Locked(_StickyTopic(StickyCache(self._draw))))

    def choose(self, view: TopicView, size: int) -> int:
        """The partition of one record."""
        topic = self._topic(view.topic)
        with topic.lock:
            state = topic.state
            partition = state.cache.choose(view)
            full = self._batch_bytes is not None and state.produced_bytes >= self._batch_bytes
            if full or not view.is_candidate(partition):
                partition = state.cache.new_batch(view, partition)
                state.produced_bytes = 0
            state.produced_bytes += size
            return partition

    def new_batch(self, view: TopicView, previous: int) -> bool:
        """Change partition, unless another record did; choose again."""
        topic = self._topic(view.topic)
        with topic.lock:
            if topic.state.cache.new_batch(view, previous) != previous:
                topic.state.produced_bytes = 0
        return True


@dataclass
class _StickyTopic:
    cache: StickyCache
    produced_bytes: int = 0  # on the sticky partition since it was chosen


class UniformStrategy(Strategy):
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
        self._make: Callable[[Queues | None], Uniform] = lambda queues: Uniform(
            draw, batch_bytes, rack=rack, local_share=local_share, queues=queues
        )
        self._make(None)  # a bad argument is told now, not at the first record
        self._batch_bytes = batch_bytes
        self._timeout_s = availability_timeout_s
        self._clock = clock
        self._topics: dict[str, _Locked[_UniformTopic]] = {}
        self._last = threading.local()  # .record: (topic, stay, size) this thread placed last

    def _topic(self, name: str) -> _Locked[_UniformTopic]:
        return self._topics.get(name) or self._topics.setdefault(name, _Locked(_UniformTopic(self)))

    def choose(self, view: TopicView, size: int) -> int:
        """The partition of one record."""
        topic = self._topics.get(view.topic) or self._topic(view.topic)
        with topic.lock:
            stay = topic.state.uniform.take(view, size)
        self._last.record = view.topic, stay, size
        return stay.partition

    def new_batch(self, view: TopicView, previous: int) -> bool:
        """Change partition if enough was produced; choose again."""
        last: tuple[str, Stay, int] | None = getattr(self._last, "record", None)
        if last is not None and last[0] == view.topic and last[1].partition == previous:
            _, stay, size = last
            topic = self._topic(view.topic)
            with topic.lock:
                topic.state.uniform.take_back(stay, size)  # it was not appended; choose counts it again
                topic.state.uniform.produced(stay, 0, view, boundary=True)
        return True

    def sent(self, topic: str, partition: int, size: int) -> Callable[..., None]:
        """A record went to the client.

        Returns:
            What to call, with any arguments, once it is acknowledged or has failed for good.
        """
        state = self._topic(topic)
        with state.lock:
            token = state.state.backlog.sent(partition, size, self._clock())

        def done(*_: object) -> None:
            with state.lock:
                state.state.backlog.done(partition, token)

        return done

    def pending_bytes(self, topic: str, partition: int) -> int:
        """Bytes sent to a partition and not yet acknowledged, as far as `sent` was told."""
        state = self._topic(topic)
        with state.lock:
            return state.state.backlog.pending_bytes(partition)


class _UniformTopic:
    """One topic's uniform partitioner around its backlog."""

    def __init__(self, strategy: UniformStrategy) -> None:
        self.backlog = Backlog()
        self.uniform = strategy._make(self._queues)
        self._strategy = strategy
        self._changes = 0  # until the queues are weighed again

    def _queues(self, view: TopicView) -> tuple[list[tuple[int, int]], int] | None:
        if self.backlog.idle:
            self._changes = 0
            return [], 0
        self._changes -= 1
        if self._changes > 0:
            return None
        self._changes = len(view.candidates) // 32
        strategy = self._strategy
        return self.backlog.queues(view, strategy._batch_bytes, strategy._clock(), strategy._timeout_s)
