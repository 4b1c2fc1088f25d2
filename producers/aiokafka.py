"""The partitioners for aiokafka.

Pass `KeyPartitioner` to ``AIOKafkaProducer(partitioner=...)``. aiokafka passes such a function neither the topic nor
the value, so all other partitioners need `PartitioningProducer`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from .core.keys.keyed import preset_named
from .core.topic import TopicView
from .errors import ConfigError, NoPartitions, UnknownPartition, needs
from .partitioners.default import DefaultPartitioner
from .partitioners.interface.partitioner import CheckedPartitioner, is_partitioner, undo_by, with_fallbacks
from .partitioners.interface.record import Record
from .partitioners.native_hash import fastest
from .partitioners.options import draw_from
from .partitioners.uniform import counting_backlog

with needs("aiokafka", "aiokafka", "aiokafka", __name__):
    from aiokafka import AIOKafkaProducer


_REFRESH_PAUSE_S = 0.1  # Java's retry.backoff.ms


class KeyPartitioner:
    """A function for ``AIOKafkaProducer(partitioner=...)``: keys by a preset, records without a key at random.

    Args:
        preset: One of `producers.PRESETS`.
        rng, seed: Random source for records without a key.

    Raises:
        ConfigError: An unknown preset, or both `rng` and `seed`.

    aiokafka's own partitioner does not sort partitions, so keys move if sets iterate in another order (aiokafka#1127).
    Cost: O(n log n), because aiokafka builds new lists for each record.
    """

    def __init__(self, preset: str = "java", *, rng: random.Random | None = None, seed: int | None = None) -> None:
        definition = preset_named(preset)
        self._empty_is_null, self._null_is_empty = definition.empty_is_null, definition.null_is_empty
        self._place = fastest(preset)
        self._draw = draw_from(rng, seed)

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        """Place one record: aiokafka's interface."""
        if key is None and self._null_is_empty:
            key = b""
        if key is None or (self._empty_is_null and not key):
            among = sorted(available or all_partitions)
            return among[self._draw() % len(among)]
        return sorted(all_partitions)[self._place(bytes(key), len(all_partitions))]


class PartitioningProducer(AIOKafkaProducer):
    """An ``AIOKafkaProducer`` whose records are placed by a partitioner of this package.

    Args:
        partitioner: `DefaultPartitioner` by default: Java's placement.
        options: As for ``AIOKafkaProducer``.

    A partition named in ``send`` is validated (aiokafka only asserts it, so not under ``python -O``). An adaptive
    `UniformPartitioner` counts backlog without `attach`. `ExplicitPartitioner` with ``policy="refresh"`` waits without
    blocking the event loop.

    Raises:
        ConfigError: `partitioner` is not a partitioner of this package.
        InvalidPartition, NoPartitions, UnknownPartition: From ``send``, see `CheckedPartitioner`.

    Cost: about 5 µs per record in addition to the partitioner.
    """

    def __init__(
        self,
        *,
        partitioner: CheckedPartitioner | None = None,
        key_serializer: Callable[[Any], bytes] | None = None,
        value_serializer: Callable[[Any], bytes] | None = None,
        **options: Any,
    ) -> None:
        self.partitioner = DefaultPartitioner() if partitioner is None else partitioner
        if not is_partitioner(self.partitioner):
            raise ConfigError(f"partitioner must be a partitioner of this package, not {partitioner!r}")
        # Serialize here, because a partitioner sees both forms, and only once: the client gets bytes.
        self._key_bytes, self._value_bytes = key_serializer or _same, value_serializer or _same
        self._uniform = counting_backlog(self.partitioner)
        super().__init__(**options)

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> Any:
        """Send a record as ``AIOKafkaProducer.send`` does; without `partition` the partitioner chooses."""
        partitions = await self.partitions_for(topic)
        if not partitions:
            raise NoPartitions(f"topic {topic!r} has no partitions in metadata; was it just created or deleted?")
        key_bytes = None if key is None else self._key_bytes(key)
        value_bytes = None if value is None else self._value_bytes(value)
        undo = done = None
        if partition is None:
            record = Record(topic, key, key_bytes, value, value_bytes, self.client.cluster)
            partition = await self._choose(record)
            undo = undo_by(self.partitioner, record, partition)  # now: while `send` waits, other tasks place records
        elif type(partition) is not int or partition not in partitions:
            partition = TopicView(topic, partitions, partitions).check("send(partition=...)", partition)
        if self._uniform is not None:
            done = self._uniform.sent(topic, partition, len(key_bytes or b"") + len(value_bytes or b""))
        try:
            future = await super().send(topic, value_bytes, key_bytes, partition, timestamp_ms, headers)
        except BaseException:  # including cancellation of the task
            for take_back in filter(None, (undo, done)):
                take_back()
            raise
        if done is not None:
            future.add_done_callback(done)
        return future

    async def _choose(self, record: Record) -> int:
        deadline = None
        while True:
            try:
                return self.partitioner.partition(*record)
            except UnknownPartition:
                now = time.monotonic()
                if deadline is None:
                    deadline = now + max(getattr(p, "refresh_timeout_s", 0.0) for p in with_fallbacks(self.partitioner))
                if now >= deadline:
                    raise
                # A broker answers at once, so without a pause this loop would occupy the process.
                await asyncio.wait({self.client.force_metadata_update()}, timeout=deadline - now)
                await asyncio.sleep(min(_REFRESH_PAUSE_S, max(deadline - time.monotonic(), 0)))


def _same(data: Any) -> Any:
    return data
