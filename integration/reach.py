"""Is there a broker? Asked before a client is made.

kafka-python's constructors wait half a minute for a broker that isn't there, and leave a thread and sockets behind when
they give up.
"""

from __future__ import annotations

import time
from typing import Any

from kafka_assignors.errors import ConfigError

from .broker.ready import nodes
from .errors import BrokerUnreachable


def make_no_topics(consumer: Any) -> None:
    """Keep a new ``KafkaConsumer`` from making topics by asking for them, on brokers that make topics unasked.

    kafka-python 3.0.12 takes ``allow_auto_create_topics=False`` and never passes it on to what asks.
    """
    consumer._client.cluster.config["allow_auto_create_topics"] = False


def require_broker(bootstrap: str, timeout_s: float = 5) -> None:
    """Return when one of the addresses answers.

    Args:
        bootstrap: ``host:port``, several with commas.
        timeout_s: When to give up; a broker may be about to come back.

    Raises:
        BrokerUnreachable: None answers in time; says what each try met.
        ConfigError: An address that is none.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        met = []
        for address in bootstrap.split(","):
            try:
                nodes(address, max(0.1, min(2.0, deadline - time.monotonic())))
                return
            except (OSError, ValueError) as error:
                if isinstance(error, ConfigError):
                    raise
                met.append(f"{address}: {error}")
        if time.monotonic() >= deadline:
            raise BrokerUnreachable(f"no broker answers at {bootstrap} within {timeout_s:g} s ({'; '.join(met)})")
        time.sleep(0.05)
