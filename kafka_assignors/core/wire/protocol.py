"""The consumer protocol's bytes: ConsumerProtocolSubscription and ConsumerProtocolAssignment, versions 0-3.

`primitives` says what strings, bytes and arrays are.

=============  =====================================================================================================
subscription   int16 version, topics [string], user data bytes?, (1+) owned [topic string, [int32 partition]],
               (2+) int32 generation, (3+) rack string?
assignment     int16 version, partitions [topic string, [int32 partition]], user data bytes?
=============  =====================================================================================================

A later version may only append fields, so a version above 3 is decoded as version 3 and the rest is ignored.

Source: KIP-429 (owned), KIP-792 (generation), KIP-881 (rack); apache/kafka 4.3.0
``clients/src/main/resources/common/message/ConsumerProtocol{Subscription,Assignment}.json``, ``ConsumerProtocol.java``.
"""

from __future__ import annotations

import functools
import struct
from array import array
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ...errors import WireError
from ..group import NO_GENERATION, Partitions, TopicPartition
from ..group.order import utf16
from . import limits, primitives

VERSION = 3
"""The newest version that this codec encodes. Newer versions are decoded as this one."""


class Subscription(NamedTuple):
    """The subscription that a member sends when it joins.

    Args:
        user_data: The assignor's own bytes, or None.
        owned: Topic-partitions that it claims to hold; empty below version 1.
        generation: Generation that assigned `owned`; `NO_GENERATION` below version 2.
        rack: Its ``client.rack``; None below version 3.
        unread: Why a part was ignored (`limits`), "" if nothing was.
        version: The version that it came in.
    """

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    unread: str = ""
    version: int = VERSION


class AssignedPartitions(NamedTuple):
    """What the leader sends to one member: topic -> partition ids, and the assignor's own bytes for it, or None."""

    partitions: Mapping[str, Sequence[int]]
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription, version: int = VERSION) -> bytes:
    """Encode a subscription in the given version (0-3), topics and owned partitions sorted as Java sorts them.

    Raises:
        WireError: The version is unknown, or a name is longer than 32,767 bytes.
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
    """Decode a subscription of any version. Fields that the version lacks or that exceed `limits` have defaults.

    A subscription may end after its user data whatever its version says: segmentio/kafka-go sends version 1 without
    owned partitions. aiokafka and Sarama read that, too (IBM/sarama ``consumer_group_members.go``).

    Raises:
        WireError: Truncated or malformed bytes, or a version below 0.
    """
    reader = ProtocolReader(data, "subscription")
    version = reader.version()
    if why := beyond(len(data), reader.ahead(2)):
        return Subscription((), unread=why)
    topics = reader.strings()
    user_data = reader.bytes_or_none()
    if reader.offset == len(data):
        return Subscription(topics, user_data, version=version)
    if version >= 1 and (why := owns_beyond(reader.ahead(6))):
        return Subscription(topics, user_data, unread=why)
    owned = reader.partitions() if version >= 1 else ()
    generation = reader.int32() if version >= 2 else NO_GENERATION
    rack = reader.string_or_none() if version >= 3 else None
    return Subscription(topics, user_data, owned, generation, rack, version=version)


def read_subscription(data: bytes) -> Subscription:
    """`decode_subscription` of bytes of any origin: malformed ones subscribe to nothing, and `unread` says why."""
    try:
        return decode_subscription(data)
    except WireError as error:
        why = f"sent {len(data):,} bytes that are no subscription ({error}): {_NOTHING}"
        return Subscription((), unread=why, version=MALFORMED)


MALFORMED = -1
"""The version of bytes that are no subscription."""
_NOTHING = "it is assigned nothing"
EMPTY = b"\0\3" + bytes(4) + b"\xff" * 4 + bytes(4) + b"\xff" * 6
"""A subscription of version 3 to no topics."""


def beyond(size: int, topics: int) -> str:
    """Why a subscription is ignored, "" if it is not; `size` is that of its user data if the client decoded it."""
    if size > limits.SUBSCRIPTION_BYTES:
        most = f"sent a subscription of {size:,} bytes; {limits.SUBSCRIPTION_BYTES:,}"
    elif topics > limits.TOPICS:
        most = f"subscribes to {topics:,} topics; {limits.TOPICS:,}"
    else:
        return ""
    return f"{most} are read at most: {_NOTHING}"


def owns_beyond(topics: int) -> str:
    """Why owned partitions of this number of topics are ignored, "" if they are not."""
    if topics <= limits.TOPICS:
        return ""
    return f"owns partitions of {topics:,} topics; {limits.TOPICS:,} are read at most: they are ignored"


def encode_assignment(assigned: AssignedPartitions, version: int = VERSION) -> bytes:
    """Encode an assignment (version 0-3), in its order; WireError for another version or a name above 32,767 bytes."""
    if not 0 <= version <= VERSION:
        raise WireError(f"cannot write assignment version {version}; known: 0 to {VERSION}")
    return struct.pack(">h", version) + encode_partitions(assigned.partitions) + _bytes(assigned.user_data)


def with_user_data(assignment: bytes | memoryview, user_data: bytes) -> bytes:
    """An assignment's bytes that end with no user data, with user data instead."""
    return bytes(assignment[:-4]) + _bytes(user_data)


def decode_assignment(data: bytes) -> AssignedPartitions:
    """Decode an assignment of any version. If a topic appears twice, its lists are joined.

    Raises:
        WireError: Truncated or malformed bytes, including zero bytes, which a leader that forgot the member sends.
    """
    reader = ProtocolReader(data, "assignment")
    reader.version()
    partitions: dict[str, list[int]] = {}
    for topic, partition in reader.partitions():
        partitions.setdefault(topic, []).append(partition)
    return AssignedPartitions(partitions, reader.bytes_or_none())


