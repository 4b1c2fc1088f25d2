"""The tap passes every byte on but its ports, writes what it reads before it goes on, and never breaks a connection."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from kafka_assignors.core.wire.protocol import Subscription, encode_subscription
from kafka_assignors.integration.broker.ports import free_ports
from kafka_assignors.integration.broker.settings import Route
from kafka_assignors.integration.errors import HarnessError
from kafka_assignors.integration.proxy import Tapped, WireTap, tap_relay
from kafka_assignors.integration.proxy.wire_process import WireProcess

ADVERTISED = 21_999
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01"  # of TLS


def frame_of(message: Any, correlation: int = 0) -> bytes:
    message.with_header(correlation, "app")
    return bytes(message.encode(header=True, framed=True))


JOIN = JoinGroupRequest(
    version=5, group_id="g", session_timeout_ms=10, rebalance_timeout_ms=10, member_id="", protocol_type="consumer",
    protocols=[
        JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=encode_subscription(Subscription(("t",)), 0))
    ],
)  # fmt: skip
JOINED = JoinGroupResponse(
    version=5, error_code=0, generation_id=1, protocol_name="range", leader="m", member_id="m", members=[]
)
LEAVE, LEFT = LeaveGroupRequest(version=0, group_id="g", member_id="m"), LeaveGroupResponse(version=0, error_code=0)


class Peer:
    """A server that answers each read by what `answers` makes of it."""

    def __init__(self, answers: Callable[[bytes], bytes]) -> None:
        self.got, self._answers = b"", answers
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                end, _ = self._server.accept()
            except OSError:
                return
            with end:
                while data := end.recv(1 << 16):
                    self.got += data
                    end.sendall(self._answers(data))

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def peer() -> Iterator[Callable[[Callable[[bytes], bytes]], Peer]]:
    peers: list[Peer] = []

    def start(answers: Callable[[bytes], bytes]) -> Peer:
        peers.append(Peer(answers))
        return peers[-1]

    yield start
    for each in peers:
        each.close()


@pytest.fixture
def tapped(tmp_path: Path, peer: Any) -> Iterator[Callable[..., tuple[Peer, WireTap, Tapped]]]:
    """Starts a server, and a process's tap before it."""
    taps: list[WireTap] = []

    def start(answers: Callable[[bytes], bytes]) -> tuple[Peer, WireTap, Tapped]:
        server = peer(answers)
        taps.append(WireTap([Route(ADVERTISED, server.port)]))
        (tmp_path / "log").write_bytes(b"12345")
        return server, taps[-1], taps[-1].listen("g", tmp_path / "rows", tmp_path / "log")

    yield start
    for tap in taps:
        tap.close()


def connected(tapped: Tapped) -> socket.socket:
    host, port = tapped.bootstrap.split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


def rows(tapped: Tapped) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tapped.rows.read_text().splitlines()]


@pytest.mark.slow
def test_frames_pass_unchanged_and_what_they_say_is_written_before(tapped: Any) -> None:
    exchange = [(JOIN, JOINED), (LEAVE, LEFT)]
    answers = iter([frame_of(answer, n) for n, (_, answer) in enumerate(exchange)])
    server, tap, process = tapped(lambda _: next(answers))
    sent = b""
    with connected(process) as connection:
        for n, (ask, answer) in enumerate(exchange):
            frame = frame_of(ask, n)
            connection.sendall(frame[:9])  # torn
            connection.sendall(frame[9:])
            expected = frame_of(answer, n)
            assert read(connection, len(expected)) == expected
            sent += frame
            assert rows(process)[0]["kind"] == "start"
    tap.close_process(process)

    assert server.got == sent
    assert [(row["kind"], row.get("member_id")) for row in rows(process)] == [("start", None), ("stop", "m")]
    assert {row["log_bytes"] for row in rows(process)} == {5}
    assert all(abs(row["ts_ns"] - row["mono_ns"]) > 0 for row in rows(process))


