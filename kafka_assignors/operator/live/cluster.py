"""A live group, read with admin requests and from the coordinator's log.

It joins no group, commits nothing and creates nothing. kafka-python's errors pass through. Permissions: Describe on the
group and on its topics; Read on ``__consumer_offsets`` for the log.
"""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from typing import Any, TypeVar

from kafka import TopicPartition as KafkaTopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import GroupIdNotFoundError, KafkaError, TopicAuthorizationFailedError, for_code

from ...connection import Connection, Right, brokers, denied, needing, refusal, require_cluster
from ...coordinator import MOST_READ, LogTail, printed_id
from ...core.group import TopicPartition
from ...errors import AccessRefused, ClusterError, NoSuchGroup, WireError
from ...history.coordinator_log import COORDINATOR_TOPIC, GroupCommitted
from ...history.generations import Log
from .described import describe
from .group import LiveGroup, LiveMember, LiveTopics, from_broker_log, from_description
from .silence import Position

_POLL_S = 0.2
"""Seconds between two looks at a group in a rebalance, or at a coordinator that is starting."""

_COORDINATOR_S = 10
"""Seconds for which a coordinator may be starting or moving. The first question about a group makes a new broker create
the coordinator's log, and is refused meanwhile."""

_MOVED = 16
_STARTING = (14, 15, _MOVED)
"""Kafka's codes of a coordinator that loads its log, isn't there yet, or has moved to another broker."""

_CODE = re.compile(r"\[Error (\d+)\]")
"""How kafka-python's text of an error in a description begins."""

T = TypeVar("T")

Hidden = Mapping[str, AccessRefused]
"""Topic that the user may not see -> the refusal, which names the right."""


