"""Partitioners for kafka-python: give an instance to ``KafkaProducer(partitioner=...)``.

What kafka-python 3.0 does, and what follows from it:

* It never checks the answer; a wrong one waits for the delivery timeout. `CheckedPartitioner` raises at once.
* A record without a key that would open a new batch is asked for twice: ``partition``, ``on_new_batch``, ``partition``,
  in one thread, one after the other. `CheckedPartitioner` gives the first answer again where it has to stay the same.
* ``on_new_batch`` is not called for records with a key: rules about batches that ignore keys count bytes themselves.
* Partition sets are made anew at every call, so the sorted partitions are kept here, once per metadata change.
* Headers and the producer's configuration are not visible.

Every class takes ``rng=`` (a `random.Random`) or ``seed=`` (of a new one; neither: seeded by the system), and
``on_choice=``, a hook that hears of every answer (`OnChoice`). One instance may serve many threads.
"""

from __future__ import annotations

import logging
import random
import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

from kafka.partitioner import Partitioner

from .core import explicit
from .core.topic import Draw, TopicView
from .errors import ConfigError, InvalidPartition, UnknownName
from .strategies import BATCH_BYTES, RandomStrategy, RoundRobinStrategy, StickyStrategy, Strategy, UniformStrategy
from .views import Topics

log = logging.getLogger(__name__)

OnChoice = Callable[[str, "bytes | None", int], None]
"""Called with (topic, serialized key, partition) for every answer, in the sending thread, before the client goes on. Of
two calls during one ``send`` (kafka-python asks again when a batch is opened) the last one counts."""

# Length, attributes, timestamp and offset deltas, lengths of key and value, header count: 7 to 12 bytes in format v2.
RECORD_OVERHEAD_BYTES = 8


class Record(NamedTuple):
    """One record, as kafka-python describes it to a partitioner."""

    topic: str
    key: Any  # as given to send
    serialized_key: bytes | None
    value: Any  # as given to send
    serialized_value: bytes | None
    cluster: Any

    @property
    def size(self) -> int:
        """Bytes it takes in its batch, about: headers are not visible here."""
        return RECORD_OVERHEAD_BYTES + len(self.serialized_key or b"") + len(self.serialized_value or b"")


class CheckedPartitioner(Partitioner):
    """A kafka-python partitioner whose wrong answers raise in ``send()``; also a base for your own.

    A subclass sets `name` and writes `choose`. Records without a key keep their first answer when kafka-python asks
    again, so `choose` is called once a record.

    Raises (from ``send()``):
        InvalidPartition: The answer is not one of the topic's partitions: negative, too large, None, a bool, no int.
        NoPartitions: The topic is not in metadata or has no partitions.

    Cost: O(1) a record beside `choose`; O(n log n) per metadata change of a topic with n partitions.
    """

    name: ClassVar[str] = "custom"

    def __init__(self, *, on_choice: OnChoice | None = None) -> None:
        if on_choice is not None and not callable(on_choice):
            raise ConfigError(f"on_choice must be callable with (topic, key, partition), not {on_choice!r}")
        self._on_choice = on_choice
        self._topics = Topics()
        self._again = threading.local()  # .kept: (topic, partition) to answer again

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
        chosen = None if serialized_key is not None else self._kept(seen.view)
        if chosen is None:
            record = Record(topic, key, serialized_key, value, serialized_value, cluster)
            chosen = seen.view.check(self.name, self.choose(seen.view, record))
            if seen.lost_leader(chosen):
                view = self._topics.read(topic, cluster).view
                chosen = view.check(self.name, self.choose(view, record))
        if self._on_choice is not None:
            self._on_choice(topic, serialized_key, chosen)
        return chosen

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        """A record without a key opens a new batch; `partition` is called again at once: kafka-python's hook."""
        if not self.choose_again(self._topics.unkeyed(topic, cluster).view, prev_partition):
            self._again.kept = topic, prev_partition

    def _kept(self, view: TopicView) -> int | None:
        kept: tuple[str, int] | None = getattr(self._again, "kept", None)
        if kept is None:
            return None
        self._again.kept = None
        return kept[1] if kept[0] == view.topic and kept[1] in view else None


class _StrategyPartitioner(CheckedPartitioner):
    """Every record by one strategy; keys are ignored."""

    def __init__(self, strategy: Strategy, *, on_choice: OnChoice | None = None) -> None:
        super().__init__(on_choice=on_choice)
        self._strategy = strategy

    def choose(self, view: TopicView, record: Record) -> object:
        return self._strategy.choose(view, record.size)

    def choose_again(self, view: TopicView, previous: int) -> bool:
        return self._strategy.new_batch(view, previous)


NullKeys = Literal["uniform", "sticky", "round_robin", "random"]


