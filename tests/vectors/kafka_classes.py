"""The JVMs with one version of Kafka's classes, started when they are first needed."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property

from kafka_assignors.integration.broker.java import LiveJava
from tests.support.assignors.live import JavaLeader


class KafkaClasses:
    """A context manager; it ends the JVMs that were started.

    Args:
        version: Kafka's version; it must be pinned.
    """

    def __init__(self, version: str) -> None:
        self.version = version
        self._started = ExitStack()

    @cached_property
    def java(self) -> LiveJava:
        """For calls of any class."""
        return self._started.enter_context(LiveJava(self.version))

    @cached_property
    def leader(self) -> JavaLeader:
        """For assignors."""
        return self._started.enter_context(JavaLeader(self.version))

    def __enter__(self) -> KafkaClasses:
        return self

    def __exit__(self, *error: object) -> None:
        self._started.close()
