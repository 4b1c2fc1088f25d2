"""A topic in the client's cluster metadata, read once per change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...core.keys.keyed import Index
from ...core.rule import Rule
from ...core.topic import PartitionLeader, TopicView
from ...errors import NoPartitions
from .topic_rule import TopicRule


class _TopicPartition(NamedTuple):
    """The argument of ``cluster.leader_for_partition``."""

    topic: str
    partition: int


class KeyPlacement(NamedTuple):
    """The placement of one topic's keys."""

    place: Index
    n: int  # the number of partitions passed to `place`
    memo: Mapping[bytes, int] | None = None  # key -> partition: looked up before `place` is called
    take_back: Callable[[bytes, int], None] | None = None  # (key, partition): the client rejected the record


class CachedTopic:
    """A snapshot of one topic, with the rule and the key placement of its records.

    `source` and `leader_ids` were read before the view was made. Without a rule the partitioner's `choose` places all
    records; without `keys` the rule also places those with a key.
    """

    __slots__ = (
        "all_led", "choices", "keys", "leader_ids", "lock", "memo", "n", "owned", "place", "rule", "source", "view",
    )  # fmt: skip

    def __init__(
        self,
        source: Mapping[int, Any] | None,
        leader_ids: dict[int, int] | None,
        view: TopicView,
        rule: TopicRule | None,
        keys: KeyPlacement | None,
    ) -> None:
        # A new object equals no other: without a source the topic is read for each record.
        self.source: Any = object() if source is None else source
        self.leader_ids = leader_ids
        self.view = view
        self.owned: Any = rule  # Any: callers check `rule` for None once per record
        # The fields of `rule` and `keys`, stored here to save a look-up on the hot path.
        self.rule: Any = None if rule is None else rule.rule
        self.lock = None if rule is None else rule.lock
        self.keys = keys
        direct = None if rule is None else keys
        self.place: Any = direct and direct.place
        self.n = direct.n if direct else 0
        self.memo = direct.memo if direct else None
        self.choices = 0  # choices made while some partition had no leader
        self.all_led = len(view.available) == len(view.partitions)

    def lost_leader(self, partition: int) -> bool:
        """Whether a partition has lost its leader, or changed it if the view has leaders.

        Leaders also change through hints in produce responses (KIP-951): in place, without a metadata update.
        """
        if self.leader_ids is None:
            return False
        leader = self.source[partition].leader_id
        if leader == self.leader_ids[partition]:
            return False
        cached_leader = self.view.leaders.get(partition)
        return leader == -1 or (cached_leader is not None and cached_leader.id != leader)


class TopicCache:
    """The topics of one partitioner. Threads may share it: a race reads a topic twice.

    `make_rule` creates the rule for one topic's records without a key. `by_choose`: the partitioner's `choose` places
    all records, and calls rules and keys itself.
    """

    __slots__ = ("_by_choose", "_keys", "_leaders", "_make_rule", "_rules", "cached")

    def __init__(
        self,
        make_rule: Callable[[], Rule] | None,
        keys: Callable[[TopicView], KeyPlacement | None],
        *,
        leaders: bool,
        by_choose: bool,
    ) -> None:
        self._by_choose = by_choose
        self._make_rule = make_rule
        self._keys = keys
        self._leaders = leaders
        self._rules: dict[str, TopicRule] = {}
        self.cached: dict[str, CachedTopic] = {}  # for callers that look a topic up before they call

    def rule(self, topic: str) -> Any:
        """The `TopicRule` of one topic, always the same object; None without rules."""
        rule = self._rules.get(topic)
        if rule is None and self._make_rule is not None:
            # setdefault: two concurrent first callers must get the same rule
            rule = self._rules.setdefault(topic, TopicRule(self._make_rule()))
        return rule

    def forget(self) -> None:
        """Forget all topics, and their rules."""
        self._rules.clear()
        self.cached.clear()

    def with_leaders(self, topic: str, cluster: Any) -> CachedTopic:
        """The topic for a record without a key, which needs a partition with a leader.

        Raises:
            NoPartitions: The topic is not in metadata, or has no partitions.

        Cost: two look-ups; O(n log n) after a metadata update of a topic with n partitions.
        """
        cached = self.cached.get(topic)
        if cached is None or cached.source is not _source(topic, cluster):
            cached = self.read(topic, cluster)
        if not cached.all_led:
            # A leader may return without a metadata update. Reading costs O(n): once per n choices keeps that O(1).
            cached.choices += 1
            if cached.choices >= len(cached.view.partitions):
                return self.read(topic, cluster)
        return cached

    def read(self, topic: str, cluster: Any) -> CachedTopic:
        """Read the topic from the cluster; raises as `with_leaders`."""
        before = _source(topic, cluster)
        while True:
            leader_ids = _leader_ids(before)
            partitions = cluster.partitions_for_topic(topic)
            available = cluster.available_partitions_for_topic(topic) or ()
            leaders = _leaders(topic, available, cluster) if self._leaders else None
            source = _source(topic, cluster)
            if source is before:
                break
            before = source  # an update came in between: the read mixed both
        if partitions is None:
            raise NoPartitions(f"topic {topic!r} is not in the cluster's metadata; was it never created, or deleted?")
        view = TopicView(topic, partitions, available, leaders)
        rule = None if self._by_choose else self.rule(topic)
        cached = self.cached[topic] = CachedTopic(source, leader_ids, view, rule, self._keys(view))
        return cached


def _leaders(topic: str, available: Any, cluster: Any) -> dict[int, PartitionLeader]:
    """Each partition's leader. A leader whose broker is not in metadata yet is left out."""
    brokers: dict[int, PartitionLeader | None] = {}
    leaders: dict[int, PartitionLeader] = {}
    for partition in available:
        number = cluster.leader_for_partition(_TopicPartition(topic, partition))
        if number is None or number == -1:
            continue
        if number not in brokers:
            metadata = cluster.broker_metadata(number)
            brokers[number] = None if metadata is None else PartitionLeader(number, metadata.host, metadata.rack)
        broker = brokers[number]
        if broker is not None:
            leaders[partition] = broker
    return leaders


def _source(topic: str, cluster: Any) -> Mapping[int, Any] | None:
    """The internal record of a topic in kafka-python (and aiokafka), or None.

    A metadata update replaces the record, so an identity comparison detects changes at the cost of a look-up. The
    public methods build a set each time, and a listener would be added while another thread may be calling them. None
    (another type of cluster) means that the topic is read again for every record: slow, but correct.
    """
    topics = getattr(cluster, "_partitions", None)
    return topics.get(topic) if isinstance(topics, dict) else None


def _leader_ids(source: Mapping[int, Any] | None) -> dict[int, int] | None:
    """Leader id per partition in the source, or None if the source's entries are immutable.

    kafka-python's entries are objects that leader hints in produce responses change in place.
    """
    entries = dict(source or {})
    first = next(iter(entries.values()), None)
    if isinstance(first, tuple) or not hasattr(first, "leader_id"):
        return None
    return {partition: entry.leader_id for partition, entry in entries.items()}
