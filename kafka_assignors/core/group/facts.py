"""Facts about a group that are not errors: dropped claims, missing topics, an option that does not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple

from .order import utf16
from .values import Group

if TYPE_CHECKING:  # a member imports this file before it joins, and NumPy takes long to import
    from .claims import Claims

MISSING = "topic-missing"


class Fact(NamedTuple):
    """An irregularity of a group that is not an error but is reported once.

    Args:
        kind: ``garbage-user-data``, ``unread`` (beyond a limit), ``topic-missing``, ``topic-empty``, ``claim-ghost``,
            ``claim-strange``, ``claim-unsubscribed``, ``claim-stale``, ``claim-disputed``, ``no-parity``, ``as-java``;
            ``options-differ``, ``options-unread``; ``table-…`` of a fixed table; ``member-without-rack``,
            ``partition-without-rack`` if racks are rooms.
        subject: The member id, identity or topic that the fact is about.
        text: One sentence.
    """

    kind: str
    subject: str
    text: str

    def __str__(self) -> str:
        return self.text


OF_BYTES = ("garbage-user-data", "options-differ", "options-unread", "unread")
"""Kinds of facts about members' bytes: what a decoded group does not show."""

MOST = 20
"""Maximum number of facts reported per kind: a leader that logs a hundred thousand lines sends no heartbeats."""


def ordered(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Distinct facts in a deterministic order; per kind the first `MOST`, and a count of the rest."""
    kinds: dict[str, list[Fact]] = {}
    for fact in sorted(set(facts), key=lambda fact: (fact.kind, utf16(fact.subject), fact.text)):
        kinds.setdefault(fact.kind, []).append(fact)
    ordered_facts: list[Fact] = []
    for kind, kind_facts in kinds.items():
        ordered_facts += kind_facts[:MOST]
        if len(kind_facts) > MOST:
            ordered_facts.append(Fact(kind, "", f"{len(kind_facts) - MOST:,} more facts of kind {kind!r}"))
    return tuple(ordered_facts)


def some(names: Sequence[object]) -> str:
    """The first three names of many."""
    return ", ".join(map(str, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


_ABSENT = "absent from metadata; was it deleted?"
_HIDDEN = (
    "hidden from this leader: its user lacks the permission Read on Topic {}; an administrator can grant it with "
    "kafka-acls.sh"
)


def hidden(fact: Fact, topics: Collection[str]) -> Fact:
    """The fact as reported. If a missing topic is in fact hidden, name the ACL that the leader's user lacks.

    `topics` are those that the broker does not authorize the user to describe, whether they exist or not.
    """
    if fact.kind != MISSING or fact.subject not in topics:
        return fact
    return fact._replace(text=fact.text.replace(_ABSENT, _HIDDEN.format(fact.subject)))


def of_topics(group: Group) -> Iterable[Fact]:
    """Facts about subscribed topics that have no partitions to assign."""
    readers = Counter(member.topics for member in group.members)
    something = {topic for topic, count in group.partitions.items() if count > 0}
    nothing = set[str]().union(*(topics - something for topics in readers))
    missing = {topic for topic in nothing if topic not in group.partitions}
    for kind, topics, why in (
        (MISSING, missing, _ABSENT),
        ("topic-empty", nothing - missing, "has no partitions; nothing of it is assigned"),
    ):
        for topic in nsmallest(MOST, topics):
            count = sum(many for subscription, many in readers.items() if topic in subscription)
            by = f"topic {topic!r} is subscribed by {count} member{'s' if count > 1 else ''}"
            yield Fact(kind, topic, f"{by} but {why}")
        if len(topics) > MOST:
            yield Fact(kind, "", f"{len(topics) - MOST:,} more subscribed topics: {why}")


def of_claims(claims: Claims) -> Iterable[Fact]:
    """Facts about dropped claims."""
    for kind, dropped, why in (
        ("claim-ghost", claims.nonexistent, "do not exist"),
        ("claim-unsubscribed", claims.unsubscribed, "are of topics it does not subscribe to"),
        ("claim-stale", claims.stale, "another member got in a newer generation"),
    ):
        for member_id, partitions in dropped.items():
            yield Fact(kind, member_id, f"member {member_id!r} claims {partitions} that {why}; ignored")
    for member in claims.indexed.members:
        if (count := member.owned.strange) and not member.leaves:  # it may be the last one
            of = f"{count:,} topic{'s' if count > 1 else ''} that nobody subscribes to"
            yield Fact(
                "claim-strange", member.member_id, f"member {member.member_id!r} claims partitions of {of}; ignored"
            )
    for holders, partitions in claims.disputed_by.items():
        first = partitions.first[0]
        is_, it_is = ("is", "it is") if partitions.count == 1 else ("are", "they are")
        text = (
            f"{partitions} {is_} claimed by {some(list(map(repr, holders)))} with the same generation; {it_is} nobody's"
        )
        yield Fact("claim-disputed", str(first), text)