class DefaultPartitioner(_StrategyPartitioner):
    """Java's default: records with a key by murmur2 over all partitions, records without one by `null_keys`.

    Args:
        null_keys: ``"uniform"`` (KIP-794, Java since 3.3): the same number of bytes everywhere. ``"sticky"`` (KIP-480,
            Java 2.4 to 3.2): another partition with each batch. ``"round_robin"`` (Java up to 2.3): one after the other
            from a random start. ``"random"``. An empty key is a key.
        batch_bytes: The producer's ``batch_size`` in bytes, for ``"uniform"``.
        rng, seed, on_choice: See the module.

    Raises:
        ConfigError: An argument is out of range; UnknownName lists the values of `null_keys`.
        InvalidPartition, NoPartitions: From ``send()``, see `CheckedPartitioner`.

    Cost: a seen key one look-up, whatever the number of partitions; a new one its hash.
    Source: apache/kafka ``KafkaProducer#partition``, ``BuiltInPartitioner``. Unlike Java's, backlog does not weigh in,
    and headers do not count as bytes.
    """

    name = "default"

    def __init__(
        self,
        null_keys: NullKeys = "uniform",
        *,
        batch_bytes: int = BATCH_BYTES,
        rng: random.Random | None = None,
        seed: int | None = None,
        on_choice: OnChoice | None = None,
    ) -> None:
        draw = _draw(rng, seed)
        strategies: dict[str, Callable[[], Strategy]] = {
            "uniform": lambda: UniformStrategy(draw, batch_bytes),
            "sticky": lambda: StickyStrategy(draw),
            "round_robin": lambda: RoundRobinStrategy(start=draw),
            "random": lambda: RandomStrategy(draw),
        }
        if null_keys not in strategies:
            raise UnknownName("value of null_keys", null_keys, strategies)
        UniformStrategy(draw, batch_bytes)  # a bad batch_bytes is refused whatever null_keys is
        super().__init__(strategies[null_keys](), on_choice=on_choice)
        self.null_keys = null_keys

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
        if serialized_key is None:
            return super().partition(topic, key, None, value, serialized_value, cluster)
        chosen = self._topics.keyed(topic, cluster).keys.partition(serialized_key)
        if self._on_choice is not None:
            self._on_choice(topic, serialized_key, chosen)
        return chosen


class RoundRobinPartitioner(_StrategyPartitioner):
    """One partition after the other, per topic; keys are ignored.

    Args:
        random_start: Start each topic at a random partition instead of 0: many short-lived producers would otherwise
            all fill partition 0.
        rng, seed, on_choice: See the module.

    While a topic's partitions with a leader stay the same, their numbers of records differ by 1 at most, with any
    number of threads. The second call for a record that opens a batch does not count (KAFKA-9965).

    Raises:
        ConfigError: Both `rng` and `seed`.
        NoPartitions: From ``send()``.

    Cost: O(1) a record. Source: KIP-369, apache/kafka ``RoundRobinPartitioner``.
    """

    name = "roundrobin"

    def __init__(
        self,
        *,
        random_start: bool = False,
        rng: random.Random | None = None,
        seed: int | None = None,
        on_choice: OnChoice | None = None,
    ) -> None:
        draw = _draw(rng, seed)
        super().__init__(RoundRobinStrategy(start=draw if random_start else None), on_choice=on_choice)


class StickyPartitioner(_StrategyPartitioner):
    """One partition until a batch is full, then another one; keys are ignored.

    Args:
        batch_bytes: The producer's ``batch_size`` in bytes. kafka-python does not report new batches of records with a
            key, so the partition also changes after that many bytes.
        rng, seed, on_choice: See the module.

    Raises:
        ConfigError: `batch_bytes` below 1, or both `rng` and `seed`.
        NoPartitions: From ``send()``.

    Cost: O(1) a record. Source: KIP-480, apache/kafka 3.9 ``UniformStickyPartitioner``. (kafka-python's partitioner of
    this name hashes keys; here that is ``DefaultPartitioner(null_keys="sticky")``.)
    """

    name = "sticky"

    def __init__(
        self,
        *,
        batch_bytes: int = BATCH_BYTES,
        rng: random.Random | None = None,
        seed: int | None = None,
        on_choice: OnChoice | None = None,
    ) -> None:
        super().__init__(StickyStrategy(_draw(rng, seed), batch_bytes), on_choice=on_choice)


class RandomPartitioner(_StrategyPartitioner):
    """Any partition with a leader for each record; keys are ignored.

    Args:
        rng, seed, on_choice: See the module.

    Raises:
        ConfigError: Both `rng` and `seed`.
        NoPartitions: From ``send()``.

    Cost: O(1) a record.
    """

    name = "random"

    def __init__(
        self, *, rng: random.Random | None = None, seed: int | None = None, on_choice: OnChoice | None = None
    ) -> None:
        super().__init__(RandomStrategy(_draw(rng, seed)), on_choice=on_choice)


