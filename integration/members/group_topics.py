"""A running group's topics: counted, created, grown, deleted; who leads a partition, who coordinates the group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.errors import ConfigError
from kafka_assignors.history.coordinator_log import COORDINATOR_TOPIC, partition_of

from ..errors import NotStable
from ..topics import Topics
from .running import RunningMembers


class GroupTopics:
    """The topics of a running group, and changes to them. The history records each change before and after it is made.

    Changes raise kafka.errors.KafkaError if the broker refuses them.
    """

    def __init__(self, members: RunningMembers, topics: Topics) -> None:
        self._members, self._topics = members, topics

    def subscribed(self) -> dict[str, int]:
        """Partitions of every subscribed topic that exists, as the brokers report them now."""
        topics = {topic for process in self._members for topic in process.topics}
        return self._topics.counts(topics, {member.pattern for member in self._members if member.pattern is not None})

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic, which a pattern may match, and wait for its partitions' leaders. ConfigError if it exists."""
        self._topics.require("made", topic, partitions)
        with self._change("create_topic", topic, partitions):
            self._topics.create({topic: partitions})

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Grow a topic to this number of partitions, and wait until they have leaders.

        Raises:
            ConfigError: It doesn't exist, or has that many already.
        """
        self._topics.require("grow", topic, partitions)
        with self._change("add_partitions", topic, partitions):
            self._topics.grow(topic, partitions)

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until the brokers don't know it any more. ConfigError if it doesn't exist."""
        self._topics.require("deleted", topic, 0)
        with self._change("delete_topic", topic, 0):
            self._topics.delete(topic)

    def coordinator(self) -> int | None:
        """Id of the node that coordinates this group; None if there is none at the moment."""
        count = self._topics.counts([COORDINATOR_TOPIC]).get(COORDINATOR_TOPIC)
        if count is None:
            return None
        return self._topics.leader(TopicPartition(COORDINATOR_TOPIC, partition_of(self._members.group, count)))

    def wait_in_sync(self, timeout_s: float = 30) -> None:
        """Wait until all replicas of subscribed topics and coordinator log are in sync. NotStable after `timeout_s`."""
        try:
            self._topics.wait_in_sync([*self.subscribed(), COORDINATOR_TOPIC], timeout_s)
        except NotStable as error:
            self._members.write("not_over", waited_s=timeout_s, awaited=str(error))
            raise

    def leader_and_follower(self, tp: TopicPartition) -> tuple[int, int]:
        """Ids of the leader and the only follower of a partition, both in sync.

        Raises:
            ConfigError: It has no leader, or not exactly one follower.
            NotStable: They aren't in sync.
        """
        self._topics.wait_in_sync([tp.topic])
        leader, followers = self._topics.leader(tp), self._topics.followers(tp)
        if leader is None or len(followers) != 1:
            what = f"{tp.topic}-{tp.partition} has leader {leader} and followers {followers}"
            raise ConfigError(f"{what}, and needs one of each; is it a lossy topic?")
        return leader, followers[0]

    def ends(self, topic: str) -> dict[TopicPartition, int]:
        """End offset of each partition of a topic, according to its leader."""
        tps = [TopicPartition(topic, p) for p in range(self._topics.counts([topic]).get(topic, 0))]
        return {tp: end for tp, (_, end) in self._topics.begins_and_ends(tps).items()}

    def wait_ends(self, topic: str, ends: Mapping[TopicPartition, int], timeout_s: float = 30) -> None:
        """Wait until a topic's partitions have at least these end offsets.

        Raises:
            NotStable: They hadn't by the deadline.
            MemberDied: A member ended unasked.
        """
        self._members.wait_until(
            lambda: all(self.ends(topic).get(tp, 0) >= end for tp, end in ends.items()),
            lambda: f"topic {topic!r} has too few records after {timeout_s:g} s; send some",
            timeout_s,
        )

    def tell_truncated(
        self, tp: TopicPartition, leader: int, before: Mapping[TopicPartition, int], timeout_s: float = 30
    ) -> None:
        """Wait until `leader` leads `tp`, and record in the history which end offsets of its topic fell from `before`.

        Nobody may send to the topic meanwhile.

        Raises:
            NotStable: Another node leads it at the deadline, or its end offset didn't fall.
        """
        try:
            self._topics.wait_led_by(tp, leader, timeout_s)
        except NotStable as error:
            self._members.write("not_over", waited_s=timeout_s, awaited=str(error))
            raise
        after = self.ends(tp.topic)
        fallen = [
            {"topic": partition.topic, "partition": partition.partition, "offset": after[partition], "end": end}
            for partition, end in sorted(before.items())
            if after[partition] < end
        ]
        if fallen:
            self._members.write("truncated", offsets=fallen)
        if after[tp] >= before[tp]:
            raise NotStable(f"{tp.topic}-{tp.partition} lost no records: it ends at {after[tp]}, as before")

    @contextmanager
    def _change(self, change: str, topic: str, partitions: int) -> Iterator[None]:
        self._members.count_from_here()
        fields: dict[str, Any] = {"change": change, "target": topic, "topics": {topic: partitions}}
        self._members.write("admin_change", **fields)
        yield
        self._members.write("admin_changed", **fields)
