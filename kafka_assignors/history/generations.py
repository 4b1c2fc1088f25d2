"""The generations of a group: what each completed join gave to whom, decoded once from the coordinator's log. Pure.

A generation is one assignment that the coordinator wrote for all members of a group: the answer of the elected leader
(classic protocol), or a target that the broker computed (KIP-848; its number is the epoch).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ..core.group import TopicPartition, identity_of
from ..core.wire.protocol import Subscription, decode_subscription
from ..errors import WireError
from .coordinator_log import CommittedMember, Decoded, GroupCommitted, OffsetCommitted, assigned
from .events import Event, generation_in, is_of
from .events.bodies import GenerationCommittedBody, OffsetCommittedBody, decoded
from .ownership import Commits, Committed


@dataclass(frozen=True)
class Logged:
    """A record of a group in the coordinator's log.

    `ts_ms` is the broker's wall clock; `mono_ns` is the monotonic clock of a run, None if only the broker's is known.
    """

    ts_ms: int
    value: Decoded
    mono_ns: int | None = None

    @property
    def at_ns(self) -> int:
        """Its time on the clock that orders the group's intervals."""
        return self.ts_ms * 1_000_000 if self.mono_ns is None else self.mono_ns


@dataclass(frozen=True)
class Log:
    """A group's records in the coordinator's log, in order.

    `whole`: the log was read from its beginning; it may be compacted even then.
    """

    records: tuple[Logged, ...]
    whole: bool


@dataclass(frozen=True)
class GroupGeneration:
    """A generation as the log has it, in the terms of `ownership` and with what the causes need.

    A *holder* is a member by its instance id, which survives restarts, or else by its member id.
    """

    value: GroupCommitted
    committed: Committed
    called: Mapping[str, str]  # holder -> name
    members: Mapping[str, CommittedMember]  # holder -> member
    subscriptions: Mapping[str, Subscription | None]  # holder -> subscription; None: not the consumer protocol's bytes
    owners: Mapping[TopicPartition, str]  # topic-partition -> holder
    last_owners: Mapping[TopicPartition, str] = field(
        default_factory=dict
    )  # the same, plus the last holders of partitions without an owner

    @property
    def number(self) -> int:
        """Its number in the log."""
        return self.value.generation

    @property
    def by_broker(self) -> bool:
        """Whether the broker assigned (KIP-848): nobody led."""
        return self.value.leader is None and self.value.protocol is not None

    @property
    def ts_ms(self) -> int:
        """Broker's wall clock at which it was committed."""
        return self.committed.ts_ns // 1_000_000

    @property
    def topics(self) -> dict[str, frozenset[str]]:
        """Holder -> its subscription; without holders whose bytes are not the consumer protocol's."""
        return {
            holder: frozenset(subscription.topics)
            for holder, subscription in self.subscriptions.items()
            if subscription is not None
        }

    @property
    def claimed(self) -> bool:
        """Whether a member kept partitions when it joined: members of a cooperative assignor do, eager ones don't."""
        return any(subscription is not None and subscription.owned for subscription in self.subscriptions.values())

    @property
    def may_have_claimed(self) -> bool:
        """Whether a member kept partitions when it joined, as far as is known: of librdkafka no claims are recorded."""
        return self.claimed or not any(self.subscriptions.values())

    def rewrites(self, before: GroupGeneration) -> bool:
        """Whether it is `before` written again: the same assignment, and nobody joined.

        The coordinator writes a generation again when a static member returns under a new member id, and in the other
        protocol's records when it converts the group.
        """
        if not self.members or not before.members:
            return False
        if self.by_broker == before.by_broker:
            same = self.called.keys() == before.called.keys() and self.owners == before.owners
            return same and self.number == before.number
        news = {m.member_id for m in self.members.values()} - {m.member_id for m in before.members.values()}
        idle = not any(self.committed.assignments[h] for h, member in self.members.items() if member.member_id in news)
        return not news or (self.number == before.number and idle)


def generations(records: Iterable[Logged]) -> list[GroupGeneration]:
    """The generations in a group's records, in order."""
    all_generations: list[GroupGeneration] = []
    for record in records:
        add(all_generations, record)
    return all_generations


def add(generations: list[GroupGeneration], record: Logged) -> bool:
    """Add a group's next record to its generations: a new one, or a commit in the last one. Each is decoded once.

    Returns:
        Whether it is a new generation. Joins that no leader has answered yet are none, nor are groups of other types,
        nor is generation 0, as which the coordinator writes a new group before its first member has joined.
    """
    value = record.value
    if isinstance(value, OffsetCommitted) and generations:
        commits: dict[TopicPartition, Commits] = generations[-1].committed.commits  # type: ignore[assignment]
        tp = TopicPartition(value.topic, value.partition)
        begin = commits[tp].first_ns if tp in commits else record.at_ns
        commits[tp] = Commits(begin, record.at_ns, record.ts_ms)
        return False
    if not isinstance(value, GroupCommitted) or value.protocol_type not in ("consumer", ""):
        return False
    if value.members and not any(member.assignment for member in value.members):
        return False
    if not value.members and not value.generation:
        return False
    generations.append(_generation(record, value))
    return True


