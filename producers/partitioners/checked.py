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

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..core.keys.murmur2 import as_bytes
from ..core.rule import Rule
from ..core.topic import TopicView
from ..errors import ConfigError
from .counters import Counters
from .forked import after_fork
from .views import Keys, Seen, Topics

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


def with_fallbacks(partitioner: Any) -> Iterator[Any]:
    """A partitioner, its fallback, that one's fallback, and so on."""
    while partitioner is not None:
        yield partitioner
        partitioner = getattr(partitioner, "_fallback", None)


def undo_by(chooser: object, record: Record, partition: int) -> Callable[[], None]:
    """How to undo one choice of a partitioner, a rule or a topic's keys; nothing to do for another library's."""
    if isinstance(chooser, CheckedPartitioner):
        return chooser.undo(record, partition)
    if isinstance(chooser, Rule):
        return partial(chooser.take_back, record.size, partition)
    if isinstance(chooser, Keys) and chooser.take_back is not None:
        return partial(chooser.take_back, as_bytes(record.serialized_key), partition)
    return _nothing


def _nothing() -> None:
    pass


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
    _empty_is_null = False
    """Whether an empty key is no key."""

    def __init__(self, *, on_choice: OnChoice | None = None, counters: Counters | None = None) -> None:
        self._observe(on_choice, counters)
        self._topics = Topics(None, self._keys, leaders=self.sees_leaders, by_choice=True)
        self._seen = self._topics.seen

    def _observe(self, on_choice: OnChoice | None, counters: Counters | None) -> None:
        if on_choice is not None and not callable(on_choice):
            raise ConfigError(f"on_choice must be callable with (topic, key, partition), not {on_choice!r}")
        if counters is not None and not isinstance(counters, Counters):
            raise ConfigError(f"counters must be a kafka_assignors.producers.Counters, not {counters!r}")
        self._on_choice = on_choice
        self._counters = counters
        self._observed = on_choice is not None or counters is not None
        # thread -> (topic, partition) of the record it will ask for again. A dict: asking whether it is empty costs
        # less than a look into threading.local, and it nearly always is.
        self._again: dict[int, tuple[str, int]] = {}
        after_fork(self, CheckedPartitioner._start_anew)
        self._last = threading.local()  # .chooser: to whom `choose` left this thread's last record, see `undo_by`

    def _start_anew(self) -> None:
        """In a forked process: its records are others, and a thread of its parent may hold a rule's lock for ever."""
        self._again.clear()
        self._topics.forget()

    def __getstate__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled: what it knows belongs to one producer; "
            "make one in the process that sends"
        )

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
        # Written out, as each call is a tenth of the whole. What keys and rules answer is our own: nothing to check.
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
            except (TypeError, ValueError):  # no bytes; a memoryview that can be written to has no hash
                chosen = place(as_bytes(serialized_key), seen.over)
        elif seen.rule is None:
            chosen = self._checked(seen, Record(topic, key, serialized_key, value, serialized_value, cluster))
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

    def _checked(self, seen: Seen, record: Record) -> int:
        """What `choose` answers."""
        topic, cluster = record.topic, record.cluster
        if not seen.whole:
            seen = self._topics.unkeyed(topic, cluster)
        previous = self._previous(topic, record.size) if self._again and record.serialized_key is None else None
        if previous is not None and previous in seen.view and not self.choose_again(seen.view, previous):
            chooser = getattr(self._last, "chooser", None)
            return chooser.choose_again(seen.view, record.size, previous) if isinstance(chooser, Rule) else previous
        self._last.chooser = None
        answer = self.choose(seen.view, record)
        newest = self._seen.get(topic, seen)  # a choice may have waited for newer metadata; other threads read it too
        if newest is not seen and type(answer) is int and answer in seen.view and answer not in newest.view:
            answer = self.choose(newest.view, record)  # the topic was made anew, with fewer partitions
        seen, chosen = newest, newest.view.check(self.name, answer)
        if seen.lost_leader(chosen):
            view = self._topics.read(topic, cluster).view
            chosen = view.check(self.name, self.choose(view, record))
        return chosen

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        """A record without a key opens a new batch; `partition` is called again at once: kafka-python's hook."""
        del cluster
        self._again[get_ident()] = topic, prev_partition

    def undo(self, record: Record, partition: int) -> Callable[[], None]:
        """How to undo the choice that this thread made last: for clients that may not take the record in the end.

        Args:
            record: What was placed.
            partition: Where.

        Returns:
            What to call, in any thread, if the client's queue was full or it refused the record. The following records
            then go, and are counted, as if this one had never come. It may come again, or not. A hook (`on_choice`)
            has heard of it all the same. A subclass that keeps something about the records it places extends this.
        """
        undo, counters = undo_by(self._chooser(record), record, partition), self._counters
        if counters is None:
            return undo

        def both() -> None:
            counters.take_back(record.topic, partition, record.size)
            undo()

        return both

    def _chooser(self, record: Record) -> object:
        """What placed this thread's last record, which is this one."""
        del record
        return getattr(self._last, "chooser", None)

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

    def _keys(self, view: TopicView) -> Keys | None:
        """What places the keys of one topic, for subclasses that do so."""
        del view
        return None


class RulePartitioner(CheckedPartitioner):
    """Records with a key by `_keys`, where a subclass has it; all others by a rule that each topic has of its own.

    Args:
        make_rule: Makes the rule of one topic.
        on_choice, counters: See `CheckedPartitioner`.

    A subclass that writes a `choose` of its own is asked for every record, as with `CheckedPartitioner`, and may leave
    records to ``super().choose``.
    """

    def __init__(
        self, make_rule: Callable[[], Rule], *, on_choice: OnChoice | None = None, counters: Counters | None = None
    ) -> None:
        cls = type(self)
        self._by_choice = (
            cls.choose is not RulePartitioner.choose or cls.choose_again is not CheckedPartitioner.choose_again
        )
        self._observe(on_choice, counters)
        self._topics = Topics(make_rule, self._keys, leaders=self.sees_leaders, by_choice=self._by_choice)
        self._seen = self._topics.seen

    def choose(self, view: TopicView, record: Record) -> object:
        """By the key, else by the topic's rule."""
        chooser = self._last.chooser = self._placing(view, record)
        if isinstance(chooser, Keys):
            return chooser.place(as_bytes(record.serialized_key), chooser.over)
        return chooser.choose(view, record.size)

    def _placing(self, view: TopicView, record: Record) -> Keys | Rule:
        """What places this record: the topic's keys or its rule."""
        key = record.serialized_key
        keys = None if key is None or (self._empty_is_null and not len(key)) else self._keys(view)
        rule: Rule = self._topics.rule(view.topic)
        return rule if keys is None else keys

    def _chooser(self, record: Record) -> object:
        return super()._chooser(record) if self._by_choice else self._placing(self._seen[record.topic].view, record)
