"""One partition after the other."""

from __future__ import annotations

import random

from ..core.round_robin import RoundRobin
from ..errors import ConfigError
from .interface.counters import Counters
from .interface.partitioner import OnChoice
from .interface.rule_partitioner import RulePartitioner
from .options import check_flag, draw_from


class RoundRobinPartitioner(RulePartitioner):
    """One partition after the other, per topic; keys are ignored.

    Args:
        start: The first partition of each topic, by position.
        random_start: Start each topic at a random partition instead: many short-lived producers would otherwise all
            fill partition 0.
        chunk: Records in a row for the same partition.
        rng, seed, on_choice, counters: See `kafka_assignors.producers.partitioners`.

    While a topic's partitions with a leader stay the same, their numbers of records differ by `chunk` at most, with any
    number of threads. The second call for a record that opens a batch does not count (KAFKA-9965).

    Raises:
        ConfigError: Both `rng` and `seed`, both `start` and `random_start`, a `chunk` below 1.
        NoPartitions: From ``send()``.

    Cost: O(1) a record, about 0.5 µs whatever the number of partitions.
    Source: KIP-369, apache/kafka ``RoundRobinPartitioner``. Java's starts at partition 0 and knows neither
    `random_start` nor `chunk`; up to 3.9.1 it does count the second call.
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
        RoundRobin(start, chunk)  # a bad argument raises now, not at the first record
        super().__init__(
            lambda: RoundRobin(draw() if random_start else start, chunk), on_choice=on_choice, counters=counters
        )
