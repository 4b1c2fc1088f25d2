"""The parts of Kafka's framing that a proxy needs: bytes -> whole frames, and a request's header. Pure.

A frame is a size (int32, big-endian) and that many bytes. A request starts with api key and api version (int16 each),
correlation id (int32) and client id (int16 length, -1: none; then UTF-8). A flexible header (v2) adds tagged fields
after the client id, which kept its old form, so all versions are read alike. An answer starts with the correlation id
of its request. Answers come in the order of their requests.

Source: https://kafka.apache.org/protocol, "Request Header v1" and "v2"; KIP-482 on why the client id isn't compact.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass

from ..errors import HarnessError

MAX_FRAME_BYTES = 100 << 20
"""Like ``socket.request.max.bytes`` of brokers. By default their answers are smaller too."""

APIS = {
    0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 7: "ControlledShutdown", 8: "OffsetCommit",
    9: "OffsetFetch", 10: "FindCoordinator", 11: "JoinGroup", 12: "Heartbeat", 13: "LeaveGroup", 14: "SyncGroup",
    15: "DescribeGroups", 16: "ListGroups", 17: "SaslHandshake", 18: "ApiVersions", 19: "CreateTopics",
    20: "DeleteTopics", 21: "DeleteRecords", 22: "InitProducerId", 23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn", 25: "AddOffsetsToTxn", 26: "EndTxn", 28: "TxnOffsetCommit", 32: "DescribeConfigs",
    36: "SaslAuthenticate", 37: "CreatePartitions", 42: "DeleteGroups", 47: "OffsetDelete", 60: "DescribeCluster",
    68: "ConsumerGroupHeartbeat", 69: "ConsumerGroupDescribe", 71: "GetTelemetrySubscriptions", 72: "PushTelemetry",
    75: "DescribeTopicPartitions",
}  # fmt: skip
"""API key -> Kafka's name, for requests of clients."""

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhi")


class FrameError(HarnessError, ValueError):
    """The bytes aren't Kafka's protocol; the message says what was found."""


@dataclass(frozen=True)
class Request:
    """A request's header. `api` is Kafka's name, or ``api-99`` if `APIS` lacks it. `client_id` None: it has none."""

    api: str
    version: int
    correlation: int
    client_id: str | None


class Frames:
    """Bytes of one direction, in pieces of any size -> whole frames, size included, of at most `max_bytes` each."""

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()

    @property
    def torn(self) -> int:
        """Number of bytes of an incomplete frame."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes and return the frames that are now complete. Cost: O(n) over all calls.

        Raises:
            FrameError: A frame has an impossible size, so the stream can't be followed any further.
        """
        self._rest += data
        frames = []
        at = 0
        while len(self._rest) - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._rest, at)
            if not _SIZE.size <= size <= self._max_bytes:
                raise FrameError(
                    f"a frame of {size} bytes, where Kafka's have {_SIZE.size} to {self._max_bytes}: does the client "
                    "speak TLS, or no Kafka at all?"
                )
            end = at + _SIZE.size + size
            if end > len(self._rest):
                break
            frames.append(bytes(memoryview(self._rest)[at:end]))
            at = end
        del self._rest[:at]
        return frames

    def rest(self) -> bytes:
        """Take the bytes that came in and in no whole frame out; after a `FrameError` all that the call had got."""
        rest = bytes(self._rest)
        self._rest.clear()
        return rest


class InFlight:
    """The requests of one connection that wait for their answers; matches each answer to its request."""

    def __init__(self) -> None:
        self._waiting: deque[Request] = deque()

    def sent(self, request: Request) -> None:
        """Add a request that went to the broker."""
        self._waiting.append(request)

    def answered(self, frame: bytes) -> Request:
        """The request that a broker's frame answers, or FrameError. Older ones get none (Produce with acks=0)."""
        correlation = correlation_of(frame)
        while self._waiting:
            request = self._waiting.popleft()
            if request.correlation == correlation:
                return request
        raise FrameError(f"a response with correlation id {correlation}, which no request in flight has")


def request_of(frame: bytes) -> Request:
    """Read a request's header. FrameError if the frame ends within it, or the client id isn't UTF-8."""
    at = _SIZE.size + _HEADER.size
    if len(frame) < at:
        raise FrameError(f"a request of {len(frame) - _SIZE.size} bytes, shorter than any header")
    key, version, correlation = _HEADER.unpack_from(frame, _SIZE.size)
    client_id = None
    # ControlledShutdown v0, of brokers before 0.9, is the only request without a client id.
    if (key, version) != (7, 0):
        if len(frame) < at + 2:
            raise FrameError(f"a request (api key {key}) that ends before its client id")
        (size,) = struct.unpack_from(">h", frame, at)
        name = frame[at + 2 : at + 2 + max(size, 0)]
        if size < -1 or len(name) < size:
            raise FrameError(f"a request (api key {key}) whose client id would have {size} bytes, of {len(name)}")
        try:
            client_id = None if size < 0 else name.decode()
        except UnicodeDecodeError as error:
            raise FrameError(f"a request (api key {key}) whose client id isn't UTF-8: {error}") from error
    return Request(APIS.get(key, f"api-{key}"), version, correlation, client_id)


def correlation_of(frame: bytes) -> int:
    """The correlation id of an answer."""
    return int(_SIZE.unpack_from(frame, _SIZE.size)[0])
