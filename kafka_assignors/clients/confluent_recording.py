"""Records what a ``Consumer`` of confluent-kafka does in its group, by its callbacks (`kafka_assignors.record`).

A ``Consumer`` is compiled, and its methods can't be wrapped. So the recorder is its rebalance callbacks, which call
those of the service. The client tells its generation and member id by the metadata that transactions need. It does not
tell who leads, which assignor was elected, what the member sent to join, or that it is closed.

A consumer of the protocol of KIP-848 is refused: its members rebalance one by one, a member that keeps its partitions
calls nothing back, and its epoch is no generation that all have. Such recordings would tell members that stay as gone.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ConfigError
from .recorder.member import ServiceMember
from .recorder.sender import EventSender
from .recorder.sinks import host

CLIENT = "confluent-kafka"
CALLBACKS = ("on_assign", "on_revoke", "on_lost")
_METADATA = b"CGMDv2:"
"""How the client's group metadata begin: then the generation (int32 of this machine), the group id and the member id,
each with a zero byte behind it, and 1; or 0, and the instance id of a static member with a zero byte behind it.
Source: librdkafka ``rd_kafka_consumer_group_metadata_write``."""

_BY_BROKER_ID = re.compile(r"[A-Za-z0-9+/_-]{22}")
"""A member id of KIP-848: 16 bytes as Base64, which the client draws before it joins. The coordinator makes one of the
classic protocol longer, of the client's or the instance id, a dash and a UUID."""

BY_BROKER = (
    "it has group.protocol=consumer (KIP-848), where a client is told neither of other members nor of rebalances that "
    "leave its partitions; `kafka-assignors why` reads such a group from the coordinator's log"
)
"""Why a consumer of KIP-848 can't be recorded."""

Callback = Callable[[Any, Any], Any]


def recording_callbacks(consumer: Any, sender: EventSender, own: Mapping[str, Callback | None]) -> dict[str, Callback]:
    """The callbacks for ``subscribe`` that record, and call the service's `own`, by their names.

    Raises:
        ConfigError: The client's metadata can't be read: it has no group, or this version writes them in another way.
            Or it is a consumer of KIP-848.
    """
    metadata = metadata_of(consumer)
    if metadata is None or not metadata.group:
        raise ConfigError("this consumer can't be recorded: confluent-kafka shows no group of it")
    if metadata.by_broker:
        raise ConfigError(f"this consumer can't be recorded: {BY_BROKER}")
    watch = _Watch(sender, metadata)
    return {name: watch.callback(name, own) for name in CALLBACKS}


class GroupMetadata:
    """What the client tells of its membership: its generation (-1: none), group, member id and instance id."""

    def __init__(self, generation: int, group: str, member_id: str, instance_id: str) -> None:
        self.generation, self.group, self.member_id, self.instance_id = generation, group, member_id, instance_id

    @property
    def by_broker(self) -> bool:
        """Whether it is a member by the protocol of KIP-848."""
        return _BY_BROKER_ID.fullmatch(self.member_id) is not None


def metadata_of(consumer: Any) -> GroupMetadata | None:
    """Read a consumer's group metadata; None if they have another form."""
    data = bytes(consumer.consumer_group_metadata())
    if not data.startswith(_METADATA) or len(data) < len(_METADATA) + 4:
        return None
    (generation,) = struct.unpack_from("=i", data, len(_METADATA))
    group, member_id, rest = (*data[len(_METADATA) + 4 :].split(b"\0", 2), b"", b"")[:3]
    instance_id = rest[1:].split(b"\0")[0] if rest[:1] == b"\0" else b""
    return GroupMetadata(generation, *(part.decode("utf-8", "replace") for part in (group, member_id, instance_id)))


class _Watch:
    def __init__(self, sender: EventSender, metadata: GroupMetadata) -> None:
        self._sender, self._group = sender, metadata.group
        self._member: ServiceMember | None = None
        self._generation = -1

    def callback(self, name: str, own: Mapping[str, Callback | None]) -> Callback:
        # As the client falls back: lost partitions are revoked ones for a service without `on_lost`.
        theirs = own.get(name) or (own.get("on_revoke") if name == "on_lost" else None)

        def recorded(consumer: Any, partitions: Any) -> Any:
            self._note(name, consumer, partitions)
            return None if theirs is None else theirs(consumer, partitions)

        return recorded

    def _note(self, name: str, consumer: Any, partitions: Any) -> None:
        if self._member is None:
            self._member = ServiceMember(
                self._sender, group=self._group, client=CLIENT, client_id="", instance_id=None, host=host()
            )
        self._member.guarded(self._note_change, self._member, name, consumer, partitions)

    def _note_change(self, member: ServiceMember, name: str, consumer: Any, partitions: Any) -> None:
        metadata = metadata_of(consumer)
        if metadata is None:
            raise ValueError("confluent-kafka shows its group metadata in another form")
        if metadata.by_broker:  # a librdkafka to which the coordinator gave its id shows it here first
            raise ConfigError(BY_BROKER)
        places = {(tp.topic, tp.partition) for tp in partitions}
        now = member.owned | places if name == "on_assign" else member.owned - places
        fresh = metadata.generation >= 0 and metadata.generation != self._generation
        if metadata.member_id:
            member.is_member(metadata.member_id, metadata.instance_id or None)
        if fresh and (now or name == "on_assign"):
            self._generation = metadata.generation
            member.adopting_places(metadata.generation, now)
        if name == "on_lost":
            member.gives_up(places, lost=True)
        else:
            member.owns(now)