class LiveCluster:
    """Reads groups of one cluster; a context manager. An address is ``host:port``, several separated by commas.

    Raises:
        ClusterError: No broker answers within `timeout_s` seconds.
        AccessRefused: The cluster refuses the user.
    """

    def __init__(self, where: str | Connection, timeout_s: float = 5) -> None:
        self.connection = Connection.of(where)
        require_cluster(self.connection, timeout_s)
        self._admin = self._client()

    def _client(self) -> KafkaAdminClient:
        return KafkaAdminClient(**self.connection.kafka_python(), client_id="kafka-assignors")

    def __enter__(self) -> LiveCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def groups(self) -> dict[str, str]:
        """Group -> its type: ``classic``, ``consumer``, …; only groups that the user may see."""
        listed = self._coordinated(self._admin.list_groups, "the groups")
        return {group["group_id"]: group.get("group_type") or "classic" for group in listed}

    def group(self, name: str, *, sent: bool = False) -> LiveGroup:
        """A group as its coordinator describes it.

        With `sent`, members have what they sent as they joined: two more connections. Before Kafka 2.4 they lack it.

        Raises:
            NoSuchGroup: The cluster has no such group.
            ClusterError: Its coordinator is not available.
            AccessRefused: The user may not see it.
        """
        try:
            live = self._as_sent(name) if sent else None
            if live is None:
                live = self._described(name)
        except ClusterError:
            if name in self.groups():
                raise
            return self._other(name)  # a broker that can't create the coordinator's log has no groups
        except KafkaError as error:
            if (refused := denied(self.connection, error, Right("Describe", "Group", name))) is not None:
                raise refused from error
            if isinstance(error, GroupIdNotFoundError):
                return self._other(name)
            raise
        return self._other(name) if live.state == "Dead" else live

    def _as_sent(self, name: str) -> LiveGroup | None:
        """A group with what its members sent; None if its coordinator doesn't tell."""

        def asked() -> LiveGroup:
            described = describe(self.connection, name)
            if described.error:
                raise for_code(described.error)(f"group {name!r}")
            return from_description(name, described)

        try:
            return self._coordinated(asked, f"group {name!r}")
        except (OSError, WireError):
            return None

    def _described(self, name: str) -> LiveGroup:
        """A group by kafka-python's admin client, which doesn't tell what members sent."""

        def asked() -> Mapping[str, Any]:
            described: Mapping[str, Any] = self._admin.describe_groups([name])[name]
            match = _CODE.match(str(described["error"] or ""))
            if match is not None:
                raise for_code(int(match[1]))(described["error"])
            return described

        try:
            described = self._coordinated(asked, f"group {name!r}")
        except ValueError:  # it decodes members' bytes, which may be anything
            if (live := self._as_sent(name)) is None:
                raise
            return live
        listed = [_member(description) for description in described["members"]]
        members = tuple(sorted(listed, key=lambda m: m.member_id))
        return LiveGroup(
            name, described["group_state"], "classic", described["protocol_data"], members,
            listed=tuple(member.member_id for member in listed),
        )  # fmt: skip

    def _coordinated(self, ask: Callable[[], T], what: str) -> T:
        """What a coordinator answers; ClusterError if it is still starting after `_COORDINATOR_S`."""
        deadline = time.monotonic() + _COORDINATOR_S
        while True:
            try:
                return ask()
            except KafkaError as error:
                if getattr(error, "errno", None) not in _STARTING:
                    raise
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"{self.connection}: the coordinator of {what} is not available for {_COORDINATOR_S} s: "
                        f"{' '.join(str(error).split())}; are the brokers of {COORDINATOR_TOPIC} up?"
                    ) from error
                if error.errno == _MOVED:
                    self._admin.close()
                    self._admin = self._client()  # the old one remembers the coordinator that it asked
            time.sleep(_POLL_S)

    def group_at_rest(self, name: str, timeout_s: float = 10) -> LiveGroup:
        """A group between two rebalances. During one, the coordinator tells neither subscriptions nor assignments.

        Raises:
            NoSuchGroup: The cluster has no such group.
            ClusterError: It does not come to rest in `timeout_s` seconds.
            AccessRefused: The user may not see it.
        """
        deadline = time.monotonic() + timeout_s
        while (live := self.group(name)).rebalancing:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"group {name!r} is in a rebalance ({live.state}) for {timeout_s:g} s; ask again later"
                )
            time.sleep(_POLL_S)
        return live

    def topics(self, wanted: Collection[str]) -> LiveTopics:
        """Partition counts and racks of topics that exist. Raises AccessRefused if the user may not see one of them."""
        topics, hidden = self.visible(wanted)
        for refused in hidden.values():
            raise refused
        return topics

    def visible(self, wanted: Collection[str]) -> tuple[LiveTopics, Hidden]:
        """Partition counts and racks of topics that exist and that the user may see; and those of `wanted` that not."""
        if not wanted:
            return LiveTopics({}), {}
        racks = {node.node_id: node.rack for node in brokers(self.connection)}
        with needing(self.connection, *(Right("Describe", "Topic", topic) for topic in wanted)):
            described = self._admin.describe_topics(sorted(wanted))
        hidden = {
            topic["name"]: refusal(self.connection, Right("Describe", "Topic", topic["name"]))
            for topic in described
            if topic["error_code"] == TopicAuthorizationFailedError.errno
        }
        there = {
            topic["name"]: sorted(topic["partitions"], key=lambda p: p["partition_index"])
            for topic in described
            if topic["error_code"] == 0
        }
        counts = {name: len(partitions) for name, partitions in there.items()}
        ids = {t["name"]: printed_id(t["topic_id"]) for t in described if t["name"] in there and t.get("topic_id")}
        if not any(racks.values()):
            return LiveTopics(counts, ids=ids), hidden
        replicas = {
            name: [{rack for node in p["replica_nodes"] if (rack := racks.get(node))} for p in partitions]
            for name, partitions in there.items()
        }
        leaders = {name: [racks.get(p["leader_id"]) for p in partitions] for name, partitions in there.items()}
        return LiveTopics(counts, replicas, leaders, ids), hidden

    def positions(self, group: str, owned: Collection[TopicPartition]) -> dict[TopicPartition, Position]:
        """Committed and end offsets of topic-partitions. Raises AccessRefused if the user may not see a topic."""
        if not owned:
            return {}
        wanted = [KafkaTopicPartition(*tp) for tp in owned]
        rights = [Right("Describe", "Group", group), *(Right("Describe", "Topic", tp.topic) for tp in owned)]
        with needing(self.connection, *rights):
            committed = self._coordinated(lambda: self._admin.list_group_offsets({group: wanted})[group], group)
            ends = self._admin.list_partition_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST))
        offsets = {tp: om.offset for tp, om in committed.items() if om.offset >= 0}
        return {TopicPartition(*tp): Position(offsets.get(tp), ends[tp].offset) for tp in wanted}

    def visible_positions(
        self, group: str, owned: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, Position], Hidden]:
        """The same without the topics that the user may not see. Raises AccessRefused if the group may not be seen."""
        try:
            return self.positions(group, owned), {}
        except AccessRefused:
            _, hidden = self.visible({tp.topic for tp in owned})
            if not hidden:
                raise
        return self.positions(group, [tp for tp in owned if tp.topic not in hidden]), hidden

    def committed(self, group: str, topics: Collection[str] = ()) -> dict[TopicPartition, Position]:
        """Committed and end offsets of all existing partitions in which a group has committed.

        Of topics beside `topics`, a broker leaves out those that the user may not see.

        Raises:
            AccessRefused: The user may not see the group, or one of `topics`.
        """
        positions, hidden = self.visibly_committed(group, topics)
        for refused in hidden.values():
            raise refused
        return positions

    def visibly_committed(
        self, group: str, topics: Collection[str] = ()
    ) -> tuple[dict[TopicPartition, Position], Hidden]:
        """The same without the topics that the user may not see. Raises AccessRefused if the group may not be seen."""
        with needing(self.connection, Right("Describe", "Group", group)):
            offsets = self._coordinated(lambda: self._admin.list_group_offsets({group: None})[group], group)
        there, hidden = self.visible({*topics, *(tp.topic for tp in offsets)})
        tps = [TopicPartition(*tp) for tp in offsets if tp.partition < there.counts.get(tp.topic, 0)]
        return self.positions(group, tps), hidden

    def log(self, group: str, most: int = MOST_READ, progress: Callable[[float], None] | None = None) -> Log:
        """A group's records in the last `most` offsets of the coordinator's log.

        `progress` is called with the share read so far, 0 to 1.

        Raises:
            AccessRefused: The user may not read the log.
            NoSuchGroup: The log does not exist yet.
            ClusterError: The cluster stops responding.

        Cost: reads the group's partition of ``__consumer_offsets``, other groups' records in it included.
        """
        with closing(LogTail(self.connection, [group], most, progress)) as tail:
            return tail.history[group]

    def broker_assigned(self, group: str, log: Log) -> LiveGroup:
        """A KIP-848 group from its log: members, their subscriptions and partitions, and the epoch."""
        return from_broker_log(group, (record.value for record in log.records), self.topic_names())

    def topic_names(self) -> dict[str, str]:
        """Topic id, as Kafka prints it -> name, of the topics that the user may see."""
        described = self._admin.describe_topics()
        return {printed_id(topic["topic_id"]): topic["name"] for topic in described if topic.get("topic_id")}

    def _other(self, name: str) -> LiveGroup:
        """A group that isn't classic; raises if there is none of that name."""
        listed = self.groups()
        kind = listed.get(name, "").lower()
        if kind == "consumer":
            return LiveGroup(name, "", "consumer", "", ())
        if kind and kind != "classic":
            raise ClusterError(f"group {name!r} is a {kind} group; consumer groups can be read")
        near = difflib.get_close_matches(name, listed, 2, 0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "list the groups with: kafka-assignors groups"
        raise NoSuchGroup(f"{self.connection} has no group {name!r}; {hint}")


def last_generation(log: Log) -> GroupCommitted | None:
    """The last committed generation in a log; None if it has none."""
    return next((record.value for record in reversed(log.records) if isinstance(record.value, GroupCommitted)), None)


def _member(description: Mapping[str, Any]) -> LiveMember:
    # Bytes stay where kafka-python couldn't decode them: a member of another protocol type, or in a rebalance.
    joined = description["member_metadata"] if isinstance(description["member_metadata"], Mapping) else {}
    given = description["member_assignment"] if isinstance(description["member_assignment"], Mapping) else {}
    assigned = (TopicPartition(t["topic"], p) for t in given.get("assigned_partitions") or [] for p in t["partitions"])
    return LiveMember(
        description["member_id"], description["client_id"], description["client_host"].removeprefix("/"),
        frozenset(joined.get("topics") or ()), tuple(sorted(assigned)), description.get("group_instance_id"),
        joined.get("rack_id") or None,
    )  # fmt: skip
