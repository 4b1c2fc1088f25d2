"""The partitioners that ignore keys and place in turn, by batch or by chance.

Every class, here and in `keyhash`, takes ``rng=`` (a `random.Random`) or ``seed=`` (of a new one; neither: seeded by
the system), ``on_choice=``, a hook that hears of every answer (`OnChoice`), and ``counters=`` (`Counters`), which
counts what was placed. One instance may serve many threads, and should serve one producer: of two, each has metadata of
its own, and what was read of the one's would be read anew for the other's next record.
"""

from __future__ import annotations

import random
from functools import partial

from ..core.random_pick import RandomPick
from ..core.roundrobin import RoundRobin
from ..core.sticky import Sticky
from ..core.topic import Draw
from ..errors import ConfigError
from .checked import OnChoice, RulePartitioner
from .counters import Counters
from .forked import after_fork
from .locked import Locked

_unseeded = random.Random()
after_fork(_unseeded, random.Random.seed)  # else all workers of a server would place alike
BATCH_BYTES = 16384
"""The default `batch_size` of kafka-python and of Java."""


class RoundRobinPartitioner(RulePartitioner):
    """One partition after the other, per topic; keys are ignored.

    Args:
        start: The first partition of each topic, by position.
        random_start: Start each topic at a random partition instead: many short-lived producers would otherwise all
            fill partition 0.
        chunk: Records in a row for the same partition.
        rng, seed, on_choice, counters: See the module.

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
        RoundRobin(start, chunk)  # a bad argument is told now, not at the first record
        super().__init__(
            lambda: RoundRobin(draw() if random_start else start, chunk), on_choice=on_choice, counters=counters
        )


class StickyPartitioner(RulePartitioner):
    """One partition until a batch is full, then another one; keys are ignored.

    Args:
        batch_bytes: The producer's ``batch_size`` in bytes. kafka-python does not report new batches of records with a
            key, and other clients none at all, so the partition also changes after that many bytes.
        rng, seed, on_choice, counters: See the module.

    Raises:
        ConfigError: `batch_bytes` below 1, or both `rng` and `seed`.
        NoPartitions: From ``send()``.

    Cost: O(1) a record, about 0.7 µs.
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
        Sticky(draw, batch_bytes)  # a bad argument is told now, not at the first record
        super().__init__(lambda: Locked(Sticky(draw, batch_bytes)), on_choice=on_choice, counters=counters)


class RandomPartitioner(RulePartitioner):
    """Any partition with a leader for each record; keys are ignored.

    Args:
        rng, seed, on_choice, counters: See the module.

    Raises:
        ConfigError: Both `rng` and `seed`.
        NoPartitions: From ``send()``.

    Cost: O(1) a record, one draw, about 0.5 µs.
    Source: librdkafka's ``random``; Java has none. Unlike librdkafka's, it draws for each record: there, records
    without a key stay together for a while (``sticky.partitioning.linger.ms``).
    """

    name = "random"
    plain = False
    """Whether any other random partitioner would do: no source of random numbers or hook of the user's."""

    def __init__(
        self,
        *,
        rng: random.Random | None = None,
        seed: int | None = None,
        on_choice: OnChoice | None = None,
        counters: Counters | None = None,
    ) -> None:
        draw = draw_from(rng, seed)
        super().__init__(lambda: RandomPick(draw), on_choice=on_choice, counters=counters)
        self.plain = not (self._observed or rng is not None or seed is not None)


def draw_from(rng: random.Random | None, seed: int | None) -> Draw:
    """The random source of a partitioner."""
    if rng is not None and seed is not None:
        raise ConfigError("give rng or seed, not both")
    if rng is not None and not isinstance(rng, random.Random):
        raise ConfigError(f"rng must be a random.Random, not {rng!r}")
    if seed is not None and type(seed) is not int:
        raise ConfigError(f"seed must be an int, not {seed!r}")
    source = rng or (_unseeded if seed is None else random.Random(seed))
    return partial(source.getrandbits, 31)


def check_flag(value: object, name: str) -> None:
    """Raise `ConfigError` unless it is True or False: any other word for no would mean yes."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False, not {value!r}")
