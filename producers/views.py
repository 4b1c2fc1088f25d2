"""What a client's cluster metadata says of a topic, read once per change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .core.keyed import KeyMemo
from .core.topic import Broker, TopicView
from .errors import NoPartitions


class _TopicPartition(NamedTuple):
    """What ``cluster.leader_for_partition`` takes."""

    topic: str
    partition: int


class Seen:
    """What was read about one topic."""

    __slots__ = ("changes_in_place", "keys", "places", "source", "uses", "view", "whole")

    def __init__(self, source: Mapping[int, Any] | None, view: TopicView, keys: KeyMemo) -> None:
        self.source = source  # what `_source` gave when it was read
        self.view = view
        self.keys = keys
        self.places = keys.seen  # key -> partition of keys seen before
        self.uses = 0  # choices made while some partition had no leader
        # kafka-python's entries are objects that hints write to; those of others never change.
        first = next(iter((source or {}).values()), None)
        self.changes_in_place = bool(view.available) and hasattr(first, "leader_id") and not isinstance(first, tuple)
        self.whole = len(view.available) == len(view.partitions)

    def lost_leader(self, partition: int) -> bool:
        """Whether a partition that had a leader has none now, or another one where the view tells leaders.

        Leaders also change by hints in produce responses (KIP-951): in place, without a metadata update.
        """
        if not self.changes_in_place:
            return False
        leader = self.source[partition].leader_id  # type: ignore[index]
        if leader == -1:
            return self.view.is_candidate(partition)
        known = self.view.leaders.get(partition)
        return known is not None and known.id != leader


class Topics:
    """The topics one partitioner has met. Threads may share it: a race reads a topic twice.

    Args:
        keys: Makes the memo of a topic's keys.
        leaders: Whether views tell the leaders.

    Attributes:
        seen: topic -> what was read, for callers that look before they call.
    """

    __slots__ = ("_keys", "_leaders", "seen")

    def __init__(self, keys: Callable[[TopicView], KeyMemo], *, leaders: bool = False) -> None:
        self._keys = keys
        self._leaders = leaders
        self.seen: dict[str, Seen] = {}

    def keyed(self, topic: str, cluster: Any) -> Seen:
        """The topic for a record with a key, to which leaders do not matter.

        Raises:
            NoPartitions: The topic is not in metadata, or has no partitions.

        Cost: one look-up, O(n log n) after a metadata update of a topic with n partitions.
        """
        seen = self.seen.get(topic)
        # `_source` written out: this line is most of what it costs.
        if (
            seen is not None
            and seen.source is not None
            and seen.source is getattr(cluster, "_partitions", {}).get(topic)
        ):
            return seen
        return self.read(topic, cluster)

    def unkeyed(self, topic: str, cluster: Any) -> Seen:
        """The topic for a record without a key; raises and costs as `keyed`."""
        seen = self.seen.get(topic)
        if seen is None or seen.source is None or seen.source is not getattr(cluster, "_partitions", {}).get(topic):
            seen = self.read(topic, cluster)
        if not seen.whole:
            # A leader may come back without a metadata update. Reading costs O(n): once in n choices keeps that O(1).
            seen.uses += 1
            if seen.uses >= len(seen.view.partitions):
                return self.read(topic, cluster)
        return seen

    def read(self, topic: str, cluster: Any) -> Seen:
        """The topic as the cluster has it now; raises as `keyed`."""
        source = _source(topic, cluster)
        partitions = cluster.partitions_for_topic(topic)
        if partitions is None:
            raise NoPartitions(f"topic {topic!r} is not in the cluster's metadata; was it created, or deleted since?")
        available = cluster.available_partitions_for_topic(topic) or ()
        view = TopicView(topic, partitions, available, _leaders(topic, available, cluster) if self._leaders else None)
        seen = self.seen[topic] = Seen(source, view, self._keys(view))
        return seen


def _leaders(topic: str, available: Any, cluster: Any) -> dict[int, Broker]:
    """Each partition's leader. A leader whose broker is not in metadata yet is left out."""
    brokers: dict[int, Broker | None] = {}
    leaders: dict[int, Broker] = {}
    for partition in available:
        number = cluster.leader_for_partition(_TopicPartition(topic, partition))
        if number is None or number == -1:
            continue
        if number not in brokers:
            known = cluster.broker_metadata(number)
            brokers[number] = None if known is None else Broker(number, known.host, known.rack)
        broker = brokers[number]
        if broker is not None:
            leaders[partition] = broker
    return leaders


def _source(topic: str, cluster: Any) -> Mapping[int, Any] | None:
    """kafka-python's (and aiokafka's) own record of a topic, or None.

    An update replaces it, so its identity tells of changes for the price of a look-up. The public methods build a set
    each time, and a listener would be added while another thread may be calling them. None (another kind of cluster)
    means reading anew for every record: slow, still right.
    """
    topics = getattr(cluster, "_partitions", None)
    return topics.get(topic) if isinstance(topics, dict) else None
