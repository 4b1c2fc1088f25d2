"""Bytes: Java's to the byte, and anything else without harm."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from kafka_assignors.core import reading
from kafka_assignors.core.group import NO_GENERATION, TopicPartition
from kafka_assignors.core.strategies import strategy
from kafka_assignors.core.wire import bulk, protocol, userdata
from kafka_assignors.core.wire.protocol import AssignedPartitions, Subscription
from kafka_assignors.errors import KafkaAssignorsError, WireError
from tests.support.assignors import golden

ROWS = golden.rows("wire")
SUBSCRIPTIONS = [row for row in ROWS if row["kind"] == "subscription"]
ASSIGNMENTS = [row for row in ROWS if row["kind"] == "assignment"]
TPS = st.lists(st.tuples(st.sampled_from(["a", "b.c", "é"]), st.integers(0, 2**31 - 1)), unique=True, max_size=8)


def owned_of(member):
    return tuple(TopicPartition(t, p) for t, ids in member.get("owned", {}).items() for p in ids)


def in_java_form(data):
    """V1 user data, its topics in Java's order of names instead of its hash order."""
    claim = userdata.decode_sticky(data)
    return userdata.encode_sticky(claim.owned, claim.generation)


@pytest.mark.source("apache/kafka 4.3.0 ConsumerProtocol.serializeSubscription")
@pytest.mark.parametrize("row", SUBSCRIPTIONS, ids=lambda row: row["name"])
def test_subscriptions_are_javas_bytes_in_every_version(row):
    member = row["member"]
    user_data = bytes.fromhex(row["user_data"]) if row["user_data"] is not None else None
    # An eager member has revoked everything when it joins.
    owned = owned_of(member) if row["assignor"] == "cooperative-sticky" else ()
    whole = Subscription(
        tuple(member["topics"]), user_data, owned, member.get("generation", NO_GENERATION), member.get("rack")
    )

    for version, expected in row["bytes"].items():
        assert protocol.encode_subscription(whole, int(version)).hex() == expected

    read = {int(v): protocol.decode_subscription(bytes.fromhex(data)) for v, data in row["bytes"].items()}
    assert sorted(read[3].topics) == sorted(whole.topics)
    assert sorted(read[3].owned) == sorted(owned)
    assert (read[3].user_data, read[3].generation, read[3].rack) == (user_data, whole.generation, whole.rack)
    assert (read[2].generation, read[2].rack) == (whole.generation, None)
    assert (sorted(read[1].owned), read[1].generation) == (sorted(owned), NO_GENERATION)
    assert (read[0].owned, read[0].user_data) == ((), user_data)


@pytest.mark.source("apache/kafka 4.3.0 StickyAssignor, CooperativeStickyAssignor subscriptionUserData")
@pytest.mark.parametrize("row", [r for r in SUBSCRIPTIONS if r["user_data"]], ids=lambda row: row["name"])
def test_user_data_is_javas_bytes(row):
    data, member = bytes.fromhex(row["user_data"]), row["member"]
    generation = member.get("generation", NO_GENERATION)
    if row["assignor"] == "cooperative-sticky":
        assert userdata.encode_cooperative(generation) == data
        assert userdata.decode_cooperative(data) == userdata.Claim(generation=generation)
        return

    owned = owned_of(member)
    assert userdata.encode_sticky(owned, generation) == (data if row["user_data_byte_exact"] else in_java_form(data))
    v1, v0 = userdata.decode_sticky(data), userdata.decode_sticky(bytes.fromhex(row["user_data_v0"]))
    assert (sorted(v1.owned), v1.generation, v1.garbage) == (sorted(owned), generation, "")
    assert (sorted(v0.owned), v0.generation, v0.garbage) == (sorted(owned), NO_GENERATION, "")


def test_the_vectors_have_enough_user_data():
    kinds = [(row["assignor"], row["user_data_byte_exact"]) for row in SUBSCRIPTIONS if row["user_data"]]
    assert kinds.count(("sticky", True)) >= 5
    assert kinds.count(("sticky", False)) >= 5
    assert kinds.count(("cooperative-sticky", True)) >= 5


