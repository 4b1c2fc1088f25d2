"""A live group as values, and the group that a plan is computed for. Pure."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...core.group import NO_GENERATION, Group, Member, TopicPartition
from ...core.wire.protocol import Subscription, decode_assignment, decode_subscription
from ...errors import ClusterError, ConfigError, WireError
from ...history.broker_group import AWAY_EPOCH, BrokerGroup
from ...history.coordinator_log import BrokerAssigned, Decoded, GroupCommitted, assigned
from ...history.generations import names
from .described import Described


@dataclass(frozen=True)
class LiveMember:
    """A member as its coordinator describes it.

    Args:
        assigned: Its last assignment; of a KIP-848 group in the order of its target's record.
        rack: ``client.rack``, if its subscription has it (version 3).
        pattern: The pattern that it subscribes to in a KIP-848 group, where the broker finds the topics.
        named: With a pattern: the topics that it names besides.
        sent: The subscription of its last join, with its user data; None if that isn't known.
    """

    member_id: str
    client_id: str
    host: str
    topics: frozenset[str]
    assigned: tuple[TopicPartition, ...] = ()
    instance_id: str | None = None
    rack: str | None = None
    pattern: str | None = None
    named: frozenset[str] = frozenset()
    sent: Subscription | None = None

    @property
    def asked(self) -> tuple[frozenset[str], str | None]:
        """The topics that it names, and its pattern: what the broker compares."""
        return (self.topics, None) if self.pattern is None else (self.named, self.pattern)


@dataclass(frozen=True)
class LiveGroup:
    """A group at one moment.

    Args:
        state: As Kafka names it: ``Stable``, ``Empty``, …
        kind: ``classic``, or ``consumer`` (KIP-848: the broker assigns).
        protocol: The elected assignor, or the broker's that most members ask for; "" if there is none.
        generation: The generation, or the group's epoch; None if the log does not have it.
        leader: Member id of the leader; None if the log does not have it.
        listed: Member ids in the order in which the coordinator lists them, to the leader too; empty if unknown.
    """

    group: str
    state: str
    kind: str
    protocol: str
    members: tuple[LiveMember, ...]
    generation: int | None = None
    leader: str | None = None
    listed: tuple[str, ...] = ()

    @property
    def names(self) -> Mapping[str, str]:
        """Member id -> name for people: its instance id, else its client id if no other member has it."""
        return names(self.members)

    @property
    def usual(self) -> LiveMember | None:
        """A member with the subscription that most members have: members that join are planned with it."""
        usual = Counter(member.asked for member in self.members).most_common(1)
        return next((member for member in self.members if member.asked == usual[0][0]), None)

    @property
    def rebalancing(self) -> bool:
        """Whether the group is rebalancing: the subscriptions and assignments of its members are then unknown."""
        return self.state in ("PreparingRebalance", "CompletingRebalance")


@dataclass(frozen=True)
class LiveTopics:
    """Topics as the cluster describes them.

    Args:
        counts: Topic -> partition count; absent topics are left out.
        racks: Topic -> per partition its replicas' racks; empty if the brokers have no racks.
        leaders: Topic -> per partition its leader's rack; empty if the brokers have no racks.
        ids: Topic -> its id, as Kafka prints it; topics on brokers without ids are left out.
    """

    counts: Mapping[str, int]
    racks: Mapping[str, Sequence[Collection[str]]] = field(default_factory=dict)
    leaders: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """A change of the group or its topics.

    Args:
        remove: Members that leave: client ids, instance ids or member ids; or one number.
        partitions: Topic -> its partition count after the change.
        joining: Client ids of further members that join. Assignors order members by member id, which the coordinator
            makes of the client id: only with its client id, what a new member gets of ``range`` or ``roundrobin`` is
            known.
    """

    add: int = 0
    remove: tuple[str, ...] = ()
    partitions: Mapping[str, int] = field(default_factory=dict)
    joining: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.add or self.remove or self.partitions or self.joining)


def as_group(live: LiveGroup, topics: LiveTopics, change: Change | None = None, *, ids: bool = False) -> Group:
    """The group that joins the next rebalance: its members claim what they were assigned.

    Member ids are the members' names, because plans are read by people, and names have the order of member ids.

    With `ids` they are the real ones, in the coordinator's order: Java's sticky assignors iterate over members in the
    order of their ids' hashes, and over those in one bucket in the order in which the coordinator lists them. The ids
    of new members are unknown, so their names stand for them. Where all members are static, new ones are too, and their
    names are their instance ids.

    Raises:
        ConfigError: The change does not fit the group; the message names valid values.
        ClusterError: The group is in a rebalance; `LiveCluster.group_at_rest` reads one that isn't.
    """
    if live.rebalancing:
        raise ClusterError(
            f"group {live.group!r} is in a rebalance ({live.state}), and its members' subscriptions are not known; "
            "read it by LiveCluster.group_at_rest"
        )
    change = change or Change()
    called = live.names
    gone = _removed(live, change.remove)
    place = {member_id: n for n, member_id in enumerate(live.listed)} if ids else {}
    members = [
        Member(
            member.member_id if ids else called[member.member_id], member.topics, member.instance_id, member.rack,
            member.assigned, NO_GENERATION if live.generation is None else live.generation,
        )
        for member in sorted(live.members, key=lambda m: place.get(m.member_id, -1))
        if member.member_id not in gone
    ]  # fmt: skip
    taken = {called[member.member_id] for member in live.members if member.member_id not in gone}
    if (change.add or change.joining) and live.usual is None:
        asked = ", ".join((*([str(change.add)] if change.add else []), *change.joining))
        raise ConfigError(f"--add {asked}: group {live.group!r} has no member to copy")
    for name in change.joining:
        if name in taken:
            raise ConfigError(f"--add {name}: the group has a member of that name; give another client id, or a number")
        taken.add(name)
    fresh = (name for n in range(1, change.add + len(taken) + 1) if (name := f"new-{n}") not in taken)
    topics_of_new = frozenset() if live.usual is None else live.usual.topics
    static = all(member.instance_id is not None for member in live.members)
    new = [*change.joining, *(next(fresh) for _ in range(change.add))]
    members += [Member(name, topics_of_new, name if static else None) for name in new]
    if not members:
        raise ConfigError(f"group {live.group!r} has no members after the change; a plan needs at least one")
    counts = _grown(live, topics, change.partitions)
    # The racks of new partitions are unknown: racks count only if all of a topic's are known.
    unchanged_topics = {topic for topic, count in counts.items() if topics.counts.get(topic) == count}
    racks = {topic: racks for topic, racks in topics.racks.items() if topic in unchanged_topics}
    leaders = {topic: racks for topic, racks in topics.leaders.items() if topic in unchanged_topics}
    return Group(members, counts, racks, leaders)


def _removed(live: LiveGroup, remove: Sequence[str]) -> set[str]:
    called = live.names
    gone: set[str] = set()
    for wanted in remove:
        leavers = {
            m.member_id
            for m in live.members
            if wanted in (m.member_id, m.instance_id, m.client_id, called[m.member_id])
        }
        if not leavers and wanted.isdecimal():
            many = int(wanted)
            if many > len(live.members) - len(gone):
                raise ConfigError(f"--remove {wanted}: the group has {len(live.members)} members")
            left = sorted((m for m in live.members if m.member_id not in gone), key=lambda m: called[m.member_id])
            leavers = {m.member_id for m in left[len(left) - many :]}
        elif not leavers:
            near = difflib.get_close_matches(wanted, called.values(), 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"its members: {', '.join(sorted(called.values())[:8])}"
            raise ConfigError(f"--remove {wanted}: group {live.group!r} has no such member; {hint}")
        gone |= leavers
    return gone


def _grown(live: LiveGroup, topics: LiveTopics, grown: Mapping[str, int]) -> dict[str, int]:
    counts = dict(topics.counts)
    for topic, count in grown.items():
        now = counts.get(topic)
        if now is None:
            topic_names = ", ".join(sorted(counts)) or "none"
            raise ConfigError(
                f"--add-partitions {topic}:{count}: group {live.group!r} doesn't read it; it reads {topic_names}"
            )
        if count <= now:
            raise ConfigError(
                f"--add-partitions {topic}:{count}: the topic has {now} partitions already, and Kafka only adds; give "
                f"the number after the change, above {now}"
            )
        counts[topic] = count
    return counts


def from_description(name: str, described: Described) -> LiveGroup:
    """A classic group as its coordinator described it; a member whose bytes can't be read has no topics."""
    members = []
    for member in described.members:
        sent, assigned_ = _subscribed(member.subscription), _assigned(member.assignment)
        topics = frozenset(sent.topics) if sent else frozenset[str]()
        members.append(
            LiveMember(
                member.member_id, member.client_id, member.host, topics, assigned_, member.instance_id,
                (sent.rack or None) if sent else None, sent=sent,
            )
        )  # fmt: skip
    listed = tuple(member.member_id for member in described.members)
    members.sort(key=lambda m: m.member_id)
    return LiveGroup(name, described.state, "classic", described.protocol, tuple(members), listed=listed)


