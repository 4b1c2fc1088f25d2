"""Records of ``__consumer_offsets``: golden bytes of a real broker, every version, and garbage."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.history.coordinator_log import (
    BrokerAssigned,
    CommittedMember,
    GroupCommitted,
    OffsetCommitted,
    Tombstone,
    Unknown,
    decode,
    partition_of,
)
from kafka_assignors.history.events import committed
from tests.support.places import VECTORS

GROUP_KEY = bytes.fromhex("00020006676f6c64656e")
OFFSET_KEY = bytes.fromhex("00010006676f6c64656e00066f726465727300000000")
MEMBER_ID = "s1-895bffc5-d190-40c1-a113-d918ef035593"


@pytest.mark.source("apache/kafka 4.3.0 wrote it for a group of one kafka-python member with group.instance.id s1")
def test_a_generation_as_a_real_broker_wrote_it() -> None:
    value = bytes.fromhex(
        "00030008636f6e73756d657200000002000572616e6765002773312d38393562666663352d643139302d343063312d613131"
        "332d643931386566303335353933000001a1fe35869400000001002773312d38393562666663352d643139302d343063312d"
        "613131332d6439313865663033353539330002733100026d31000a2f3132372e302e302e31000493e0000007d00000001c00"
        "030000000100066f7264657273ffffffff0000000000000001ffff0000001e00030000000100066f72646572730000000200"
        "00000000000001ffffffff"
    )

    decoded = decode(GROUP_KEY, value)

    assert isinstance(decoded, GroupCommitted)
    (member,) = decoded.members
    assert (decoded.group, decoded.protocol_type, decoded.generation) == ("golden", "consumer", 2)
    assert (decoded.protocol, decoded.leader, decoded.ts_ms) == ("range", MEMBER_ID, 1795266283156)
    assert (member.member_id, member.instance_id, member.client_id) == (MEMBER_ID, "s1", "m1")
    assert (member.client_host, member.rebalance_timeout_ms, member.session_timeout_ms) == ("/127.0.0.1", 300000, 2000)
    (row,) = committed(decoded)[1]["members"]
    assert row["assigned"] == [{"topic": "orders", "partition": 0}, {"topic": "orders", "partition": 1}]
    assert (bytes.fromhex(row["subscription"]), bytes.fromhex(row["assignment"])) == (
        member.subscription,
        member.assignment,
    )


@pytest.mark.source("apache/kafka 4.3.0")
def test_an_empty_group_as_a_real_broker_wrote_it() -> None:
    value = bytes.fromhex("0003000000000000ffffffff000001a1fe35863600000000")

    assert decode(GROUP_KEY, value) == GroupCommitted("golden", "", 0, None, None, 1795266283062, ())


@pytest.mark.source("apache/kafka 4.3.0, OffsetCommitValue version 4 with its topic id")
def test_a_commit_as_a_real_broker_wrote_it() -> None:
    value = bytes.fromhex("00040000000000000001ffffffff01000001a1fe3586eb010010275c72ed30f542b2897ba6d2b4e3d45b")

    assert decode(OFFSET_KEY, value) == OffsetCommitted("golden", "orders", 0, 1, -1, 1795266283243)


RECORDS = [json.loads(line) for line in (VECTORS / "coordlog.jsonl").read_text("utf-8").splitlines()]
CONSUMER = [row for row in RECORDS if row["key_version"] in (3, 4, 5, 6, 7, 8, 16)]
OTHERS = [row for row in RECORDS if row not in CONSUMER]


def named(row: dict[str, Any]) -> str:
    return f"{row['record']}-{row['key_json'].get('memberId', 'group')}{'-deleted' if row['value'] is None else ''}"


def read(row: dict[str, Any]) -> object:
    return decode(bytes.fromhex(row["key"]), None if row["value"] is None else bytes.fromhex(row["value"]))


@pytest.mark.source("GroupCoordinatorRecordSerde and the JSON converters of Kafka 4.3.0")
@pytest.mark.parametrize("row", CONSUMER, ids=named)
def test_records_of_kip_848_say_what_java_reads_in_them(row: dict[str, Any]) -> None:
    decoded = read(row)

    assert isinstance(decoded, BrokerAssigned)
    key, value = row["key_json"], row["value_json"]
    assert (decoded.record, decoded.group, decoded.member) == (row["record"], key["groupId"], key.get("memberId"))
    if value is None:
        assert decoded.fields is None
    else:
        assert decoded.fields == value
    assert decoded.pattern == key.get("regularExpression")


@pytest.mark.source("GroupCoordinatorRecordSerde of Kafka 4.3.0")
@pytest.mark.parametrize("row", OTHERS, ids=named)
def test_records_of_other_groups_are_known_by_name(row: dict[str, Any]) -> None:
    decoded = read(row)

    assert isinstance(decoded, Unknown)
    assert decoded.group == "billing"
    assert f"{row['record']} record (key version {row['key_version']})" in decoded.reason


def test_the_vectors_have_every_kind_of_kafka_4_3() -> None:
    assert {row["key_version"] for row in RECORDS} == set(range(3, 24)) - {9, 18}, "gone since 4.0 and 4.1"


@pytest.mark.source("GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionRecord of Kafka 4.3.0")
def test_a_member_as_the_broker_writes_it_has_an_explicit_null_for_its_classic_part() -> None:
    key = bytes.fromhex("00050005636875726e00026d6d")
    value = "00000000036d310b2f3132372e302e302e3103066175646974076f726465727301000493e008756e69666f726d01000100"

    decoded = decode(key, bytes.fromhex(value))

    assert isinstance(decoded, BrokerAssigned)
    assert decoded.fields == {
        "instanceId": None, "rackId": None, "clientId": "m1", "clientHost": "/127.0.0.1",
        "subscribedTopicNames": ["audit", "orders"], "subscribedTopicRegex": "", "rebalanceTimeoutMs": 300_000,
        "serverAssignor": "uniform", "classicMemberMetadata": None,
    }  # fmt: skip


def test_a_malformed_record_names_its_group() -> None:
    assert decode(struct.pack(">h", 5) + short("g") + short("m"), b"\x00\x00\x01") == Unknown(
        "a malformed record: record is cut off: 1 bytes expected at offset 3, 0 there (of 3)", "g"
    )


@given(st.sampled_from([row for row in CONSUMER if row["value"]]), st.data())
def test_broken_records_of_kip_848_never_raise(row: dict[str, Any], data: st.DataObject) -> None:
    raw = bytearray(bytes.fromhex(row["value"]))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))

    for broken in (bytes(raw), bytes(raw[:at])):
        assert isinstance(decode(bytes.fromhex(row["key"]), broken), BrokerAssigned | Unknown)


def short(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else struct.pack(">h", len(text.encode())) + text.encode()


def compact(data: bytes | str | None) -> bytes:
    if data is None:
        return b"\x00"
    raw = data.encode() if isinstance(data, str) else data
    return varint(len(raw) + 1) + raw


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def encode_group(group: GroupCommitted, version: int, tags: bytes = b"\x00") -> bytes:
    """The record as the schema of that version says, written apart from the reader under test."""
    flexible = version >= 4
    text = compact if flexible else short
    blob = compact if flexible else lambda data: struct.pack(">i", len(data)) + data
    out = struct.pack(">h", version) + text(group.protocol_type) + struct.pack(">i", group.generation)
    out += text(group.protocol) + text(group.leader)
    if version >= 2:
        out += struct.pack(">q", group.ts_ms)
    out += varint(len(group.members) + 1) if flexible else struct.pack(">i", len(group.members))
    for m in group.members:
        out += text(m.member_id) + (text(m.instance_id) if version >= 3 else b"")
        out += text(m.client_id) + text(m.client_host)
        out += (struct.pack(">i", m.rebalance_timeout_ms) if version >= 1 else b"") + struct.pack(
            ">i", m.session_timeout_ms
        )
        out += blob(m.subscription) + blob(m.assignment) + (tags if flexible else b"")
    return out + (tags if flexible else b"")


words = st.text(max_size=20)
ints = st.integers(-(2**31), 2**31 - 1)
groups = st.builds(
    GroupCommitted,
    group=st.just("golden"),
    protocol_type=words,
    generation=ints,
    protocol=st.none() | words,
    leader=st.none() | words,
    ts_ms=st.integers(-1, 2**62),
    members=st.lists(
        st.builds(
            CommittedMember,
            member_id=words,
            instance_id=st.none() | words,
            client_id=words,
            client_host=words,
            rebalance_timeout_ms=ints,
            session_timeout_ms=ints,
            subscription=st.binary(max_size=300),
            assignment=st.binary(max_size=300),
        ),
        max_size=4,
    ).map(tuple),
)


@given(groups)
def test_what_was_written_is_read(group: GroupCommitted) -> None:
    for version in (3, 4):
        assert decode(GROUP_KEY, encode_group(group, version)) == group


def test_older_versions_have_defaults_for_what_they_lack() -> None:
    member = CommittedMember("m", "inst", "c", "h", 5, 6, b"s", b"a")
    group = GroupCommitted("golden", "consumer", 3, "range", "m", 9, (member,))
    lacking = {0: ("instance_id", "rebalance_timeout_ms", "ts_ms"), 1: ("instance_id", "ts_ms"), 2: ("instance_id",)}
    for version, fields in lacking.items():
        decoded = decode(GROUP_KEY, encode_group(group, version))
        assert isinstance(decoded, GroupCommitted)
        (read,) = decoded.members
        assert read.instance_id is None
        assert read.rebalance_timeout_ms == (-1 if "rebalance_timeout_ms" in fields else 5)
        assert decoded.ts_ms == (-1 if "ts_ms" in fields else 9)
        assert (read.session_timeout_ms, read.subscription, read.assignment) == (6, b"s", b"a")


def test_tags_that_a_later_broker_adds_are_passed_over() -> None:
    member = CommittedMember("m", None, "c", "h", 5, 6, b"s", b"a")
    group = GroupCommitted("golden", "consumer", 3, "range", "m", 9, (member, member))
    tags = varint(2) + varint(0) + varint(3) + b"abc" + varint(200) + varint(1) + b"x"

    assert decode(GROUP_KEY, encode_group(group, 4, tags)) == group


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_commit(version: int) -> None:
    value = struct.pack(">hq", version, 42)
    value += struct.pack(">i", 7) if version >= 3 else b""
    value += (compact("meta") if version >= 4 else short("meta")) + struct.pack(">q", 99)
    value += struct.pack(">q", 100) if version == 1 else b""

    for key_version in (0, 1):
        key = struct.pack(">h", key_version) + OFFSET_KEY[2:]
        expected = OffsetCommitted("golden", "orders", 0, 42, 7 if version >= 3 else -1, 99)
        assert decode(key, value) == expected


def test_tombstones() -> None:
    assert decode(GROUP_KEY, None) == Tombstone("golden")
    assert decode(OFFSET_KEY, None) == Tombstone("golden", "orders", 0)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"x", "without a key"),
        (b"", b"x", "malformed"),
        (struct.pack(">h", 3) + short("g"), b"\x00\x01", "ConsumerGroupMetadata value version 1"),
        (struct.pack(">h", 3) + short("g"), b"\x00\x00", "malformed"),
        (struct.pack(">h", 99), None, "key version 99"),
        (GROUP_KEY, struct.pack(">h", 5), "value version 5"),
        (GROUP_KEY, struct.pack(">h", -1), "value version -1"),
        (OFFSET_KEY, struct.pack(">h", 5), "value version 5"),
        (GROUP_KEY, b"", "malformed"),
        (GROUP_KEY[:-1], b"", "malformed"),
        (GROUP_KEY, encode_group(GroupCommitted("g", "c", 1, None, None, 0, ()), 3)[:-4] + b"\x7f" * 4, "array"),
    ],
)
def test_what_is_not_known_is_named(key: bytes | None, value: bytes | None, reason: str) -> None:
    decoded = decode(key, value)

    assert isinstance(decoded, Unknown)
    assert reason in decoded.reason


@given(st.binary(max_size=80), st.none() | st.binary(max_size=200))
def test_arbitrary_bytes_never_raise(key: bytes, value: bytes | None) -> None:
    assert decode(key, value) is not None


@given(groups, st.integers(0, 4), st.data())
def test_broken_records_never_raise(group: GroupCommitted, version: int, data: st.DataObject) -> None:
    """One byte changed, or the rest cut off, at any place: decoded or unknown, never a crash."""
    raw = bytearray(encode_group(group, version))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))

    for broken in (bytes(raw), bytes(raw[:at])):
        decoded = decode(GROUP_KEY, broken)
        assert isinstance(decoded, GroupCommitted | Unknown)
        if isinstance(decoded, GroupCommitted):
            committed(decoded)


@pytest.mark.source("java.lang.String.hashCode: 'polygenelubricants' is Integer.MIN_VALUE, the others by its formula")
@pytest.mark.parametrize(
    ("group", "code"),
    [("", 0), ("a", 97), ("ab", 3105), ("hello", 99162322), ("Hello, world!", -1880044555), ("\U0001d11e", 1772394)],
)
def test_the_partition_of_a_group_is_java_s(group: str, code: int) -> None:
    for partitions in (1, 3, 50):
        assert partition_of(group, partitions) == abs(code) % partitions


def test_the_smallest_hash_has_no_absolute_value_in_java() -> None:
    assert partition_of("polygenelubricants", 50) == 0
    with pytest.raises(ValueError, match="0 partitions"):
        partition_of("g", 0)
