"""Facts from frames of every version; what can't be read is told; answers that name brokers get other ports."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID, uuid4

import pytest
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataRequest, MetadataResponse
from kafka.protocol.producer import EndTxnRequest, EndTxnResponse, TxnOffsetCommitRequest, TxnOffsetCommitResponse

from kafka_assignors.integration.proxy.addresses import NAMING, readdressed
from kafka_assignors.integration.proxy.conversation import (
    BeatCall,
    CommitCall,
    ConsumerBeatCall,
    Conversation,
    EndCall,
    JoinCall,
    LeaveCall,
    Reply,
    SentOffsets,
    SyncCall,
    TopicNames,
    Unread,
)
from kafka_assignors.integration.proxy.frames import FrameError


def versions(request: Any, first: int = 0) -> list[int]:
    return list(range(first, request.max_version + 1))


def frame_of(message: Any) -> bytes:
    message.with_header(7, "app")
    return bytes(message.encode(header=True, framed=True))


def conversed(request: Any, response: Any, conversation: Conversation | None = None) -> tuple[Any, Any]:
    """What a request and its answer tell."""
    conversation = conversation or Conversation("g", {})
    call = conversation.asked(frame_of(request))
    return call, conversation.answered(frame_of(response))


@pytest.mark.parametrize("version", versions(JoinGroupRequest))
def test_a_join_of_every_version(version: int) -> None:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\1")
    request = JoinGroupRequest(
        version=version, group_id="g", session_timeout_ms=10, member_id="m", protocol_type="consumer",
        protocols=[protocol], **({"rebalance_timeout_ms": 20} if version else {}),
        **({"group_instance_id": "i"} if version >= 5 else {}),
    )  # fmt: skip
    response = JoinGroupResponse(
        version=version, error_code=0, generation_id=3, protocol_name="range", leader="m", member_id="m2", members=[]
    )

    call, reply = conversed(request, response)

    assert call == JoinCall(
        "m", "i" if version >= 5 else None, 10, 20 if version else 10, (("range", b"\0\1"),)
    )  # before v1 the session was the limit
    assert reply == Reply(call, 0, "m2", 3, "range")


@pytest.mark.parametrize("version", versions(SyncGroupRequest))
def test_a_sync_of_every_version(version: int) -> None:
    request = SyncGroupRequest(version=version, group_id="g", generation_id=3, member_id="m", assignments=[])
    response = SyncGroupResponse(version=version, error_code=0, assignment=b"abc")

    call, reply = conversed(request, response)

    assert (call, reply) == (SyncCall("m", 3), Reply(SyncCall("m", 3), 0, assignment=b"abc"))


@pytest.mark.parametrize("version", versions(HeartbeatRequest))
def test_a_heartbeat_of_every_version(version: int) -> None:
    request = HeartbeatRequest(version=version, group_id="g", generation_id=3, member_id="m")

    call, reply = conversed(request, HeartbeatResponse(version=version, error_code=27))

    assert (call, reply) == (BeatCall("m", 3), Reply(BeatCall("m", 3), 27))


@pytest.mark.parametrize("version", versions(LeaveGroupRequest))
def test_a_leave_of_every_version(version: int) -> None:
    member = LeaveGroupRequest.MemberIdentity(member_id="m", group_instance_id=None)
    which = {"member_id": "m"} if version < 3 else {"members": [member]}
    more = {"members": []} if version >= 3 else {}
    response = LeaveGroupResponse(version=version, error_code=0, **more)

    call, reply = conversed(LeaveGroupRequest(version=version, group_id="g", **which), response)

    assert (call, reply) == (LeaveCall((("m", None),)), Reply(call, 0))


def commit(version: int, **topic: Any) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
        partition_index=1, committed_offset=5, committed_metadata=""
    )
    rows = [OffsetCommitRequest.OffsetCommitRequestTopic(partitions=[partition], **topic)]
    which = {"generation_id_or_member_epoch": 3, "member_id": "m"} if version else {}
    return OffsetCommitRequest(version=version, group_id="g", topics=rows, **which)


def committed(version: int, **topic: Any) -> OffsetCommitResponse:
    part = OffsetCommitResponse.OffsetCommitResponseTopic.OffsetCommitResponsePartition(
        partition_index=1, error_code=22
    )
    topics = [OffsetCommitResponse.OffsetCommitResponseTopic(partitions=[part], **topic)]
    return OffsetCommitResponse(version=version, topics=topics)


@pytest.mark.parametrize("version", range(2, 10))
def test_a_commit_with_names(version: int) -> None:
    call, reply = conversed(commit(version, name="t"), committed(version, name="t"))

    assert call == CommitCall("m", 3, {("t", 1): 5})
    assert reply == Reply(call, 0, errors={("t", 1): 22})


def test_a_commit_with_topic_ids_takes_the_names_of_metadata() -> None:
    conversation, topic_id = Conversation("g", {}), uuid4()
    call = Conversation("g", {}).asked(frame_of(commit(10, topic_id=topic_id)))
    assert isinstance(call, Unread)
    assert str(topic_id) in call.reason

    topic = MetadataResponse.MetadataResponseTopic(
        error_code=0, name="t", topic_id=topic_id, is_internal=False, partitions=[]
    )
    response = MetadataResponse(version=13, brokers=[], controller_id=1, topics=[topic])
    assert conversed(MetadataRequest(version=13, topics=[]), response, conversation) == (None, TopicNames())

    call, reply = conversed(commit(10, topic_id=topic_id), committed(10, topic_id=topic_id), conversation)
    assert (call, reply.errors) == (CommitCall("m", 3, {("t", 1): 5}), {("t", 1): 22})


@pytest.mark.parametrize("version", versions(TxnOffsetCommitRequest))
def test_a_commit_in_a_transaction(version: int) -> None:
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    part = topic.TxnOffsetCommitRequestPartition(partition_index=1, committed_offset=5, committed_metadata="")
    member = {"generation_id": 3, "member_id": "m"} if version >= 3 else {}
    request = TxnOffsetCommitRequest(
        version=version, transactional_id="x", group_id="g", producer_id=1, producer_epoch=0,
        topics=[topic(name="t", partitions=[part])], **member,
    )  # fmt: skip
    row = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    answer = row.TxnOffsetCommitResponsePartition(partition_index=1, error_code=0)
    response = TxnOffsetCommitResponse(version=version, topics=[row(name="t", partitions=[answer])])

    call, reply = conversed(request, response)

    assert call == CommitCall(member.get("member_id", ""), member.get("generation_id", -1), {("t", 1): 5}, "x")
    assert reply.errors == {("t", 1): 0}


@pytest.mark.parametrize("version", versions(EndTxnRequest))
def test_an_end_of_a_transaction(version: int) -> None:
    request = EndTxnRequest(version=version, transactional_id="x", producer_id=1, producer_epoch=0, committed=True)

    assert conversed(request, EndTxnResponse(version=version, error_code=51)) == (
        EndCall("x", commits=True), Reply(EndCall("x", commits=True), 51),
    )  # fmt: skip


def batch(first: int, count: int, magic: int = 2) -> bytes:
    """A batch of records as far as its offsets are read."""
    rest = struct.pack(">ibIhi", 0, magic, 0, 0, count - 1) + bytes(30)
    return struct.pack(">qi", first, len(rest)) + rest


@pytest.mark.parametrize("version", range(4, 19))
def test_what_a_fetch_sends(version: int) -> None:
    conversation, topic_id = Conversation("g", names := {}), uuid4()
    names[topic_id] = "t"
    where = {"topic": "t"} if version < 13 else {"topic_id": topic_id}
    row = FetchResponse.FetchableTopicResponse
    parts = [
        row.PartitionData(
            partition_index=n, error_code=0, high_watermark=99, aborted_transactions=None, records=records
        )
        for n, records in enumerate([batch(5, 3) + batch(8, 2) + batch(10, 5)[:-1], b"", None, batch(20, 1, magic=1)])
    ]
    request = FetchRequest(
        version=version, max_wait_ms=1, min_bytes=1, max_bytes=1, topics=[], forgotten_topics_data=[]
    )
    response = FetchResponse(version=version, error_code=0, responses=[row(partitions=parts, **where)])

    assert conversed(request, response, conversation) == (None, SentOffsets({("t", 0): 10, ("t", 3): 21}))


@pytest.mark.parametrize("version", versions(ListOffsetsRequest))
def test_where_a_client_is_told_to_begin(version: int) -> None:
    row = ListOffsetsResponse.ListOffsetsTopicResponse
    given = {"old_style_offsets": [9, 4]} if version == 0 else {"offset": 9, "timestamp": -1}
    response = ListOffsetsResponse(
        version=version,
        topics=[row(name="t", partitions=[row.ListOffsetsPartitionResponse(partition_index=1, error_code=0, **given)])],
    )

    request = ListOffsetsRequest(version=version, replica_id=-1, topics=[])
    assert conversed(request, response) == (None, SentOffsets({("t", 1): 9}))


@pytest.mark.parametrize("version", range(1, 11))
def test_what_a_client_is_told_to_be_committed(version: int) -> None:
    conversation, topic_id = Conversation("g", names := {}), uuid4()
    names[topic_id] = "t"
    where = {"name": "t"} if version < 10 else {"topic_id": topic_id}
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    row = OffsetFetchResponse.OffsetFetchResponseTopic if version < 8 else group.OffsetFetchResponseTopics
    cell = row.OffsetFetchResponsePartition if version < 8 else row.OffsetFetchResponsePartitions
    parts = [cell(partition_index=n, committed_offset=at, metadata="", error_code=0) for n, at in enumerate([7, -1])]
    topics = [row(partitions=parts, **where)]
    fields = {"topics": topics} if version < 8 else {"groups": [group(group_id="g", topics=topics, error_code=0)]}
    asked = {"group_id": "g", "topics": []} if version < 8 else {"groups": []}
    response = OffsetFetchResponse(version=version, **fields)

    request = OffsetFetchRequest(version=version, **asked)
    assert conversed(request, response, conversation) == (None, SentOffsets({("t", 0): 7}))


def test_another_groups_calls_are_not_told() -> None:
    request = HeartbeatRequest(version=4, group_id="other", generation_id=3, member_id="m")

    assert conversed(request, HeartbeatResponse(version=4, error_code=0)) == (None, None)


def test_bytes_written_by_hand() -> None:
    """A commit of version 2, from the definition alone: kafka-python's encoder is not asked."""
    body = struct.pack(">hhih3s", 8, 2, 7, 3, b"app") + struct.pack(">h1sih1sq", 1, b"g", 3, 1, b"m", -1)
    body += struct.pack(">ih1siiqh", 1, 1, b"t", 1, 1, 5, -1)
    conversation = Conversation("g", {})

    assert conversation.asked(struct.pack(">i", len(body)) + body) == CommitCall("m", 3, {("t", 1): 5})
    assert conversation.client_id == "app"


