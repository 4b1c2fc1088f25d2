"""The bytes members and leader exchange: ConsumerProtocolSubscription and ConsumerProtocolAssignment, versions 0-3.

All integers are big endian. A string is int16 length + UTF-8, bytes are int32 length + content, an array is int32 count
+ elements; length -1 stands for null where null is allowed.

=============  =====================================================================================================
subscription   int16 version, topics [string], user data bytes?, (1+) owned [topic string, [int32 partition]],
               (2+) int32 generation, (3+) rack string?
assignment     int16 version, partitions [topic string, [int32 partition]], user data bytes?
=============  =====================================================================================================

A later version may only append fields, so every version above 3 is read as version 3 and what follows is ignored.

Source: KIP-429 (owned), KIP-792 (generation), KIP-881 (rack); apache/kafka 4.3.0
``clients/src/main/resources/common/message/ConsumerProtocol{Subscription,Assignment}.json``, ``ConsumerProtocol.java``.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...errors import WireError
from ..group import NO_GENERATION, Partitions, TopicPartition
from ..group.order import utf16
from . import limits

VERSION = 3
"""The newest version this codec writes, and the one newer bytes are read as."""


class Subscription(NamedTuple):
    """What one member says when it joins.

    Args:
        topics: Topic names it subscribes to.
        user_data: The assignor's own bytes, or None.
        owned: Topic-partitions it holds; empty below version 1.
        generation: Generation that gave it `owned`; `NO_GENERATION` below version 2.
        rack: Its ``client.rack``; None below version 3.
        unread: Why not all of it was read (`limits`), "" when it was.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    unread: str = ""


@dataclass(frozen=True)
class AssignedPartitions:
    """What the leader gives one member.

    Args:
        partitions: topic -> partition ids.
        user_data: The assignor's own bytes for the member, or None.
    """

    partitions: Mapping[str, Sequence[int]] = field(default_factory=dict)
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription, version: int = VERSION) -> bytes:
    """Write a subscription in the given version (0-3), topics and owned partitions sorted as Java sorts them.

    Raises:
        WireError: An unknown version, or a name longer than 32,767 bytes.
    """
    if not 0 <= version <= VERSION:
        raise WireError(f"cannot write subscription version {version}; known: 0 to {VERSION}")
    out = bytearray(struct.pack(">hi", version, len(subscription.topics)))
    for topic in sorted(subscription.topics, key=utf16):
        out += _string(topic)
    out += _bytes(subscription.user_data)
    if version >= 1:
        out += encode_partitions(by_topic(subscription.owned))
    if version >= 2:
        out += struct.pack(">i", subscription.generation)
    if version >= 3:
        out += b"\xff\xff" if subscription.rack is None else _string(subscription.rack)
    return bytes(out)


def decode_subscription(data: bytes) -> Subscription:
    """Read a subscription of any version; fields that its version lacks have their defaults (or `limits` leave unread).

    Raises:
        WireError: Truncated or malformed bytes, or a version below 0.
    """
    reader = Reader(data, "subscription")
    version = reader.version()
    if why := beyond(len(data), reader.ahead(2)):
        return Subscription((), unread=why)
    topics = reader.strings()
    user_data = reader.bytes_or_none()
    if version >= 1 and (why := owns_beyond(reader.ahead(6))):
        return Subscription(topics, user_data, unread=why)
    owned = reader.partitions() if version >= 1 else ()
    generation = reader.int32() if version >= 2 else NO_GENERATION
    rack = reader.string_or_none() if version >= 3 else None
    return Subscription(topics, user_data, owned, generation, rack)


def beyond(size: int, topics: int) -> str:
    """Why a subscription of so many bytes and topics is not read, "" when it is.

    Args:
        size: In bytes; where somebody else decoded it, that of its user data.
        topics: How many it names.
    """
    if size > limits.SUBSCRIPTION_BYTES:
        most = f"sent a subscription of {size:,} bytes; {limits.SUBSCRIPTION_BYTES:,}"
    elif topics > limits.TOPICS:
        most = f"subscribes to {topics:,} topics; {limits.TOPICS:,}"
    else:
        return ""
    return f"{most} are read at most: it is assigned nothing"


def owns_beyond(topics: int) -> str:
    """Why what a member owns of so many topics is not read, "" when it is."""
    if topics <= limits.TOPICS:
        return ""
    return f"owns partitions of {topics:,} topics; {limits.TOPICS:,} are read at most: they are ignored"


def encode_assignment(assigned: AssignedPartitions, version: int = VERSION) -> bytes:
    """Write an assignment in the given version (0-3), topics in the mapping's order.

    Raises:
        WireError: An unknown version, or a name longer than 32,767 bytes.
    """
    if not 0 <= version <= VERSION:
        raise WireError(f"cannot write assignment version {version}; known: 0 to {VERSION}")
    return struct.pack(">h", version) + encode_partitions(assigned.partitions) + _bytes(assigned.user_data)


def decode_assignment(data: bytes) -> AssignedPartitions:
    """Read an assignment of any version. A topic that is listed twice gets both lists.

    Raises:
        WireError: Truncated or malformed bytes (zero bytes too: a leader that forgot the member sends those).
    """
    reader = Reader(data, "assignment")
    reader.version()
    partitions: dict[str, list[int]] = {}
    for topic, partition in reader.partitions():
        partitions.setdefault(topic, []).append(partition)
    return AssignedPartitions(partitions, reader.bytes_or_none())


