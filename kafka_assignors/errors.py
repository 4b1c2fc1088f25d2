"""Errors, split by whose fault it is.

KafkaAssignorsError
├── ConfigError          the caller's arguments or options: fix the call
│   ├── UnknownName      a name that no strategy has; lists the known ones
│   └── AccessRefused    a cluster doesn't let this user in, or do that; says which setting or right is missing
├── ClientMissing        something that needs a Kafka client that isn't installed; the message says what to install
├── AssignmentError      a group that cannot be assigned (never because of what another member claims)
├── WireError            bytes that are not the consumer protocol (newer versions are read, not refused)
├── ElectionError        members without a common assignor (INCONSISTENT_GROUP_PROTOCOL)
└── MachineError         the machine: Java, jars, disk, network
    ├── JavaNotFound     no usable Java
    ├── JarError         a jar that cannot be fetched
    │   └── ChecksumMismatch   a jar that is not the pinned one
    └── NotEnoughSpace   a folder with too little room
"""

from __future__ import annotations

from collections.abc import Iterable


class KafkaAssignorsError(Exception):
    """Everything this distribution raises on purpose."""


class ConfigError(KafkaAssignorsError, ValueError):
    """An argument or option that cannot work; the message names it, its value and what would work."""


class UnknownName(ConfigError):
    """A name that nothing has; the message lists the known ones."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(f"unknown {what} {name!r}; known: {', '.join(self.known)}")


class AccessRefused(ConfigError):
    """A cluster refuses the connection, the user, or what the user asks for; one sentence with the fix."""


class ClientMissing(KafkaAssignorsError, AttributeError):
    """What needs a Kafka client that isn't installed, or is too old, is no attribute; the message says what to install.

    So ``hasattr``, ``help`` and ``inspect`` leave it out. Importing it raises `ImportError` with the same message.
    """


class AssignmentError(KafkaAssignorsError):
    """A group that cannot be assigned."""


class WireError(KafkaAssignorsError, ValueError):
    """Bytes that do not follow the consumer protocol; the message says what was read and at which offset."""


class ElectionError(KafkaAssignorsError):
    """No assignor is offered by every member: the broker answers INCONSISTENT_GROUP_PROTOCOL."""


class MachineError(KafkaAssignorsError):
    """The machine lacks something."""


class JavaNotFound(MachineError):
    """No usable Java."""


class JarError(MachineError):
    """A jar cannot be fetched."""


class ChecksumMismatch(JarError):
    """A jar is not the pinned one."""


class NotEnoughSpace(MachineError):
    """A folder has too little room."""