TOPIC_ID, OTHER_ID = UUID(int=7), UUID(int=8)


def compact(text: str | None) -> bytes:
    """A compact string of less than 127 bytes."""
    return b"\0" if text is None else bytes([len(text) + 1]) + text.encode()


def compact_places(places: dict[UUID, list[int]] | None) -> bytes:
    """A compact array of topic ids with partitions."""
    if places is None:
        return b"\0"
    rows = (
        key.bytes + bytes([len(ids) + 1]) + struct.pack(f">{len(ids)}i", *ids) + b"\0" for key, ids in places.items()
    )
    return bytes([len(places) + 1]) + b"".join(rows)


def beat_frame(version: int, epoch: int, owned: dict[UUID, list[int]] | None, pattern: str | None = None) -> bytes:
    """ConsumerGroupHeartbeat of member m of group g, from the definition alone, with a tagged field in its header."""
    body = struct.pack(">hhih3s", 68, version, 7, 3, b"app") + b"\x01\x05\x02hi"
    body += compact("g") + compact("m") + struct.pack(">i", epoch) + compact("i") + compact("a")
    body += struct.pack(">i", 300_000) + b"\x02" + compact("t") + (compact(pattern) if version else b"")
    body += compact("uniform") + compact_places(owned) + b"\0"
    return struct.pack(">i", len(body)) + body


