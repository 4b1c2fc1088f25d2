"""Errors, split by fault: one root for the whole distribution.

KafkaAssignorsError
├── ConfigError          the caller's arguments or options: fix the call
│   ├── UnknownName      an unknown name; lists the known ones
│   └── AccessRefused    a cluster rejects this user or request; names the setting or the missing permission
├── ClientMissing        a feature needs a Kafka client that isn't installed; the message says what to install
├── AssignmentError      a group that cannot be assigned (never because of another member's claims)
├── WireError            bytes that are not the consumer protocol (newer versions are accepted)
├── ClusterError         a live cluster doesn't answer, or doesn't have what was asked for
│   └── NoSuchGroup      it has no group of that name
├── ElectionError        members without a common assignor (INCONSISTENT_GROUP_PROTOCOL)
├── MachineError         the machine: Java, jars, disk, network
│   ├── JavaNotFound     no usable Java
│   ├── JarError         a jar that cannot be fetched
│   │   └── ChecksumMismatch   a jar with another checksum than the pinned one
│   └── NotEnoughSpace   a folder with too little space
├── …                    partitioners: `producers.errors`
└── HarnessError         the harness: `integration.errors`

An error that one module raises and another one of its room catches is defined there, below the same root.
"""

from __future__ import annotations

from collections.abc import Iterable


class KafkaAssignorsError(Exception):
    """Base class of all errors that this distribution raises on purpose."""

    lines = False
    """Whether the message has lines of its own, such as the end of a log. A command prints all others as one line."""


class ConfigError(KafkaAssignorsError, ValueError):
    """An invalid argument or option; the message names it, its value and a valid one."""


class UnknownName(ConfigError):
    """An unknown name; the message lists the known ones, and how to add one if that is possible."""

    def __init__(self, what: str, name: object, names: Iterable[str], remedy: str = "") -> None:
        self.name = name
        self.known = tuple(names)
        after = f"; {remedy}" if remedy else ""
        super().__init__(f"unknown {what} {name!r}; known: {', '.join(self.known)}{after}")


class AccessRefused(ConfigError):
    """A cluster rejects the connection, the user, or a request; one sentence with the fix."""


class ClientMissing(KafkaAssignorsError, AttributeError):
    """An attribute needs a Kafka client that is missing or too old; the message says what to install.

    As an `AttributeError`, it hides the attribute from ``hasattr``, ``help`` and ``inspect``. Importing the name raises
    `ImportError` with the same message.
    """


class AssignmentError(KafkaAssignorsError):
    """A group that cannot be assigned."""


class WireError(KafkaAssignorsError, ValueError):
    """Bytes that do not follow the consumer protocol; the message says what was expected and at which offset."""


class ClusterError(KafkaAssignorsError):
    """A live cluster doesn't answer, or doesn't have what was asked for; the message says what was tried."""


class NoSuchGroup(ClusterError):
    """A live cluster has no group of that name; nobody has joined it yet, or it was deleted."""


class ElectionError(KafkaAssignorsError):
    """No assignor is common to all members: the broker answers INCONSISTENT_GROUP_PROTOCOL."""


class MachineError(KafkaAssignorsError):
    """The machine lacks something."""


class JavaNotFound(MachineError):
    """No usable Java."""


class JarError(MachineError):
    """A jar cannot be fetched."""


class ChecksumMismatch(JarError):
    """A jar's checksum differs from the pinned one."""


class NotEnoughSpace(MachineError):
    """A folder has too little space."""
