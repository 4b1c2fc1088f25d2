"""Errors, split by whose fault it is.

ProducersError
├── ConfigError          the caller's arguments: fix the call
│   └── UnknownName      a name that no partitioner has; lists the known ones
├── InvalidPartition     a partitioner's answer that the topic has no partition for
│   └── UnknownPartition a partition that a record names and that did not come in time
├── NoPartitions         a topic that metadata does not know, or knows without partitions
│   └── NotAuthorized    a topic that the cluster hides from this producer
└── ClientMissing        a client library that is not installed; names the extra that brings it
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class ProducersError(Exception):
    """Everything this package raises on purpose."""


class ConfigError(ProducersError, ValueError):
    """An argument that cannot work; the message names it, its value and what would work."""


class UnknownName(ConfigError):
    """A name that nothing has; the message lists the known ones."""

    def __init__(self, what: str, name: object, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(f"unknown {what} {name!r}; known: {', '.join(self.known)}")


class InvalidPartition(ProducersError, ValueError):
    """An answer that is no partition of the topic.

    Args:
        partitioner: Name of the partitioner that answered.
        topic: The record's topic.
        value: The answer as it came.
        partitions: The topic's ascending partition ids.
        advice: What to do about it, if there is more to do than to fix the partitioner.
    """

    def __init__(
        self, partitioner: str, topic: str, value: object, partitions: Sequence[int], advice: str = ""
    ) -> None:
        self.partitioner, self.topic, self.value = partitioner, topic, value
        self.partitions = tuple(partitions)
        kind = "" if type(value) is int or value is None else f" ({type(value).__name__})"
        super().__init__(
            f"partitioner {partitioner!r} answered {value!r}{kind} for topic {topic!r}; "
            f"the answer must be an int in {partitions[0]}..{partitions[-1]}" + (f"; {advice}" if advice else "")
        )


class UnknownPartition(InvalidPartition):
    """A partition that a record names, and that the topic did not get in time."""


class NoPartitions(ProducersError, ValueError):
    """A topic that metadata does not know, or knows without partitions."""


class NotAuthorized(NoPartitions):
    """A topic that the cluster hides from this producer, whether it exists or not."""

    errno = 29
    """Kafka's TOPIC_AUTHORIZATION_FAILED, as the clients' errors have it."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"topic {topic!r}: this producer is not authorized to see it; grant its user DESCRIBE and WRITE on it"
        )


class ClientMissing(ProducersError, ImportError):
    """A client library that is not installed."""
