"""The one request of a KIP-848 member, ConsumerGroupHeartbeat v0 and v1, and its answer. Bytes in, values out.

kafka-python has no classes of them; these have the face of its classes. A topic is named by its id.

Source: apache/kafka ``clients/src/main/resources/common/message/ConsumerGroupHeartbeatRequest.json`` and
``ConsumerGroupHeartbeatResponse.json``; all versions are flexible (KIP-482).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from kafka_assignors.core.wire.primitives import FlexibleReader

Partitions = Mapping[UUID, tuple[int, ...]]
"""Topic id -> partitions."""
JOIN, LEAVE, LEAVE_STATIC = 0, -1, -2
"""Member epochs with which a member joins, leaves, and leaves for a while (a static member)."""
_SIZE_BYTES = 4


@dataclass(frozen=True)
class ConsumerGroupHeartbeatRequest:
    """What a member says. None: unchanged since its last request, or not given."""

    max_version = 1

    group_id: str
    member_id: str
    epoch: int  # its member epoch; see `JOIN`, `LEAVE`, `LEAVE_STATIC`
    instance_id: str | None
    rebalance_timeout_ms: int  # -1: unchanged
    topics: tuple[str, ...] | None
    pattern: str | None  # regular expression to which it subscribes
    assignor: str | None  # the broker's assignor that it wants
    owned: Partitions | None  # partitions that it has

    @classmethod
    def decode(cls, frame: bytes, version: int, **_: bool) -> ConsumerGroupHeartbeatRequest:
        """Decode a frame with its size and header. WireError if it isn't one."""
        value = FlexibleReader(frame, "ConsumerGroupHeartbeat", _SIZE_BYTES)
        value.int16(), value.int16(), value.int32(), value.string_or_none()
        value.flexible = True
        value.tags()
        group_id, member_id, epoch, instance_id = value.string(), value.string(), value.int32(), value.string_or_none()
        value.string_or_none()  # its rack
        rebalance_timeout_ms, topics = value.int32(), value.array_or_none(FlexibleReader.string)
        pattern = value.string_or_none() if version >= 1 else None
        assignor, owned = value.string_or_none(), value.array_or_none(_topic)
        value.tags()
        return cls(
            group_id, member_id, epoch, instance_id, rebalance_timeout_ms, None if topics is None else tuple(topics),
            pattern, assignor, None if owned is None else dict(owned),
        )  # fmt: skip


@dataclass(frozen=True)
class ConsumerGroupHeartbeatResponse:
    """What the coordinator answers."""

    max_version = 1

    error_code: int
    member_id: str | None
    epoch: int  # the member's epoch from now on
    heartbeat_interval_ms: int
    assignment: Partitions | None  # the partitions that it may have; None: as before

    @classmethod
    def decode(cls, frame: bytes, version: int, **_: bool) -> ConsumerGroupHeartbeatResponse:  # noqa: ARG003 - all alike
        """Decode a frame with its size and header. WireError if it isn't one."""
        value = FlexibleReader(frame, "an answer to ConsumerGroupHeartbeat", _SIZE_BYTES)
        value.int32()
        value.flexible = True
        value.tags()
        value.int32()  # how long the request was throttled
        error_code, _message = value.int16(), value.string_or_none()
        member_id, epoch, interval_ms = value.string_or_none(), value.int32(), value.int32()
        assignment = None
        if value.int8() == 1:  # a nullable structure
            assignment = dict(value.array(_topic))
            value.tags()
        value.tags()
        return cls(error_code, member_id, epoch, interval_ms, assignment)


def _topic(value: FlexibleReader) -> tuple[UUID, tuple[int, ...]]:
    topic_id, partitions = UUID(bytes=value.take(16)), tuple(value.array(FlexibleReader.int32))
    value.tags()
    return topic_id, partitions
