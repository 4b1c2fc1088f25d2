"""Puts other ports into a broker's answers that name brokers, so that a client connects to them. Pure.

An address is a string (int16 length, or one byte of length + 1 in a flexible version) and a port (int32). The harness's
brokers all are at 127.0.0.1, so another port is as long as the old one: no other byte of the answer changes, whatever
its version.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

NAMING = frozenset({"Metadata", "FindCoordinator", "DescribeCluster"})
"""APIs whose answers name brokers and have no bytes of users'. Fetch and Produce name a new leader, too (KIP-951):
there the address stays, nothing listens at it, and the client asks for metadata instead."""
_HOST = b"127.0.0.1"


def readdressed(frame: bytes, ports: Mapping[int, int]) -> bytes:
    """The frame with a port in place of another wherever a broker of 127.0.0.1 is named; `ports`: old -> new."""
    for old, new in ports.items():
        before, after = (_HOST + struct.pack(">i", port) for port in (old, new))
        for length in (struct.pack(">h", len(_HOST)), bytes([len(_HOST) + 1])):
            frame = frame.replace(length + before, length + after)
    return frame
