"""The input of a group leader: members, their subscriptions and claims, and the partitions of topics."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, TypeVar, overload

if TYPE_CHECKING:  # a member imports this file before it joins, and NumPy takes long to import
    import numpy as np
    from numpy.typing import NDArray

from ...errors import ConfigError

NO_GENERATION = -1
"""Kafka's mark for "no generation": the member was never assigned anything, or was fenced."""


T = TypeVar("T")


class TopicPartition(NamedTuple):
    """One partition of one topic. Sorts by topic, then partition. Its text is ``topic-partition``, as in Java."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Partitions(Sequence[TopicPartition]):
    """A compact sequence of topic-partitions, equal to the tuple of them: a million take a few MB.

    Args:
        topics: One name per run of partitions of one topic.
        counts: Length of each run.
        ids: int[], the partition ids of all runs in order.
        strange: Number of topics left out because no member of the group subscribes to them.
        beyond: Number of partitions left out because their ids do not exist.
    """

    __slots__ = ("beyond", "counts", "ids", "strange", "topics")

    def __init__(
        self,
        topics: Sequence[str],
        counts: Sequence[int],
        ids: NDArray[Any] | array[int],
        strange: int = 0,
        beyond: int = 0,
    ) -> None:
        self.topics, self.counts, self.ids = topics, counts, ids
        self.strange, self.beyond = strange, beyond

    @classmethod
    def of(cls, partitions: Iterable[tuple[str, int]]) -> Partitions:
        """Convert from topic-partitions; returns the argument if it is a `Partitions` already."""
        # `isinstance` would query the abstract base class, which takes longer than decoding a small member.
        if Partitions in type(partitions).__mro__:
            return partitions  # type: ignore[return-value]
        topics: list[str] = []
        counts: list[int] = []
        ids: list[int] = []
        for topic, partition in partitions:
            if topics and topics[-1] == topic:
                counts[-1] += 1
            else:
                topics.append(topic)
                counts.append(1)
            ids.append(partition)
        return cls(topics, counts, array("q", ids))

    def among(self, topics: Container[str]) -> Partitions:
        """The partitions of the given topics."""
        stay = [topic in topics for topic in self.topics]
        if all(stay):
            return self
        counts = list(compress(self.counts, stay))
        keep = (flag for flag, count in zip(stay, self.counts, strict=True) for _ in range(count))
        ids = array("q", compress(self.ids.tolist(), keep))
        strange = self.strange + stay.count(False)
        return Partitions(list(compress(self.topics, stay)), counts, ids, strange, self.beyond)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[TopicPartition]:
        ids = iter(self.ids.tolist())
        for topic, count in zip(self.topics, self.counts, strict=True):
            for _ in range(count):
                yield TopicPartition(topic, next(ids))

    @overload
    def __getitem__(self, index: int) -> TopicPartition: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[TopicPartition, ...]: ...

    def __getitem__(self, index: int | slice) -> TopicPartition | tuple[TopicPartition, ...]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Partitions | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


_NOTHING = Partitions.of(())


class DictionaryEncoded(Sequence[T]):
    """A sequence of few distinct values, each stored once, as in Arrow's dictionary encoding.

    For racks of partitions: few brokers hold many partitions together. `codes` is int[], indices in `values`.
    """

    __slots__ = ("codes", "values")

    def __init__(self, values: Sequence[T], codes: NDArray[np.integer] | array[int]) -> None:
        self.values, self.codes = values, codes

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[T]:
        return map(self.values.__getitem__, self.codes.tolist())

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> DictionaryEncoded[T]: ...

    def __getitem__(self, index: int | slice) -> T | DictionaryEncoded[T]:
        if isinstance(index, slice):
            return DictionaryEncoded(self.values, self.codes[index])
        return self.values[self.codes[index]]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, DictionaryEncoded | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@dataclass(frozen=True, init=False)
class Member:
    """One member as its JoinGroup request describes it.

    Args:
        member_id: The id that the coordinator assigned; unique in the group.
        topics: Its subscription, any collection of topic names; duplicates do not matter.
        instance_id: ``group.instance.id`` of a static member (KIP-345), else None.
        rack: ``client.rack`` (KIP-881), else None.
        owned: The topic-partitions it claims to hold. A claim may be stale, duplicated or of nonexistent ones.
        generation: The generation that assigned `owned`, else `NO_GENERATION`.

    Raises:
        ConfigError: `topics` is a single string, or the member id or rack has the wrong type.
    """

    member_id: str
    topics: frozenset[str]
    instance_id: str | None = None
    rack: str | None = None
    owned: Partitions = _NOTHING
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
        if type(topics) is str:
            raise ConfigError(
                f"member {member_id!r}: topics must be a collection of names, not the string {topics!r}; did you mean "
                f"[{topics!r}]?"
            )
        if not (isinstance(member_id, str) and isinstance(rack or "", str) and isinstance(instance_id or "", str)):
            raise ConfigError(
                f"member id, instance id and rack are strings, the last two or None; not {member_id!r}, "
                f"{instance_id!r} and {rack!r}"
            )
        fields = {
            "member_id": member_id,
            "topics": frozenset(topics),
            "instance_id": instance_id,
            "rack": rack or None,
            "owned": _NOTHING if type(owned) is tuple and not owned else Partitions.of(owned),
            "generation": generation,
        }
        object.__setattr__(self, "__dict__", fields)  # all fields at once: one by one takes four times as long

    @property
    def identity(self) -> str:
        """The instance id, which survives restarts, else the member id."""
        return identity_of(self.member_id, self.instance_id)

    @property
    def leaves(self) -> bool:
        """Whether it leaves the group (`kafka_python.leaving`): no topics, but claims with their generation."""
        return not self.topics and self.generation > NO_GENERATION


def identity_of(member_id: str, instance_id: str | None) -> str:
    """The id by which a group knows a member: its instance id, which survives restarts, else its member id.

    The coordinator makes a new member id for each start of a dynamic member.
    """
    return member_id if instance_id is None else instance_id


@dataclass(frozen=True, init=False)
class Group:
    """The whole input of an assignment.

    Args:
        members: In any order; no strategy's answer depends on it.
        partitions: topic -> partition count. A subscribed topic that is absent or has 0 partitions is not assigned.
        racks: topic -> per partition its replicas' racks (index = partition). Absent topics have unknown racks.
        leaders: topic -> per partition its leader's rack, or None if unknown. Topics may be absent.

    Raises:
        ConfigError: Two members have the same id, a partition count is not a non-negative integer, or racks are strings
            where sequences or collections of strings are expected.
    """

    members: tuple[Member, ...]
    partitions: Mapping[str, int]
    racks: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)
    leaders: Mapping[str, Sequence[str | None]] = field(default_factory=dict)

    def __init__(
        self,
        members: Collection[Member],
        partitions: Mapping[str, int],
        racks: Mapping[str, Sequence[Collection[str]]] | None = None,
        leaders: Mapping[str, Sequence[str | None]] | None = None,
    ) -> None:
        members = tuple(members)
        if len({member.member_id for member in members}) < len(members):
            twice, times = Counter(member.member_id for member in members).most_common(1)[0]
            raise ConfigError(f"{times} members have the id {twice!r}; a member id is unique in its group")
        for topic, count in partitions.items():
            if not _is_count(count):
                raise ConfigError(f"partitions[{topic!r}] must be a partition count of 0 or above, not {count!r}")
        for name, places in (("racks", racks), ("leaders", leaders)):
            for topic, rows in (places or {}).items():
                if isinstance(rows, str):
                    raise ConfigError(f"{name}[{topic!r}] must have one entry for each partition, not be {rows!r}")
        set_ = object.__setattr__
        set_(self, "members", members)
        set_(self, "partitions", dict(partitions))
        set_(self, "racks", {t: _frozen(rows) for t, rows in (racks or {}).items()})
        set_(self, "leaders", {t: tuple([rack or None for rack in rows]) for t, rows in (leaders or {}).items()})


def _is_count(count: object) -> bool:
    if type(count) is int:  # a protocol's `isinstance` takes long
        return count >= 0
    return isinstance(count, SupportsIndex) and not isinstance(count, bool) and int(count) >= 0


def _frozen(racks: Sequence[Collection[str]]) -> Sequence[frozenset[str]]:
    for partition_racks in racks.values if isinstance(racks, DictionaryEncoded) else racks:
        if isinstance(partition_racks, str):
            raise ConfigError(
                f"the racks of a partition's replicas are a collection, not the string {partition_racks!r}"
            )
    if isinstance(racks, DictionaryEncoded):
        return DictionaryEncoded([frozenset(partition_racks) for partition_racks in racks.values], racks.codes)
    return tuple(map(frozenset, racks))
