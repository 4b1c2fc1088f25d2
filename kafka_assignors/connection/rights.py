"""Kafka ACL operations, and error messages for a missing one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..errors import AccessRefused
from .settings import Connection

_DENIED = {29: "Topic", 30: "Group", 31: "Cluster", 53: "TransactionalId"}
"""Kafka's authorization error codes -> the resource type that the permission is missing for."""


class Right(NamedTuple):
    """A permission of a user on a resource.

    Args:
        operation: ``Read``, ``Write``, ``Create``, ``Delete``, ``Alter``, ``Describe``, …
        kind: ``Topic``, ``Group``, ``Cluster`` or ``TransactionalId``.
        name: Name of the resource; ``kafka-cluster`` is the cluster's.
        prefixed: Whether `name` is a prefix of the names.
    """

    operation: str
    kind: str
    name: str = "kafka-cluster"
    prefixed: bool = False

    def __str__(self) -> str:
        named = "" if self.kind == "Cluster" else f" {self.name}{'*' if self.prefixed else ''}"
        return f"{self.operation} on {self.kind}{named}"

    def command(self, user: str, bootstrap: str) -> str:
        """The command with which an administrator grants it."""
        options = {"Topic": "topic", "Group": "group", "TransactionalId": "transactional-id"}
        thing = "--cluster" if self.kind == "Cluster" else f"--{options[self.kind]} {self.name}"
        thing += " --resource-pattern-type prefixed" if self.prefixed else ""
        return (
            f"kafka-acls.sh --bootstrap-server {bootstrap} --add --allow-principal User:{user} "
            f"--operation {self.operation} {thing}"
        )


@contextmanager
def needing(connection: Connection, *rights: Right) -> Iterator[None]:
    """Turn a client's authorization error into AccessRefused, which names the one of `rights` that is missing."""
    try:
        yield
    except Exception as error:
        if (denial := denied(connection, error, *rights)) is None:
            raise
        raise denial from error


def denied(connection: Connection, error: BaseException, *rights: Right) -> AccessRefused | None:
    """The message for an authorization error; None for any other error.

    kafka-python's errors are identified by their ``errno``, librdkafka's and Java's by their text. If several of
    `rights` fit the resource type, the error's text decides.
    """
    text = str(error)
    words = re.search(r"(Topic|Group|Cluster|TransactionalId|Transactional_Id)[_ ]?Authorization", text, re.IGNORECASE)
    # an OSError has errnos of the system: 30 is a read-only file system
    kind = None if isinstance(error, OSError) else _DENIED.get(getattr(error, "errno", None) or 0)
    if kind is None and words is not None:
        kind = next(resource for resource in _DENIED.values() if resource.lower() == words[1].replace("_", "").lower())
    if kind is None:
        return None
    user = connection.user
    fitting = [right for right in rights if right.kind == kind]
    if kind == "Cluster" and not fitting:
        # A user without write permission on any topic gets no producer id, and a cluster authorization error (KIP-679).
        fitting = [right for right in rights if (right.operation, right.kind) == ("Write", "Topic")]
    for right in sorted(fitting, key=lambda right: right.name not in text):
        return refusal(connection, right)
    return AccessRefused(
        f"{connection}: user {user!r} lacks a permission on a {kind}; an administrator can grant it with kafka-acls.sh"
    )


def refusal(connection: Connection, right: Right) -> AccessRefused:
    """The message for a missing permission."""
    user = connection.user
    return AccessRefused(
        f"{connection}: user {user!r} lacks the permission {right}; an administrator can grant it with: "
        f"{right.command(user, connection.bootstrap)}"
    )
