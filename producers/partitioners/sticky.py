"""One partition until its batch is full (KIP-480)."""

from __future__ import annotations

import random

from ..core.sticky import StickyChoice
from .interface.counters import Counters
from .interface.partitioner import OnChoice
from .interface.rule_partitioner import RulePartitioner
from .options import BATCH_BYTES, draw_from


class StickyPartitioner(RulePartitioner):
    """One partition until a batch is full, then another one; keys are ignored.

    Args:
        batch_bytes: The producer's ``batch_size`` in bytes. kafka-python does not report new batches of records with a
            key, and other clients none at all, so the partition also changes after that many bytes.
        rng, seed, on_choice, counters: See `kafka_assignors.producers.partitioners`.

    Raises:
        ConfigError: `batch_bytes` below 1, or both `rng` and `seed`.
        NoPartitions: From ``send()``.

    Cost: O(1) per record, about 0.7 µs.
    Source: KIP-480, apache/kafka 3.9 ``UniformStickyPartitioner`` (removed in 4.0). Unlike Java's, it leaves a
    partition that has lost its leader at once. (kafka-python's partitioner of this name hashes keys; here that is
    ``DefaultPartitioner(null_keys="sticky")``.)
    """

    name = "sticky"

    def __init__(
        self,
        *,
        batch_bytes: int = BATCH_BYTES,
        rng: random.Random | None = None,
        seed: int | None = None,
        on_choice: OnChoice | None = None,
        counters: Counters | None = None,
    ) -> None:
        draw = draw_from(rng, seed)
        StickyChoice(draw, batch_bytes)  # an invalid argument raises now, not at the first record
        super().__init__(lambda: StickyChoice(draw, batch_bytes), on_choice=on_choice, counters=counters)
