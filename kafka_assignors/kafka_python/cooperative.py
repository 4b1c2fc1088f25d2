"""What the cooperative assignors for kafka-python share: the rebalance protocol in force, and what is still held."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .adapter import Assignor  # first: it says what to install where kafka-python is missing

# isort: split
from kafka.coordinator.assignors.abstract import RebalanceProtocol

from ..errors import ConfigError
from . import private

PROTOCOLS = ("auto", "cooperative", "eager")
"""What a cooperative assignor takes as `protocol`."""


class Cooperative(Assignor):
    """An assignor whose members may keep what they have while they rebalance.

    Args:
        rack: See `Assignor`.
        protocol: ``"auto"`` supports both rebalance protocols and does as its consumer does. ``"cooperative"`` and
            ``"eager"`` support that one alone, so that kafka-python refuses a list that would mean the other.
        options: Those of the strategy.

    Raises:
        ConfigError: `protocol` is none of the three, or see `Assignor`.
    """

    def __init__(self, *, rack: str | None = None, protocol: str = "auto", **options: Any) -> None:
        if protocol not in PROTOCOLS:
            raise ConfigError(f"protocol must be 'auto', 'cooperative' or 'eager', not {protocol!r}")
        super().__init__(rack=rack, **options)
        self._protocol = protocol

    def supported_protocols(self) -> list[Any]:
        """COOPERATIVE and EAGER, or what `protocol` says. Asked while the consumer is made, it attaches itself."""
        coordinator = self._find_consumer()
        if self._protocol == "eager":
            return [RebalanceProtocol.EAGER]
        # A consumer that cannot be seen does not tell which of the two is in force. Of one alone that is known, and a
        # list that would need the other is refused when the consumer is made: better than claims that are not true.
        if self._protocol == "cooperative" or coordinator is None or not private.tells_protocol(coordinator):
            return [RebalanceProtocol.COOPERATIVE]
        return [RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]

    def lost(self) -> None:
        """Forget what was assigned: the member was fenced. One that knows its consumer sees that by itself."""
        self._forget()

    def metadata(self, topics: Collection[str]) -> Any:
        """This member's subscription, with what its consumer holds at this moment; see `Assignor.metadata`."""
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
        # Partitions of topics it left were revoked before this join.
        return [(topic, partition) for topic, partition in held if topic in topics]
