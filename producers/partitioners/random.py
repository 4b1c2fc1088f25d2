"""A random partition for each record."""

from __future__ import annotations

import random

from ..core.random import RandomChoice
from .interface.counters import Counters
from .interface.partitioner import OnChoice
from .interface.rule_partitioner import RulePartitioner
from .options import draw_from


class RandomPartitioner(RulePartitioner):
    """Any partition with a leader for each record; keys are ignored.

    Args:
        rng, seed, on_choice, counters: See `kafka_assignors.producers.partitioners`.

    Raises:
        ConfigError: Both `rng` and `seed`.
        NoPartitions: From ``send()``.

    Cost: O(1) per record, one draw, about 0.5 µs.
    Source: librdkafka's ``random``; Java has none. Unlike librdkafka, it draws for each record; there, records without
    a key stay together for a while (``sticky.partitioning.linger.ms``).
    """

    name = "random"
    plain = False
    """Whether it can be replaced by any other random partitioner: no random source or hook of the user's."""

    def __init__(
        self,
        *,
        rng: random.Random | None = None,
        seed: int | None = None,
        on_choice: OnChoice | None = None,
        counters: Counters | None = None,
    ) -> None:
        draw = draw_from(rng, seed)
        super().__init__(lambda: RandomChoice(draw), on_choice=on_choice, counters=counters)
        self.plain = not (self._observed or rng is not None or seed is not None)