def from_events(events: Iterable[Event]) -> list[GroupGeneration]:
    """The generations in one group's ``generation_committed`` and ``offset_committed`` events, in the order of the log.

    Targets of a KIP-848 group have the fields of a ``generation_committed``. Other events are passed over.
    """
    generations: list[GroupGeneration] = []
    for event in events:
        ts_ms = event.ts_ns // 1_000_000
        if is_of(event, OffsetCommittedBody):
            commit = event.body
            value = OffsetCommitted(event.group or "", commit.topic, commit.partition, commit.offset, -1, ts_ms)
            add(generations, Logged(ts_ms, value, event.mono_ns))
        elif (body := generation_in(event)) is not None and (body.members or body.generation):
            generations.append(_of_body(event.group or "", body, ts_ms, event.mono_ns))
    return generations


def from_row(group: str, row: Mapping[str, Any], ts_ms: int, mono_ns: int) -> GroupGeneration:
    """The generation in the fields of a ``generation_committed`` event."""
    return _of_body(group, decoded(GenerationCommittedBody, row), ts_ms, mono_ns)


def _of_body(group: str, body: GenerationCommittedBody, ts_ms: int, mono_ns: int) -> GroupGeneration:
    members = tuple(
        CommittedMember(
            member.member_id, member.instance_id, member.client_id, "",
            member.rebalance_timeout_ms or 0, member.session_timeout_ms or 0,
            bytes_of(member.subscription), bytes_of(member.assignment),
        )
        for member in body.members
    )  # fmt: skip
    value = GroupCommitted(
        group, "consumer", body.generation, body.protocol, body.leader, body.ts_ms or -1, members
    )  # fmt: skip
    assignments = {member.member_id: frozenset(member.assigned) for member in body.members}
    return _generation(Logged(ts_ms, value, mono_ns), value, assignments)


def bytes_of(text: str) -> bytes:
    """What an event has in hexadecimal digits; nothing, if they are none."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _generation(
    record: Logged, value: GroupCommitted, given: Mapping[str, frozenset[TopicPartition]] | None = None
) -> GroupGeneration:
    """Decode a generation; `given`: member id -> its assignment, if it is decoded already."""
    holders = {identity_of(member.member_id, member.instance_id): member for member in value.members}
    subscriptions: dict[str, Subscription | None] = {}
    assignments: dict[str, frozenset[TopicPartition]] = {}
    for holder, member in holders.items():
        try:
            subscriptions[holder] = decode_subscription(member.subscription)
        except WireError:
            subscriptions[holder] = None
        try:
            assignments[holder] = frozenset(assigned(member)) if given is None else given[member.member_id]
        except WireError:
            assignments[holder] = frozenset()
    timeouts = {
        holder: least
        for holder, member in holders.items()
        if (least := min(member.session_timeout_ms, member.rebalance_timeout_ms)) > 0
    }
    claims = [bool(subscription.owned) for subscription in subscriptions.values() if subscription is not None]
    eager = value.leader is not None and bool(claims) and not any(claims)
    committed = Committed(
        value.generation, record.at_ns, record.ts_ms * 1_000_000, value.ts_ms if value.ts_ms > 0 else None,
        {holder: member.member_id for holder, member in holders.items()}, timeouts, assignments, {}, eager,
    )  # fmt: skip
    by_id = names(value.members)
    called = {holder: by_id[member.member_id] for holder, member in holders.items()}
    owners = {tp: holder for holder, tps in assignments.items() for tp in tps}
    return GroupGeneration(value, committed, called, holders, subscriptions, owners)


class Named(Protocol):
    """What a member's name is made of."""

    @property
    def member_id(self) -> str: ...  # noqa: D102
    @property
    def client_id(self) -> str: ...  # noqa: D102
    @property
    def instance_id(self) -> str | None: ...  # noqa: D102


def names(members: Iterable[Named], shared: Collection[str] = ()) -> dict[str, str]:
    """Member id -> its instance id; else its client id; else, if several share that, the member id, shortened.

    `shared` are those that several members share elsewhere.
    """
    members = list(members)
    shared = shared_names(members) | {*shared}
    labels = {}
    for member in members:
        name = member.instance_id or member.client_id
        # The coordinator makes member ids of the client id and a UUID, whose first characters are enough here.
        tail = member.member_id.removeprefix(f"{member.client_id}-")[:8]
        labels[member.member_id] = name if name and name not in shared else f"{name}-{tail}" if name else tail
    return labels


def shared_names(members: Iterable[Named]) -> frozenset[str]:
    """The instance ids and client ids that several of these members have."""
    counts = Counter(member.instance_id or member.client_id for member in members)
    return frozenset(name for name, count in counts.items() if count > 1)


def with_one_name_each(generations: Iterable[GroupGeneration]) -> list[GroupGeneration]:
    """The generations, in which a member has the same name in each, and no other member of them has it.

    A member has its short name if no generation has two members of that name.
    """
    generations = list(generations)
    shared = frozenset[str]().union(*(shared_names(generation.members.values()) for generation in generations))
    return [_renamed(generation, shared) for generation in generations] if shared else generations


def _renamed(generation: GroupGeneration, shared: Collection[str]) -> GroupGeneration:
    by_id = names(generation.members.values(), shared)
    called = {holder: by_id[member.member_id] for holder, member in generation.members.items()}
    return generation if called == generation.called else replace(generation, called=called)
