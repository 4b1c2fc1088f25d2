"""The assignors of a KIP-848 group's broker as strategies: ``strategy("uniform", protocol="consumer", …)``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import ConfigError
from .broker import ranges, uniform
from .broker.topics import TopicIds
from .declaration import Of, Option, Options, among, flag, optional
from .group import Group, Member, Partitions
from .group.assignment import Assignment
from .group.facts import Fact, of_topics, ordered
from .group.order import hash_order, static_first, timeline_order
from .strategy import Decoded, Strategy

PROTOCOL = "consumer"
"""``group.protocol`` of members whose broker assigns."""


def _ids(value: Any) -> TopicIds:
    if not isinstance(value, Mapping):
        raise ValueError
    return TopicIds(value)


def _names(value: Any) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(name, str) for name in value):
        raise ValueError
    return list(value)


class BrokerOptions(Options):
    """The options of the broker's assignors; only plans have them."""

    protocol = Option(
        "str", PROTOCOL, f"'classic' or {PROTOCOL!r}", "The group's protocol.", among(PROTOCOL), of=Of.PLAN
    )
    topic_ids = Option(
        "Mapping[str, str] | None", None, "topic -> id as Kafka prints it, or None",
        "The topics' ids, which decide ties; a group of several topics needs them.",
        optional(_ids), of=Of.PLAN,
    )  # fmt: skip
    order = Option(
        "Sequence[str] | None", None, "a list of member ids, or None",
        "The order in which the broker takes members, if the group's member ids are not the broker's.",
        optional(_names), of=Of.PLAN,
    )  # fmt: skip
    alike = Option(
        "bool | None", None, "true or false, or None if nobody has a pattern",
        "Whether the broker counts the members' subscriptions as equal (`core.broker.uniform.alike_subscribed`).",
        optional(flag), of=Of.PLAN,
    )  # fmt: skip


class BrokerSide(Strategy):
    """An assignor that runs in the broker. What members own is their current target assignment.

    A group lists its members as they joined, which matters if hash codes collide. The broker compares lists and
    patterns of topics, and lists beside patterns are never equal, even if all members get the same topics.
    """

    declared = BrokerOptions
    given: BrokerOptions

    def configure(self) -> None:
        self._ids, self._order, self._alike = self.given.topic_ids, self.given.order, self.given.alike
        self._topics_with_id = frozenset(self.options.get("topic_ids") or ())

    def assign(self, decoded: Decoded) -> tuple[Assignment, tuple[Fact, ...]]:
        group = decoded.group
        if self._alike and len({member.topics for member in group.members}) > 1:
            raise ConfigError("alike=True, and members subscribe to different topics; leave it out")
        return self.place(group), ordered(of_topics(group))

    def place(self, group: Group) -> Assignment:
        return self.placed(group, self._ranked(group), self._of(group)) if group.members else {}

    def placed(self, group: Group, order: Sequence[Member], ids: TopicIds) -> Assignment:
        """The assignment of a group with its members in this order."""
        raise NotImplementedError

    def usual(self, members: Sequence[Member]) -> list[Member]:
        """The order in which the broker takes members, by their ids."""
        raise NotImplementedError

    def _ranked(self, group: Group) -> list[Member]:
        if self._order is None:
            return self.usual(group.members)
        by_id = {member.member_id: member for member in group.members}
        if sorted(self._order) != sorted(by_id):
            raise ConfigError(f"order must list each of the {len(by_id)} members once: {', '.join(sorted(by_id)[:8])}")
        return [by_id[name] for name in self._order]

    def _of(self, group: Group) -> TopicIds:
        topics = {topic for member in group.members for topic in member.topics if topic in group.partitions}
        if self._ids is None and len(topics) < 2:
            return TopicIds(dict.fromkeys(topics, "A" * 22))  # one topic is alone in every order
        if missing := sorted(topics - self._topics_with_id):
            raise ConfigError(
                f"topic_ids lacks {missing[0]!r}; the broker breaks ties by topic ids: give topic -> id, as "
                "kafka-topics.sh --describe prints it"
            )
        assert self._ids is not None
        return self._ids


class Uniform(BrokerSide):
    """The broker's ``uniform`` (`broker.uniform.assign`)."""

    uses_claims = True

    def usual(self, members: Sequence[Member]) -> list[Member]:
        by_id = {member.member_id: member for member in members}
        return [by_id[name] for name in map_order(by_id)]

    def placed(self, group: Group, order: Sequence[Member], ids: TopicIds) -> Assignment:
        return uniform.assign(group, [_existing(member, group.partitions) for member in order], ids, self._alike)


class Range(BrokerSide):
    """The broker's ``range`` (`broker.ranges.assign`)."""

    def usual(self, members: Sequence[Member]) -> list[Member]:
        return sorted(members, key=static_first)

    def placed(self, group: Group, order: Sequence[Member], ids: TopicIds) -> Assignment:  # noqa: ARG002
        return ranges.assign(group, order)


def map_order(members: Iterable[str], joining: Iterable[str] = ()) -> list[str]:
    """The order in which ``uniform`` takes members, given in the order in which they joined.

    `joining` are members that the target is computed for before the coordinator's map has them.
    """
    return hash_order((*timeline_order(members), *joining))


def _existing(member: Member, counts: Mapping[str, int]) -> Member:
    """The member without partitions that don't exist: their topic was deleted, and is another one now."""
    owned = [(topic, p) for topic, p in member.owned if p < counts.get(topic, 0)]
    return member if len(owned) == len(member.owned) else replace(member, owned=Partitions.of(owned))


BROKER_SIDE: Mapping[str, BrokerSide] = {"uniform": Uniform("uniform"), "range": Range("range")}
"""Name in ``group.remote.assignor`` -> the broker's assignor."""
