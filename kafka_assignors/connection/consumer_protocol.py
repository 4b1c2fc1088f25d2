"""A consumer's settings under the consumer protocol (KIP-848): which are refused, and which mean something else. Pure.

Source: ``ConsumerConfig.CONSUMER_PROTOCOL_UNSUPPORTED_CONFIGS`` of apache/kafka 4.3.0; librdkafka 2.16.0; KIP-848.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..errors import ConfigError

REFUSED, CHANGED = "refused", "changed"
CLIENTS = ("java", "librdkafka", "kafka-python", "aiokafka")
WITHOUT = ("kafka-python", "aiokafka")
"""Clients that don't speak the protocol (kafka-python 3.0, aiokafka 0.14)."""


class Effect(NamedTuple):
    """What becomes of one setting.

    Args:
        setting: Its name, as it was given.
        kind: `REFUSED` (no consumer is created) or `CHANGED` (it means something else).
        text: What happens, in one sentence.
        remedy: What to do.
    """

    setting: str
    kind: str
    text: str
    remedy: str


_TIMES = "kafka-configs.sh --alter --entity-type groups --entity-name GROUP --add-config consumer."
_REFUSED = {
    "session.timeout.ms": (
        "the broker sets it for the whole group: group.consumer.session.timeout.ms, 45 s by default",
        f"remove it; to keep the value: {_TIMES}session.timeout.ms=MS",
    ),
    "heartbeat.interval.ms": (
        "the broker sets it for the whole group: group.consumer.heartbeat.interval.ms, 5 s by default",
        f"remove it; to keep the value: {_TIMES}heartbeat.interval.ms=MS",
    ),
    "partition.assignment.strategy": (
        "members have no assignors: the broker assigns",
        "remove it; group.remote.assignor=uniform or range chooses one of the broker's",
    ),
}
_OF_ONE_CLIENT = {
    ("librdkafka", "group.protocol.type"): ("there is one type of these groups", "remove it"),
    ("java", "share.acknowledgement.mode"): ("it is a setting of share consumers", "remove it"),
    ("java", "share.acquire.mode"): ("it is a setting of share consumers", "remove it"),
}
_CHANGED = {
    "group.instance.id": (
        "a second member with the same id is refused (UNRELEASED_INSTANCE_ID) while the first one lives; in a classic "
        "group the newcomer fences the first one",
        "stop a member before its successor starts",
    ),
    "client.rack": (
        "fetching from the nearest replica stays; the broker's assignors ignore racks (KAFKA-14450)",
        "if assignment by racks saves you traffic, stay with the classic protocol",
    ),
}


def under_consumer_protocol(settings: Mapping[str, str], client: str = "java") -> list[Effect]:
    """What each setting does with ``group.protocol=consumer``; settings without a change are left out.

    Args:
        settings: Names as the client writes them, ``session.timeout.ms`` or ``session_timeout_ms``.
        client: One of `CLIENTS`. For one of `WITHOUT`, the first effect says so; the others are librdkafka's.

    Raises:
        ConfigError: No such client.

    >>> effects = under_consumer_protocol({"session.timeout.ms": "6000", "acks": "all"})
    >>> [(effect.setting, effect.kind) for effect in effects]
    [('session.timeout.ms', 'refused')]
    """
    if client not in CLIENTS:
        raise ConfigError(f"client {client!r} is not known; known: {', '.join(CLIENTS)}")
    effects = []
    if client in WITHOUT:
        effects.append(
            Effect(
                "group.protocol", REFUSED, f"{client} doesn't speak the consumer protocol (KIP-848)",
                "stay with the classic protocol, or move the member to confluent-kafka; the lines below are for that",
            )
        )  # fmt: skip
        client = "librdkafka"
    for given in settings:
        name = given.replace("_", ".")
        refused = _REFUSED.get(name) or _OF_ONE_CLIENT.get((client, name))
        if refused is not None:
            effects.append(Effect(given, REFUSED, *refused))
        elif name in _CHANGED:
            effects.append(Effect(given, CHANGED, *_CHANGED[name]))
    return effects
