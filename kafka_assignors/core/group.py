"""What a group leader knows when it assigns: members, their subscriptions and claims, and the topics' partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

NO_GENERATION = -1
"""Kafka's mark for "no generation": a member that was never assigned anything, or was fenced."""


class TopicPartition(NamedTuple):
    """One partition of one topic; sorts by topic, then partition."""

    topic: str
    partition: int


@dataclass(frozen=True)
class Member:
    """One member as its JoinGroup request describes it.

    Args:
        member_id: The id the coordinator gave it; unique in the group.
        topics: Its subscription, any collection of topic names; duplicates do not matter.
        instance_id: ``group.instance.id`` of a static member (KIP-345), else None.
        rack: ``client.rack`` (KIP-881), else None.
        owned: Topic-partitions it says it holds. A claim, not a fact: it may be stale, doubled or about partitions
            that do not exist.
        generation: The generation that gave it `owned`; `NO_GENERATION` when it has none.
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    rack: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION

    def __init__(
        self,
        member_id: str,
        topics: Collection[str],
        instance_id: str | None = None,
        rack: str | None = None,
        owned: Collection[tuple[str, int]] = (),
        generation: int = NO_GENERATION,
    ) -> None:
        set_ = object.__setattr__
        set_(self, "member_id", member_id)
        set_(self, "topics", frozenset(topics))
        set_(self, "instance_id", instance_id)
        set_(self, "rack", rack or None)
        set_(self, "owned", tuple(TopicPartition(*tp) for tp in owned))
        set_(self, "generation", generation)


@dataclass(frozen=True)
class Group:
    """The whole input of an assignment.

    Args:
        members: In any order; no strategy's answer depends on it.
        partitions: topic -> partition count. A subscribed topic that is missing here, or has 0, is assigned to nobody.
        racks: topic -> per partition its replicas' racks (index = partition). Topics may be missing: racks unknown.
    """

    members: tuple[Member, ...]
    partitions: Mapping[str, int]
    racks: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)

    def __init__(
        self,
        members: Collection[Member],
        partitions: Mapping[str, int],
        racks: Mapping[str, Sequence[Collection[str]]] | None = None,
    ) -> None:
        set_ = object.__setattr__
        set_(self, "members", tuple(members))
        set_(self, "partitions", dict(partitions))
        set_(self, "racks", {t: tuple(frozenset(r) for r in rows) for t, rows in (racks or {}).items()})
