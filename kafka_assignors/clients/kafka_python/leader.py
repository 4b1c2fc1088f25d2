"""The leader's input and output on kafka-python: members and cluster metadata, and assignments; all members at once.

Metadata come from `private.learning.partitions`; `test_leader.py` compares the results with kafka-python's methods.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from ...core.group import DictionaryEncoded, Partitions
from ...core.group.order import utf16
from ...core.wire.protocol import VERSION, Subscription, beyond, decode_assignment, owns_beyond, read_subscription
from . import private

if TYPE_CHECKING:  # see `preload`
    from ...core.group.columns import Claimed


def partition_counts(cluster: Any, topics: Iterable[str]) -> dict[str, int]:
    """Partition count per topic, from kafka-python's ``ClusterMetadata``, including partitions without a leader.

    Topics without metadata are absent. Kafka numbers partitions without gaps.
    """
    metadata = private.learning.partitions(cluster, sorted(topics, key=utf16))
    return {topic: len(partitions) for topic, partitions in metadata.items()}


def replica_racks(cluster: Any, partitions: Mapping[str, int]) -> dict[str, Sequence[frozenset[str]]]:
    """Per topic and partition, the racks of all replicas, offline or not, as in Java. Empty if no broker has a rack."""
    rack_of = {broker.node_id: broker.rack for broker in cluster.brokers() if broker.rack}
    if not rack_of:
        return {}
    # Many partitions share the same few sets of brokers.
    places = _RackSets(rack_of)
    codes = {
        topic: [
            places[private.learning.replica_nodes(partition)]
            for partition in map(metadata.get, range(partitions[topic]))
        ]
        for topic, metadata in private.learning.partitions(cluster, partitions).items()
    }
    return {topic: DictionaryEncoded(places.racks, array("q", topic_codes)) for topic, topic_codes in codes.items()}


class _RackSets(dict[tuple[int, ...], int]):
    """Node ids -> index in `racks`, which has the set of these nodes' racks."""

    def __init__(self, rack_of: Mapping[int, str]) -> None:
        self._rack_of = rack_of
        self.racks: list[frozenset[str]] = []

    def __missing__(self, nodes: tuple[int, ...]) -> int:
        place = self[nodes] = len(self.racks)
        self.racks.append(frozenset(self._rack_of[node] for node in nodes if node in self._rack_of))
        return place


def leader_racks(cluster: Any, partitions: Mapping[str, int]) -> dict[str, list[str | None]]:
    """Per topic and partition, the rack of its leader; None if unknown. Empty if no broker has a rack."""
    rack_of = {broker.node_id: broker.rack for broker in cluster.brokers() if broker.rack}
    if not rack_of:
        return {}
    nodes = {
        topic: map(private.learning.leader_node, map(metadata.get, range(partitions[topic])))
        for topic, metadata in private.learning.partitions(cluster, partitions).items()
    }
    return {
        topic: [None if node is None else rack_of.get(node) for node in leaders] for topic, leaders in nodes.items()
    }


def subscriptions(metadata: Sequence[Any]) -> list[Subscription]:
    """Members' metadata, decoded by kafka-python or as bytes, as our `Subscription`s."""
    raw = [isinstance(subscription, _BYTES) for subscription in metadata]
    sent = [bytes(subscription) for subscription, is_raw in zip(metadata, raw, strict=True) if is_raw]
    from_bytes: Iterator[Subscription]
    if len(metadata) <= _FEW and sum(map(len, sent)) <= _FEW_BYTES:
        from_bytes = map(read_subscription, sent)
    else:
        from ...core.wire import bulk  # see `preload`

        from_bytes = iter(bulk.subscriptions(sent))
    decoded = iter(
        _subscriptions([subscription for subscription, is_raw in zip(metadata, raw, strict=True) if not is_raw])
    )
    return [next(from_bytes if is_raw else decoded) for is_raw in raw]


_BYTES = (bytes, bytearray, memoryview)
_FEW = 32
_FEW_BYTES = 1 << 15
"""Up to these sizes, decoding members one by one is as fast as together, and needs no NumPy."""


