"""What kafka-python's cluster says of a topic, read once per change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .core.keyed import KeyMemo
from .core.topic import TopicView
from .errors import NoPartitions


class Seen:
    """What was read about one topic."""

    __slots__ = ("keys", "source", "uses", "view")

    def __init__(self, source: Mapping[int, Any] | None, view: TopicView, keys: KeyMemo) -> None:
        self.source = source  # what `_source` gave when it was read
        self.view = view
        self.keys = keys
        self.uses = 0  # choices made while some partition had no leader

    def lost_leader(self, partition: int) -> bool:
        """Whether a partition that had a leader has none now.

        Leaders also change by hints in produce responses (KIP-951): in place, without a metadata update.
        """
        if self.source is None or not self.view.available:
            return False
        return self.view.is_candidate(partition) and self.source[partition].leader_id == -1


class Topics:
    """The topics one partitioner has met. Threads may share it: a race reads a topic twice."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}

    def keyed(self, topic: str, cluster: Any) -> Seen:
        """The topic for a record with a key, to which leaders do not matter.

        Raises:
            NoPartitions: The topic is not in metadata, or has no partitions.

        Cost: one look-up, O(n log n) after a metadata update of a topic with n partitions.
        """
        seen = self._seen.get(topic)
        # `_source` written out: this line is most of what a seen key costs.
        if (
            seen is not None
            and seen.source is not None
            and seen.source is getattr(cluster, "_partitions", {}).get(topic)
        ):
            return seen
        return self.read(topic, cluster)

    def unkeyed(self, topic: str, cluster: Any) -> Seen:
        """The topic for a record without a key; raises and costs as `keyed`."""
        seen = self.keyed(topic, cluster)
        if len(seen.view.available) != len(seen.view.partitions):
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
        view = TopicView(topic, partitions, cluster.available_partitions_for_topic(topic) or ())
        old = self._seen.get(topic)
        keys = old.keys if old is not None and old.keys.partitions == view.partitions else KeyMemo(view.partitions)
        seen = self._seen[topic] = Seen(source, view, keys)
        return seen


def _source(topic: str, cluster: Any) -> Mapping[int, Any] | None:
    """kafka-python's own record of a topic, or None.

    An update replaces it, so its identity tells of changes for the price of a look-up. The public methods build a set
    each time, and a listener would be added while another thread may be calling them. None (another kind of cluster)
    means reading anew for every record: slow, still right.
    """
    topics = getattr(cluster, "_partitions", None)
    return topics.get(topic) if isinstance(topics, dict) else None
