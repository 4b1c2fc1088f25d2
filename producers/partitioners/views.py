"""What a client's cluster metadata says of a topic, read once per change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..core.keys.keyed import Index
from ..core.rule import Rule
from ..core.topic import Broker, TopicView
from ..errors import NoPartitions


class _TopicPartition(NamedTuple):
    """What ``cluster.leader_for_partition`` takes."""

    topic: str
    partition: int


class Keys(NamedTuple):
    """How one topic's keys are placed."""

    place: Index
    over: int  # the number of partitions that `place` is given
    known: Mapping[bytes, int] | None = None  # key -> partition: look here before `place` is asked
    take_back: Callable[[bytes, int], None] | None = None  # (key, partition): the client did not take the record


class Seen:
    """What was read about one topic, and what its records are placed by.

    Args:
        source: What `_source` gave.
        leader_ids: What `_leader_ids` gave before the view was made.
        view: The topic.
        rule: Places records without a key; None: the partitioner's `choose` places all records.
        keys: Places those with one, unless `rule` is None; None: keys are ignored.
    """

    __slots__ = ("keys", "known", "leader_ids", "over", "place", "rule", "source", "uses", "view", "whole")

    def __init__(
        self,
        source: Mapping[int, Any] | None,
        leader_ids: dict[int, int] | None,
        view: TopicView,
        rule: Rule | None,
        keys: Keys | None,
    ) -> None:
        # Nothing is identical to a new object: without a source the topic is read for each record.
        self.source: Any = object() if source is None else source
        self.leader_ids = leader_ids
        self.view = view
        self.rule: Any = rule  # who asks knows whether there is one
        self.keys = keys
        direct = None if rule is None else keys
        self.place: Any = direct and direct.place  # at hand for the hot path
        self.over = direct.over if direct else 0
        self.known = direct.known if direct else None
        self.uses = 0  # choices made while some partition had no leader
        self.whole = len(view.available) == len(view.partitions)

    def lost_leader(self, partition: int) -> bool:
        """Whether a partition that had a leader has none now, or another one where the view tells leaders.

        Leaders also change by hints in produce responses (KIP-951): in place, without a metadata update.
        """
        if self.leader_ids is None:
            return False
        leader = self.source[partition].leader_id
        if leader == self.leader_ids[partition]:
            return False
        known = self.view.leaders.get(partition)
        return leader == -1 or (known is not None and known.id != leader)


class Topics:
    """The topics one partitioner has met. Threads may share it: a race reads a topic twice.

    Args:
        make_rule: Makes what places the records without a key of one topic; None: nothing does.
        keys: View -> what places its keys.
        leaders: Whether views tell the leaders.
        by_choice: Whether the partitioner's `choose` places all records, and asks rules and keys itself.

    Attributes:
        seen: topic -> what was read, for callers that look before they call.
    """

    __slots__ = ("_by_choice", "_keys", "_leaders", "_make_rule", "_rules", "seen")

    def __init__(
        self,
        make_rule: Callable[[], Rule] | None,
        keys: Callable[[TopicView], Keys | None],
        *,
        leaders: bool,
        by_choice: bool,
    ) -> None:
        self._by_choice = by_choice
        self._make_rule = make_rule
        self._keys = keys
        self._leaders = leaders
        self._rules: dict[str, Rule] = {}
        self.seen: dict[str, Seen] = {}

    def rule(self, topic: str) -> Any:
        """What places the records without a key of one topic, always the same; None where nothing does."""
        rule = self._rules.get(topic)
        if rule is None and self._make_rule is not None:
            # setdefault: of two threads that come first, both must get the same one
            rule = self._rules.setdefault(topic, self._make_rule())
        return rule

    def forget(self) -> None:
        """Forget all topics, and their rules."""
        self._rules.clear()
        self.seen.clear()

    def unkeyed(self, topic: str, cluster: Any) -> Seen:
        """The topic for a record without a key, to which leaders matter.

        Raises:
            NoPartitions: The topic is not in metadata, or has no partitions.

        Cost: two look-ups; O(n log n) after a metadata update of a topic with n partitions.
        """
        seen = self.seen.get(topic)
        if seen is None or seen.source is not _source(topic, cluster):
            seen = self.read(topic, cluster)
        if not seen.whole:
            # A leader may come back without a metadata update. Reading costs O(n): once in n choices keeps that O(1).
            seen.uses += 1
            if seen.uses >= len(seen.view.partitions):
                return self.read(topic, cluster)
        return seen

    def read(self, topic: str, cluster: Any) -> Seen:
        """The topic as the cluster has it now; raises as `unkeyed`."""
        before = _source(topic, cluster)
        while True:
            leader_ids = _leader_ids(before)
            partitions = cluster.partitions_for_topic(topic)
            available = cluster.available_partitions_for_topic(topic) or ()
            leaders = _leaders(topic, available, cluster) if self._leaders else None
            source = _source(topic, cluster)
            if source is before:
                break
            before = source  # an update came in between: what was read is of both
        if partitions is None:
            raise NoPartitions(f"topic {topic!r} is not in the cluster's metadata; was it created, or deleted since?")
        view = TopicView(topic, partitions, available, leaders)
        rule = None if self._by_choice else self.rule(topic)
        seen = self.seen[topic] = Seen(source, leader_ids, view, rule, self._keys(view))
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


def _leader_ids(source: Mapping[int, Any] | None) -> dict[int, int] | None:
    """Leader ids by partition as the source has them, or None where a source's entries never change.

    kafka-python's entries are objects that hints write to.
    """
    entries = dict(source or {})
    first = next(iter(entries.values()), None)
    if isinstance(first, tuple) or not hasattr(first, "leader_id"):
        return None
    return {partition: entry.leader_id for partition, entry in entries.items()}
