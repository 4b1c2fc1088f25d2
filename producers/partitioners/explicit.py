"""The partition that the record names."""

from __future__ import annotations

import logging
import operator
import random
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from ..core import explicit
from ..core.topic import TopicView
from ..errors import ConfigError, InvalidPartition, UnknownName, UnknownPartition
from .fallback import FallbackPartitioner
from .interface.counters import Counters
from .interface.partitioner import OnChoice, is_partitioner
from .interface.record import Record
from .round_robin import RoundRobinPartitioner

log = logging.getLogger(__name__)


class ExplicitPartitioner(FallbackPartitioner):
    """The partition that the record names.

    Args:
        partition: ``(topic, serialized key, value) -> partition id``, or None or -1 for no partition. By default the
            value's own ``partition`` (item of a mapping, attribute of an object), before serialization.
        policy: The treatment of a record that names no partition, or a nonexistent one. ``"fallback"``: ask `fallback`;
            the first unknown id of each topic is logged as a warning. ``"error"``: raise. ``"refresh"``: as Java, ask
            the cluster until the named partition exists, for `refresh_timeout_ms`, then raise; a record that names none
            goes to `fallback`.
        refresh_timeout_ms: Maximum time that ``send()`` waits with ``"refresh"``, Java's ``max.block.ms``.
        fallback: Another partitioner; by default a `RoundRobinPartitioner`.
        rng, seed: For a random start of the default fallback; with neither it starts at partition 0.
        on_choice, counters: See `CheckedPartitioner`.

    ``send(partition=...)`` bypasses the partitioner: kafka-python uses that partition.

    Raises:
        ConfigError: An argument is invalid, or would be ignored; UnknownName lists the policies.
        InvalidPartition: From ``send()``: the answer is not an integer (under any policy), or `policy` is ``"error"``.
        UnknownPartition: From ``send()`` with ``"refresh"``: the partition did not appear in time.

    Cost: O(1) per record in addition to `partition`.
    Source: apache/kafka ``KafkaProducer#partition`` and ``#waitOnMetadata`` for a partition in the record, which is
    ``"refresh"``. Java has no fallback, and rejects -1.
    """

    name = "explicit"
    POLICIES = ("error", "refresh", "fallback")

    def __init__(
        self,
        partition: Callable[[str, bytes | None, Any], object] | None = None,
        *,
        policy: Literal["error", "refresh", "fallback"] = "fallback",
        refresh_timeout_ms: float = 60_000,
        fallback: Any = None,
        rng: random.Random | None = None,
        seed: int | None = None,
        on_choice: OnChoice | None = None,
        counters: Counters | None = None,
    ) -> None:
        super().__init__(on_choice=on_choice, counters=counters)
        if partition is not None and not callable(partition):
            raise ConfigError(f"partition must be callable with (topic, key, value), not {partition!r}")
        if policy not in self.POLICIES:
            raise UnknownName("policy", policy, self.POLICIES)
        if fallback is not None and policy == "error":
            raise ConfigError("fallback is not used with policy='error'; remove one of them")
        if fallback is not None and not is_partitioner(fallback):
            raise ConfigError(f"fallback must be an instance of kafka.partitioner.Partitioner, not {fallback!r}")
        timeout = refresh_timeout_ms
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf"):
            raise ConfigError(f"refresh_timeout_ms must be a number above 0, not {timeout!r}")
        self._of = partition
        self.policy = policy
        self.refresh_timeout_s = timeout / 1000
        random_start = rng is not None or seed is not None
        if fallback is not None and random_start:
            raise ConfigError("rng and seed configure the default fallback; pass them to your own fallback instead")
        self._fallback = fallback or RoundRobinPartitioner(random_start=random_start, rng=rng, seed=seed)
        self._warned: set[str] = set()

    def choose(self, view: TopicView, record: Record) -> object:
        """The named partition, or the result of the policy."""
        answer = (
            explicit.from_value(record.value)
            if self._of is None
            else self._of(record.topic, record.serialized_key, record.value)
        )
        named = explicit.choose(view, answer, self.name)
        if named is not None:
            return named
        if self.policy == "error":
            raise InvalidPartition(self.name, view.topic, answer, view.partitions, "or use policy='fallback'")
        if answer is not None and answer != explicit.NO_PARTITION:
            if self.policy == "refresh":
                return self._wait_for(answer, view, record)
            if view.topic not in self._warned:
                self._warned.add(view.topic)
                log.warning(
                    "a record names partition %r of topic %r, which has %s..%s; the fallback places it (logged once "
                    "per topic)", answer, view.topic, view.partitions[0], view.partitions[-1],
                )  # fmt: skip
        return self._fall_back(record)

    def _wait_for(self, answer: Any, view: TopicView, record: Record) -> int:
        """Ask the cluster until it has the partition."""
        unknown = UnknownPartition(
            self.name, view.topic, answer, view.partitions, f"waited {self.refresh_timeout_s:g} s for it to be added"
        )
        refresh = getattr(record.cluster, "request_update", None)
        named = operator.index(answer)  # `explicit.choose` has checked that it is an integer
        if named < 0 or refresh is None:
            raise unknown
        deadline = time.monotonic() + self.refresh_timeout_s
        pause = threading.Event()  # never set: a pause between two fast answers
        while True:
            answered = threading.Event()
            try:
                future = refresh()
            except AttributeError:  # aiokafka calls its own pending future with a kafka-python name
                raise unknown from None
            if not hasattr(future, "add_both"):
                raise unknown  # waiting for an event loop's future would block the loop; its wrapper asks again
            future.add_both(lambda *_, answered=answered: answered.set())
            answered.wait(max(deadline - time.monotonic(), 0))
            if named in (record.cluster.partitions_for_topic(view.topic) or ()):
                self._topics.read(view.topic, record.cluster)
                return named
            if time.monotonic() >= deadline:
                raise unknown
            pause.wait(min(0.05, max(deadline - time.monotonic(), 0)))
