"""The topics of a group that runs: made, grown, deleted; and which node coordinates it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from kafka_assignors.core.coordlog import COORDINATOR_TOPIC, partition_of
from kafka_assignors.core.group import TopicPartition

from .errors import NotStable
from .topics import Topics


class TopicChanges(ABC):
    """What may happen to the topics of a `MemberGroup`; each change is in the history before it is made."""

    group: str
    _topics: Topics

    def create_topic(self, topic: str, partitions: int) -> None:
        """Make a topic, which members that subscribe to a pattern may match; returns when its partitions have leaders.

        Raises:
            ConfigError: It exists.
            kafka.errors.KafkaError: The broker refuses.
        """
        self._topics.require("made", topic, partitions)
        self._change("create_topic", topic, partitions)
        self._topics.create({topic: partitions})

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Let a topic grow to so many partitions; returns when they have leaders.

        Raises:
            ConfigError: It doesn't exist, or has as many already.
            kafka.errors.KafkaError: The broker refuses.
        """
        self._topics.require("grow", topic, partitions)
        self._change("add_partitions", topic, partitions)
        self._topics.grow(topic, partitions)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic; returns when the brokers don't know it any more.

        Raises:
            ConfigError: It doesn't exist.
            kafka.errors.KafkaError: The broker refuses.
        """
        self._topics.require("deleted", topic, 0)
        self._change("delete_topic", topic, 0)
        self._topics.delete(topic)

    def coordinator(self) -> int | None:
        """The node that coordinates this group; None: nobody does at the moment."""
        count = self._topics.counts([COORDINATOR_TOPIC]).get(COORDINATOR_TOPIC)
        if count is None:
            return None
        return self._topics.leader(TopicPartition(COORDINATOR_TOPIC, partition_of(self.group, count)))

    def wait_in_sync(self, timeout_s: float = 30) -> None:
        """Wait until every replica of the subscribed topics and of the coordinator log is in sync.

        Raises:
            NotStable: Not by the deadline.
        """
        try:
            self._topics.wait_in_sync([*self._partitions(), COORDINATOR_TOPIC], timeout_s)
        except NotStable as error:
            self.write("not_over", waited_s=timeout_s, awaited=str(error))
            raise

    def _change(self, change: str, topic: str, partitions: int) -> None:
        self._count_from_here()
        self.write("admin_change", change=change, target=topic, topics={topic: partitions})

    @abstractmethod
    def write(self, kind: str, **data: Any) -> Any:
        """Write an event of the harness."""

    @abstractmethod
    def _partitions(self) -> Mapping[str, int]:
        """Partitions of every subscribed topic that exists."""

    @abstractmethod
    def _count_from_here(self) -> None:
        """The next `Stable` counts from the first change."""