@pytest.mark.source("apache/kafka 4.3.0 ConsumerProtocol.serializeAssignment")
@pytest.mark.parametrize("row", ASSIGNMENTS, ids=lambda row: row["name"])
def test_assignments_are_javas_bytes_in_every_version(row):
    assigned = AssignedPartitions(row["partitions"])
    for version, expected in row["bytes"].items():
        assert protocol.encode_assignment(assigned, int(version)).hex() == expected
        assert protocol.decode_assignment(bytes.fromhex(expected)) == assigned


@pytest.mark.source("apache/kafka 4.3.0 StickyAssignor")
def test_sticky_user_data_of_the_research():
    """One V1 from a real client, topics in Java's order."""
    data = bytes.fromhex("00000002 000161 00000001 00000000 000174 00000002 00000001 00000000 00000007")
    claim = userdata.decode_sticky(data)
    assert claim == userdata.Claim((("a", 0), ("t", 1), ("t", 0)), 7)


@given(owned=TPS, generation=st.integers(-1, 2**31 - 1))
def test_sticky_user_data_survives_the_trip_in_every_form(owned, generation):
    """V1, V0, and the two with the version in front that kafka-python writes."""
    v1, v0 = userdata.encode_sticky(owned, generation), userdata.encode_sticky(owned, generation)[:-4]
    for data, expected in (
        (v1, generation),
        (v0, NO_GENERATION),
        (b"\x00\x01" + v1, generation),
        (b"\x00\x00" + v0, NO_GENERATION),
    ):
        claim = userdata.decode_sticky(data)
        assert (sorted(claim.owned), claim.generation, claim.garbage) == (sorted(owned), expected, "")


@pytest.mark.source("kafka-python 3.0.12 StickyAssignorUserData")
def test_kafka_pythons_own_user_data_is_read():
    from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData

    previous = [StickyAssignorUserData.TopicPartition(topic="t", partitions=[2, 0])]
    data = StickyAssignorUserData(previous_assignment=previous, generation=5).encode()

    assert userdata.decode_sticky(data) == userdata.Claim((("t", 2), ("t", 0)), 5)


@given(data=st.binary(max_size=60))
def test_any_bytes_are_some_claim(data):
    """User data is another member's: it never raises. Garbage claims nothing and says why."""
    for decode in (userdata.decode_sticky, userdata.decode_cooperative):
        claim = decode(data)
        assert claim.generation >= NO_GENERATION
        if claim.garbage:
            assert claim.owned == ()


@pytest.mark.parametrize("data", ["ff", "000000", "7fffffff00ff", "0000000100016100000002", "00000001ffff00000000"])
def test_garbage_is_told(data):
    assert "user data" in userdata.decode_sticky(bytes.fromhex(data)).garbage


def test_no_user_data_is_no_claim_and_no_garbage():
    for nothing in (None, b""):
        assert userdata.decode_sticky(nothing) == userdata.decode_cooperative(nothing) == userdata.Claim()


@given(data=st.binary(max_size=80))
def test_subscriptions_and_assignments_raise_one_error_or_none(data):
    for decode in (protocol.decode_subscription, protocol.decode_assignment):
        with contextlib.suppress(WireError):
            decode(data)


def test_the_error_is_a_value_error_of_ours():
    with pytest.raises(ValueError, match="cut off") as raised:
        protocol.decode_subscription(b"\x00")
    assert isinstance(raised.value, KafkaAssignorsError)


@given(topics=st.lists(st.text("ab.é", min_size=1), max_size=4), owned=TPS, tail=st.binary(max_size=20))
def test_newer_versions_are_read_as_ours(topics, owned, tail):
    subscription = Subscription(tuple(topics), b"x", tuple(TopicPartition(*tp) for tp in owned), 3, "r1")
    ours = protocol.encode_subscription(subscription)
    newer = struct.pack(">h", 9) + ours[2:] + tail

    assert protocol.decode_subscription(newer) == protocol.decode_subscription(ours)