def by_topic(partitions: Collection[tuple[str, int]]) -> dict[str, list[int]]:
    """Topic-partitions as topic -> ascending partition ids, topics in Java's string order."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return {topic: sorted(grouped[topic]) for topic in sorted(grouped, key=utf16)}


def encode_partitions(partitions: Mapping[str, Sequence[int]]) -> bytes:
    """An array of (topic, partition ids), as subscriptions, assignments and sticky user data carry it."""
    out = bytearray(struct.pack(">i", len(partitions)))
    for topic, ids in partitions.items():
        out += _string(topic) + struct.pack(f">i{len(ids)}i", len(ids), *ids)
    return bytes(out)


def _string(value: str) -> bytes:
    encoded = value.encode()
    if len(encoded) > 0x7FFF:
        raise WireError(f"name of {len(encoded)} bytes is longer than Kafka's 32767: {value[:40]!r}…")
    return struct.pack(">h", len(encoded)) + encoded


def _bytes(value: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if value is None else struct.pack(">i", len(value)) + value


class Reader:
    """Takes Kafka's primitive types off the front of some bytes.

    Args:
        data: The bytes.
        what: What they should be; named in errors.
        offset: Where to start.
    """

    def __init__(self, data: bytes, what: str, offset: int = 0) -> None:
        self.data, self.what, self.offset = data, what, offset

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        chunk = self.data[self.offset : self.offset + size]
        if len(chunk) != size:
            raise WireError(
                f"{self.what} is cut off: {size} bytes wanted at offset {self.offset}, {len(chunk)} there "
                f"(of {len(self.data)})"
            )
        self.offset += size
        return chunk

    def int16(self) -> int:
        """The next 2 bytes."""
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        """The next 4 bytes."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def version(self) -> int:
        """A leading version; what is newer than ours reads as ours."""
        version = self.int16()
        if version < 0:
            raise WireError(f"{self.what} has version {version}, below 0")
        return min(version, VERSION)

    def ahead(self, element_size: int) -> int:
        """The length of the next array, which is not taken; 0 where there is none that `count` would accept."""
        count = int.from_bytes(self.data[self.offset : self.offset + 4], "big")
        return count if count * element_size <= len(self.data) - self.offset - 4 else 0

    def count(self, element_size: int) -> int:
        """The length of an array whose elements take `element_size` bytes or more each."""
        count = self.int32()
        if count < 0 or count * element_size > len(self.data) - self.offset:
            raise WireError(
                f"{self.what} announces {count} elements at offset {self.offset - 4}, "
                f"{len(self.data) - self.offset} bytes are left"
            )
        return count

    def string(self) -> str:
        """A string that may not be null."""
        value = self.string_or_none()
        if value is None:
            raise WireError(f"{self.what} has null for a name at offset {self.offset - 2}")
        return value

    def string_or_none(self) -> str | None:
        """A string or null."""
        size = self.int16()
        if size < 0:
            return None
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise WireError(f"{self.what} has a name that is not UTF-8 at offset {self.offset - size}") from error

    def strings(self) -> tuple[str, ...]:
        """An array of strings."""
        data, found = self.data, []
        count = self.count(2)
        at, limit = self.offset, len(self.data)
        for _ in range(count):  # a leader of many members that subscribe to different topics comes here often
            try:
                end = at + 2 + (data[at] << 8 | data[at + 1])
                if data[at] > 0x7F or end > limit:
                    raise ValueError
                found.append(_name(data[at + 2 : end]))
            except (ValueError, IndexError):  # say precisely what is wrong
                self.offset = at
                self.string()
                raise AssertionError from None
            at = end
        self.offset = at
        return tuple(found)

    def bytes_or_none(self) -> bytes | None:
        """Bytes or null."""
        size = self.int32()
        return None if size < 0 else bytes(self.take(size))

    def partitions(self) -> Partitions:
        """An array of (topic, partition ids), of up to `limits.TOPICS` topics."""
        data, topics, counts, ids = self.data, [], [], []
        if (many := self.ahead(6)) > limits.TOPICS:
            raise WireError(f"{self.what} lists {many:,} topics; {limits.TOPICS:,} are read at most")
        runs = self.count(6)
        at = self.offset
        for _ in range(runs):  # a leader of a large group comes here a million times: no calls but one
            start = at + 2 + int.from_bytes(data[at : at + 2], "big")
            count = int.from_bytes(data[start : start + 4], "big")
            end = start + 4 + 4 * count
            try:
                if end > len(data) or start - at > 0x8001:
                    raise ValueError
                topics.append(_name(data[at + 2 : start]))
            except ValueError:  # say precisely what is wrong
                self.offset = at
                self.string()
                self.take(4 * self.count(4))
                raise AssertionError from None
            counts.append(count)
            ids.append(data[start + 4 : end])
            at = end
        self.offset = at
        return Partitions(topics, counts, np.frombuffer(b"".join(ids), ">i4"))


@functools.lru_cache(maxsize=1 << 14)
def _name(encoded: bytes) -> str:
    """One string object for all members that name a topic."""
    return encoded.decode()
