"""Random groups as their bytes, by seed, as they found Java's defects; and how a group that fails gets smaller.

A group is drawn as a life: an assignment that members held, somewhat skewed; members that left or joined since; and in
half of the groups what should not be: claims of three generations, doubled, about partitions and topics that are gone,
in old forms or in bytes that mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from kafka_assignors.core.group import NO_GENERATION, TopicPartition
from kafka_assignors.core.reading import decode
from kafka_assignors.core.strategy import Decoded
from kafka_assignors.core.wire import protocol, userdata

NEWEST = 7
Partition = tuple[str, int]


@dataclass(frozen=True)
class Joining:
    """What one member sends.

    Args:
        owned: What it claims; None: it was never assigned anything.
        told: Generation in the subscription where it is not `generation`; a fenced member says -1.
        version: Of the subscription.
        form: Of sticky user data: ``v1``, ``v0``, ``none``, or these very bytes.
    """

    member_id: str
    topics: tuple[str, ...]
    instance: str | None = None
    rack: str | None = None
    owned: tuple[Partition, ...] | None = None
    generation: int = NO_GENERATION
    told: int | None = None
    version: int = protocol.VERSION
    form: str | bytes = "v1"

    def bytes(self, name: str) -> bytes:
        """Its ConsumerProtocolSubscription for the strategy of that name."""
        owned = tuple(TopicPartition(*partition) for partition in self.owned or ())
        user_data, owned_partitions = None, ()
        if name == "sticky":
            user_data = self._user_data(owned)
        elif name == "cooperative-sticky":
            user_data = self.form if isinstance(self.form, bytes) else userdata.encode_cooperative(self.generation)
            owned_partitions = owned
        generation = self.generation if self.told is None else self.told
        return protocol.encode_subscription(
            protocol.Subscription(self.topics, user_data, owned_partitions, generation, self.rack), self.version
        )

    def _user_data(self, owned: Sequence[TopicPartition]) -> bytes | None:
        if isinstance(self.form, bytes):
            return self.form
        if self.owned is None or self.form == "none":
            return None
        if self.form == "v0":
            return protocol.encode_partitions(protocol.by_topic(owned))
        return userdata.encode_sticky(owned, self.generation)


@dataclass(frozen=True)
class Case:
    """A group at the moment its leader assigns: topics as replicas of each partition, brokers with their racks."""

    members: tuple[Joining, ...]
    topics: Mapping[str, tuple[tuple[int, ...], ...]]
    brokers: Mapping[int, str | None] = field(default_factory=lambda: {0: None})

    def sent(self, name: str) -> list[tuple[str, str | None, bytes]]:
        """Member id, instance id and subscription bytes, in JoinGroup order."""
        return [(member.member_id, member.instance, member.bytes(name)) for member in self.members]

    def reading(self, name: str) -> Decoded:
        """What a leader of ours reads."""
        members = [(m, i, protocol.decode_subscription(data)) for m, i, data in self.sent(name)]
        return decode(name, members, self.counts(), self.racks())

    def counts(self) -> dict[str, int]:
        return {topic: len(placed) for topic, placed in self.topics.items()}

    def racks(self) -> dict[str, list[set[str]]]:
        """As a leader sees them: none at all where no broker has one."""
        if not any(self.brokers.values()):
            return {}
        return {
            topic: [{rack for node in replicas if (rack := self.brokers.get(node))} for replicas in placed]
            for topic, placed in self.topics.items()
        }


SIZES = {"tiny": (4, 2, 4), "small": (8, 6, 8), "wide": (20, 14, 12), "crowd": (120, 3, 60)}
"""The most members, topics, and partitions of one topic; the hash maps of a crowd grow."""


def draw(seed: int, size: str = "") -> Case:
    """The group of a seed: ``tiny``, ``small``, ``wide``, any of these if not said; or a ``crowd``."""
    random = Random(f"group {seed}")
    drawn = random.choices(("tiny", "small", "wide"), (3, 5, 1))[0]
    members, topics, partitions = SIZES[size or drawn]
    names = _names(random, random.randint(1, topics))
    counts = {topic: random.randint(1, partitions) if random.random() < 0.9 else 0 for topic in names}
    ids = _ids(random, random.randint(min(2, random.randint(1, 8)), members))
    brokers = _brokers(random)
    racks = [rack for rack in brokers.values() if rack]
    subscribed = _subscriptions(random, ids, names)
    life = _life(random, ids, subscribed, counts)
    joining = []
    for i, member_id in enumerate(ids):
        owned, generation = life[i]
        joining.append(
            Joining(
                member_id,
                subscribed[i],
                f"i{random.randint(0, 9)}{i}" if random.random() < 0.25 else None,
                random.choice((*racks, "elsewhere", None)) if racks and random.random() < 0.8 else None,
                owned,
                generation,
            )
        )
    if random.random() < 0.5:
        joining = [_spoilt(random, member, counts) for member in joining]
    nodes = list(brokers)
    placed = {
        topic: tuple(tuple(random.sample(nodes, random.randint(1, min(3, len(nodes))))) for _ in range(count))
        for topic, count in counts.items()
        if random.random() < 0.95  # else deleted since
    }
    return Case(tuple(joining), placed, brokers)


def _names(random: Random, count: int) -> list[str]:
    return random.choice((
        [f"t{i}" for i in range(count)],
        [f"topic-{random.randint(0, 999)}-{i}" for i in range(count)],
        random.sample(
            ("orders", "Aa", "BB", "é", "\U0001f600", "\ufb01", "a.b", "a_b", "z", "y", "x", "w", "v", "u"), count
        ),
    ))  # fmt: skip


def _ids(random: Random, count: int) -> list[str]:
    """In JoinGroup order, which is not the sorted one."""
    ids = random.choice((
        [f"m{i}" for i in range(count)],
        [f"c{i:02}" for i in range(count)],
        [f"consumer-{i}-{random.getrandbits(128):032x}" for i in range(count)],
        [f"{random.choice('ab')}{random.choice(('Aa', 'BB'))}{i}" for i in range(count)],  # equal hash codes
        [random.choice("é\U0001f600\ufb01m") + str(i) for i in range(count)],
    ))  # fmt: skip
    random.shuffle(ids)
    return ids


def _brokers(random: Random) -> dict[int, str | None]:
    if random.random() < 0.5:
        return {0: None}
    racks = [f"r{i}" for i in range(random.randint(1, 3))]
    return {node: random.choice((*racks, racks[0], None)) for node in range(random.randint(1, 5))}


def _subscriptions(random: Random, ids: Sequence[str], names: Sequence[str]) -> list[tuple[str, ...]]:
    topics = (*names, "unknown") if random.random() < 0.2 else tuple(names)
    if random.random() < 0.4:
        chosen = [topics] * len(ids)
    else:
        sets = [tuple(random.sample(topics, random.randint(1, len(topics)))) for _ in range(random.randint(2, 5))]
        chosen = [random.choice(sets) for _ in ids]
    if random.random() < 0.1:
        chosen[random.randrange(len(ids))] = ()
    if random.random() < 0.05:
        chosen[0] = (*chosen[0], *chosen[0][:1])
    return chosen


def _life(
    random: Random, ids: Sequence[str], subscribed: Sequence[tuple[str, ...]], counts: Mapping[str, int]
) -> list[tuple[tuple[Partition, ...] | None, int]]:
    """Claims and generation of each member: mostly one assignment; stale members have theirs from an earlier one."""
    if random.random() < 0.1:
        return [(None, NO_GENERATION)] * len(ids)
    assignments = [_assignment(random, subscribed, counts) for _ in range(3)]
    fresh, stale = random.choice((0, 0.2)), random.choice((0, 0, 0.3))
    claims: list[tuple[tuple[Partition, ...] | None, int]] = []
    for i in range(len(ids)):
        age = random.choice((1, 2)) if random.random() < stale else 0
        claims.append((None, NO_GENERATION) if random.random() < fresh else (tuple(assignments[age][i]), NEWEST - age))
    return claims


def _assignment(
    random: Random, subscribed: Sequence[tuple[str, ...]], counts: Mapping[str, int]
) -> dict[int, list[Partition]]:
    """Any valid one, skewed to one member; up to a fifth of it was with members that left."""
    favourite = random.randrange(len(subscribed))
    skew, departed = random.choice((0, 0.3, 0.8)), random.choice((0, 0.1, 0.2))
    assignment: dict[int, list[Partition]] = {i: [] for i in range(len(subscribed))}
    for topic, count in counts.items():
        readers = [i for i, topics in enumerate(subscribed) if topic in topics]
        for partition in range(count):
            if readers and random.random() >= departed:
                wanted = favourite in readers and random.random() < skew
                assignment[favourite if wanted else random.choice(readers)].append((topic, partition))
    return assignment


def _spoilt(random: Random, member: Joining, counts: Mapping[str, int]) -> Joining:
    """With one or two things that should not be, or as it is."""
    for _ in range(random.choice((0, 0, 1, 2))):
        topic = random.choice(list(counts))
        wrong: dict[str, Any] = random.choice((
            {"owned": (*(member.owned or ()), (topic, counts[topic] + random.randint(0, 2)))},
            {"owned": (*(member.owned or ()), (topic, random.randint(0, max(counts[topic] - 1, 0))))},
            {"owned": (*(member.owned or ()), ("dropped", 0))},
            {"owned": (*(member.owned or ()), *(member.owned or ())[:1])},
            {"generation": random.choice((NO_GENERATION, NEWEST - 2, NEWEST - 1, NEWEST, NEWEST + 1))},
            {"told": random.choice((NO_GENERATION, NEWEST - 1, NEWEST))},
            {"version": random.choice((0, 1, 2))},
            {"form": random.choice(("v0", "none", b"", b"\x00", random.randbytes(random.randint(1, 20))))},
        ))  # fmt: skip
        member = replace(member, **wrong)
    return member


def smallest(case: Case, fails: Callable[[Case], object]) -> Case:
    """The case with as much left out as can be while it still fails: members, topics, claims, racks, oddities."""
    smaller: Case | None = case
    while smaller is not None:
        case = smaller
        smaller = next((candidate for candidate in _smaller(case) if fails(candidate)), None)
    return case


def _smaller(case: Case) -> Iterator[Case]:
    if len(case.members) > 1:
        for i in range(len(case.members)):
            yield replace(case, members=case.members[:i] + case.members[i + 1 :])
    for topic, placed in case.topics.items():
        rest = {other: replicas for other, replicas in case.topics.items() if other != topic}
        yield replace(case, topics=rest)
        if placed:
            yield replace(case, topics={**case.topics, topic: placed[:-1]})
    if len(case.brokers) > 1:
        yield replace(case, brokers={0: None}, topics={t: ((0,),) * len(placed) for t, placed in case.topics.items()})
    for i, member in enumerate(case.members):
        for change in _plainer(member):
            yield replace(case, members=(*case.members[:i], replace(member, **change), *case.members[i + 1 :]))


def _plainer(member: Joining) -> Iterator[dict[str, Any]]:
    plain = Joining(member.member_id, member.topics, owned=member.owned, generation=member.generation)
    for name in ("instance", "rack", "told", "version", "form"):
        if getattr(member, name) != getattr(plain, name):
            yield {name: getattr(plain, name)}
    for i in range(len(member.owned or ())):
        yield {"owned": (*(member.owned or ())[:i], *(member.owned or ())[i + 1 :])}
    for i in range(len(member.topics)):
        yield {"topics": member.topics[:i] + member.topics[i + 1 :]}
