"""Names (see `names`) -> assignors and partitioners for kafka-python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from typing import Any

from kafka_assignors.core.declaration import is_ours, options_of
from kafka_assignors.errors import ConfigError, UnknownName

from .names import PEER

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


def assignor_named(name: str, rack: str | None = None) -> Any:
    """A new assignor for kafka-python. `rack` is the member's; only our assignors take it.

    Raises:
        UnknownName: Nothing has this name; the message lists the known ones.
        ConfigError: ``module:Class`` can't be imported or constructed, or our assignor has no such options.
    """
    if not is_ours(name):
        return _made("assignor", name, _foreign("assignor", name, _PEER_ASSIGNORS), {})
    from kafka_assignors.clients.kafka_python import assignor

    bare, options = options_of(name)
    return _made("assignor", bare, assignor(bare), {"rack": rack, **options})


def partitioner_named(name: str, **settings: Any) -> Any:
    """A new partitioner for kafka-python, constructed with `settings`.

    Raises:
        UnknownName: Nothing has this name; the message lists the known ones.
        ConfigError: ``module:Class`` can't be imported or constructed.
    """
    return _made("partitioner", name, partitioner_class(name), settings)


def settings_of_partitioner(name: str) -> frozenset[str]:
    """The names of a partitioner's constructor arguments. UnknownName or ConfigError if it can't be found."""
    return frozenset(signature(partitioner_class(name)).parameters)


def partitioner_class(name: str) -> Callable[..., Any]:
    """The class of a partitioner's name. UnknownName or ConfigError if it can't be found."""
    if not is_ours(name):
        return _foreign("partitioner", name, _PEER_PARTITIONERS)
    from kafka_assignors.producers.kafka_python import PARTITIONERS

    if name not in PARTITIONERS:
        raise UnknownName("partitioner", name, [*PARTITIONERS, *(f"{PEER}:{n}" for n in _PEER_PARTITIONERS)])
    return PARTITIONERS[name]


def _foreign(what: str, name: str, peers: Mapping[str, str]) -> Callable[..., Any]:
    place, _, attribute = name.partition(":")
    if place == PEER:
        if attribute not in peers:
            raise UnknownName(what, name, [f"{PEER}:{n}" for n in peers])
        place, _, attribute = peers[attribute].partition(":")
    try:
        factory: Callable[..., Any] = getattr(import_module(place), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{what} {name!r}: {error}; name an importable one as module:Class") from error
    return factory


def _made(what: str, name: str, make: Callable[..., Any], settings: Mapping[str, Any]) -> Any:
    try:
        return make(**settings)
    except TypeError as error:
        raise ConfigError(
            f"{what} {name!r} can't be created with {', '.join(settings) or 'no arguments'}: {error}"
        ) from error
