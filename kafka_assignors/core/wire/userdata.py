"""Codec between claims and the user data of the sticky assignors. Does not judge whether a claim is true.

======================  ==============================================================================================
sticky V1               [topic string, [int32 partition]], int32 generation; no version in front
sticky V0               the same without the generation (before Kafka 2.3)
kafka-python's          int16 version, then V0 or V1 as that says; no other client decodes it, we do
cooperative-sticky      int32 generation; the partitions are in the subscription itself
======================  ==============================================================================================

A member with options (`options`) also sends these: under ``sticky`` the array begins with a topic without partitions
whose name is ``options:`` and the text; under ``cooperative-sticky`` that name follows the generation. Without options
the bytes are Java's. Other clients ignore both: under ``sticky`` they find no partition to claim; under
``cooperative-sticky`` Java, librdkafka, franz-go and Sarama (which rejects longer user data under ``sticky``) stop
after the generation.

Source: KIP-54, KIP-341; ``StickyAssignor.java``, ``CooperativeStickyAssignor.java`` of apache/kafka 4.3.0;
kafka-python 3.0.12 ``coordinator/assignors/sticky/user_data.py``.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import NamedTuple

from ...errors import WireError
from ..group import NO_GENERATION, TopicPartition
from . import limits
from .protocol import ProtocolReader, by_topic, encode_partitions, with_user_data


class Claim(NamedTuple):
    """The partitions that a member claims to hold.

    Args:
        owned: Topic-partitions.
        generation: Generation that assigned them; `NO_GENERATION` if absent.
        garbage: Why the bytes could not be decoded, "" if they could. Garbage claims nothing.
    """

    owned: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION
    garbage: str = ""


JAVAS = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""Names that promise Java's bytes; the format of `compact` is not allowed under them."""
_MARK = b"options:"
"""A topic name cannot contain a colon."""


def of_java(
    name: str, owned: Collection[tuple[str, int]] | None, generation: int, option_bytes: bytes = b""
) -> bytes | None:
    """The user data that a member sends under one of Java's names; `owned` is None before its first assignment."""
    if name == "cooperative-sticky":  # the subscription itself has the claims
        return encode_cooperative(generation, option_bytes)
    if name != "sticky" or (owned is None and not option_bytes):
        return None
    return encode_sticky(owned or (), generation, option_bytes)


def encode_sticky(owned: Collection[tuple[str, int]], generation: int, option_bytes: bytes = b"") -> bytes:
    """Encode sticky user data V1 in Java's string order (Java: hash order); WireError: a topic above 32,767 bytes."""
    claims = encode_partitions(by_topic(owned))
    if option_bytes:
        count, name = int.from_bytes(claims[:4], "big") + 1, _MARK + option_bytes
        claims = struct.pack(">ih", count, len(name)) + name + bytes(4) + claims[4:]
    return claims + struct.pack(">i", generation)


ECHOING = 2
"""The newest subscription version of Sarama, whose members send back under ``sticky`` the user data of their last
assignment, and claim nothing after a leader that sent none. Java, kafka-python and we send version 3."""


def echoed(assignment: bytes | memoryview, generation: int) -> bytes:
    """An assignment without user data -> the same with sticky user data that claim it, as Sarama's leader sends them.

    Source: IBM/sarama v1.61.1 ``consumer_group.go`` (``c.userData = members.UserData``), ``balance_strategy.go``
    (``AssignmentData``).
    """
    return with_user_data(assignment, bytes(assignment[2:-4]) + struct.pack(">i", generation))


def split(data: bytes) -> tuple[bytes, bytes]:
    """Split sticky user data into options and the rest."""
    end = 6 + int.from_bytes(data[4:6], "big")
    if data[6:14] != _MARK or data[end : end + 4] != bytes(4):
        return b"", data
    count = max(int.from_bytes(data[:4], "big", signed=True) - 1, 0)
    return data[6 + len(_MARK) : end], count.to_bytes(4, "big") + data[end + 4 :]


def decode_sticky(data: bytes | None) -> Claim:
    """Decode sticky user data in any format. None and empty bytes claim nothing. Never raises.

    The bytes do not name their format, so we take the one that consumes them exactly. If none does, we decode V1 with
    trailing bytes, as Java does, because a later version may append fields.
    """
    if not data:
        return Claim()
    data = split(data)[1]
    if (topics := ProtocolReader(data, "").ahead(6)) > limits.TOPICS:
        return Claim(garbage=f"user data claim partitions of {topics:,} topics; {limits.TOPICS:,} are read at most")
    for offset, has_generation in ((0, True), (2, True), (2, False), (0, False)):
        claim, end = _read(data, offset, has_generation)
        if claim is not None and end == len(data):
            return claim
    claim, _ = _read(data, 0, has_generation=True)
    return claim or Claim(garbage=f"{len(data)} bytes of user data are not in a format of the sticky assignor")


def _read(data: bytes, offset: int, has_generation: bool) -> tuple[Claim | None, int]:
    if offset and data[:offset] != has_generation.to_bytes(offset, "big"):
        return None, 0
    reader = ProtocolReader(data, "sticky user data", offset)
    try:
        owned = reader.partitions()
        generation = max(reader.int32(), NO_GENERATION) if has_generation else NO_GENERATION
    except WireError:
        return None, 0
    return Claim(owned, generation), reader.offset


def encode_cooperative(generation: int, option_bytes: bytes = b"") -> bytes:
    """Encode cooperative-sticky user data; `option_bytes` are those of `options.tell`."""
    return struct.pack(">i", generation) + (_MARK + option_bytes if option_bytes else b"")


def decode_cooperative(data: bytes | None) -> Claim:
    """Decode cooperative-sticky user data, which holds only a generation. Never raises."""
    if not data:
        return Claim()
    if len(data) < 4:
        return Claim(garbage=f"{len(data)} bytes of user data have no int32 generation")
    return Claim(generation=max(struct.unpack_from(">i", data)[0], NO_GENERATION))


def options(name: str, data: bytes | None) -> bytes:
    """The options in a member's user data under one of Java's names; b"" if there are none. Never raises."""
    if not data or name in ("range", "roundrobin"):
        return b""
    if name == "sticky":
        return split(data)[0] if data[6:14] == _MARK else b""
    # librdkafka sends the format of ``sticky``
    return data[4 + len(_MARK) :] if data[4 : 4 + len(_MARK)] == _MARK else b""