def _subscribed(data: bytes) -> Subscription | None:
    try:
        return decode_subscription(data)
    except WireError:
        return None


def _assigned(data: bytes) -> tuple[TopicPartition, ...]:
    try:
        given = decode_assignment(data).partitions
    except WireError:
        return ()
    return tuple(sorted(TopicPartition(topic, p) for topic, ids in given.items() for p in ids))


def from_generation(value: GroupCommitted) -> LiveGroup:
    """A group as a generation in the coordinator's log has it; a member whose bytes can't be read has no topics.

    A generation without a leader is a target of a KIP-848 group's broker.
    """
    members = []
    for member in value.members:
        try:
            subscription = decode_subscription(member.subscription)
            topics, rack, owned = frozenset(subscription.topics), subscription.rack, assigned(member)
        except WireError:
            topics, rack, owned = frozenset(), None, set()
        members.append(
            LiveMember(
                member.member_id, member.client_id, member.client_host.removeprefix("/"), topics,
                tuple(sorted(owned)), member.instance_id, rack,
            )
        )  # fmt: skip
    members.sort(key=lambda m: m.member_id)
    state = "Stable" if members else "Empty"
    kind = "consumer" if members and value.leader is None else "classic"
    return LiveGroup(value.group, state, kind, value.protocol or "", tuple(members), value.generation, value.leader)


