"""Waits until a broker serves: an open port is not a ready broker."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka_assignors.connection import BrokerNode, Connection, addresses
from kafka_assignors.connection import brokers as nodes
from kafka_assignors.errors import AccessRefused

from ..errors import BrokerUnreachable

__all__ = ["BrokerNode", "addresses", "await_ready", "nodes", "require_broker"]


def await_ready(
    where: str | Connection, timeout_s: float, check: Callable[[], None] | None = None, brokers: int = 1
) -> list[BrokerNode]:
    """Wait until an address answers with at least `brokers` live brokers. Of several addresses, one answer is enough.

    `check` is called before each try; it raises if waiting is pointless, e.g. because the broker died.

    Raises:
        ConfigError: An address is not ``host:port``.
        AccessRefused: The broker doesn't let this user in.
        BrokerUnreachable: Not enough brokers in time; the message says how the last try failed.
    """
    connection = Connection.of(where)
    addresses(connection.bootstrap)  # fail at once on a malformed address
    deadline = time.monotonic() + timeout_s
    last = "nothing tried"
    while True:
        if check:
            check()
        try:
            left = max(0.1, min(5.0, deadline - time.monotonic()))
            live_nodes = nodes(connection, left)
            if len(live_nodes) >= brokers:
                return live_nodes
            last = f"it answered; {len(live_nodes)} of {brokers} brokers are live"
        except AccessRefused:
            raise
        except (OSError, ValueError) as error:
            last = str(error) or type(error).__name__
        if time.monotonic() >= deadline:
            raise BrokerUnreachable(f"no Kafka broker at {connection} within {timeout_s:g} s (last: {last})")
        time.sleep(0.05)


def require_broker(where: str | Connection, timeout_s: float = 5) -> None:
    """Wait until one of the addresses answers; called before a client is made.

    If the broker isn't there, kafka-python's constructors wait half a minute, then leave a thread and sockets behind.

    Raises:
        BrokerUnreachable: No address answers in time; the message says how each try failed.
        ConfigError: An address is not ``host:port``.
        AccessRefused: The broker doesn't let this user in.
    """
    await_ready(where, timeout_s)
