"""What every partitioner has in common: a checked answer, given once a record.

The interface is kafka-python's ``Partitioner``; the files of the other clients call the same. What kafka-python 3.0
does, and what follows from it:

* It never checks the answer; a wrong one waits for the delivery timeout. `CheckedPartitioner` raises at once.
* A record without a key that would open a new batch is asked for twice: ``partition``, ``on_new_batch``, ``partition``,
  in one thread, one after the other. `CheckedPartitioner` gives the first answer again where it has to stay the same.
* ``on_new_batch`` is not called for records with a key: rules about batches that ignore keys count bytes themselves.
* Partition sets are made anew at every call, so the sorted partitions are kept here, once per metadata change.
* Headers and the producer's configuration are not visible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from .core.murmur2 import as_bytes
from .core.rule import Rule
from .core.topic import TopicView
from .counters import Counters
from .errors import ConfigError
from .strategies import Strategy
from .views import Keys, Topics

if TYPE_CHECKING:
    from kafka.partitioner import Partitioner
else:
    try:
        from kafka.partitioner import Partitioner
    except ImportError:  # the same partitioners serve clients that do not ask for a base
        Partitioner = ABC

OnChoice = Callable[[str, "bytes | None", int], None]
"""Called with (topic, serialized key, partition) for every answer, in the sending thread, before the client goes on. Of
two calls during one ``send`` (kafka-python asks again when a batch is opened) the last one counts."""

# Length, attributes, timestamp and offset deltas, lengths of key and value, header count: 7 to 12 bytes in format v2.
RECORD_OVERHEAD_BYTES = 8


class Record(NamedTuple):
    """One record, as a client describes it to a partitioner."""

    topic: str
    key: Any  # as given to send
    serialized_key: bytes | None
    value: Any  # as given to send
    serialized_value: bytes | None
    cluster: Any

    @property
    def size(self) -> int:
        """Bytes it takes in its batch, about: headers are not visible here."""
        return size_of(self.serialized_key, self.serialized_value)


def size_of(key: bytes | None, value: bytes | None) -> int:
    """Bytes a record takes in its batch, about."""
    return RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")


def is_partitioner(given: object) -> bool:
    """Whether this is a partitioner of kafka-python's kind (ours are, also where kafka-python is not installed)."""
    return isinstance(given, CheckedPartitioner if Partitioner is ABC else Partitioner)