def beaten_frame(error: int, epoch: int, given: dict[UUID, list[int]] | None) -> bytes:
    """Its answer."""
    body = struct.pack(">i", 7) + b"\0" + struct.pack(">ih", 0, error) + compact("no" if error else None)
    body += compact("m") + struct.pack(">ii", epoch, 5000)
    body += b"\xff" if given is None else b"\x01" + compact_places(given) + b"\0"
    return struct.pack(">i", len(body + b"\0")) + body + b"\0"


@pytest.mark.parametrize("version", [0, 1])
def test_a_heartbeat_of_the_consumer_protocol(version: int) -> None:
    conversation = Conversation("g", {TOPIC_ID: "t"})
    pattern = "t.*" if version else None

    call = conversation.asked(beat_frame(version, 3, {TOPIC_ID: [0, 2]}, pattern))
    reply = conversation.answered(beaten_frame(0, 4, {TOPIC_ID: [0], OTHER_ID: [1]}))

    owned = frozenset({("t", 0), ("t", 2)})
    assert call == ConsumerBeatCall("m", 3, "i", 300_000, ("t",), pattern, "uniform", owned)
    assert reply == Reply(call, 0, "m", 4, given={TOPIC_ID: (0,), OTHER_ID: (1,)})
    call = conversation.asked(beat_frame(version, 4, None))
    assert conversation.answered(beaten_frame(110, 0, None)) == Reply(call, 110, "m", 0)


