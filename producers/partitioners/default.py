"""Java's default: keys by murmur2, records without a key in batches of bytes."""

from __future__ import annotations

import random

from .interface.counters import Counters
from .interface.partitioner import OnChoice
from .key_hash import KeyHashPartitioner, NullKeys
from .options import BATCH_BYTES


class DefaultPartitioner(KeyHashPartitioner):
    """Java's default: records with a key by murmur2 over all partitions, records without one by `null_keys`.

    Args:
        null_keys: See `KeyHashPartitioner`; ``"uniform"`` is what Java does since 3.3. An empty key is a key.
        batch_bytes: The producer's ``batch_size`` in bytes, for ``"uniform"`` and ``"sticky"``.
        rng, seed, on_choice, counters: See `kafka_assignors.producers.partitioners`.

    Raises:
        ConfigError: An argument is out of range; UnknownName lists the values of `null_keys`.
        InvalidPartition, NoPartitions: From ``send()``, see `CheckedPartitioner`.

    Cost: see `KeyHashPartitioner`; a record without a key O(1), about 0.7 µs.
    Source: apache/kafka ``KafkaProducer#partition``, ``BuiltInPartitioner`` (KIP-794), ``StickyPartitionCache`` of 3.9
    (KIP-480), ``DefaultPartitioner`` of 2.3. Keys lie exactly where Java puts them. Records without a key differ:
    backlog is ignored (`UniformPartitioner` uses it), headers do not count as bytes, and a partition that has lost its
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
