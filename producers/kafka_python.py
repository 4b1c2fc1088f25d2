"""Partitioners for kafka-python: give an instance to ``KafkaProducer(partitioner=...)``.

>>> partitioner("roundrobin", chunk=10).name
'roundrobin'
"""

from __future__ import annotations

from typing import Any

from .errors import ConfigError, UnknownName
from .partitioners.default import DefaultPartitioner
from .partitioners.explicit import ExplicitPartitioner
from .partitioners.geographic import GeographicPartitioner
from .partitioners.interface.partitioner import CheckedPartitioner, OnChoice
from .partitioners.interface.record import Record
from .partitioners.key_hash import KeyHashPartitioner
from .partitioners.random import RandomPartitioner
from .partitioners.round_robin import RoundRobinPartitioner
from .partitioners.sticky import StickyPartitioner
from .partitioners.uniform import UniformPartitioner

PARTITIONERS: dict[str, type[CheckedPartitioner]] = {
    cls.name: cls
    for cls in (
        DefaultPartitioner,
        RoundRobinPartitioner,
        StickyPartitioner,
        RandomPartitioner,
        ExplicitPartitioner,
        UniformPartitioner,
        KeyHashPartitioner,
    )
}
"""name -> class, for ``partitioner(name)`` and the command line: the partitioners without required arguments."""


def partitioner(name: str, **options: Any) -> CheckedPartitioner:
    """Create a partitioner by its name in `PARTITIONERS`, with arguments of its class.

    Raises:
        UnknownName: No such name; the message lists the known ones.
        ConfigError: The class has no such option, or rejects its value.
    """
    try:
        cls = PARTITIONERS[name]
    except (KeyError, TypeError):
        raise UnknownName("partitioner", name, PARTITIONERS) from None
    try:
        return cls(**options)
    except TypeError as problem:
        raise ConfigError(f"partitioner {name!r}: {problem}") from problem


__all__ = [
    "PARTITIONERS", "CheckedPartitioner", "DefaultPartitioner", "ExplicitPartitioner", "GeographicPartitioner",
    "KeyHashPartitioner", "OnChoice", "RandomPartitioner", "Record", "RoundRobinPartitioner", "StickyPartitioner",
    "UniformPartitioner", "partitioner",
]  # fmt: skip