def test_answers_name_the_taps_ports(tapped: Any) -> None:
    def metadata(port: int) -> bytes:
        broker = MetadataResponse.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=port, rack=None)
        return frame_of(MetadataResponse(version=9, brokers=[broker], controller_id=1, topics=[]))

    _, _, process = tapped(lambda _: metadata(ADVERTISED))
    with connected(process) as connection:
        connection.sendall(frame_of(MetadataRequest(version=9, topics=[])))
        expected = metadata(int(process.bootstrap.rpartition(":")[2]))

        assert read(connection, len(expected)) == expected


BEAT = HeartbeatRequest(version=0, group_id="g", generation_id=1, member_id="m")


@pytest.mark.slow
@pytest.mark.parametrize("first", [b"", frame_of(BEAT)])
def test_other_bytes_pass_and_are_told(first: bytes, tapped: Any) -> None:
    """A client of TLS, from the first byte on or after a frame of Kafka's: what it says is not read, but goes on."""
    answer = frame_of(HeartbeatResponse(version=0, error_code=0))
    server, _, process = tapped(lambda data: data[::-1] if data == HELLO else answer)
    with connected(process) as connection:
        if first:
            connection.sendall(first)
            assert read(connection, len(answer)) == answer
        for _ in range(2):
            connection.sendall(HELLO)
            assert read(connection, len(HELLO)) == HELLO[::-1]

    assert server.got == first + HELLO + HELLO
    (row,) = rows(process)
    assert (row["kind"], row["error"]) == ("error", "Unread")
    assert "does the client speak TLS" in row["message"]


def test_an_answer_of_other_bytes_passes(tapped: Any) -> None:
    strange = struct.pack(">ii", 4, 99)  # to no request in flight
    _, _, process = tapped(lambda _: strange)
    with connected(process) as connection:
        connection.sendall(frame_of(BEAT))
        assert read(connection, 8) == strange
        connection.sendall(HELLO)
        assert read(connection, 8) == strange

    assert "which no request in flight has" in rows(process)[0]["message"]


def test_a_broker_that_is_down_looks_closed(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with WireTap([Route(ADVERTISED, port)]) as tap:
        process = tap.listen("g", tmp_path / "rows", tmp_path / "log")
        # on a busy machine the reset comes before connecting has ended
        with pytest.raises(ConnectionResetError), connected(process) as connection:
            read(connection, 1)


def test_a_tap_that_has_ended_says_so(tapped: Any, tmp_path: Path) -> None:
    _, tap, process = tapped(lambda data: data)
    tap.close()

    for call in (lambda: tap.close_process(process), lambda: tap.listen("g", tmp_path / "more", tmp_path / "log")):
        with pytest.raises(HarnessError, match="the tap of the service's connections has ended: it was closed"):
            call()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with (
        WireTap([Route(ADVERTISED, ADVERTISED)]) as tap,
        pytest.raises(HarnessError, match=r"No such file or directory: .*nowhere"),
    ):
        tap.listen("g", tmp_path / "nowhere" / "rows", tmp_path / "log")


def test_a_defect_of_the_reader_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("unforeseen")

    monkeypatch.setattr(tap_relay.Conversation, "asked", fails)
    tapped = tap_relay.TappedProcess("g", tmp_path / "rows", tmp_path / "log")

    async def asked() -> bytes:
        connection = tap_relay.TappedConnection(tapped, WireProcess(), 1, asyncio.StreamReader())
        passed = connection.asked(HELLO) + connection.asked(HELLO)
        await tapped.close()
        return passed

    assert asyncio.run(asked()) == HELLO + HELLO
    (row,) = (json.loads(line) for line in (tmp_path / "rows").read_text().splitlines())
    assert "a frame, on which the reader failed: ValueError: unforeseen" in row["message"]


@pytest.mark.slow
def test_a_connection_that_outlives_its_process_is_told(tapped: Any) -> None:
    _, tap, process = tapped(lambda data: data)
    with connected(process) as connection:
        connection.sendall(HELLO)
        assert read(connection, len(HELLO)) == HELLO

        with pytest.raises(HarnessError, match="1 of its connections did not end with it"):
            tap.close_process(process)