def from_broker_log(name: str, records: Iterable[Decoded], topic_names: Mapping[str, str]) -> LiveGroup:
    """The KIP-848 group of a name after its records in the coordinator's log, in order."""
    group = BrokerGroup(name)
    for record in records:
        if isinstance(record, BrokerAssigned):
            group.take(record)
    return from_broker_group(group, topic_names)


def from_broker_group(group: BrokerGroup, topic_names: Mapping[str, str]) -> LiveGroup:
    """A KIP-848 group as the records left it; members are listed as they joined.

    `topic_names` is topic id, as Kafka prints it -> name; partitions of unknown topics are left out. A static member
    that is away keeps the partitions that it shall have when it returns. The state is ``Empty``, ``Stable``,
    ``Assigning`` (the broker has yet to compute a target), or ``Reconciling`` (members have yet to take it over).
    """
    names = {**group.names, **topic_names}
    members = []
    for member_id, member in group.members.items():
        holds = member.target if member.epoch == AWAY_EPOCH else member.assigned
        place = {tp: i for i, tp in enumerate(member.listed)}
        listed = sorted(holds or (), key=lambda tp: (place.get(tp, len(place)), tp))
        members.append(
            LiveMember(
                member_id, member.client_id, member.host, group.subscribed(member_id),
                tuple(TopicPartition(names[topic], p) for topic, p in listed if topic in names),
                member.instance_id, member.rack, member.pattern, member.topics if member.pattern else frozenset(),
            )
        )  # fmt: skip
    asked = Counter(member.assignor for member in group.members.values() if member.assignor)
    state = "Stable" if group.at_rest else "Reconciling" if group.epoch == group.target_epoch else "Assigning"
    protocol = asked.most_common(1)[0][0] if asked else ""
    epoch = group.epoch if group.epoch >= 0 else None
    return LiveGroup(group.group, state if members else "Empty", "consumer", protocol, tuple(members), epoch)
