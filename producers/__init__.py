"""Partitioners for Python producers: Java's placement of records, and that of other clients.

The partitioners work directly with kafka-python (``KafkaProducer(partitioner=...)``). The modules `confluent`,
`aiokafka` and `spark` adapt them, or their rules, to other clients. Each client is an extra. Names are imported on
first access.

>>> from kafka_assignors.producers import partition_for_key
>>> partition_for_key(b"kafka", 12)
4
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batch import murmur2_batch, partitions_for_keys
    from .core.geographic import host_like, rack_is
    from .core.keys.keyed import PRESETS, partition_for_key
    from .core.keys.murmur2 import murmur2
    from .core.lag import LagReading
    from .errors import (
        ClientMissing,
        ConfigError,
        InvalidPartition,
        NoPartitions,
        NotAuthorized,
        ProducersError,
        UnknownName,
        UnknownPartition,
    )
    from .kafka_python import (
        PARTITIONERS,
        CheckedPartitioner,
        DefaultPartitioner,
        ExplicitPartitioner,
        GeographicPartitioner,
        KeyHashPartitioner,
        RandomPartitioner,
        RoundRobinPartitioner,
        StickyPartitioner,
        UniformPartitioner,
        partitioner,
    )
    from .partitioners.interface.counters import Counters

__all__ = [
    "PARTITIONERS", "PRESETS", "CheckedPartitioner", "ClientMissing", "ConfigError", "Counters", "DefaultPartitioner",
    "ExplicitPartitioner", "GeographicPartitioner", "InvalidPartition", "KeyHashPartitioner", "LagReading",
    "NoPartitions", "NotAuthorized", "ProducersError", "RandomPartitioner", "RoundRobinPartitioner",
    "StickyPartitioner", "UniformPartitioner", "UnknownName", "UnknownPartition", "host_like", "murmur2",
    "murmur2_batch", "partition_for_key", "partitioner", "partitions_for_keys", "rack_is",
]  # fmt: skip

_HOME = {
    name: module
    for module, names in {
        ".batch": "murmur2_batch partitions_for_keys",
        ".core.geographic": "host_like rack_is",
        ".core.keys.keyed": "PRESETS partition_for_key",
        ".core.keys.murmur2": "murmur2",
        ".core.lag": "LagReading",
        ".errors": "ClientMissing ConfigError InvalidPartition NoPartitions NotAuthorized ProducersError UnknownName "
        "UnknownPartition",
        ".partitioners.interface.counters": "Counters",
    }.items()
    for name in names.split()
}
"""name -> module; the other names are in `kafka_python`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME.get(name, ".kafka_python"), __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
