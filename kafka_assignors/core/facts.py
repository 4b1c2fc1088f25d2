"""What is odd about a group and no error: dropped claims, topics that are gone, an option that does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .claims import Claims
from .group import Group
from .order import utf16

MISSING = "topic-missing"


@dataclass(frozen=True)
class Fact:
    """Something about a group that is no error, yet worth telling once.

    Args:
        kind: ``garbage-user-data``, ``topic-missing``, ``topic-empty``, ``claim-ghost``, ``claim-unsubscribed``,
            ``claim-stale``, ``claim-disputed``, ``no-parity``, ``as-java``; ``table-…`` of a fixed table;
            ``member-without-rack``, ``partition-without-rack`` where racks are rooms.
        subject: The member id, identity or topic it is about.
        text: One sentence.
    """

    kind: str
    subject: str
    text: str

    def __str__(self) -> str:
        return self.text


def ordered(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Each once, in an order that depends on nothing else."""
    return tuple(sorted(set(facts), key=lambda fact: (fact.kind, utf16(fact.subject), fact.text)))


def some(names: Sequence[object]) -> str:
    """The first three of many."""
    return ", ".join(map(str, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def of_topics(group: Group) -> Iterable[Fact]:
    """Subscribed topics of which there is nothing to assign."""
    for topic in frozenset[str]().union(*{member.topics for member in group.members}):
        if group.partitions.get(topic, 0) > 0:
            continue
        count = sum(topic in member.topics for member in group.members)
        by = f"topic {topic!r} is subscribed by {count} member{'s' if count > 1 else ''}"
        if topic not in group.partitions:
            yield Fact(MISSING, topic, f"{by} but absent from metadata; was it deleted?")
        else:
            yield Fact("topic-empty", topic, f"{by} but has no partitions; nothing of it is assigned")


def of_claims(claims: Claims) -> Iterable[Fact]:
    """Claims that count for nothing."""
    for kind, dropped, why in (
        ("claim-ghost", claims.ghosts, "do not exist"),
        ("claim-unsubscribed", claims.unsubscribed, "are of topics it does not subscribe to"),
        ("claim-stale", claims.stale, "another member got in a newer generation"),
    ):
        for member_id, partitions in dropped.items():
            names = some([f"{partition.topic}-{partition.partition}" for partition in partitions])
            yield Fact(kind, member_id, f"member {member_id!r} claims {names} that {why}; ignored")
    for partition, holders in claims.disputed.items():
        text = f"{partition.topic}-{partition.partition} is claimed by {', '.join(map(repr, holders))} with the same"
        yield Fact("claim-disputed", f"{partition.topic}-{partition.partition}", f"{text} generation; it is nobody's")
