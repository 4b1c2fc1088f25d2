"""Ask a broker who is there: one Metadata request over a plain socket.

An open port is not a ready broker, and a client library retries and logs on its own; this asks once, and answers.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from kafka_assignors.errors import ConfigError

from ..errors import BrokerUnreachable

_METADATA, _VERSION, _CORRELATION = 3, 1, 7


@dataclass(frozen=True)
class Node:
    """A broker as Metadata names it."""

    node_id: int
    host: str
    port: int
    rack: str | None


def nodes(bootstrap: str, timeout_s: float = 5) -> list[Node]:
    """The live brokers of the cluster, as the first that answers at `bootstrap` sees them.

    Args:
        bootstrap: ``host:port``, several with commas.
        timeout_s: Seconds until this gives up, all addresses together.

    Raises:
        ConfigError: An address is not ``host:port``.
        OSError: No connection, or no whole answer in time; names what each address met, if there are several.
        ValueError: An answer that is not Kafka's.
    """
    asked = addresses(bootstrap)
    met: list[str] = []
    deadline = time.monotonic() + timeout_s
    for left, at in zip(range(len(asked), 0, -1), asked, strict=True):
        try:
            return _nodes(at, max(0.1, (deadline - time.monotonic()) / left))
        except (OSError, ValueError) as error:
            if len(asked) == 1:
                raise
            met.append(f"{at[0]}:{at[1]}: {str(error) or type(error).__name__}")
    raise OSError("; ".join(met))


def _nodes(at: tuple[str, int], timeout_s: float) -> list[Node]:
    bootstrap = f"{at[0]}:{at[1]}"
    request = struct.pack(">hhih", _METADATA, _VERSION, _CORRELATION, -1) + struct.pack(">i", 0)  # no topics
    deadline = time.monotonic() + timeout_s
    with socket.create_connection(at, timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _receive(connection, 4, deadline))
        if not 8 <= size <= 10_000_000:
            raise ValueError(f"{bootstrap} does not speak Kafka's protocol: an answer of {size} bytes")
        return _parse(_receive(connection, size, deadline), bootstrap)


def await_ready(
    bootstrap: str, timeout_s: float, check: Callable[[], None] | None = None, brokers: int = 1
) -> list[Node]:
    """Wait until `bootstrap` answers with at least `brokers` live brokers.

    Args:
        bootstrap: ``host:port``, several with commas: one that answers is enough.
        timeout_s: Seconds until this gives up.
        check: Called before each try; raises when waiting is pointless, e.g. because the broker died.
        brokers: How many nodes must be live.

    Raises:
        ConfigError: An address is not ``host:port``.
        BrokerUnreachable: No such answer in time; says what the last try met.
    """
    addresses(bootstrap)  # a wrong address does not become right by waiting
    deadline = time.monotonic() + timeout_s
    last = "nothing tried"
    while True:
        if check:
            check()
        try:
            left = max(0.1, min(5.0, deadline - time.monotonic()))
            found = nodes(bootstrap, left)
            if len(found) >= brokers:
                return found
            last = f"it answered; {len(found)} of {brokers} brokers are live"
        except (OSError, ValueError) as error:
            last = str(error) or type(error).__name__
        if time.monotonic() >= deadline:
            raise BrokerUnreachable(f"no Kafka broker at {bootstrap} within {timeout_s:g} s (last: {last})")
        time.sleep(0.05)


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Each ``host:port`` of a list with commas as a pair; ``[::1]:9092`` too.

    Raises:
        ConfigError: One is something else.
    """
    found = []
    for each in bootstrap.split(","):
        host, _, port = each.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(
                f"bootstrap {each!r} is not 'host:port', e.g. '127.0.0.1:9092'; several are separated by commas"
            )
        found.append((host.strip("[]"), int(port)))
    return found


def _receive(connection: socket.socket, size: int, deadline: float) -> bytes:
    data = b""
    while len(data) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no whole answer in time")
        connection.settimeout(left)
        block = connection.recv(size - len(data))
        if not block:
            raise ConnectionError("closed the connection instead of answering")
        data += block
    return data


def _parse(data: bytes, bootstrap: str) -> list[Node]:
    try:
        correlation, count = struct.unpack_from(">ii", data)
        if correlation != _CORRELATION:
            raise ValueError(f"correlation id {correlation}")
        at = 8
        found = []
        for _ in range(count):
            (node_id,) = struct.unpack_from(">i", data, at)
            host, at = _string(data, at + 4)
            (port,) = struct.unpack_from(">i", data, at)
            rack, at = _string(data, at + 4)
            found.append(Node(node_id, host or "", port, rack))
        return found
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{bootstrap} does not speak Kafka's protocol: {error}") from error


def _string(data: bytes, at: int) -> tuple[str | None, int]:
    (size,) = struct.unpack_from(">h", data, at)
    at += 2
    if size < 0:
        return None, at
    return data[at : at + size].decode(), at + size