def _subscriptions(metadata: Sequence[Any]) -> list[Subscription]:
    """kafka-python's ``ConsumerProtocolSubscription``s as our `Subscription`s, within the same limits as bytes."""
    alike: dict[tuple[Any, ...], list[tuple[Sequence[str], tuple[str, ...]]]] = {}
    last: Sequence[str] | None = None
    shared: tuple[str, ...] = ()
    read: list[Subscription] = []
    owned_partitions: list[Sequence[Any]] = []
    for subscription in metadata:
        owned = subscription.owned_partitions or ()
        if why := beyond(len(subscription.user_data or b""), len(subscription.topics)):
            read.append(Subscription((), unread=why))
            owned_partitions.append(())
            continue
        if subscription.topics != last:
            last, shared = subscription.topics, _shared(subscription.topics, alike)
        why = owns_beyond(len(owned))
        generation, rack, version = subscription.generation_id, subscription.rack_id, subscription.version
        read.append(Subscription(shared, subscription.user_data, (), generation, rack, why, version))
        owned_partitions.append(() if why else owned)
    if not any(owned_partitions):
        return read
    if len(owned_partitions) <= _FEW:
        claims: Sequence[Partitions] = [_few_claims(runs) for runs in owned_partitions]
    else:
        topics = {id(subscription.topics): subscription.topics for subscription in read}
        claims = _claims(owned_partitions, set().union(*topics.values()))
    return [
        subscription._replace(owned=owned) if owned else subscription
        for subscription, owned in zip(read, claims, strict=True)
    ]


_ALIKE = 64
"""Maximum number of subscriptions of equal length, first and last topic to compare; bounds the quadratic cost."""


def _shared(
    topics: Sequence[str], alike: dict[tuple[Any, ...], list[tuple[Sequence[str], tuple[str, ...]]]]
) -> tuple[str, ...]:
    """One tuple for all members with equal subscriptions, the usual case. Comparing is faster than hashing."""
    pairs = alike.setdefault((len(topics), *topics[:1], *topics[-1:]), [])
    for others, shared in pairs:
        if others == topics:
            return shared
    shared = tuple(topics)
    if len(pairs) < _ALIKE:
        pairs.append((topics, shared))
    return shared


def _few_claims(runs: Sequence[Any]) -> Partitions:
    ids = array("q", chain.from_iterable(run.partitions for run in runs))
    return Partitions([run.topic for run in runs], [len(run.partitions) for run in runs], ids)


def _claims(owned_partitions: Sequence[Sequence[Any]], topics: Collection[str]) -> list[Claimed]:
    """kafka-python's decoded owned partitions of some members; those of other topics only count."""
    import numpy as np  # see `preload`

    from ...core.group.columns import Claimed, Columns

    number = {topic: t for t, topic in enumerate(topics)}
    ours = [[run for run in member_runs if run.topic in number] for member_runs in owned_partitions]
    runs = np.cumsum(np.array([0, *map(len, ours)], np.int64))
    strange = np.array(list(map(len, owned_partitions)), np.int64) - np.diff(runs)
    topic = [number[run.topic] for member_runs in ours for run in member_runs]
    lists = [run.partitions for member_runs in ours for run in member_runs]
    count = np.array(list(map(len, lists)), np.int64)
    ids = np.fromiter(chain.from_iterable(lists), np.int64, int(count.sum()))
    columns = Columns(list(number), np.array(topic, np.int64), count, ids, runs, strange)
    return [Claimed(columns, row) for row in range(len(owned_partitions))]


class Assigned(ConsumerProtocolAssignment, init=False):  # type: ignore[call-arg]
    """A ``ConsumerProtocolAssignment`` of version 3, given as bytes, that is decoded on first access to a field.

    kafka-python sends the result of `encode` and reads no field. For others it is a ``ConsumerProtocolAssignment``.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self._data: bytes | memoryview | None = data

    def __getattr__(self, name: str) -> Any:
        if "_complete" not in self.__dict__:  # kafka-python's constructor takes longer than a small assignment
            self._complete = True
            data, self._data = self._data, None
            super().__init__(version=VERSION)
            self._data = data
            return getattr(self, name)
        return super().__getattr__(name)

    def _decode(self) -> None:
        data = self.__dict__.get("_data")
        if data is not None:
            _ = self.tags  # completes it
            self._data = None  # the caller may change the decoded fields
            assigned = decode_assignment(bytes(data))
            self.assigned_partitions, self.user_data = list(assigned.partitions.items()), assigned.user_data

    def encode(self, version: int | None = None, header: bool = True, framed: bool = False) -> bytes:
        """The bytes as given; for another version, encoded anew."""
        if self._data is not None and version in (None, VERSION) and header and not framed:
            return bytes(self._data)
        self._decode()
        encoded: bytes = super().encode(version=version, header=header, framed=framed)
        return encoded

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ConsumerProtocolAssignment):
            return bool(all(getattr(self, name) == getattr(other, name) for name in _FIELDS))
        return bool(super().__eq__(other))

    __hash__ = None  # type: ignore[assignment]


def _decoding(name: str) -> property:
    field = getattr(ConsumerProtocolAssignment, name)

    def read(assigned: Assigned) -> Any:
        assigned._decode()
        return field.__get__(assigned)

    def write(assigned: Assigned, value: Any) -> None:
        assigned._decode()
        field.__set__(assigned, value)

    return property(read, write)


_FIELDS = ("assigned_partitions", "user_data")
for _name in _FIELDS:
    setattr(Assigned, _name, _decoding(_name))
