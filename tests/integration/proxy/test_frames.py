"""The proxy's reading of Kafka's protocol: frames in pieces, headers of every version, answers by correlation id."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.api_key import ApiKey
from kafka.protocol.consumer import FetchRequest, HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from kafka.protocol.metadata import ApiVersionsRequest

from kafka_assignors.errors import ConfigError, UnknownName
from kafka_assignors.integration.proxy.frames import (
    APIS,
    FrameError,
    Frames,
    InFlight,
    Request,
    correlation_of,
    request_of,
)
from kafka_assignors.integration.proxy.rules import Cut, Delay, Drop, NetworkFault, Reset, fault_of


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(key: int, version: int, correlation: int, client_id: bytes | None, rest: bytes = b"") -> bytes:
    size = -1 if client_id is None else len(client_id)
    return framed(struct.pack(">hhih", key, version, correlation, size) + (client_id or b"") + rest)


bodies = st.lists(st.binary(min_size=4, max_size=60), max_size=8)


@pytest.mark.slow
@given(bodies, st.randoms(use_true_random=False))
def test_frames_come_out_whole_however_the_stream_is_torn(bodies: list[bytes], cuts: random.Random) -> None:
    stream, frames, found = b"".join(map(framed, bodies)), Frames(), []
    while stream:
        size = cuts.randint(1, len(stream))
        found += frames.feed(stream[:size])
        stream = stream[size:]

    assert found == [framed(body) for body in bodies]
    assert frames.torn == 0


def test_a_torn_frame_waits() -> None:
    whole = framed(b"12345678")
    frames = Frames()

    for byte in whole[:-1]:
        assert frames.feed(bytes([byte])) == []
    assert frames.torn == len(whole) - 1
    assert frames.feed(whole[-1:]) == [whole]


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 101),
        struct.pack(">i", -1),
        struct.pack(">i", 3),
        b"\x16\x03\x01\x02\x00\x01\x00\x01",  # a TLS ClientHello
        b"GET / HTTP/1.1\r\n",
    ],
)
def test_a_size_that_cannot_be_is_refused_before_its_bytes_come(data: bytes) -> None:
    with pytest.raises(FrameError, match="does the client speak TLS"):
        Frames(100).feed(data)

    assert Frames(100).feed(framed(bytes(100)) + struct.pack(">i", 100)) == [framed(bytes(100))]


@pytest.mark.source("kafka-python 3.0.12 encodes them; versions from 6 (JoinGroup), 4 (the others) on are flexible")
@pytest.mark.parametrize(
    ("kind", "api", "versions", "fields"),
    [
        (JoinGroupRequest, "JoinGroup", range(2, 10), {"group_id": "g", "member_id": "", "protocols": []}),
        (SyncGroupRequest, "SyncGroup", range(6), {"group_id": "g", "member_id": "", "assignments": []}),
        (HeartbeatRequest, "Heartbeat", range(5), {"group_id": "g", "generation_id": 7, "member_id": "m"}),
        (FetchRequest, "Fetch", range(4, 13), {"topics": []}),
        (ApiVersionsRequest, "ApiVersions", range(5), {}),
    ],
)
def test_headers_of_real_requests_old_and_flexible(
    kind: Any, api: str, versions: range, fields: dict[str, Any]
) -> None:
    flexible = set()
    for version in versions:
        request = kind(version=version, **fields)
        request.with_header(correlation_id=70_000 + version, client_id="m1-ä")
        flexible.add(request.flexible_version_q(version))
        (frame,) = Frames().feed(request.encode(framed=True, header=True))

        assert request_of(frame) == Request(api, version, 70_000 + version, "m1-ä")
    assert flexible == {False, True}


def test_tagged_fields_of_a_flexible_header_are_left_alone() -> None:
    """Header v2: one tagged field, tag 5, of three bytes, behind a client id that kept its two-byte length."""
    frame = header(11, 9, 3, b"m1", b"\x01\x05\x03abc" + b"body")

    assert request_of(frame) == Request("JoinGroup", 9, 3, "m1")


def test_what_has_no_client_id() -> None:
    assert request_of(header(3, 1, 7, None)) == Request("Metadata", 1, 7, None)
    assert request_of(header(3, 1, 7, b"")) == Request("Metadata", 1, 7, "")
    assert request_of(framed(struct.pack(">hhi", 7, 0, 5))) == Request("ControlledShutdown", 0, 5, None)
    assert request_of(header(999, 0, 1, b"m")).api == "api-999"


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (framed(b"\x00\x0b\x00\x09"), "shorter than any header"),
        (framed(struct.pack(">hhi", 11, 9, 1)), "ends before its client id"),
        (framed(struct.pack(">hhih", 11, 9, 1, 5) + b"m1"), "would have 5 bytes, of 2"),
        (framed(struct.pack(">hhih", 11, 9, 1, -2)), "would have -2 bytes"),
        (header(11, 9, 1, b"\xff\xfe"), "isn't UTF-8"),
    ],
)
def test_a_request_without_a_whole_header_is_refused(frame: bytes, said: str) -> None:
    with pytest.raises(FrameError, match=said):
        request_of(frame)


@pytest.mark.source("kafka-python 3.0.12 kafka/protocol/api_key.py, after apache/kafka ApiKeys")
def test_apis_are_named_as_kafka_names_them() -> None:
    theirs = {key.value: key.name for key in ApiKey}

    assert {key: name for key, name in APIS.items() if key in theirs and theirs[key] != name} == {}
    assert len(set(APIS) & set(theirs)) > 25


def test_an_answer_is_known_by_its_correlation_id() -> None:
    """Produce with acks=0 has no answer: those behind it tell so."""
    flight = InFlight()
    requests = [request_of(header(key, 3, number, b"p")) for number, key in enumerate((0, 0, 3, 1), 5)]
    for request in requests:
        flight.sent(request)
    answer = framed(struct.pack(">i", 7) + b"metadata")

    assert correlation_of(answer) == 7
    assert flight.answered(answer).api == "Metadata"
    assert flight.answered(framed(struct.pack(">i", 8))).api == "Fetch"
    with pytest.raises(FrameError, match="correlation id 9, which no request in flight has"):
        flight.answered(framed(struct.pack(">i", 9)))


@pytest.mark.parametrize(
    ("fault", "met", "not_met"),
    [
        (Drop("m1", "SyncGroup"), ("m1", "SyncGroup", "answer"), ("m1", "SyncGroup", "request")),
        (Drop("m1", "SyncGroup"), ("m1", "SyncGroup", "answer"), ("m2", "SyncGroup", "answer")),
        (Delay("m[12]", 5, "Heartbeat"), ("m2", "Heartbeat", "request"), ("m2", "Fetch", "request")),
        (Delay("*", 5, side="answer"), ("", "Fetch", "answer"), ("m1", "Fetch", "request")),
        (Reset("m1", "JoinGroup"), ("m1", "JoinGroup", "request"), ("M1", "JoinGroup", "request")),
    ],
)
def test_which_frames_a_fault_is_about(
    fault: NetworkFault, met: tuple[str, str, str], not_met: tuple[str, str, str]
) -> None:
    assert fault.hits(*met)
    assert not fault.hits(*not_met)
    assert fault_of(fault.name, {"member": fault.member, **fault.params}) == fault


@pytest.mark.parametrize("fault", [Cut("m1"), Reset("m1")])
def test_faults_of_connections_are_about_no_frame(fault: NetworkFault) -> None:
    assert not fault.hits("m1", "Heartbeat", "request")


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("cuts", {"member": "m1"}, "unknown network fault 'cuts'"),
        ("drop", {"member": "m1", "api": "SyncGrop"}, "unknown API of Kafka 'SyncGrop'"),
        ("drop", {"member": "m1", "api": "SyncGroup", "side": "back"}, "unknown side of an API 'back'"),
        ("drop", {"member": "m1", "api": "SyncGroup", "times": 0}, "times must be a whole number above 0, not 0"),
        ("drop", {"member": "m1", "api": "SyncGroup", "times": 1.5}, "times must be a whole number above 0"),
        ("drop", {"member": "m1"}, "drop: member given; its fields are member, api, side, times"),
        ("delay", {"member": "m1", "ms": -4}, "ms must be a number of ms above 0, not -4"),
        ("delay", {"member": "m1", "ms": "4"}, "ms must be a number of ms above 0, not '4'"),
        ("cut", {"member": "m1", "for_ms": True}, "for_ms must be a number of ms above 0, not True"),
        ("cut", {"member": ""}, "member must be a name or a pattern"),
        ("cut", {"member": "m1", "api": "Fetch"}, "its fields are member, for_ms"),
    ],
)
def test_faults_that_cannot_be_are_refused(name: str, values: dict[str, Any], said: str) -> None:
    with pytest.raises((ConfigError, UnknownName), match=said):
        fault_of(name, values)
