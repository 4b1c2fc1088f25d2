"""Topics of a run on the broker: creates, grows, deletes and describes them."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from typing import Any

from kafka import TopicPartition as KafkaTopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from kafka.errors import (
    InvalidConfigurationError,
    InvalidRequestError,
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)

from kafka_assignors.connection import Connection, Right, needing
from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ConfigError

from ..errors import NotStable, NotSupported

_TICK_S = 0.05
_TIMEOUT_S = 15.0
Options = Mapping[str, Mapping[str, Any]]
"""Topic -> what it has beside its partition count, as kafka-python's `create_topics` takes it."""
NO_OPTIONS: Options = {}
LOSSY: Mapping[str, Any] = {
    "replication_factor": 2,
    "configs": {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
}
"""Options of a topic that may lose acknowledged records: two replicas, each of which may write alone and be elected
although the other has more records."""
STAMPED: Mapping[str, Any] = {"configs": {"message.timestamp.type": "LogAppendTime"}}
"""Options of a topic whose records have the time at which the broker appended them."""


class Topics:
    """Current state of topics on the brokers, and changes to them. Nothing is cached.

    Methods raise kafka.errors.KafkaError if no broker answers, or a broker refuses.
    """

    def __init__(self, bootstrap: str | Connection) -> None:
        self._connection = Connection.of(bootstrap)
        self._admin = self._connect()

    def counts(
        self, names: Collection[str], patterns: Collection[str] = (), *, may: str = "Describe"
    ) -> dict[str, int]:
        """Partition counts of existing topics with one of these names, or whose name starts with a pattern's match.

        `patterns` are regular expressions. `may` is the operation that the caller wants to do there: a user with this
        right sees the topic.

        Raises:
            AccessRefused: The user may not see one of `names`; the message says that `may` is missing.
        """
        topics = self._describe(None if patterns else names, may)
        wanted = [re.compile(pattern) for pattern in patterns]
        return {
            name: len(topic["partitions"])
            for name, topic in sorted(topics.items())
            if name in names or (not topic["is_internal"] and any(regex.match(name) for regex in wanted))
        }

    def require(self, what: str, topic: str, partitions: int) -> None:
        """Check a change (``made``, ``grow``, ``deleted``) to this partition count, before it is recorded or made.

        Raises:
            ConfigError: The topic exists, or doesn't, or has that many partitions already: they can only be added.
        """
        now = self.counts([topic]).get(topic)
        if what == "made":
            problem = "" if now is None else "it exists"
        elif now is None:
            problem = "it does not exist"
        else:
            problem = f"it has {now} partitions" if what == "grow" and now >= partitions else ""
        if problem:
            verb = f"grow to {partitions} partitions" if what == "grow" else f"be {what}"
            raise ConfigError(f"topic {topic!r} can't {verb}: {problem}")

    def create(self, topics: Mapping[str, int], options: Options = NO_OPTIONS) -> None:
        """Create topics, wait until every partition has a leader. `options` are those of some of them."""
        self._renew()
        with needing(self._connection, *(Right("Create", "Topic", topic) for topic in topics)):
            made = {topic: {"num_partitions": count, **options.get(topic, {})} for topic, count in topics.items()}
            self._admin.create_topics(made, wait_for_metadata=True)

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic, up to this number, and wait until every partition has a leader."""
        self._renew()
        with needing(self._connection, Right("Alter", "Topic", topic)):
            self._admin.create_partitions({topic: partitions})
        self._until(lambda: self._whole(topic, partitions), f"topic {topic!r} has {partitions} partitions with leaders")

    def delete(self, *topics: str) -> None:
        """Delete topics, and wait until the brokers don't know them any more."""
        self._renew()
        with needing(self._connection, *(Right("Delete", "Topic", topic) for topic in topics)):
            self._admin.delete_topics(list(topics))
        self._until(
            lambda: not any(self.counts([topic]) for topic in topics), f"topic {', '.join(map(repr, topics))} is gone"
        )

    def set_consumer_group(self, group: str, session_timeout_ms: int, heartbeat_interval_ms: int) -> None:
        """Set the timeouts of a group of the consumer protocol (KIP-848).

        Raises:
            NotSupported: The brokers don't have this protocol, or their limits refuse these timeouts.
        """
        timeouts_ms = {
            "consumer.session.timeout.ms": session_timeout_ms,
            "consumer.heartbeat.interval.ms": heartbeat_interval_ms,
        }
        resource = ConfigResource(ConfigResourceType.GROUP, group, {name: str(ms) for name, ms in timeouts_ms.items()})
        self._renew()
        settings = ", ".join(f"{name}={ms}" for name, ms in timeouts_ms.items())
        try:
            with needing(self._connection, Right("AlterConfigs", "Group", group)):
                self._admin.alter_configs([resource], raise_on_unknown=False)
        except (InvalidConfigurationError, InvalidRequestError, UnsupportedVersionError) as error:
            raise NotSupported(
                f"the brokers at {self._connection} refuse {settings} of group {group!r}: {error}; the consumer "
                "protocol (KIP-848) needs Kafka 4.0, and group.consumer.min.session.timeout.ms and "
                "group.consumer.min.heartbeat.interval.ms that allow these values"
            ) from error

    def begins_and_ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """First offset and end offset of each topic-partition."""
        wanted = [KafkaTopicPartition(*tp) for tp in tps]
        if not wanted:
            return {}
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                self._renew()
                first, last = (
                    self._admin.list_partition_offsets(dict.fromkeys(wanted, spec))
                    for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
                )
                return {TopicPartition(*tp): (first[tp].offset, last[tp].offset) for tp in wanted}
            except KafkaError:  # a leader is being elected, or has just gone
                if time.monotonic() > deadline:
                    raise
                time.sleep(_TICK_S)

    def leader(self, tp: TopicPartition) -> int | None:
        """Id of the node that leads a partition; None if it has no leader or doesn't exist."""
        topic = self._describe([tp.topic]).get(tp.topic, {"partitions": ()})
        leaders = {p["partition_index"]: p["leader_id"] for p in topic["partitions"]}
        return leaders.get(tp.partition) if leaders.get(tp.partition, -1) >= 0 else None

    def followers(self, tp: TopicPartition) -> list[int]:
        """Ids of the nodes with a replica of a partition, except its leader; empty if the partition doesn't exist."""
        topic = self._describe([tp.topic]).get(tp.topic, {"partitions": ()})
        partitions = [p for p in topic["partitions"] if p["partition_index"] == tp.partition]
        return [node for p in partitions for node in p["replica_nodes"] if node != p["leader_id"]]

    def wait_led_by(self, tp: TopicPartition, node: int, timeout_s: float = 30) -> None:
        """Wait until a node leads a partition. NotStable if it doesn't by the deadline."""
        self._until(lambda: self.leader(tp) == node, f"node {node} leads {tp.topic}-{tp.partition}", timeout_s)

    def wait_in_sync(self, names: Collection[str], timeout_s: float = 30) -> None:
        """Wait until every replica of these topics is in sync. NotStable if they aren't by the deadline."""

        def in_sync() -> bool:
            topics = self._describe(names)
            return all(
                len(p["isr_nodes"]) == len(p["replica_nodes"]) for topic in topics.values() for p in topic["partitions"]
            )

        self._until(in_sync, f"all replicas of {', '.join(sorted(names))} are in sync", timeout_s)

    def close(self) -> None:
        """Close the client."""
        self._admin.close()

    def _connect(self) -> KafkaAdminClient:
        return KafkaAdminClient(**self._connection.kafka_python(), client_id="kafka-assignors-topics")

    def _renew(self) -> None:
        """Reconnect: kafka-python's admin client never learns of brokers that were absent when it connected."""
        self._admin.close()
        self._admin = self._connect()

    def _describe(self, names: Collection[str] | None, may: str = "Describe") -> dict[str, dict[str, Any]]:
        if names is not None and not names:
            return {}
        try:
            topics = self._admin.describe_topics(None if names is None else sorted(names))
        except UnknownTopicOrPartitionError:
            return {}
        for topic in topics:
            if topic["error_code"] == TopicAuthorizationFailedError.errno:
                with needing(self._connection, Right(may, "Topic", topic["name"])):
                    raise TopicAuthorizationFailedError(topic["name"])
        return {topic["name"]: topic for topic in topics if not topic["error_code"]}

    def _whole(self, topic: str, partitions: int) -> bool:
        partition_rows = self._describe([topic]).get(topic, {"partitions": ()})["partitions"]
        return len(partition_rows) == partitions and all(p["leader_id"] >= 0 for p in partition_rows)

    @staticmethod
    def _until(condition: Any, what: str, timeout_s: float = _TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        last_error = ""
        while True:
            try:
                if condition():
                    return
            except KafkaError as error:  # a broker may be starting
                last_error = f" ({type(error).__name__}: {error})"
            if time.monotonic() > deadline:
                raise NotStable(f"not within {timeout_s:g} s: {what}{last_error}")
            time.sleep(_TICK_S)


def create_topics(bootstrap: str | Connection, topics: Mapping[str, int], options: Options = NO_OPTIONS) -> None:
    """Create the topics that don't exist, and wait until every partition has a leader. `options` are those of some.

    For a broker of the run's own. On any other, `sandbox.Sandbox` creates topics that nobody else has.

    Raises:
        ConfigError: A topic exists with another count: it isn't this run's, and stays as it is.
        kafka.errors.KafkaError: The broker refuses.
    """
    with closing(Topics(bootstrap)) as broker:
        there = broker.counts(topics)
        for topic, count in there.items():
            if count != topics[topic]:
                raise ConfigError(
                    f"topic {topic!r} already has {count} partitions, but this run needs {topics[topic]}; "
                    "choose another name, or a broker without this topic"
                )
        if missing := {topic: count for topic, count in topics.items() if topic not in there}:
            broker.create(missing, options)
