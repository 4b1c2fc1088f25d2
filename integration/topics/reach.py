"""Is there a broker? Asked before a client is made.

kafka-python's constructors wait half a minute for a broker that isn't there, and leave a thread and sockets behind when
they give up.
"""

from __future__ import annotations

from typing import Any

from kafka_assignors.connection import Connection

from ..broker.ready import await_ready


def make_no_topics(consumer: Any) -> None:
    """Keep a new ``KafkaConsumer`` from making topics by asking for them, on brokers that make topics unasked.

    kafka-python 3.0.12 takes ``allow_auto_create_topics=False`` and never passes it on to what asks.
    """
    consumer._client.cluster.config["allow_auto_create_topics"] = False


def require_broker(where: str | Connection, timeout_s: float = 5) -> None:
    """Return when one of the addresses answers.

    Args:
        where: ``host:port``, several with commas; or a connection.
        timeout_s: When to give up; a broker may be about to come back.

    Raises:
        BrokerUnreachable: None answers in time; says what each try met.
        ConfigError: An address that is none.
        AccessRefused: The broker doesn't let this user in.
    """
    await_ready(where, timeout_s)
