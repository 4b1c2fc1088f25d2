"""The partitioners that place by key; records without one go by bytes, by batch, in turn or by chance.

Arguments that all have in common are told in `kafka_assignors.producers.partitioners.unkeyed`.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from ..core.backlog import Backlog
from ..core.keys.hotkeys import HotKeys
from ..core.keys.keyed import Index, KeyMemo, check_count, preset_named
from ..core.keys.murmur2 import as_bytes
from ..core.random_pick import RandomPick
from ..core.roundrobin import RoundRobin
from ..core.rule import Rule
from ..core.sticky import Sticky
from ..core.topic import TopicView
from ..core.uniform import Uniform
from ..errors import ConfigError, UnknownName
from .accelerated import fastest
from .checked import OnChoice, Record, RulePartitioner, with_fallbacks
from .counters import Counters
from .locked import Locked
from .unkeyed import BATCH_BYTES, check_flag, draw_from
from .views import Keys

log = logging.getLogger(__name__)

_HOT_WAYS = 2
NullKeys = Literal["uniform", "sticky", "round_robin", "random"]


class KeyHashPartitioner(RulePartitioner):
    """Records with a key by a hash, as the clients of one ecosystem do it; records without one by `null_keys`.

    Args:
        preset: Whose placement: ``"java"``, ``"librdkafka"`` (its default: CRC-32, an empty key is no key),
            ``"librdkafka-murmur2"``, ``"sarama"`` (also ``"fnv1a"``), ``"sarama-reference"``, or ``"consistent"``: jump
            hash, which moves few keys when a topic grows but **places like no other client**; a warning says so.
        null_keys: ``"uniform"`` (KIP-794, Java since 3.3): the same number of bytes everywhere. ``"sticky"`` (KIP-480,
            Java 2.4 to 3.2): another partition with each batch. ``"round_robin"`` (Java up to 2.3): one after the other
            from a random start. ``"random"``. An empty key is a key, except to ``"librdkafka"``.
        modulus: Place keys as if the topic had this many partitions, however many it has by now: a topic that grows
            keeps its keys where they are, and the new partitions get records without a key only.
        hot_share: Split keys that have more than this share (0 to 1) of a topic's recent records. **Their records lose
            their order.** None: every key stays whole.
        hot_ways: Partitions a hot key is split over.
        batch_bytes: The producer's ``batch_size`` in bytes, for ``"uniform"`` and ``"sticky"``.
        rng, seed, on_choice, counters: See `kafka_assignors.producers.partitioners.unkeyed`.

    Raises:
        ConfigError: An argument is out of range; UnknownName lists the values of `preset` or `null_keys`. From
            ``send()``: the topic has fewer partitions than `modulus`.
        InvalidPartition, NoPartitions: From ``send()``, see `CheckedPartitioner`.

    Cost: a record with a key its hash, about 0.3 µs in C where confluent_kafka is installed, else about 2.5 µs and, for
    a key seen before, one look-up; whatever the number of partitions.
    Source: see `partition_for_key` for the presets, `DefaultPartitioner` for `null_keys`. Java has but ``"java"``, and
    neither `modulus` nor hot keys.
    """

    name = "keyhash"
    plain = False
    """Whether `preset` and `null_keys` say all about it: no source of random numbers, hook or mode of the user's."""

    def __init__(
        self,
        preset: str = "java",
        null_keys: NullKeys = "uniform",
        *,
        modulus: int | None = None,
        hot_share: float | None = None,
        hot_ways: int = _HOT_WAYS,
        batch_bytes: int = BATCH_BYTES,
        rng: random.Random | None = None,
        seed: int | None = None,
        on_choice: OnChoice | None = None,
        counters: Counters | None = None,
    ) -> None:
        known = preset_named(preset)
        draw = draw_from(rng, seed)
        rules: dict[str, Callable[[], Rule]] = {
            "uniform": lambda: Locked(Uniform(draw, batch_bytes)),
            "sticky": lambda: Locked(Sticky(draw, batch_bytes)),
            "round_robin": lambda: RoundRobin(draw()),
            "random": lambda: RandomPick(draw),
        }
        if null_keys not in rules:
            raise UnknownName("value of null_keys", null_keys, rules)
        Uniform(draw, batch_bytes)  # a bad batch_bytes is refused now, whatever null_keys is
        self._by_hash(preset, known.empty_is_null, modulus, hot_share, hot_ways)
        super().__init__(rules[null_keys], on_choice=on_choice, counters=counters)
        self.null_keys = null_keys
        self.plain = not (self._observed or modulus or hot_share or rng is not None or seed is not None)
        if preset == "consistent":
            log.warning(
                "preset 'consistent' places keys like no other client: Java, librdkafka or Sarama will disagree"
            )

    def _by_hash(
        self,
        preset: str,
        empty_is_null: bool = False,
        modulus: int | None = None,
        hot_share: float | None = None,
        hot_ways: int = _HOT_WAYS,
    ) -> None:
        self.preset = preset
        self.modulus = None if modulus is None else check_count(modulus, "modulus")
        self._empty_is_null = empty_is_null
        self._index = fastest(preset)
        # A hash in C costs no more than a memo, so there is nothing to remember.
        self._remember = self._index is preset_named(preset).place and hot_share is None
        if hot_share is None and hot_ways != _HOT_WAYS:
            raise ConfigError("hot_ways says how many partitions a hot key is split over: give hot_share too")
        if hot_share is not None:
            HotKeys(hot_share, hot_ways)  # a bad argument is told now, not at the first record
        self._hot_keys = None if hot_share is None else partial(HotKeys, hot_share, hot_ways)

    def _keys(self, view: TopicView) -> Keys | None:
        ids = view.partitions
        if self.modulus is not None:
            if len(ids) < self.modulus:
                raise ConfigError(
                    f"modulus={self.modulus} places keys over {self.modulus} partitions, but topic {view.topic!r} has "
                    f"{len(ids)}; give the number it had when its keys were placed first"
                )
            ids = ids[: self.modulus]
        old = self._topics.seen.get(view.topic)
        if old is not None and old.view.partitions == view.partitions:
            return old.keys  # what is remembered is still true
        if self._hot_keys is not None:
            splitting = _Splitting(self._hot_keys(), self._index, ids)
            return Keys(splitting.place, len(ids), take_back=splitting.take_back)
        place = self._index
        if ids[-1] != len(ids) - 1:  # Kafka leaves no gaps; other clusters may
            place = lambda key, n: ids[self._index(key, n)]
        if not self._remember:
            return Keys(place, len(ids))
        memo = KeyMemo(place)
        return Keys(memo.learn, len(ids), memo.seen)


