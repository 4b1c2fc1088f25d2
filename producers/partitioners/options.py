"""Arguments that several partitioners share: random source, batch size, flags."""

from __future__ import annotations

import random
from functools import partial

from ..core.topic import Draw
from ..errors import ConfigError
from .interface.fork import after_fork

_unseeded = random.Random()
after_fork(_unseeded, random.Random.seed)  # otherwise forked workers would draw the same partitions
BATCH_BYTES = 16384
"""The default `batch_size` of kafka-python and of Java."""


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
    """Raise `ConfigError` unless it is True or False, because a string such as "no" would count as true."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False, not {value!r}")
