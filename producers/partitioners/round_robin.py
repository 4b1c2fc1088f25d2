"""Round robin: each partition in turn."""

from __future__ import annotations

import random

from ..core.round_robin import RoundRobin
from ..errors import ConfigError
from .interface.counters import Counters
from .interface.partitioner import OnChoice
from .interface.rule_partitioner import RulePartitioner
from .options import check_flag, draw_from


class RoundRobinPartitioner(RulePartitioner):
    """Each partition in turn, per topic; keys are ignored.

    Args:
        start: Index of the first partition of each topic.
        random_start: Start each topic at a random partition instead: otherwise many short-lived producers would all
            fill partition 0.
        chunk: Consecutive records per partition.
        rng, seed, on_choice, counters: See `kafka_assignors.producers.partitioners`.

    While a topic's partitions with a leader stay the same, their record counts differ by at most `chunk`, with any
    number of threads. The second call for a record that opens a batch does not count (KAFKA-9965).

    Raises:
        ConfigError: Both `rng` and `seed`, both `start` and `random_start`, a `chunk` below 1.
        NoPartitions: From ``send()``.

    Cost: O(1) per record, about 0.5 µs, independent of the number of partitions.
    Source: KIP-369, apache/kafka ``RoundRobinPartitioner``. Java's starts at partition 0, has neither `random_start`
    nor `chunk`, and up to 3.9.1 counts the second call.
    """

    name = "roundrobin"

    def __init__(
        self,
        *,
        start: int = 0,
        random_start: bool = False,
        chunk: int = 1,
        rng: random.Random | None = None,
        seed: int | None = None,
        on_choice: OnChoice | None = None,
        counters: Counters | None = None,
    ) -> None:
        draw = draw_from(rng, seed)
        check_flag(random_start, "random_start")
        if start and random_start:
            raise ConfigError("give start or random_start, not both")
        RoundRobin(start, chunk)  # an invalid argument raises now, not at the first record
        super().__init__(
            lambda: RoundRobin(draw() if random_start else start, chunk), on_choice=on_choice, counters=counters
        )
