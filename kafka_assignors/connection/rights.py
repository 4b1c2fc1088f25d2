"""Rights of a user, as Kafka's ACLs name them, and the sentence for one that is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..errors import AccessRefused
from .settings import Connection

_DENIED = {29: "Topic", 30: "Group", 31: "Cluster", 53: "TransactionalId"}
"""Error codes that Kafka answers with when a right is missing -> the kind of thing it is missing for."""


class Right(NamedTuple):
    """Something that a user may do.

    Args:
        operation: ``Read``, ``Write``, ``Create``, ``Delete``, ``Alter``, ``Describe``, …
        kind: ``Topic``, ``Group``, ``Cluster`` or ``TransactionalId``.
        name: Of the thing; ``kafka-cluster`` is the cluster's.
        prefixed: Whether `name` is the begin of the names.
    """

    operation: str
    kind: str
    name: str = "kafka-cluster"
    prefixed: bool = False

    def __str__(self) -> str:
        named = "" if self.kind == "Cluster" else f" {self.name}{'*' if self.prefixed else ''}"
        return f"{self.operation} on {self.kind}{named}"

    def command(self, user: str, bootstrap: str) -> str:
        """What an administrator types to give it."""
        options = {"Topic": "topic", "Group": "group", "TransactionalId": "transactional-id"}
        thing = "--cluster" if self.kind == "Cluster" else f"--{options[self.kind]} {self.name}"
        thing += " --resource-pattern-type prefixed" if self.prefixed else ""
        return (
            f"kafka-acls.sh --bootstrap-server {bootstrap} --add --allow-principal User:{user} "
            f"--operation {self.operation} {thing}"
        )


@contextmanager
def needing(connection: Connection, *rights: Right) -> Iterator[None]:
    """Inside, a client's error about rights is told with the right that what is done here needs.

    Args:
        connection: Whose user it is.
        *rights: What is needed.

    Raises:
        AccessRefused: Kafka denies it.
    """
    try:
        yield
    except Exception as error:
        if (said := denied(connection, error, *rights)) is None:
            raise
        raise said from error


def denied(connection: Connection, error: BaseException, *rights: Right) -> AccessRefused | None:
    """The sentence for an error about rights; None: it is about something else.

    Args:
        connection: Whose user it is.
        error: kafka-python's by its ``errno``; librdkafka's and Java's by their words.
        *rights: What is needed. Of several for a kind of thing, the error's words choose.
    """
    said = str(error)
    words = re.search(r"(Topic|Group|Cluster|TransactionalId|Transactional_Id)[_ ]?Authorization", said, re.IGNORECASE)
    # the system has numbers of its own: 30 is a file system that is read-only
    kind = None if isinstance(error, OSError) else _DENIED.get(getattr(error, "errno", None) or 0)
    if kind is None and words is not None:
        kind = next(each for each in _DENIED.values() if each.lower() == words[1].replace("_", "").lower())
    if kind is None:
        return None
    user = connection.username or "ANONYMOUS"
    fitting = [right for right in rights if right.kind == kind]
    if kind == "Cluster" and not fitting:
        # Who may write to no topic gets no producer id, and is told that it lacks a right on the cluster (KIP-679).
        fitting = [right for right in rights if (right.operation, right.kind) == ("Write", "Topic")]
    for right in sorted(fitting, key=lambda right: right.name not in said):
        return AccessRefused(
            f"{connection}: user {user!r} lacks the right {right}; an administrator gives it by: "
            f"{right.command(user, connection.bootstrap)}"
        )
    return AccessRefused(
        f"{connection}: user {user!r} lacks a right on a {kind}; an administrator gives it by kafka-acls.sh"
    )
