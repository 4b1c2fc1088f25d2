"""Finds in a broker's log why it ended or did not start."""

from __future__ import annotations

import re

from ..errors import BrokerNotReady

_CAUSES = (
    (
        r"No space left on device|Disk quota exceeded",
        "the disk with its data is full: make room, or name another folder (directory=, or TMPDIR)",
    ),
    (r"Address already in use", "another program uses its port: stop it, or name a free port"),
    (r"UnsupportedClassVersionError", "its Java is too old for this Kafka: set KAFKA_ASSIGNORS_JAVA to a newer one"),
    (
        r"OutOfMemoryError|Could not reserve enough space|Cannot allocate memory|insufficient memory for the Java",
        "there is too little memory for its JVM: stop other programs, or start fewer nodes",
    ),
    (r"Failed to acquire lock on file", "another broker uses the same folder: stop it, or name another folder"),
    (
        r"No MetadataVersion with feature level|metadata\.version .* is not supported|Unsupported feature level",
        "a newer Kafka wrote its folder: start that version, or name another folder",
    ),
    (
        r"InconsistentClusterIdException|doesn't match stored|Stored node id \d+ doesn't match|but expected \d+",
        "its folder belongs to another node or cluster: name another folder",
    ),
    (
        r"AccessDeniedException|Permission denied",
        "this user can't write to its folder: name another folder, or change its owner",
    ),
)
_REFUSED = re.compile(r"ConfigException: (?P<words>.+)")


def not_ready(message: str, log_tail: str = "") -> BrokerNotReady:
    """The error of a broker that died or didn't answer in time, with the cause found in the end of its log."""
    return BrokerNotReady(message, log_tail, cause_of(log_tail))


def cause_of(log: str) -> str | None:
    """The cause with its remedy, or None if the log names no known cause.

    The first line that names a cause counts, because later failures follow from it.

    >>> cause_of("java.net.BindException: Address already in use")
    'another program uses its port: stop it, or name a free port'
    """
    for line in log.splitlines():
        for pattern, cause in _CAUSES:
            if re.search(pattern, line):
                return cause
        if refused := _REFUSED.search(line):
            return f"Kafka rejects a setting: {refused['words'].strip()}"
    return None
