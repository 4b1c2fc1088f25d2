"""A classic group as its coordinator describes it, with the bytes that its members sent as they joined.

kafka-python's admin client decodes these bytes, and user data to text, which can't be turned back.

Source: Kafka's FindCoordinator version 2 and DescribeGroups version 4 (apache/kafka
``clients/src/main/resources/common/message``); brokers have the latter since Kafka 2.4.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ...connection import Connection, request
from ...core.wire.primitives import Reader

_FIND_COORDINATOR, _DESCRIBE_GROUPS = 10, 15


@dataclass(frozen=True)
class DescribedMember:
    """A member; `subscription` and `assignment` are bytes of the consumer protocol, empty during a rebalance."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True)
class Described:
    """A group, or Kafka's code of the error that its coordinator answered.

    Args:
        error: 0 if there is none.
        state: As Kafka names it: ``Stable``, ``Dead``, …
        protocol: The elected assignor; "" if there is none.
    """

    error: int
    state: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


def describe(connection: Connection, group: str, timeout_s: float = 5) -> Described:
    """Ask a group's coordinator for it.

    Raises:
        AccessRefused, ConfigError, OSError: The cluster refuses the user, or doesn't answer in time.
        ValueError: An answer in another form, such as WireError.
    """
    name = _text(group)
    answer = Reader(request(connection, _FIND_COORDINATOR, 2, name + b"\0", timeout_s), "coordinator")
    answer.int32()  # throttle time
    error = answer.int16()
    answer.string_or_none()
    answer.int32()  # its node id
    host, port = answer.string(), answer.int32()
    if error:
        return Described(error)
    at = connection.at(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return _group(request(at, _DESCRIBE_GROUPS, 4, struct.pack(">i", 1) + name + b"\0", timeout_s))


def _group(data: bytes) -> Described:
    answer = Reader(data, "description")
    answer.int32()  # throttle time
    answer.count()
    error = answer.int16()
    answer.string()  # the group
    state, _type, protocol = answer.string(), answer.string(), answer.string()
    members = [
        DescribedMember(
            answer.string(), answer.string_or_none(), answer.string(), answer.string().removeprefix("/"),
            answer.bytes_or_none() or b"", answer.bytes_or_none() or b"",
        )
        for _ in range(answer.count())
    ]  # fmt: skip
    return Described(error, state, protocol, tuple(members))


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data