def test_a_heartbeat_with_an_unknown_topic_or_cut_off_is_told_as_not_read() -> None:
    conversation = Conversation("g", {})

    assert "whose name was in no metadata" in conversation.asked(beat_frame(1, 3, {TOPIC_ID: [0]})).reason
    whole = beat_frame(1, 3, None)
    for cut in range(len(whole) - 20, len(whole)):
        told = conversation.asked(struct.pack(">i", cut - 4) + whole[4:cut])
        assert isinstance(told, Unread), cut
        assert "can't be decoded: WireError" in told.reason


@pytest.mark.parametrize(
    ("key", "version", "words"),
    [
        (11, 10, "JoinGroup v10: versions up to 9"),
        (68, 2, "ConsumerGroupHeartbeat v2: versions up to 1"),
        (88, 0, "api-88 v0"),
        (14, 3, "SyncGroup v3 can't"),
    ],
)
def test_what_cannot_be_read_is_told(key: int, version: int, words: str) -> None:
    body = struct.pack(">hhihB", key, version, 7, -1, 0) + b"\x7f"

    unread = Conversation("g", {}).asked(struct.pack(">i", len(body)) + body)

    assert isinstance(unread, Unread)
    assert words in unread.reason


def test_an_answer_that_nobody_asked_for_is_no_frame() -> None:
    with pytest.raises(FrameError, match="which no request in flight has"):
        Conversation("g", {}).answered(struct.pack(">ii", 4, 3))


@pytest.mark.parametrize("version", [*range(14)])
def test_the_ports_of_metadata_are_replaced(version: int) -> None:
    def answer(port: int) -> bytes:
        ours = MetadataResponse.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port, rack=None)
        other = MetadataResponse.MetadataResponseBroker(node_id=2, host="127.0.0.1", port=9092, rack=None)
        return frame_of(MetadataResponse(version=version, brokers=[ours, other], controller_id=1, topics=[]))

    assert readdressed(answer(21_000), {21_000: 40_000}) == answer(40_000)
    assert "Metadata" in NAMING


@pytest.mark.parametrize("version", versions(FindCoordinatorResponse))
def test_the_ports_of_coordinators_are_replaced(version: int) -> None:
    def answer(port: int) -> bytes:
        where = {"node_id": 1, "host": "127.0.0.1", "port": port, "error_code": 0}
        fields = where if version < 4 else {"coordinators": [FindCoordinatorResponse.Coordinator(key="g", **where)]}
        return frame_of(FindCoordinatorResponse(version=version, **fields))

    assert readdressed(answer(21_000), {21_000: 40_000}) == answer(40_000)
