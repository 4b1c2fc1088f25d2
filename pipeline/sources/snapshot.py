"""The sources of an analysis, and their state before Spark reads them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from kafka_assignors.connection import Connection

from . import brokers
from .brokers import Part, TopicSnapshot


@dataclass(frozen=True)
class Source:
    """The sources that an analysis reads.

    Args:
        bootstrap: ``host:port[,host:port]`` of the brokers, or a `Connection` with its security settings.
        topics: Names of the topics with the records.
        groups: Consumer groups to read from ``__consumer_offsets``.
        history: Folder or URI of a run's ``*.jsonl`` files, at any depth; None: no history.
        events_topic: Topic with a run's events, one line of JSON per record; None: there is none.
        part: Which of the topics' records to read; by default all.
    """

    bootstrap: str | Connection
    topics: Collection[str]
    groups: Collection[str] = ()
    history: str | None = None
    events_topic: str | None = None
    part: Part = field(default_factory=Part)

    def snapshot(self) -> Snapshot:
        """Ask the brokers for the topics.

        Raises:
            ConfigError: `part` names a nonexistent topic-partition, or access is refused.
            ClusterError: No broker answers; a topic is absent or empty, or has a partition without leader.

        Cost: a connection and a few requests per kind of topic.
        """
        return Snapshot(
            brokers.topics(self.bootstrap, self.topics, part=self.part),
            brokers.coordinator_log(self.bootstrap) if self.groups else None,
            brokers.topics(self.bootstrap, [self.events_topic], option="--events-topic") if self.events_topic else None,
        )


@dataclass(frozen=True)
class Snapshot:
    """The topics as the brokers described them at one moment, whose offsets every read uses; None: not to be read."""

    topics: TopicSnapshot
    log: TopicSnapshot | None = None
    events: TopicSnapshot | None = None
