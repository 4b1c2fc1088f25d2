"""A cooperative group as a model: who really consumes what while members, leaders and topics come and go.

A leader instructs at once, its members follow when SyncGroup is answered, in any order or never. What must be true at
every instant is asserted by the model itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as KafkaPythons
from kafka.protocol.consumer import JoinGroupResponse
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from benchmarks.clusters import cluster
from kafka_assignors.core import strategies
from kafka_assignors.core.group import NO_GENERATION, TopicPartition
from kafka_assignors.core.group.assignment import Assignment, owners, pairs
from kafka_assignors.core.reading import decode, replay
from kafka_assignors.core.wire import protocol, userdata

Sent = Sequence[tuple[str, str | None, bytes]]
Counts = Mapping[str, int]


@dataclass
class Live:
    """One member of the group.

    Args:
        topics: Its subscription.
        version: Of its subscription's bytes.
        holds: What it consumes.
        generation: Of the assignment that it followed last.
        stale: What it claims instead of what it holds: it was fenced, and did not forget.
        told: Generation and assignment that it has yet to hear of.
    """

    topics: frozenset[str]
    version: int = protocol.VERSION
    holds: set[TopicPartition] = field(default_factory=set)
    generation: int = NO_GENERATION
    stale: set[TopicPartition] | None = None
    told: tuple[int, set[TopicPartition]] | None = None

    def claims(self) -> set[TopicPartition]:
        return self.holds if self.stale is None else self.stale

    def bytes(self) -> bytes:
        user_data = userdata.encode_cooperative(self.generation)
        owned = tuple(sorted(self.claims()))
        return protocol.encode_subscription(
            protocol.Subscription(tuple(sorted(self.topics)), user_data, owned, self.generation), self.version
        )


class Model:
    """The group.

    Args:
        topics: topic -> partition count.

    Attributes:
        members: Those in the group.
        away: Those that were fenced.
        early: Partitions that a leader other than ours gave away while somebody held them.
    """

    def __init__(self, **topics: int) -> None:
        self.topics = topics
        self.members: dict[str, Live] = {}
        self.away: list[Live] = []
        self.early: set[TopicPartition] = set()
        self.generation = 0
        self.born = 0

    # -------------------------------------------------------------------------------- what happens to a group

    def enters(self, member: Live) -> str:
        self.born += 1
        self.members[f"m{self.born}"] = member
        return f"m{self.born}"

    def leaves(self, member_id: str, fenced: bool = False) -> None:
        gone = self.members.pop(member_id)
        if fenced:
            self.away.append(gone)

    def comes_back(self, forgets: bool = False) -> str:
        """What it held was lost. Some clients do not clear what they claim."""
        back = self.away.pop()
        if forgets:
            return self.enters(Live(back.topics, back.version))
        return self.enters(Live(back.topics, back.version, generation=back.generation, stale=set(back.claims())))

    def subscribes(self, member_id: str, topics: Collection[str]) -> None:
        """It gives up what it does not subscribe to any more, and joins again; an answer to its old one is dropped."""
        member = self.members[member_id]
        member.told = None
        member.topics = frozenset(topics)
        member.holds = {tp for tp in member.holds if tp.topic in topics}

    def rebalances(self, leader: str, unseen: Collection[str] = (), random: Random | None = None) -> Assignment:
        """All join and the leader answers. Who had not heard of the last answer never will."""
        self.generation += 1
        counts = {topic: count for topic, count in self.topics.items() if topic not in unseen}
        answer = LEADERS[leader](self, counts, random or Random(0))
        self.early = {tp for tp in self.early if len(self.holders(tp)) > 1}
        early = {tp for member_id, tp in pairs(answer) if self.holders(tp) - {member_id}}
        if leader == "ours":
            assert early <= self.early, f"given away too early: {early - self.early}"
            self.nothing_is_withheld_without_a_claim(counts, answer)
        self.early |= early
        for member_id, given in answer.items():
            self.members[member_id].told = self.generation, {TopicPartition(t, p) for t in given for p in given[t]}
        return answer

    def follows(self, member_id: str) -> bool:
        """It revokes what it lost, then starts what it got; whether it revoked anything, on which it joins again."""
        member = self.members[member_id]
        assert member.told is not None
        member.generation, got = member.told
        revoked = member.holds - got
        member.holds, member.stale, member.told = set(got), None, None
        self.nothing_has_two_owners()
        return bool(revoked)

    def all_follow(self, random: Random, all_but: str = "") -> bool:
        """In any order; whether somebody revoked anything."""
        order = random.sample(sorted(self.members), len(self.members))
        revoking = [self.follows(member_id) for member_id in order if member_id != all_but]
        return any(revoking)

    def is_left_alone(self, random: Random, misses: bool = False) -> None:
        """Everything is owned after two rebalances, three if a member misses an answer; then nothing moves."""
        if misses:
            self.rebalances("ours")
            self.all_follow(random, all_but=random.choice(sorted(self.members)))
        forgot = all(member.stale is None for member in self.members.values())
        self.rebalances("ours")
        if self.all_follow(random) or not forgot:  # who claims what it does not hold has nothing to revoke
            self.rebalances("ours")
            assert not self.all_follow(random), "still revoking in the second rebalance"
        self.everything_is_owned()
        holders = {tp: member_id for member_id, member in self.members.items() for tp in member.holds}
        assert owners(self.rebalances("ours")) == holders

    # ---------------------------------------------------------------------------------------- what must be true

    def nothing_has_two_owners(self) -> None:
        owned = Counter(tp for member in self.members.values() for tp in member.holds)
        twice = {tp for tp, times in owned.items() if times > 1}
        assert twice <= self.early, f"two owners: {twice - self.early}"

    def nothing_is_withheld_without_a_claim(self, counts: Counts, answer: Assignment) -> None:
        given = {tp for _, tp in pairs(answer)}
        for topic, count in counts.items():
            if any(topic in member.topics for member in self.members.values()):
                missing = {TopicPartition(topic, p) for p in range(count)} - given
                assert all(map(self.newest, missing)), f"withheld, claimed or not: {missing}"

    def everything_is_owned(self) -> None:
        for topic, count in self.topics.items():
            if any(topic in member.topics for member in self.members.values()):
                owned = Counter(tp.partition for m in self.members.values() for tp in m.holds if tp.topic == topic)
                assert owned == Counter(range(count)), f"{topic}: {owned} of {count}"

    def holders(self, tp: TopicPartition) -> set[str]:
        return {member_id for member_id, member in self.members.items() if tp in member.holds}

    def newest(self, tp: TopicPartition) -> set[str]:
        """The subscribed members whose claim no other claim is newer than."""
        claims = {m: member.generation for m, member in self.members.items() if tp in member.claims()}
        return {m for m, made in claims.items() if made == max(claims.values()) and tp.topic in self.members[m].topics}

    def sent(self) -> Sent:
        return [(member_id, None, member.bytes()) for member_id, member in self.members.items()]


def ours(group: Model, counts: Counts, random: Random) -> Assignment:
    return replay("cooperative-sticky", group.sent(), counts)


def java(group: Model, counts: Counts, random: Random) -> Assignment:
    decoded = [(m, i, protocol.decode_subscription(data)) for m, i, data in group.sent()]
    reading = decode("cooperative-sticky", decoded, counts)
    return strategies.strategy("cooperative-sticky").with_options(parity="java").assign(reading)[0]


def lawful(group: Model, counts: Counts, random: Random) -> Assignment:
    """Each partition to any subscriber, or to nobody; one that is claimed to none but its newest claimant."""
    answer: Assignment = {member_id: {} for member_id in group.members}
    for topic, count in counts.items():
        readers = [m for m, member in group.members.items() if topic in member.topics]
        for partition in range(count):
            claimants = group.newest(TopicPartition(topic, partition))
            takers = readers if not claimants else list(claimants) if len(claimants) == 1 else []
            taker = random.choice([*sorted(takers), None])
            if taker is not None:
                answer[taker].setdefault(topic, []).append(partition)
    return answer


def kafka_pythons(group: Model, counts: Counts, random: Random) -> Assignment:
    """Its own class of kafka-python 3.0.12."""
    joined = [
        JoinGroupResponse.JoinGroupResponseMember(
            version=5, member_id=m, group_instance_id=None, metadata=ConsumerProtocolSubscription.decode(data)
        )
        for m, _, data in group.sent()
    ]
    answer = KafkaPythons().assign(cluster(counts), joined)
    return {m: {topic: list(ids) for topic, ids in assignment.assigned_partitions} for m, assignment in answer.items()}


LEADERS: dict[str, Callable[[Model, Counts, Random], Assignment]] = {
    "ours": ours,
    "java": java,
    "any": lawful,
    "kafka-python": kafka_pythons,
}
