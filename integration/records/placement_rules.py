"""Computes a record's required partition from the partitioner's name, independently of the partitioner under test."""

from __future__ import annotations

from kafka_assignors.core.declaration import is_ours
from kafka_assignors.producers import partition_for_key

from ..names import PEER
from ..registry import partitioner_class

_KEYED_LIKE_JAVA = ("default", f"{PEER}:default", f"{PEER}:sticky")


def rule_name(name: str) -> str:
    """Name of the rule that a partitioner must follow; for one given as ``module:Class``, the class's own name."""
    if is_ours(name) or name.startswith(f"{PEER}:"):
        return name
    return str(getattr(partitioner_class(name), "name", name))


def required_partition(name: str, key: bytes | None, asked: int | None, partitions: int) -> int | None:
    """The partition that the rule requires (`name` is from `rule_name`); None if the rule leaves a choice.

    `key` is None for a record without a key; `asked` is the partition that the record requests.

    Source: apache/kafka ``BuiltInPartitioner.partitionForKey`` for keys; the record itself for ``explicit``.
    """
    if name in _KEYED_LIKE_JAVA and key is not None:
        return partition_for_key(key, partitions)
    if name == "explicit" and asked is not None and 0 <= asked < partitions:
        return asked
    return None