@pytest.mark.parametrize(
    ("decode", "data", "message"),
    [
        (protocol.decode_assignment, b"", "assignment is cut off: 2 bytes expected at offset 0, 0 there"),
        (protocol.decode_subscription, bytes.fromhex("0000 00000001 0005 61"), "5 bytes expected at offset 8"),
        (protocol.decode_subscription, bytes.fromhex("0000 7fffffff"), "announces 2147483647 elements"),
        (protocol.decode_subscription, bytes.fromhex("0000 00000001 ffff ffffffff"), "null for a name"),
        (protocol.decode_subscription, bytes.fromhex("0000 00000001 0001 ff ffffffff"), "not UTF-8"),
        (protocol.decode_subscription, bytes.fromhex("ffff 00000000"), "version -1, below 0"),
    ],
)
def test_errors_say_what_and_where(decode, data, message):
    with pytest.raises(WireError, match=message):
        decode(data)


@pytest.mark.parametrize("version", [-1, 4])
def test_unknown_versions_are_not_written(version):
    with pytest.raises(WireError, match=f"version {version}; known: 0 to 3"):
        protocol.encode_subscription(Subscription(("t",)), version)
    with pytest.raises(WireError, match=f"version {version}; known: 0 to 3"):
        protocol.encode_assignment(AssignedPartitions({}), version)


def test_names_beyond_an_int16_are_refused():
    with pytest.raises(WireError, match="longer than Kafka's 32767"):
        protocol.encode_subscription(Subscription(("x" * 32768,)))


@pytest.mark.source("segmentio/kafka-go v0.4.51 joingroup.go; IBM/sarama v1.61.1 consumer_group_members.go")
@pytest.mark.parametrize("version", [1, 2, 3, 7])
@pytest.mark.parametrize("user_data", [None, b"", b"held"])
def test_a_subscription_may_end_after_its_user_data(version, user_data):
    """segmentio's kafka-go sends version 1 without owned partitions; kafka-python's own decoder needs the rest."""
    short = version.to_bytes(2, "big") + protocol.encode_subscription(Subscription(("a", "b"), user_data), 0)[2:]
    read = Subscription(("a", "b"), user_data, version=min(version, 3))
    (whole,) = protocol.completed([short])

    assert [protocol.decode_subscription(short), *bulk.subscriptions([short]), *bulk.subscriptions([whole])] == [
        read
    ] * 3
    decoded = ConsumerProtocolSubscription.decode(whole)
    assert (decoded.topics, decoded.user_data, list(decoded.owned_partitions)) == (["a", "b"], user_data, [])
    assert protocol.completed([whole, short[:-1], b""]) == [whole, short[:-1], b""]


def test_a_subscription_that_ends_within_its_owned_partitions_is_none():
    whole = protocol.encode_subscription(Subscription(("a",), None, [TopicPartition("a", 0)], 4), 2)
    for size in range(len(protocol.encode_subscription(Subscription(("a",)), 0)) + 1, len(whole)):
        with pytest.raises(WireError):
            protocol.decode_subscription(whole[:size])
        (read,) = bulk.subscriptions([whole[:size]])
        assert (read.topics, read.version) == ((), protocol.MALFORMED)
        assert "bytes that are no subscription" in read.unread


@pytest.mark.source("IBM/sarama v1.61.1 consumer_group.go, balance_strategy.go AssignmentData")
def test_members_that_echo_their_assignment_get_what_claims_it():
    """Sarama sends versions 0 to 2; the bytes for others stay Java's, and under other names nobody gets any."""
    sticky, members = strategy("sticky"), [(f"m{v}", None, Subscription(("t",), version=v)) for v in range(4)]
    given, _ = sticky.assign_bytes(reading.decode("sticky", members, {"t": 6}))
    echoed = sticky.echoing(given, members, 12)

    assert bytes(echoed["m3"]) == bytes(given["m3"])
    for member_id, _, _ in members[:3]:
        told = protocol.decode_assignment(bytes(echoed[member_id]))
        assert told.partitions == protocol.decode_assignment(bytes(given[member_id])).partitions
        held = [(topic, p) for topic, ids in told.partitions.items() for p in ids]
        assert told.user_data == userdata.encode_sticky(held, 12)
    assert strategy("range").echoing(given, members, 12) is given
