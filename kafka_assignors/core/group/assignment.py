"""The assignment type that every strategy returns, and comparisons of two assignments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from .values import Member, Partitions, TopicPartition

Assignment = dict[str, dict[str, list[int]]]
"""member id -> topic -> ascending partition ids. Every member has an entry. Topics without partitions have none. Topics
are in Java's string order, the order on the wire."""


def owners(assignment: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[TopicPartition, str]:
    """Invert an assignment: topic-partition -> member id. If a partition is assigned twice, the last member wins."""
    return {tp: member for member, tp in pairs(assignment)}


def pairs(assignment: Mapping[str, Mapping[str, Sequence[int]]]) -> Iterator[tuple[str, TopicPartition]]:
    """Every (member id, topic-partition) pair of an assignment. A partition assigned twice appears twice."""
    for member, topics in assignment.items():
        for topic, partitions in topics.items():
            for partition in partitions:
                yield member, TopicPartition(topic, partition)


def holding(members: Iterable[Member], assignment: Assignment, generation: int) -> list[Member]:
    """The members of a group that has adopted an assignment in a generation."""
    owned = {m: Partitions.of((t, p) for t, ids in topics.items() for p in ids) for m, topics in assignment.items()}
    return [replace(member, owned=owned[member.member_id], generation=generation) for member in members]


def moves(
    before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str]
) -> dict[TopicPartition, tuple[str, str]]:
    """Partitions whose owner changed: topic-partition -> (old owner, new owner)."""
    return {tp: (old, after[tp]) for tp, old in sorted(before.items()) if tp in after and after[tp] != old}