class ExplicitPartitioner(CheckedPartitioner):
    """The partition that the record names.

    Args:
        partition: ``(topic, serialized key, value) -> partition id``, or None or -1 for "no matter which". By default
            the value's own ``partition`` (item of a mapping, attribute of an object), seen before serialization.
        policy: What to do with a record that names no partition, or one that the topic does not have. ``"fallback"``:
            ask `fallback`; the first unknown id of each topic is logged as a warning. ``"error"``: raise.
        fallback: Another partitioner for kafka-python; by default a `RoundRobinPartitioner`.
        rng, seed: For a random start of the default fallback; with neither it starts at partition 0.
        on_choice: See the module.

    ``send(partition=...)`` does not come here: kafka-python takes that as it is.

    Raises:
        ConfigError: An argument that cannot work; UnknownName lists the policies.
        InvalidPartition: From ``send()``: the answer is not an integer (under any policy), or `policy` is ``"error"``.

    Cost: O(1) a record beside `partition`.
    """

    name = "explicit"
    POLICIES = ("error", "fallback")

    def __init__(
        self,
        partition: Callable[[str, bytes | None, Any], object] | None = None,
        *,
        policy: Literal["error", "fallback"] = "fallback",
        fallback: Partitioner | None = None,
        rng: random.Random | None = None,
        seed: int | None = None,
        on_choice: OnChoice | None = None,
    ) -> None:
        super().__init__(on_choice=on_choice)
        if partition is not None and not callable(partition):
            raise ConfigError(f"partition must be callable with (topic, key, value), not {partition!r}")
        if policy not in self.POLICIES:
            raise UnknownName("policy", policy, self.POLICIES)
        if fallback is not None and policy == "error":
            raise ConfigError("fallback is never asked with policy='error'; leave one of them out")
        if fallback is not None and not isinstance(fallback, Partitioner):
            raise ConfigError(f"fallback must be an instance of kafka.partitioner.Partitioner, not {fallback!r}")
        self._of = partition
        self._policy = policy
        random_start = rng is not None or seed is not None
        self._fallback = fallback or RoundRobinPartitioner(random_start=random_start, rng=rng, seed=seed)
        self._warned: set[str] = set()
        self._last = threading.local()  # .fell_back: whether this thread's last record went to the fallback

    def choose(self, view: TopicView, record: Record) -> object:
        """The named partition, or what the policy says."""
        answer = (
            explicit.from_value(record.value)
            if self._of is None
            else self._of(record.topic, record.serialized_key, record.value)
        )
        named = explicit.choose(view, answer, self.name)
        self._last.fell_back = named is None
        if named is not None:
            return named
        if self._policy == "error":
            raise InvalidPartition(self.name, view.topic, answer, view.partitions, "or take policy='fallback'")
        if answer is not None and answer != explicit.NO_PARTITION and view.topic not in self._warned:
            self._warned.add(view.topic)
            log.warning(
                "a record names partition %r of topic %r, which has %s..%s; placed by the fallback (said once a topic)",
                answer, view.topic, view.partitions[0], view.partitions[-1],
            )  # fmt: skip
        return self._fallback.partition(*record)

    def on_new_batch(self, topic: str, cluster: Any, prev_partition: int) -> None:
        """A named partition stays; a fallback hears of the batch itself and is asked again."""
        hook = getattr(self._fallback, "on_new_batch", None)
        if hook is not None and getattr(self._last, "fell_back", False):
            hook(topic, cluster, prev_partition)
        else:
            super().on_new_batch(topic, cluster, prev_partition)


def _draw(rng: random.Random | None, seed: int | None) -> Draw:
    if rng is not None and seed is not None:
        raise ConfigError("give rng or seed, not both")
    if rng is not None and not isinstance(rng, random.Random):
        raise ConfigError(f"rng must be a random.Random, not {rng!r}")
    source = rng if rng is not None else random.Random(seed)
    return lambda: source.getrandbits(31)


PARTITIONERS: dict[str, type[CheckedPartitioner]] = {
    cls.name: cls
    for cls in (DefaultPartitioner, RoundRobinPartitioner, StickyPartitioner, RandomPartitioner, ExplicitPartitioner)
}
"""name -> class, as ``partitioner(name)`` and the command line know them."""


def partitioner(name: str, **options: Any) -> CheckedPartitioner:
    """Make a partitioner by name.

    Args:
        name: One of `PARTITIONERS`.
        options: Arguments of the class.

    Raises:
        UnknownName: No such name; the message lists the known ones.
        ConfigError: An option the class does not have, or a value it refuses.
    """
    try:
        cls = PARTITIONERS[name]
    except KeyError:
        raise UnknownName("partitioner", name, PARTITIONERS) from None
    try:
        return cls(**options)
    except TypeError as problem:
        raise ConfigError(f"partitioner {name!r}: {problem}") from problem