class _Splitting:
    """Places the keys of one topic over some of its partitions, hot ones split; threads may share it."""

    def __init__(self, hot: HotKeys, index: Index, ids: Sequence[int]) -> None:
        self._hot, self._index, self._ids = hot, index, ids
        self._lock = threading.Lock()

    def place(self, key: bytes, n: int) -> int:
        home = self._index(key, n)
        key = as_bytes(key)  # kept: a view of the caller's buffer may change
        with self._lock:
            return self._ids[self._hot.place(key, home, n)]

    def take_back(self, key: bytes, partition: int) -> None:
        with self._lock:
            self._hot.take_back(key, self._ids.index(partition))


class DefaultPartitioner(KeyHashPartitioner):
    """Java's default: records with a key by murmur2 over all partitions, records without one by `null_keys`.

    Args:
        null_keys: See `KeyHashPartitioner`; ``"uniform"`` is what Java does since 3.3. An empty key is a key.
        batch_bytes: The producer's ``batch_size`` in bytes, for ``"uniform"`` and ``"sticky"``.
        rng, seed, on_choice, counters: See `kafka_assignors.producers.partitioners.unkeyed`.

    Raises:
        ConfigError: An argument is out of range; UnknownName lists the values of `null_keys`.
        InvalidPartition, NoPartitions: From ``send()``, see `CheckedPartitioner`.

    Cost: see `KeyHashPartitioner`; a record without a key O(1), about 0.7 µs.
    Source: apache/kafka ``KafkaProducer#partition``, ``BuiltInPartitioner`` (KIP-794), ``StickyPartitionCache`` of 3.9
    (KIP-480), ``DefaultPartitioner`` of 2.3. Keys lie exactly where Java puts them. Records without one differ: backlog
    does not weigh in (`UniformPartitioner` does that), headers do not count as bytes, and a partition that has lost its
    leader is left at once.
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
        counters: Counters | None = None,
    ) -> None:
        super().__init__(
            "java", null_keys, batch_bytes=batch_bytes, rng=rng, seed=seed, on_choice=on_choice, counters=counters
        )


class UniformPartitioner(KeyHashPartitioner):
    """The same number of bytes for each partition, fewer where records queue: Java's built-in partitioner in full.

    Args:
        batch_bytes: The producer's ``batch_size`` in bytes: a partition is left after so many bytes at a new batch, or
            after twice as many.
        adaptive: Weigh partitions by backlog: the more batches wait, the less it gets. Backlog is what was sent and is
            not yet acknowledged; only `attach` tells of it (the wrappers of other clients tell by themselves).
        availability_timeout_ms: Leave out all partitions of a leader whose oldest unacknowledged record is older; 0:
            none. They come back with its first acknowledgement.
        ignore_keys: Place records with a key like the others, Java's ``partitioner.ignore.keys``; otherwise they go
            where Java's default puts them.
        rack: Place records without a key on leaders of this rack as long as it has any (KIP-1123, ``client.rack``).
        local_share: The most that goes to the rack, of the bytes; the rest goes to the other racks. Below 1 it keeps
            the partitions of a zone with many producers from filling alone.
        rng, seed, on_choice, counters: See `kafka_assignors.producers.partitioners.unkeyed`.

    Raises:
        ConfigError: An argument is out of range; a blank rack is one.
        NoPartitions: From ``send()``.

    Cost: O(1) a record, about 0.7 µs, on average also with backlog; counting that costs about 5 µs a record.
    Source: KIP-794, KIP-1123, apache/kafka ``BuiltInPartitioner``. Unlike Java: backlog counts what is in flight too;
    the timeout leaves out idle partitions of a late leader as well; headers do not count as bytes; a partition that has
    lost its leader is left at once; `local_share` is ours.
    """

    name = "uniform"

    def __init__(
        self,
        *,
        batch_bytes: int = BATCH_BYTES,
        adaptive: bool = True,
        availability_timeout_ms: float = 0,
        ignore_keys: bool = False,
        rack: str | None = None,
        local_share: float = 1.0,
        rng: random.Random | None = None,
        seed: int | None = None,
        on_choice: OnChoice | None = None,
        counters: Counters | None = None,
    ) -> None:
        check_flag(adaptive, "adaptive")
        check_flag(ignore_keys, "ignore_keys")
        timeout = availability_timeout_ms
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 <= timeout < float("inf"):
            raise ConfigError(f"availability_timeout_ms must be a number of at least 0, not {timeout!r}")
        if timeout and not adaptive:
            raise ConfigError("availability_timeout_ms needs adaptive=True: without it nothing is known of leaders")
        draw = draw_from(rng, seed)
        uniform = partial(Uniform, draw, batch_bytes, rack=rack, local_share=local_share)
        uniform()  # a bad argument is told now, not at the first record
        self._by_hash("java")
        self.sees_leaders = rack is not None or timeout > 0
        self.adaptive, self.ignore_keys = adaptive, ignore_keys
        RulePartitioner.__init__(
            self,
            lambda: Locked(uniform(backlog=Backlog(time.monotonic, timeout / 1000))),
            on_choice=on_choice,
            counters=counters,
        )
        self.null_keys = "uniform"
        self._sending = threading.local()  # .placed: (the record being sent, its partition), or None

    def _keys(self, view: TopicView) -> Keys | None:
        return None if self.ignore_keys else super()._keys(view)

    def attach(self, producer: Any) -> None:
        """Count backlog from a `KafkaProducer`'s sends and their acknowledgements.

        Args:
            producer: The producer that has this partitioner, as its own or as a fallback. Its ``send`` is replaced, on
                this object alone, by one that counts and then does the same. Records sent to a partition named in
                ``send`` do not count. A second call for the same producer changes nothing.

        Raises:
            ConfigError: `adaptive` is False, or the producer has another partitioner.

        Cost: about 5 µs a record.
        """
        if not self.adaptive:
            raise ConfigError("attach counts backlog, which adaptive=False does not weigh; leave one of them out")
        send, config = getattr(producer, "send", None), getattr(producer, "config", None)
        has = config.get("partitioner") if isinstance(config, Mapping) else None
        if not callable(send) or self not in with_fallbacks(has):
            raise ConfigError(f"attach needs the KafkaProducer that has this partitioner, not {producer!r}")
        counted = send
        while isinstance(counted, _Counted):
            if counted.partitioner is self:
                return
            counted = counted.send
        self.counts_sends()
        producer.send = _Counted(self, send, self._sending)

    def counts_sends(self) -> None:
        """From now on each choice is noted: a wrapper will tell of what it sends."""
        self._observed = True

    def sent(self, topic: str, partition: int, size: int) -> Callable[..., None]:
        """A record of so many bytes was sent; what it gives must be called (any arguments) once that is over."""
        lock, backlog = self._backlog(topic)
        with lock:
            token = backlog.sent(partition, size)

        def done(*_: object) -> None:
            with lock:
                backlog.done(partition, token)

        return done

    def pending_bytes(self, topic: str, partition: int) -> int:
        """Backlog of a partition in bytes, as far as it was counted."""
        lock, backlog = self._backlog(topic)
        with lock:
            return backlog.pending_bytes(partition)

    def _backlog(self, topic: str) -> tuple[threading.Lock, Backlog]:
        locked = self._topics.rule(topic)
        return locked.lock, locked.rule.backlog

    def _note(self, topic: str, key: bytes | None, value: bytes | None, chosen: int) -> None:
        super()._note(topic, key, value, chosen)
        self._sending.placed = Record(topic, None, key, None, value, None), chosen


def counting_backlog(partitioner: Any) -> UniformPartitioner | None:
    """The adaptive one among a partitioner and its fallbacks; a client's wrapper tells it of all that is sent."""
    for each in with_fallbacks(partitioner):
        if isinstance(each, UniformPartitioner) and each.adaptive:
            each.counts_sends()
            return each
    return None


class _Counted:
    """A `KafkaProducer`'s ``send`` that tells a partitioner of what is sent and acknowledged."""

    def __init__(self, partitioner: UniformPartitioner, send: Callable[..., Any], sending: threading.local) -> None:
        self.partitioner, self.send, self._sending = partitioner, send, sending

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._sending.placed = None
        try:
            future = self.send(*args, **kwargs)
        except BaseException:
            if self._sending.placed is not None:
                self.partitioner.undo(*self._sending.placed)()
            raise
        if self._sending.placed is not None:
            record, partition = self._sending.placed
            future.add_both(self.partitioner.sent(record.topic, partition, record.size))
        return future
