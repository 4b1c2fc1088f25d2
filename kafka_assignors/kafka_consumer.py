"""The ``KafkaConsumer`` that an assignor serves: kafka-python names it to no assignor, so here it is found and read.

All that is private to kafka-python 3.0.12 and yet needed is in this file; what is about the cluster, in `kafka_leader`.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from types import FrameType
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.assignors.abstract import RebalanceProtocol

from .core.group import NO_GENERATION
from .errors import ConfigError


def asking() -> Any:
    """The consumer that is being made right now, and asks its assignors what they support.

    kafka-python hands an assignor neither its consumer nor the rebalance protocol that is in force. But it asks each
    assignor for its protocols while it makes the consumer, so the consumer is in the call stack.

    Returns:
        The ``KafkaConsumer``; None when somebody else asks.

    Raises:
        LookupError: kafka-python asks, but from no consumer that could be found.
    """
    frame: FrameType | None = sys._getframe(1)
    by_kafka_python = False
    while frame is not None:
        if isinstance(this := frame.f_locals.get("self"), KafkaConsumer):
            return this
        by_kafka_python |= frame.f_globals.get("__name__", "").startswith("kafka.")
        frame = frame.f_back
    if by_kafka_python:
        raise LookupError("kafka-python asks from no KafkaConsumer")
    return None


def is_open(consumer: Any) -> bool:
    """Whether a consumer was made completely and not closed since."""
    return not getattr(consumer, "_closed", True)


def listed_twice(consumer: Any) -> str | None:
    """A name that two entries of its ``partition_assignment_strategy`` have, as far as entries tell their names.

    kafka-python would use the last of them and drop the other in silence.
    """
    seen: set[str] = set()
    for name in _names(consumer.config["partition_assignment_strategy"]):
        if name in seen:
            return name
        seen.add(name)
    return None


def _names(entries: Iterable[Any]) -> Iterable[str]:
    for entry in entries:
        name = getattr(getattr(entry, "func", entry), "name", None)  # of a partial, its class's
        if isinstance(name, str):
            yield name


def client_rack(consumer: Any) -> str | None:
    """Its ``client_rack``, which kafka-python itself sends with fetches alone."""
    return consumer.config.get("client_rack") or None


def is_cooperative(consumer: Any) -> bool:
    """Whether the COOPERATIVE rebalance protocol is in force: the best one that all its assignors support.

    Raises:
        ConfigError: This version of kafka-python does not tell.
    """
    try:
        return bool(consumer._coordinator._rebalance_protocol == RebalanceProtocol.COOPERATIVE)
    except AttributeError as error:
        raise ConfigError(
            f"this kafka-python does not tell its rebalance protocol ({error}); say it yourself: "
            "CooperativeStickyAssignor(protocol='cooperative'), or 'eager' beside eager assignors"
        ) from error


def is_fenced(consumer: Any) -> bool:
    """Whether the consumer is in no generation: it never was, it left, or the coordinator threw it out."""
    return bool(consumer.group_metadata().generation_id == NO_GENERATION)


def held(consumer: Any) -> Collection[tuple[str, int]]:
    """The partitions it may consume at this moment; none once it is fenced, whatever it still has in memory."""
    # A member that is thrown out in the middle of a join keeps its assignment in memory until the next one arrives.
    return () if is_fenced(consumer) else consumer.assignment()


def keep_rejoining(consumer: Any) -> None:
    """Make a consumer finish the join it is in, whatever its polls do; to be called while its assignor assigns.

    kafka-python 3.0.12 remembers why it rejoins. When the reason is changed metadata, the leader forgets it as soon as
    it assigns; if that `poll` then runs out of time before the SyncGroup answer is read, the next one sees nothing to
    do: no assignment, no heartbeats, no error, until the coordinator evicts the member – and then still nothing. Seen
    in a third of the starts of a small group on a busy machine. With the request renewed, the next `poll` joins again.

    Args:
        consumer: The ``KafkaConsumer`` whose assignor is assigning.
    """
    consumer._coordinator.request_rejoin()


def must_rejoin(consumer: Any) -> bool:
    """Whether its next `rebalance` joins the group; cheap."""
    return bool(consumer._coordinator.need_rejoin())


def rebalance(consumer: Any, timeout_s: float) -> bool:
    """What ``poll`` does for the group – the due join, signs of life, callbacks – without fetching anything.

    Returns as soon as the join is done, where ``poll`` would go on waiting for records.

    Args:
        consumer: A subscribed ``KafkaConsumer``.
        timeout_s: How long a join may take; kafka-python 3.0.12 throws one away that ends between two calls.

    Returns:
        Whether the member is in its group's generation.

    Raises:
        KafkaError: A fatal answer of the coordinator, or an error of a rebalance listener.
    """
    return bool(consumer._coordinator.poll(timeout_ms=1000 * timeout_s))
