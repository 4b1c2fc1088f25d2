"""Which partition gets a record: Java's placement for Python producers.

``murmur2`` and ``partition_for_key`` need nothing; the partitioner classes need kafka-python (extra ``kafka-python``).

>>> from producers import partition_for_key
>>> partition_for_key(b"kafka", 12)
4
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .core.keyed import partition_for_key
from .core.murmur2 import murmur2
from .errors import ClientMissing, ConfigError, InvalidPartition, NoPartitions, ProducersError, UnknownName

if TYPE_CHECKING:
    from .kafka_python import (
        PARTITIONERS,
        CheckedPartitioner,
        DefaultPartitioner,
        ExplicitPartitioner,
        RandomPartitioner,
        RoundRobinPartitioner,
        StickyPartitioner,
        partitioner,
    )

__all__ = [
    "PARTITIONERS",
    "CheckedPartitioner",
    "ClientMissing",
    "ConfigError",
    "DefaultPartitioner",
    "ExplicitPartitioner",
    "InvalidPartition",
    "NoPartitions",
    "ProducersError",
    "RandomPartitioner",
    "RoundRobinPartitioner",
    "StickyPartitioner",
    "UnknownName",
    "murmur2",
    "partition_for_key",
    "partitioner",
]


def __getattr__(name: str) -> Any:
    """Import the client's file only when one of its names is asked for: the core is of use without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(".kafka_python", __name__)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] != "kafka":
            raise
        raise ClientMissing(
            f"producers.{name} needs kafka-python: pip install 'kafka-assignors[kafka-python]'", name="kafka"
        ) from missing
    value = getattr(module, name)
    globals()[name] = value
    return value
