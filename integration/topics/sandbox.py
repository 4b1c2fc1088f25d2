"""The topics and groups of a cluster that a run makes itself, and removes at its end."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing

from kafka.admin import KafkaAdminClient
from kafka.errors import GroupAuthorizationFailedError, KafkaError, TopicAlreadyExistsError

from kafka_assignors.connection import Connection, Right, denied
from kafka_assignors.errors import AccessRefused, ConfigError, KafkaAssignorsError

from ..broker import Broker
from .topics import NO_OPTIONS, Options, Topics, create_topics

_TICK_S = 0.2
_LAST_S = 30.0
"""Limit for the coordinator to miss killed members: a group can be removed only without members."""


class Sandbox(AbstractContextManager["Sandbox"]):
    """The topics and groups that a run may write to: all have its prefix and were made by the run.

    A context manager: leaving it removes them, also after an exception or Ctrl-C. Standard error names those that can't
    be removed. A killed process removes nothing. On a broker that ends with the run the prefix is empty, and nothing
    needs to be removed.
    """

    def __init__(self, bootstrap: str | Connection, prefix: str = "") -> None:
        self.bootstrap, self.prefix = bootstrap, prefix
        self._made: dict[str, int] = {}

    @classmethod
    def on(cls, broker: Broker) -> Sandbox:
        """A sandbox on that broker, with its own prefix if the broker is external."""
        return cls(broker.connection, new_prefix() if broker.backend == "external" else "")

    def name(self, name: str) -> str:
        """The name of a topic or group with the prefix."""
        return self.prefix + name

    def make(self, topics: Mapping[str, int], options: Options = NO_OPTIONS) -> None:
        """Create topics that this sandbox hasn't made yet, and wait until every partition has a leader.

        `topics` maps full names to partition counts. On the run's own broker, an existing topic with that count is
        accepted, and topics get their `options`.

        Raises:
            ConfigError: A topic exists, or its name has another prefix.
            kafka.errors.KafkaError: The broker refuses.
        """
        if not self.prefix:
            create_topics(self.bootstrap, topics, options)
            return
        if strange := [topic for topic in topics if not topic.startswith(self.prefix)]:
            raise ConfigError(
                f"topic {strange[0]!r} does not belong to this run: its name does not begin with {self.prefix!r}"
            )
        if new := {topic: count for topic, count in topics.items() if self._made.get(topic) != count}:
            make_new(self.bootstrap, new)
            self._made |= new

    def close(self) -> None:
        """Remove the topics and groups. Report those that can't be removed."""
        if self.prefix:
            ours = f"topics and groups whose names begin with {self.prefix}"
            remove(self.bootstrap, lambda name: name.startswith(self.prefix), ours)

    def __exit__(self, *_: object) -> None:
        self.close()


def new_prefix() -> str:
    """A prefix that no other run has."""
    return f"kafka-assignors-{uuid.uuid4().hex[:12]}-"


def make_new(bootstrap: str | Connection, topics: Mapping[str, int]) -> None:
    """Create topics that don't exist, and wait until every partition has a leader.

    Raises:
        ConfigError: A topic exists: it belongs to others, and stays as it is.
        kafka.errors.KafkaError: The broker refuses.
    """
    with closing(Topics(bootstrap)) as broker:
        try:
            broker.create(topics)
        except TopicAlreadyExistsError as error:
            there = broker.counts(topics)
            raise ConfigError(
                f"topic {', '.join(map(repr, there))} exists at {bootstrap}, but must be new; choose another name"
            ) from error


def remove(bootstrap: str | Connection, ours: Callable[[str], bool], what: str) -> None:
    """Remove the groups and topics that are `ours`. Report on standard error what is left, and why.

    `what` describes all of them, for a broker that doesn't answer.
    """
    left, why = [what], "interrupted"
    try:
        with (
            closing(KafkaAdminClient(**Connection.of(bootstrap).kafka_python())) as admin,
            closing(Topics(bootstrap)) as t,
        ):
            topics = [name for name in t.counts((), ("",)) if ours(name)]
            left = [*(f"group {group}" for group in _groups(admin, ours)), *(f"topic {topic}" for topic in topics)]
            why = _remove_groups(Connection.of(bootstrap), admin, ours)
            groups = [f"group {group}" for group in _groups(admin, ours)]
            left = [*groups, *(f"topic {topic}" for topic in topics)]
            if topics:
                t.delete(*topics)
            left = groups
    except (KafkaError, KafkaAssignorsError, OSError) as error:
        why = str(error) if isinstance(error, AccessRefused) else f"{type(error).__name__}: {error}"
    finally:
        if left:
            print(f"not removed from {bootstrap}, remove it yourself ({why}): {', '.join(left)}", file=sys.stderr)


def _groups(admin: KafkaAdminClient, ours: Callable[[str], bool]) -> list[str]:
    return sorted(row["group_id"] for row in admin.list_groups() if ours(row["group_id"]))


def _remove_groups(connection: Connection, admin: KafkaAdminClient, ours: Callable[[str], bool]) -> str:
    """Remove groups once their last members are missed. Return the coordinators' last errors."""
    deadline = time.monotonic() + _LAST_S
    errors: set[str] = set()
    while groups := _groups(admin, ours):
        errors = set(admin.delete_groups(groups).values()) - {"OK"}
        if GroupAuthorizationFailedError.__name__ in errors:  # waiting doesn't help
            return str(
                denied(connection, GroupAuthorizationFailedError(groups[0]), Right("Delete", "Group", groups[0]))
            )
        if not errors or time.monotonic() > deadline:
            break
        time.sleep(_TICK_S)
    return ", ".join(sorted(errors))
