"""Where a partitioner must place a record by the rule of its name, computed apart from the partitioner under test."""

from __future__ import annotations

from kafka_assignors.producers import partition_for_key

from ..names import PEER, is_ours
from ..registry import partitioner_class

_KEYED_LIKE_JAVA = ("default", f"{PEER}:default", f"{PEER}:sticky")


def rule_name(name: str) -> str:
    """The name whose rule a partitioner has to keep: its own, if it is one that was given as ``module:Class``."""
    if is_ours(name) or name.startswith(f"{PEER}:"):
        return name
    return str(getattr(partitioner_class(name), "name", name))


def required_partition(name: str, key: bytes | None, asked: int | None, partitions: int) -> int | None:
    """The partition on which the record must lie; None where the rule leaves a choice.

    Args:
        name: From `rule_name`.
        key: Key bytes, None for a record without one.
        asked: The partition that the record asks for.
        partitions: The topic's partition count.

    Source: apache/kafka ``BuiltInPartitioner.partitionForKey`` for keys; the record itself for ``explicit``.
    """
    if name in _KEYED_LIKE_JAVA and key is not None:
        return partition_for_key(key, partitions)
    if name == "explicit" and asked is not None and 0 <= asked < partitions:
        return asked
    return None
