"""The same number of bytes for each partition, fewer for partitions with a backlog (KIP-794)."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..core.backlog import Backlog
from ..core.lag import LagReading, LagSource, LagWeights, flaw
from ..core.topic import TopicView
from ..core.uniform import UniformChoice
from ..errors import ConfigError
from .interface.counters import Counters
from .interface.metadata import KeyPlacement
from .interface.partitioner import OnChoice, with_fallbacks
from .interface.record import Record
from .interface.rule_partitioner import RulePartitioner
from .key_hash import KeyHashPartitioner
from .options import BATCH_BYTES, check_flag, draw_from

log = logging.getLogger(__name__)

LAG_MAX_AGE_MS = 10_000.0
Lag = Mapping["tuple[str, int]", float] | Callable[[str], "Mapping[int, float] | LagReading | None"]
"""Drain times in seconds: (topic, partition) -> seconds, or a function of the topic; None if it knows nothing."""


class UniformPartitioner(KeyHashPartitioner):
    """The same number of bytes for each partition, fewer for those with a backlog: Java's built-in partitioner in full.

    Args:
        batch_bytes: The producer's ``batch_size`` in bytes: the partition changes after this many bytes at a new batch,
            or after twice as many.
        adaptive: Weigh partitions by backlog: more waiting batches mean fewer records. Backlog is everything sent and
            not acknowledged yet. It is counted after `attach` (the wrappers of other clients count it without).
        availability_timeout_ms: Exclude all partitions of a leader whose oldest unacknowledged record is older; 0:
            never. They return with its first acknowledgement.
        ignore_keys: Place records with a key like the others, Java's ``partitioner.ignore.keys``; otherwise they go
            where Java's default puts them.
        rack: Place records without a key on leaders of this rack as long as it has any (KIP-1123, ``client.rack``).
        local_share: Maximum share of bytes for the rack; the rest goes to the other racks. Below 1, a zone with many
            producers does not fill only its own partitions.
        lag: Give fewer records to partitions whose consumer is behind: shares of records without a key are in
            proportion to 1 / (1 + drain time), none below 5 % of the median. The drain time is the number of seconds
            until a new record is consumed: records behind / records consumed per second. A mapping ``(topic, partition)
            -> seconds``, or a function ``topic -> {partition: seconds}`` such as `GroupLag`. A function may also return
            a `LagReading`, or None if it knows nothing. Lag is read at most once a second and topic, while a record is
            sent, so a function must not wait. ``math.inf``: nobody consumes; an absent partition has the median.
        lag_max_age_ms: Lag that is older, unknown or invalid does not count: records are placed as without `lag`, and
            the log has one warning per topic and reason.
        rng, seed, on_choice, counters: See `kafka_assignors.producers.partitioners`.

    Raises:
        ConfigError: An argument is out of range, or the rack is blank. Nothing that `lag` does later raises.
        NoPartitions: From ``send()``.

    Cost: O(1) per record, about 0.7 µs, on average also with backlog; counting it costs about 5 µs per record.
    Source: KIP-794, KIP-1123, apache/kafka ``BuiltInPartitioner``. Unlike Java: backlog also counts records in flight;
    the timeout also excludes idle partitions of a late leader; headers do not count as bytes; a partition that has lost
    its leader is left at once; `local_share` and `lag` are ours.
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
        lag: Lag | None = None,
        lag_max_age_ms: float = LAG_MAX_AGE_MS,
        rng: random.Random | None = None,
        seed: int | None = None,
        on_choice: OnChoice | None = None,
        counters: Counters | None = None,
    ) -> None:
        check_flag(adaptive, "adaptive")
        check_flag(ignore_keys, "ignore_keys")
        timeout = availability_timeout_ms
        for name, value in (("availability_timeout_ms", timeout), ("lag_max_age_ms", lag_max_age_ms)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
                raise ConfigError(f"{name} must be a number of at least 0, not {value!r}")
        if timeout and not adaptive:
            raise ConfigError("availability_timeout_ms needs adaptive=True, which observes leaders")
        if lag is None and lag_max_age_ms != LAG_MAX_AGE_MS:
            raise ConfigError("lag_max_age_ms limits the age of lag: give lag too")
        source = None if lag is None else _source(lag)
        fallbacks = _Fallbacks()
        draw = draw_from(rng, seed)
        uniform = partial(UniformChoice, draw, batch_bytes, rack=rack, local_share=local_share)
        uniform()  # an invalid argument raises now, not at the first record
        self._by_hash("java")
        self.needs_leaders = rack is not None or timeout > 0
        self.adaptive, self.ignore_keys = adaptive, ignore_keys
        RulePartitioner.__init__(
            self,
            lambda: uniform(
                backlog=Backlog(time.monotonic, timeout / 1000),
                lag=source and LagWeights(source, time.monotonic, lag_max_age_ms / 1000, fallbacks.tell),
            ),
            on_choice=on_choice,
            counters=counters,
        )
        self.null_keys = "uniform"
        self._sending = threading.local()  # .placed: (the record being sent, its partition), or None

    def _keys(self, view: TopicView) -> KeyPlacement | None:
        return None if self.ignore_keys else super()._keys(view)

    def attach(self, producer: Any) -> None:
        """Count backlog from a `KafkaProducer`'s sends and their acknowledgements.

        Args:
            producer: The producer that has this partitioner, as its own or as a fallback. Its ``send`` is replaced,
                only on this object, by one that counts and then does the same. Records sent to a partition named in
                ``send`` do not count. A second call for the same producer has no effect.

        Raises:
            ConfigError: `adaptive` is False, or the producer has another partitioner.

        Cost: about 5 µs per record.
        """
        if not self.adaptive:
            raise ConfigError("attach counts the backlog, which adaptive=False ignores; remove one of them")
        send, config = getattr(producer, "send", None), getattr(producer, "config", None)
        has = config.get("partitioner") if isinstance(config, Mapping) else None
        if not callable(send) or self not in with_fallbacks(has):
            raise ConfigError(f"attach needs the KafkaProducer that uses this partitioner, not {producer!r}")
        counted = send
        while isinstance(counted, _CountedSend):
            if counted.partitioner is self:
                return
            counted = counted.send
        self.counts_sends()
        producer.send = _CountedSend(self, send, self._sending)

    def counts_sends(self) -> None:
        """Note each choice from now on, because a wrapper reports the records that it sends."""
        self._observed = True

    def sent(self, topic: str, partition: int, size: int) -> Callable[..., None]:
        """Record a send of `size` bytes. Call the result (any arguments) when it is acknowledged or has failed."""
        lock, backlog = self._backlog(topic)
        with lock:
            token = backlog.sent(partition, size)

        def done(*_: object) -> None:
            with lock:
                backlog.done(partition, token)

        return done

    def pending_bytes(self, topic: str, partition: int) -> int:
        """Backlog of a partition in bytes, as far as it is counted."""
        lock, backlog = self._backlog(topic)
        with lock:
            return backlog.pending_bytes(partition)

    def _backlog(self, topic: str) -> tuple[threading.Lock, Backlog]:
        owned = self._topics.rule(topic)
        return owned.lock, owned.rule.backlog

    def _note(self, topic: str, key: bytes | None, value: bytes | None, chosen: int) -> None:
        super()._note(topic, key, value, chosen)
        self._sending.placed = Record(topic, None, key, None, value, None), chosen


def counting_backlog(partitioner: Any) -> UniformPartitioner | None:
    """The adaptive one among a partitioner and its fallbacks, to which a client's wrapper reports everything sent."""
    for candidate in with_fallbacks(partitioner):
        if isinstance(candidate, UniformPartitioner) and candidate.adaptive:
            candidate.counts_sends()
            return candidate
    return None


def _source(lag: Lag) -> LagSource:
    """The user's lag as a function topic -> `LagReading`."""
    if isinstance(lag, Mapping):
        for place in lag:
            if not isinstance(place, tuple) or len(place) != 2:
                raise ConfigError(
                    f"lag must map (topic, partition) to seconds, as {{('orders', 0): 12.5}}, not {place!r}"
                )
        wrong = flaw(lag)
        if wrong is not None:
            raise ConfigError(f"lag of {wrong}")
        return lambda topic: _dated({place[1]: s for place, s in dict(lag).items() if place[0] == topic})
    if not callable(lag):
        raise ConfigError(f"lag must be a mapping or a function of the topic, such as GroupLag, not {lag!r}")
    return lambda topic: _dated(lag(topic))


def _dated(answer: Mapping[int, float] | LagReading | None) -> LagReading | None:
    return answer if answer is None or isinstance(answer, LagReading) else LagReading(answer, time.monotonic())


class _Fallbacks:
    """Logs once per topic and reason that records are placed without lag."""

    def __init__(self) -> None:
        self._warnings: set[tuple[str, str]] = set()

    def tell(self, topic: str, kind: str, sentence: str) -> None:
        if (topic, kind) not in self._warnings:
            self._warnings.add((topic, kind))
            log.warning("lag of topic %r %s; its records without a key are placed by KIP-794 alone", topic, sentence)


class _CountedSend:
    """A `KafkaProducer`'s ``send`` that reports sent and acknowledged records to a partitioner."""

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
