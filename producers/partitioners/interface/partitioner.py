"""Common behaviour of all partitioners: a validated answer, chosen once per record.

The interface is kafka-python's ``Partitioner``; the modules for other clients call the same methods. It follows from
these properties of kafka-python 3.0:

* It never validates the answer; a record with an invalid one waits for the delivery timeout. `CheckedPartitioner`
  raises at once.
* It asks twice for a record without a key that would open a new batch: ``partition``, ``on_new_batch``, ``partition``,
  consecutively in one thread. `CheckedPartitioner` repeats the first answer if the record should stay.
* It doesn't call ``on_new_batch`` for records with a key, so batch rules that ignore keys count bytes.
* It builds the sets of partitions at every call, so `metadata` keeps them sorted, once per metadata change.
* It passes neither headers nor the producer's configuration.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, ClassVar

from ...core.keys.murmur2 import as_bytes
from ...core.rule import Rule
from ...core.topic import TopicView
from ...errors import ConfigError
from .counters import Counters
from .fork import after_fork
from .metadata import KeyPlacement, TopicCache
from .record import Record, size_of
from .topic_rule import TopicRule

if TYPE_CHECKING:
    from kafka.partitioner import Partitioner
else:
    try:
        from kafka.partitioner import Partitioner
    except ImportError:  # the partitioners also serve clients that need no base class
        Partitioner = ABC

OnChoice = Callable[[str, "bytes | None", int], None]
"""Called with (topic, serialized key, partition) for every answer, in the sending thread, before the client continues.
If it is called twice during one ``send`` (kafka-python asks again when it opens a batch), the last call counts."""


class CheckedPartitioner(Partitioner):
    """A partitioner whose invalid answers raise in ``send()``; also a base class for your own.

    A subclass sets `name` and implements `choose`. A record without a key keeps its first answer when kafka-python asks
    again, so `choose` is called once per record.

    Args:
        on_choice: A hook called with every answer (`OnChoice`).
        counters: Counts what is placed.

    Raises (from ``send()``):
        InvalidPartition: The answer is not one of the topic's partitions: negative, too large, None, a bool, no int.
        NoPartitions: The topic is not in metadata or has no partitions.

    Cost: O(1) per record in addition to `choose`; O(n log n) per metadata change of a topic with n partitions.
    """

    name: ClassVar[str] = "custom"
    needs_leaders: bool = False
    """Whether views have the leaders (`TopicView.leaders`). A subclass that reads them sets it."""

    def __init__(self, *, on_choice: OnChoice | None = None, counters: Counters | None = None) -> None:
        if on_choice is not None and not callable(on_choice):
            raise ConfigError(f"on_choice must be callable with (topic, key, partition), not {on_choice!r}")
        if counters is not None and not isinstance(counters, Counters):
            raise ConfigError(f"counters must be a kafka_assignors.producers.Counters, not {counters!r}")
        self._on_choice = on_choice
        self._counters = counters
        self._observed = on_choice is not None or counters is not None
        self._topics = self._new_cache()
        # thread -> (topic, partition) of the record it will ask for again. A dict, because the check for emptiness is
        # cheaper than threading.local, and it is nearly always empty.
        self._again: dict[int, tuple[str, int]] = {}
        after_fork(self, CheckedPartitioner._start_anew)
        self._last = threading.local()  # .placed_by: what placed this thread's last record, see `undo_by`

    def _new_cache(self) -> TopicCache:
        return TopicCache(None, lambda _view: None, leaders=self.needs_leaders, by_choose=True)

    def _start_anew(self) -> None:
        """Reset in a forked process: its records differ, and a thread of its parent may hold a rule's lock forever."""
        self._again.clear()
        self._topics.forget()

    def __getstate__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled: its state belongs to one producer; "
            "make one in the process that sends"
        )

    @property
    def counters(self) -> Counters | None:
        """The argument `counters`."""
        return self._counters

    @abstractmethod
    def choose(self, view: TopicView, record: Record) -> object:
        """Place one record: return the id of one of the view's partitions. The answer is checked."""

    def choose_again(self, view: TopicView, previous: int) -> bool:
        """Whether to choose again for a record that was placed on `previous` and would open a new batch there."""
        del view, previous
        return False

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int:
        """The partition of one record: kafka-python's interface."""
        chosen = self._choose_checked(Record(topic, key, serialized_key, value, serialized_value, cluster))
        if self._observed:
            self._note(topic, serialized_key, serialized_value, chosen)
        return chosen

    def _choose_checked(self, record: Record) -> int:
        """The answer of `choose`, validated against metadata that may have changed meanwhile."""
        topic, cluster = record.topic, record.cluster
        cached = self._topics.with_leaders(topic, cluster)
        previous = self._previous(topic, record.size) if self._again and record.serialized_key is None else None
        if previous is not None and previous in cached.view and not self.choose_again(cached.view, previous):
            rule = getattr(self._last, "placed_by", None)
            if isinstance(rule, (Rule, TopicRule)):
                return rule.choose_again(cached.view, record.size, previous)
            return previous
        self._last.placed_by = None
        answer = self.choose(cached.view, record)
        newest = self._topics.cached.get(topic, cached)  # `choose` may have waited, and other threads read metadata too
        if newest is not cached and type(answer) is int and answer in cached.view and answer not in newest.view:
            answer = self.choose(newest.view, record)  # the topic was recreated with fewer partitions
        cached, chosen = newest, newest.view.check(self.name, answer)
        if cached.lost_leader(chosen):
            view = self._topics.read(topic, cluster).view
            chosen = view.check(self.name, self.choose(view, record))
        return chosen

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        """A record without a key opens a new batch; `partition` is called again at once: kafka-python's hook.

        The hook only notes that the same record comes again. The second call takes its bytes and counters back.
        """
        del cluster
        self._again[get_ident()] = topic, prev_partition

    def undo(self, record: Record, partition: int) -> Callable[[], None]:
        """A function that undoes this thread's last choice, for clients that may reject a record after it was placed.

        Call it, in any thread, if the client's queue was full or it rejected the record. Later records are then placed
        and counted as if this one had never come; it may be sent again or not. The hook (`on_choice`) was called for it
        nevertheless. A subclass that keeps state about records extends this.
        """
        undo, counters = undo_by(self._placed_by(record), record, partition), self._counters
        if counters is None:
            return undo

        def both() -> None:
            counters.take_back(record.topic, partition, record.size)
            undo()

        return both

    def _placed_by(self, record: Record) -> object:
        """The rule, key placement or partitioner that placed `record`, this thread's last one."""
        del record
        return getattr(self._last, "placed_by", None)

    def _previous(self, topic: str, size: int) -> int | None:
        """The first answer, if this is the second call for this thread's record; it is then no longer counted."""
        again = self._again.pop(get_ident(), None)
        if again is None or again[0] != topic:
            return None
        if self._counters is not None:
            self._counters.take_back(topic, again[1], size)
        return again[1]

    def _note(self, topic: str, key: bytes | None, value: bytes | None, chosen: int) -> None:
        if self._counters is not None:
            self._counters.note(topic, chosen, size_of(key, value))
        if self._on_choice is not None:
            self._on_choice(topic, key, chosen)


def is_partitioner(given: object) -> bool:
    """Whether this implements kafka-python's partitioner interface (ours do, even if kafka-python is not installed)."""
    return isinstance(given, CheckedPartitioner if Partitioner is ABC else Partitioner)


def with_fallbacks(partitioner: Any) -> Iterator[Any]:
    """A partitioner, its fallback, the fallback's fallback, and so on."""
    while partitioner is not None:
        yield partitioner
        partitioner = getattr(partitioner, "_fallback", None)


def undo_by(placed_by: object, record: Record, partition: int) -> Callable[[], None]:
    """An undo function for one choice of a partitioner, rule or key placement; no-op for another library's."""
    if isinstance(placed_by, CheckedPartitioner):
        return placed_by.undo(record, partition)
    if isinstance(placed_by, (Rule, TopicRule)):
        return partial(placed_by.take_back, record.size, partition)
    if isinstance(placed_by, KeyPlacement) and placed_by.take_back is not None:
        return partial(placed_by.take_back, as_bytes(record.serialized_key), partition)
    return _nothing


def _nothing() -> None:
    pass
