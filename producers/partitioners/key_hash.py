"""Records with a key by its hash, as the clients of one ecosystem place them."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from ..core.keys.hotkeys import HotKeys
from ..core.keys.keyed import Index, KeyMemo, check_count, preset_named
from ..core.keys.murmur2 import as_bytes
from ..core.random import RandomChoice
from ..core.round_robin import RoundRobin
from ..core.rule import Rule
from ..core.sticky import StickyChoice
from ..core.topic import TopicView
from ..core.uniform import UniformChoice
from ..errors import ConfigError, UnknownName
from .interface.counters import Counters
from .interface.metadata import KeyPlacement
from .interface.partitioner import OnChoice
from .interface.rule_partitioner import RulePartitioner
from .native_hash import fastest
from .options import BATCH_BYTES, draw_from

log = logging.getLogger(__name__)

_HOT_WAYS = 2
NullKeys = Literal["uniform", "sticky", "round_robin", "random"]


class KeyHashPartitioner(RulePartitioner):
    """Records with a key by a hash, as the clients of one ecosystem do it; records without a key by `null_keys`.

    Args:
        preset: The ecosystem: ``"java"``, ``"librdkafka"`` (its default: CRC-32, an empty key counts as no key),
            ``"librdkafka-…"`` (its other partitioners; three of them place records without a key like an empty key, and
            ignore `null_keys`), ``"sarama"``, ``"sarama-reference"``, … (`producers.PRESETS` has all), or
            ``"consistent"``: jump hash, which moves few keys when a topic grows but **places like no other client**; a
            warning says so.
        null_keys: ``"uniform"`` (KIP-794, Java since 3.3): the same number of bytes per partition. ``"sticky"``
            (KIP-480, Java 2.4 to 3.2): another partition with each batch. ``"round_robin"`` (Java up to 2.3): each in
            turn from a random start. ``"random"``. An empty key is a key, except to librdkafka's default.
        modulus: Place keys as if the topic had this many partitions: when it grows, keys stay where they are, and the
            new partitions only get records without a key.
        hot_share: Split keys with more than this share (0 to 1) of a topic's recent records. **Their records lose their
            order.** None: no key is split.
        hot_ways: Number of partitions that a hot key is split over.
        batch_bytes: The producer's ``batch_size`` in bytes, for ``"uniform"`` and ``"sticky"``.
        rng, seed, on_choice, counters: See `kafka_assignors.producers.partitioners`.

    Raises:
        ConfigError: An argument is out of range; UnknownName lists the values of `preset` or `null_keys`. From
            ``send()``: the topic has fewer partitions than `modulus`.
        InvalidPartition, NoPartitions: From ``send()``, see `CheckedPartitioner`.

    Cost: for a record with a key its hash, about 0.3 µs in C if confluent_kafka is installed, else about 2.5 µs, or one
    look-up for a cached key; independent of the number of partitions.
    Source: see `partition_for_key` for the presets, `DefaultPartitioner` for `null_keys`. Java only has ``"java"``, and
    neither `modulus` nor hot keys.
    """

    name = "keyhash"
    plain = False
    """Whether `preset` and `null_keys` describe it fully: no random source, hook or mode of the user's."""

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
        draw = draw_from(rng, seed)
        rules: dict[str, Callable[[], Rule]] = {
            "uniform": lambda: UniformChoice(draw, batch_bytes),
            "sticky": lambda: StickyChoice(draw, batch_bytes),
            "round_robin": lambda: RoundRobin(draw()),
            "random": lambda: RandomChoice(draw),
        }
        if null_keys not in rules:
            raise UnknownName("value of null_keys", null_keys, rules)
        UniformChoice(draw, batch_bytes)  # rejects an invalid batch_bytes now, for any null_keys
        self._by_hash(preset, modulus, hot_share, hot_ways)
        super().__init__(rules[null_keys], on_choice=on_choice, counters=counters)
        self.null_keys = null_keys
        self.plain = not (self._observed or modulus or hot_share or rng is not None or seed is not None)
        if preset == "consistent":
            log.warning(
                "preset 'consistent' places keys like no other client: Java, librdkafka or Sarama will disagree"
            )

    def _by_hash(
        self, preset: str, modulus: int | None = None, hot_share: float | None = None, hot_ways: int = _HOT_WAYS
    ) -> None:
        self.preset = preset
        self.modulus = None if modulus is None else check_count(modulus, "modulus")
        definition = preset_named(preset)
        self._empty_is_null, self._null_is_empty = definition.empty_is_null, definition.null_is_empty
        self._index = fastest(preset)
        # A hash in C is as fast as a memo, so nothing is cached.
        self._remember = self._index is definition.place and hot_share is None
        if hot_share is None and hot_ways != _HOT_WAYS:
            raise ConfigError("hot_ways is the number of partitions per hot key: give hot_share too")
        if hot_share is not None:
            HotKeys(hot_share, hot_ways)  # an invalid argument raises now, not at the first record
        self._hot_keys = None if hot_share is None else partial(HotKeys, hot_share, hot_ways)

    def _keys(self, view: TopicView) -> KeyPlacement | None:
        ids = view.partitions
        if self.modulus is not None:
            if len(ids) < self.modulus:
                raise ConfigError(
                    f"modulus={self.modulus} places keys over {self.modulus} partitions, but topic {view.topic!r} has "
                    f"{len(ids)}; give the topic's original number of partitions"
                )
            ids = ids[: self.modulus]
        old = self._topics.cached.get(view.topic)
        if old is not None and old.view.partitions == view.partitions:
            return old.keys  # the memo is still valid
        if self._hot_keys is not None:
            splitter = _HotKeySplitter(self._hot_keys(), self._index, ids)
            return KeyPlacement(splitter.place, len(ids), take_back=splitter.take_back)
        place = self._index
        if ids[-1] != len(ids) - 1:  # Kafka leaves no gaps; other clusters may
            place = lambda key, n: ids[self._index(key, n)]
        if not self._remember:
            return KeyPlacement(place, len(ids))
        memo = KeyMemo(place)
        return KeyPlacement(memo.learn, len(ids), memo.placed)


class _HotKeySplitter:
    """Places the keys of one topic over some of its partitions, and splits hot keys; threads may share it."""

    def __init__(self, hot: HotKeys, index: Index, ids: Sequence[int]) -> None:
        self._hot, self._index, self._ids = hot, index, ids
        self._lock = threading.Lock()

    def place(self, key: bytes, n: int) -> int:
        home = self._index(key, n)
        key = as_bytes(key)  # a copy: the caller's buffer may change
        with self._lock:
            return self._ids[self._hot.place(key, home, n)]

    def take_back(self, key: bytes, partition: int) -> None:
        with self._lock:
            self._hot.take_back(key, self._ids.index(partition))
