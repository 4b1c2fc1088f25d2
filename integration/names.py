"""Names of assignors and partitioners: ours, kafka-python's own (``kafka-python:NAME``), or any (``module:Class``).

Our assignors accept options, as JSON after the name: ``consistent-hash{"epsilon": 0.1}``.
"""

from __future__ import annotations

import json
from typing import Any

from kafka_assignors.errors import ConfigError

PEER = "kafka-python"
COOPERATIVE = "cooperative-sticky"
"""The only assignor whose members always keep their partitions while they rebalance."""
EITHER = frozenset({"weighted", "lag", "cooperative-copartitioned"})
"""Assignors whose members keep their partitions or not, depending on their consumers' lists of assignors."""
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
    """Split one of our assignors' names into bare name and options. ConfigError if these aren't a JSON object."""
    bare, brace, rest = name.partition("{")
    if not brace:
        return name, {}
    try:
        options: dict[str, Any] = json.loads(brace + rest)
    except ValueError as error:
        raise ConfigError(
            f'assignor {name!r}: its options are not a JSON object like {{"epsilon": 0.1}}: {error}'
        ) from error
    return bare, options
