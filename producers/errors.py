"""Errors of partitioners, split by fault.

KafkaAssignorsError (here also ProducersError)
├── ConfigError          the caller's arguments: fix the call
│   └── UnknownName      an unknown name; lists the known ones
├── InvalidPartition     a partitioner's answer is not a partition of the topic
│   └── UnknownPartition a partition that a record names did not appear in time
├── NoPartitions         a topic is unknown to metadata, or has no partitions
│   └── NotAuthorized    the cluster hides the topic from this producer
└── ClientMissing        a client library is not installed; names the extra that installs it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kafka_assignors.errors import ConfigError, KafkaAssignorsError, UnknownName
from kafka_assignors.extras import install

__all__ = [
    "ClientMissing", "ConfigError", "InvalidPartition", "NoPartitions", "NotAuthorized", "ProducersError",
    "UnknownName", "UnknownPartition",
]  # fmt: skip

ProducersError = KafkaAssignorsError
"""The root under the name that it has in this package."""


class InvalidPartition(KafkaAssignorsError, ValueError):
    """An answer that is not a partition of the topic.

    Args:
        partitioner: Name of the one that answered.
        value: The raw answer.
        partitions: The topic's ascending partition ids.
        advice: A remedy other than to fix the partitioner, if there is one.
    """

    def __init__(
        self, partitioner: str, topic: str, value: object, partitions: Sequence[int], advice: str = ""
    ) -> None:
        self.partitioner, self.topic, self.value = partitioner, topic, value
        self.partitions = tuple(partitions)
        kind = "" if type(value) is int or value is None else f" ({type(value).__name__})"
        super().__init__(
            f"partitioner {partitioner!r} returned {value!r}{kind} for topic {topic!r}; "
            f"it must be an int in {partitions[0]}..{partitions[-1]}" + (f"; {advice}" if advice else "")
        )


class UnknownPartition(InvalidPartition):
    """A partition that a record names and that did not appear in time."""


class NoPartitions(KafkaAssignorsError, ValueError):
    """A topic that is unknown to metadata, or has no partitions."""


class NotAuthorized(NoPartitions):
    """A topic that the cluster hides from this producer, whether it exists or not."""

    errno = 29
    """Kafka's error code TOPIC_AUTHORIZATION_FAILED."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(
            f"topic {topic!r}: this producer is not authorized to describe it; grant its user DESCRIBE and WRITE on it"
        )


class ClientMissing(KafkaAssignorsError, ImportError):
    """A client library that is not installed.

    That of `kafka_assignors.errors` is for an attribute: no class can be both an AttributeError and an ImportError.
    """


@contextmanager
def needs(client: str, package: str, extra: str, module: str) -> Iterator[None]:
    """For the imports of a `client`: if its `package` is missing, `ClientMissing` tells how to install it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] != package:
            raise
        raise ClientMissing(f"{module} needs {client}: {install(extra)}", name=package) from missing