def by_topic(partitions: Collection[tuple[str, int]]) -> dict[str, list[int]]:
    """Group topic-partitions as topic -> ascending partition ids, topics in Java's string order."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return {topic: sorted(grouped[topic]) for topic in sorted(grouped, key=utf16)}


def encode_partitions(partitions: Mapping[str, Sequence[int]]) -> bytes:
    """Encode an array of (topic, partition ids), as used in subscriptions, assignments and sticky user data."""
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


class ProtocolReader(primitives.Reader):
    """A reader with the structures that subscriptions and assignments share."""

    def version(self) -> int:
        """Read a leading version; a newer one becomes ours."""
        version = self.int16()
        if version < 0:
            raise WireError(f"{self.what} has version {version}, below 0")
        return min(version, VERSION)

    def ahead(self, element_size: int) -> int:
        """Length of the next array, without reading it; 0 if `count` would reject it."""
        count = int.from_bytes(self.data[self.offset : self.offset + 4], "big")
        return count if count * element_size <= len(self.data) - self.offset - 4 else 0

    def strings(self) -> tuple[str, ...]:
        """Read an array of strings."""
        data, strings = self.data, []
        count = self.count(2)
        at, limit = self.offset, len(self.data)
        for _ in range(count):  # hot if many members subscribe to different topics
            try:
                end = at + 2 + (data[at] << 8 | data[at + 1])
                if data[at] > 0x7F or end > limit:
                    raise ValueError
                strings.append(_name(data[at + 2 : end]))
            except (ValueError, IndexError):  # raise the exact error
                self.offset = at
                self.string()
                raise AssertionError from None
            at = end
        self.offset = at
        return tuple(strings)

    def partitions(self) -> Partitions:
        """Read an array of (topic, partition ids), at most `limits.TOPICS` topics."""
        data, topics, counts, ids = self.data, [], [], []
        if (many := self.ahead(6)) > limits.TOPICS:
            raise WireError(f"{self.what} lists {many:,} topics; {limits.TOPICS:,} are read at most")
        runs = self.count(6)
        at = self.offset
        for _ in range(runs):  # runs a million times in a large group: a single call inside
            start = at + 2 + int.from_bytes(data[at : at + 2], "big")
            count = int.from_bytes(data[start : start + 4], "big")
            end = start + 4 + 4 * count
            try:
                if end > len(data) or start - at > 0x8001:
                    raise ValueError
                topics.append(_name(data[at + 2 : start]))
            except ValueError:  # raise the exact error
                self.offset = at
                self.string()
                self.take(4 * self.count(4))
                raise AssertionError from None
            counts.append(count)
            ids.append(data[start + 4 : end])
            at = end
        self.offset = at
        return Partitions(topics, counts, array("q", struct.unpack(f">{sum(counts)}i", b"".join(ids))))


@functools.lru_cache(maxsize=1 << 14)
def _name(encoded: bytes) -> str:
    """Decode a topic name; all members share one string object per name."""
    return encoded.decode()


int16, int32 = struct.Struct(">h").unpack_from, struct.Struct(">i").unpack_from

Heads = dict[bytes, list[tuple[bytes, tuple[str, ...]]]]
"""Bytes of a count of topics and the first topic -> subscriptions that begin so: the topics' bytes, and the topics."""

_HEADS = 64
"""Maximum number of distinct subscriptions with the same first topic to compare with, which avoids quadratic cost."""


def shared_topics(data: bytes, heads: Heads) -> tuple[tuple[str, ...], int]:
    """The topics of a subscription and the offset of their end. Equal bytes share an earlier subscription's topics."""
    alike = heads.setdefault(data[2 : 8 + int.from_bytes(data[6:8], "big")], [])  # the count and the first topic
    for head, topics in alike:
        if data.startswith(head, 2):
            return topics, 2 + len(head)
    reader = ProtocolReader(data, "subscription", 2)
    topics = reader.strings()
    if len(alike) < _HEADS:
        alike.append((data[2 : reader.offset], topics))
    return topics, reader.offset


def all_topics(data: Sequence[bytes]) -> frozenset[str]:
    """All topics that members subscribe to, except those of subscriptions that `bulk.subscriptions` does not decode."""
    heads: Heads = {}
    tuples: dict[int, tuple[str, ...]] = {}
    for payload in data:
        if not beyond(len(payload), int.from_bytes(payload[2:6], "big")):
            with suppress(WireError):
                names, _ = shared_topics(payload, heads)
                tuples[id(names)] = names
    return frozenset[str]().union(*tuples.values())


def completed(data: Sequence[bytes]) -> list[bytes]:
    """Subscriptions with the fields that their version promises, empty if they were left out after the user data.

    kafka-python's leader fails on the subscriptions of segmentio/kafka-go without this; see `decode_subscription`.
    Others stay as they are, malformed ones too.
    """
    heads: Heads = {}
    whole = []
    for payload in data:
        missing = b""
        with suppress(WireError, struct.error):
            if not beyond(len(payload), int.from_bytes(payload[2:6], "big")):
                _, at = shared_topics(payload, heads)
                if at + 4 + max(int32(payload, at)[0], 0) == len(payload):
                    missing = _EMPTY_TAILS[min(max(int16(payload, 0)[0], 0), VERSION)]
        whole.append(payload + missing)
    return whole


_EMPTY_TAILS = (b"", bytes(4), bytes(4) + b"\xff" * 4, bytes(4) + b"\xff" * 6)
"""By version: no owned partitions, no generation, no rack."""
