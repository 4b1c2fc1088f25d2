"""Names of assignors and partitioners: ours, kafka-python's own (``kafka-python:NAME``), or any (``module:Class``).

One of our assignors may have options, as JSON behind its name: ``consistent-hash{"epsilon": 0.1}``.
"""

from __future__ import annotations

import json
from typing import Any

from kafka_assignors.errors import ConfigError

PEER = "kafka-python"
COOPERATIVE = "cooperative-sticky"
"""The one assignor whose members keep what they have while they rebalance."""
EITHER = frozenset({"weighted"})
"""Assignors whose members keep what they have, or don't, as their consumers' lists say."""
JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
"""Protocol name -> Java's class."""


def is_ours(name: str) -> bool:
    """Whether a name means one of this distribution's own strategies."""
    return ":" not in name.partition("{")[0]


def options_of(name: str) -> tuple[str, dict[str, Any]]:
    """One of our assignors' name alone, and its options.

    Raises:
        ConfigError: What follows the name is no JSON object.
    """
    bare, brace, rest = name.partition("{")
    if not brace:
        return name, {}
    try:
        options: dict[str, Any] = json.loads(brace + rest)
    except ValueError as error:
        raise ConfigError(
            f'assignor {name!r}: its options are no JSON object like {{"epsilon": 0.1}}: {error}'
        ) from error
    return bare, options
