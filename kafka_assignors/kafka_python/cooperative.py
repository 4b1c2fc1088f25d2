"""Base class of the cooperative assignors for kafka-python: the rebalance protocol, and the partitions still held."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .adapter import Assignor  # first: its ImportError says what to install if kafka-python is missing

# isort: split
from kafka.coordinator.assignors.abstract import RebalanceProtocol

from ..errors import ConfigError
from . import private

PROTOCOLS = ("auto", "cooperative", "eager")
"""Valid values of `protocol`."""


class Cooperative(Assignor):
    """An assignor whose members may keep their partitions during a rebalance.

    Args:
        rack: See `Assignor`.
        protocol: ``"auto"`` supports both rebalance protocols and follows its consumer. ``"cooperative"`` and
            ``"eager"`` support only that protocol: kafka-python then rejects a list of assignors that implies the
            other.
        options: The strategy's options.

    Raises:
        ConfigError: `protocol` is not one of the three; also as `Assignor`.
    """

    def __init__(self, *, rack: str | None = None, protocol: str = "auto", **options: Any) -> None:
        if protocol not in PROTOCOLS:
            raise ConfigError(f"protocol must be 'auto', 'cooperative' or 'eager', not {protocol!r}")
        super().__init__(rack=rack, **options)
        self._protocol = protocol

    def supported_protocols(self) -> list[Any]:
        """COOPERATIVE and EAGER, or the one that `protocol` names. Also attaches the assignor, as in `Assignor`."""
        coordinator = self._find_consumer()
        if self._protocol == "eager":
            return [RebalanceProtocol.EAGER]
        # Without its consumer the assignor can't know which of two protocols is in force, and might claim partitions
        # that it has revoked. So it supports one alone: kafka-python then rejects a list that needs the other.
        if self._protocol == "cooperative" or coordinator is None or not private.shows_protocol(coordinator):
            return [RebalanceProtocol.COOPERATIVE]
        return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]

    def lost(self) -> None:
        """Drop the assignment because the member was fenced. An attached assignor does this itself."""
        self._forget()

    def metadata(self, topics: Collection[str]) -> Any:
        """This member's subscription, with the partitions that its consumer holds now; see `Assignor.metadata`."""
        if (coordinator := self._attached()) is not None and private.is_fenced(coordinator):
            self._forget()
        return super().metadata(topics)

    def _still_held(self, topics: Collection[str]) -> Collection[tuple[str, int]]:
        if self._protocol == "eager":
            return ()
        held: Collection[tuple[str, int]] = self._owned or ()
        if self._coordinator is not None:
            coordinator = self._attached()
            if coordinator is None or not private.is_cooperative(coordinator):
                return ()
            held = private.held(coordinator, held)
        # Partitions of topics that it no longer subscribes to were revoked before this join.
        return [(topic, partition) for topic, partition in held if topic in topics]
