"""Where clients place a key if nobody sets their partitioner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .keyed import PRESETS, check_count


class Default(NamedTuple):
    """A rule in words, its preset (None: it ignores the key), and the clients that use it by default."""

    rule: str
    preset: str | None
    clients: tuple[str, ...]


DEFAULTS: tuple[Default, ...] = (
    Default("murmur2", "java", ("Java", "kafka-python", "aiokafka", "franz-go", "KafkaJS")),
    Default("CRC-32", "librdkafka", ("librdkafka", "confluent-kafka")),
    Default("FNV-1a", "sarama", ("Sarama",)),
    Default("murmur2 in floating point", "kafkajs-legacy", ("KafkaJS 1",)),
    Default("round robin", None, ("segmentio",)),
)
"""Every rule that some client has by default, Java's first.

confluent-kafka stands for the clients of Python, Go, .NET and Node.js that contain librdkafka. KafkaJS is version 2 or
later. segmentio's kafka-go ignores keys unless its ``Writer`` is given a ``Balancer``.

Source: apache/kafka ``BuiltInPartitioner``; dpkp/kafka-python ``partitioner/default.py``; twmb/franz-go ``config.go``
(``UniformBytesPartitioner`` with keys); tulios/kafkajs ``partitioners/index.js``; confluentinc/librdkafka
``CONFIGURATION.md`` (``partitioner``); IBM/sarama ``config.go`` (``NewHashPartitioner``); segmentio/kafka-go
``writer.go`` (``Balancer``).
"""


def placed_by_default(key: bytes, n: int) -> Mapping[str, int | None]:
    """The partition, among `n`, of a serialized key for each client's default partitioner.

    Returns client -> partition; None: any partition, because the client ignores this key.

    Raises:
        ConfigError: `n` is not a positive int.

    >>> placements = placed_by_default(b"kafka", 12)
    >>> placements["Java"], placements["librdkafka"], placements["segmentio"]
    (4, 11, None)
    """
    check_count(n)
    return {client: _partition(default, key, n) for default in DEFAULTS for client in default.clients}


def _partition(default: Default, key: bytes, n: int) -> int | None:
    if default.preset is None:
        return None
    preset = PRESETS[default.preset]
    return None if preset.empty_is_null and not key else preset.place(key, n)
