"""Wait until a broker serves: an open port is not a ready broker."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka_assignors.connection import Connection, Node, addresses
from kafka_assignors.connection import brokers as nodes
from kafka_assignors.errors import AccessRefused

from ..errors import BrokerUnreachable

__all__ = ["Node", "addresses", "await_ready", "nodes", "require_broker"]


def await_ready(
    where: str | Connection, timeout_s: float, check: Callable[[], None] | None = None, brokers: int = 1
) -> list[Node]:
    """Wait until an address answers with at least `brokers` live brokers.

    Args:
        where: ``host:port``, several with commas: one that answers is enough; or a connection.
        timeout_s: Seconds until this gives up.
        check: Called before each try; raises when waiting is pointless, e.g. because the broker died.
        brokers: How many nodes must be live.

    Raises:
        ConfigError: An address is not ``host:port``.
        AccessRefused: The broker doesn't let this user in.
        BrokerUnreachable: No such answer in time; says what the last try met.
    """
    connection = Connection.of(where)
    addresses(connection.bootstrap)  # a wrong address does not become right by waiting
    deadline = time.monotonic() + timeout_s
    last = "nothing tried"
    while True:
        if check:
            check()
        try:
            left = max(0.1, min(5.0, deadline - time.monotonic()))
            found = nodes(connection, left)
            if len(found) >= brokers:
                return found
            last = f"it answered; {len(found)} of {brokers} brokers are live"
        except AccessRefused:
            raise
        except (OSError, ValueError) as error:
            last = str(error) or type(error).__name__
        if time.monotonic() >= deadline:
            raise BrokerUnreachable(f"no Kafka broker at {connection} within {timeout_s:g} s (last: {last})")
        time.sleep(0.05)


def require_broker(where: str | Connection, timeout_s: float = 5) -> None:
    """Return when one of the addresses answers; asked before a client is made.

    kafka-python's constructors wait half a minute for a broker that isn't there, and leave a thread and sockets behind
    when they give up.

    Args:
        where: ``host:port``, several with commas; or a connection.
        timeout_s: When to give up; a broker may be about to come back.

    Raises:
        BrokerUnreachable: None answers in time; says what each try met.
        ConfigError: An address that is none.
        AccessRefused: The broker doesn't let this user in.
    """
    await_ready(where, timeout_s)
