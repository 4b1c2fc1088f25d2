"""Names -> assignors and partitioners: ours, kafka-python's own (``kafka-python:NAME``), or any (``module:Class``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from kafka_assignors.errors import ConfigError, UnknownName

PEER = "kafka-python"
_PEER_ASSIGNORS = {
    "range": "kafka.coordinator.assignors.range:RangePartitionAssignor",
    "roundrobin": "kafka.coordinator.assignors.roundrobin:RoundRobinPartitionAssignor",
    "sticky": "kafka.coordinator.assignors.sticky.sticky_assignor:StickyPartitionAssignor",
    "cooperative-sticky": "kafka.coordinator.assignors.cooperative_sticky:CooperativeStickyAssignor",
}
_PEER_PARTITIONERS = {
    "default": "kafka.partitioner.default:DefaultPartitioner",
    "sticky": "kafka.partitioner.sticky:StickyPartitioner",
}


def is_ours(name: str) -> bool:
    """Whether a name means one of this distribution's own strategies."""
    return ":" not in name


def assignor_named(name: str) -> Any:
    """A new assignor for kafka-python.

    Raises:
        UnknownName: Nothing has this name; the message lists the known ones.
        ConfigError: ``module:Class`` can't be imported or made.
    """
    if not is_ours(name):
        return _foreign("assignor", name, _PEER_ASSIGNORS)
    from kafka_assignors.kafka_python import assignor

    return assignor(name)


def partitioner_named(name: str, **settings: Any) -> Any:
    """A new partitioner for kafka-python; `settings` go to ours and to ``module:Class``.

    Raises:
        UnknownName: Nothing has this name; the message lists the known ones.
        ConfigError: ``module:Class`` can't be imported or made.
    """
    if not is_ours(name):
        return _foreign("partitioner", name, _PEER_PARTITIONERS, **settings)
    from producers.kafka_python import PARTITIONERS

    if name not in PARTITIONERS:
        raise UnknownName("partitioner", name, [*PARTITIONERS, *(f"{PEER}:{n}" for n in _PEER_PARTITIONERS)])
    return PARTITIONERS[name](**settings)


def _foreign(what: str, name: str, peers: Mapping[str, str], **settings: Any) -> Any:
    place, _, attribute = name.partition(":")
    if place == PEER:
        if attribute not in peers:
            raise UnknownName(what, name, [f"{PEER}:{n}" for n in peers])
        place, _, attribute = peers[attribute].partition(":")
    try:
        make: Callable[..., Any] = getattr(import_module(place), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{what} {name!r}: {error}; name one as module:Class that can be imported here") from error
    try:
        return make(**settings)
    except TypeError as error:
        raise ConfigError(f"{what} {name!r} can't be made without arguments: {error}") from error