class CheckedPartitioner(Partitioner):
    """A partitioner whose wrong answers raise in ``send()``; also a base for your own.

    A subclass sets `name` and writes `choose`. Records without a key keep their first answer when kafka-python asks
    again, so `choose` is called once a record.

    Args:
        on_choice: A hook that hears of every answer (`OnChoice`).
        counters: Where to count what is placed.

    Raises (from ``send()``):
        InvalidPartition: The answer is not one of the topic's partitions: negative, too large, None, a bool, no int.
        NoPartitions: The topic is not in metadata or has no partitions.

    Cost: O(1) a record beside `choose`; O(n log n) per metadata change of a topic with n partitions.
    """

    name: ClassVar[str] = "custom"
    sees_leaders: bool = False
    """Whether views tell the leaders (`TopicView.leaders`). A subclass that asks for them sets it."""

    def __init__(self, *, on_choice: OnChoice | None = None, counters: Counters | None = None) -> None:
        if on_choice is not None and not callable(on_choice):
            raise ConfigError(f"on_choice must be callable with (topic, key, partition), not {on_choice!r}")
        if counters is not None and not isinstance(counters, Counters):
            raise ConfigError(f"counters must be a producers.Counters, not {counters!r}")
        self._on_choice = on_choice
        self._counters = counters
        self._observed = on_choice is not None or counters is not None
        self._topics = Topics(self._rule, self._keys, leaders=self.sees_leaders)
        # thread -> (topic, partition) of the record it will ask for again. A dict: asking whether it is empty costs
        # less than a look into threading.local, and it nearly always is.
        self._again: dict[int, tuple[str, int]] = {}

    @property
    def counters(self) -> Counters | None:
        """What was given as `counters`."""
        return self._counters

    @abstractmethod
    def choose(self, view: TopicView, record: Record) -> object:
        """Place one record: give the id of one of the view's partitions. The answer is checked."""

    def choose_again(self, view: TopicView, previous: int) -> bool:
        """Whether a record that was placed on `previous`, and would open a new batch there, is placed anew."""
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
        seen = self._topics.unkeyed(topic, cluster)
        record = Record(topic, key, serialized_key, value, serialized_value, cluster)
        chosen = self._previous(topic, record.size) if self._again and serialized_key is None else None
        if chosen is None or chosen not in seen.view or self.choose_again(seen.view, chosen):
            answer = self.choose(seen.view, record)
            seen = self._topics.seen.get(topic, seen)  # a choice may have waited for newer metadata
            chosen = seen.view.check(self.name, answer)
            if seen.lost_leader(chosen):
                view = self._topics.read(topic, cluster).view
                chosen = view.check(self.name, self.choose(view, record))
        if self._observed:
            self._note(topic, serialized_key, serialized_value, chosen)
        return chosen

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        """A record without a key opens a new batch; `partition` is called again at once: kafka-python's hook."""
        del cluster
        self._again[get_ident()] = topic, prev_partition

    def _previous(self, topic: str, size: int) -> int | None:
        """Where this thread's record was placed, if it is asked for again now. That time is not counted."""
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

    def _rule(self, topic: str) -> Rule | None:
        """What places the records without a key of one topic, for subclasses that do so."""
        del topic
        return None

    def _keys(self, view: TopicView) -> Keys | None:
        """What places the keys of one topic, for subclasses that do so."""
        del view
        return None


class StrategyPartitioner(CheckedPartitioner):
    """Records by one strategy; those with a key by `_keys`, where a subclass has it."""

    _empty_is_null = False
    """Whether an empty key is no key."""

    def __init__(
        self, strategy: Strategy[Any], *, on_choice: OnChoice | None = None, counters: Counters | None = None
    ) -> None:
        self._strategy = strategy
        super().__init__(on_choice=on_choice, counters=counters)
        self._seen = self._topics.seen

    def choose(self, view: TopicView, record: Record) -> object:
        """By the strategy."""
        return self._strategy.choose(view, record.size)

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
        del key, value
        # The base's way, written out: each call is a tenth of the whole. The answers are our own: nothing to check.
        try:
            seen = self._seen[topic]
            current = seen.source is cluster._partitions[topic]
        except (KeyError, AttributeError):  # the first record of a topic; another kind of cluster
            current = False
        if not current:
            seen = self._topics.read(topic, cluster)
        place = seen.place
        if place is not None and (serialized_key or not (serialized_key is None or self._empty_is_null)):
            try:
                known = seen.known
                chosen = None if known is None else known.get(serialized_key)
                if chosen is None:
                    chosen = place(serialized_key, seen.over)
            except TypeError:  # no bytes
                chosen = place(as_bytes(serialized_key), seen.over)
        else:
            if not seen.whole:
                seen = self._topics.unkeyed(topic, cluster)
            rule, size = seen.rule, RECORD_OVERHEAD_BYTES + len(serialized_key or b"") + len(serialized_value or b"")
            previous = self._previous(topic, size) if self._again and serialized_key is None else None
            if previous is None:
                chosen = rule.choose(seen.view, size)
            else:
                chosen = rule.choose_again(seen.view, size, previous)
            leader_ids = seen.leader_ids
            if (
                leader_ids is not None
                and seen.source[chosen].leader_id != leader_ids[chosen]
                and seen.lost_leader(chosen)
            ):
                chosen = rule.choose(self._topics.read(topic, cluster).view, size)
        if self._observed:
            self._note(topic, serialized_key, serialized_value, chosen)
        return chosen

    def _rule(self, topic: str) -> Rule:
        rule: Rule = self._strategy.topic(topic)
        return rule
