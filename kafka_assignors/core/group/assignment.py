"""An assignment, as every strategy returns it, and what differs between two of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .values import TopicPartition

Assignment = dict[str, dict[str, list[int]]]
"""member id -> topic -> ascending partition ids. Every member has an entry; topics without partitions have none; topics
come in Java's string order, as they go over the wire."""


def owners(assignment: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[TopicPartition, str]:
    """Turn an assignment round: topic-partition -> member id. Of a doubled partition the last member wins."""
    return {tp: member for member, tp in pairs(assignment)}


def pairs(assignment: Mapping[str, Mapping[str, Sequence[int]]]) -> Iterator[tuple[str, TopicPartition]]:
    """Every (member id, topic-partition) of an assignment, doubled partitions twice."""
    for member, topics in assignment.items():
        for topic, partitions in topics.items():
            for partition in partitions:
                yield member, TopicPartition(topic, partition)


def moves(
    before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str]
) -> dict[TopicPartition, tuple[str, str]]:
    """Partitions that had an owner and have another now: topic-partition -> (old owner, new owner)."""
    return {tp: (old, after[tp]) for tp, old in sorted(before.items()) if tp in after and after[tp] != old}
