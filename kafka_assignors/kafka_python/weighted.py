"""Placement by work for kafka-python: see `kafka_assignors.core.weighted`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from os import PathLike, fspath
from typing import Any

from .. import weights as weights_file_
from ..core.group import options as options_
from ..core.strategies import strategy
from ..core.weighted.model import EPSILON, Floats, Weights, checked, one_capacity
from ..core.wire import weighted as carried
from ..errors import ConfigError
from ..fact_log import log
from .cooperative import Cooperative  # first: its ImportError says what to install if kafka-python is missing

# isort: split
from . import private


class WeightedAssignor(Cooperative):
    """``weighted``: see `kafka_assignors.core.weighted.placing.assign`.

    >>> consumer_options = {"partition_assignment_strategy": [
    ...     WeightedAssignor.factory(weights={("orders", 0): 12.5, ("orders", 1): 3.0}, capacity=2.0)]}

    Each member reads its weights when it joins, and sends them with its subscription. The leader uses only the weights
    that members send, so every leader decides alike. A partition without a weight counts as its topic's median. If no
    member sends weights, partitions are counted.

    Args:
        weights: Work per second of partitions, in any unit that all members share (`core.weighted.model.work`):
            ``{("orders", 0): 12.5}``, ``{"orders": [12.5, 3.0]}``, or a callable that returns one of these. The
            callable runs at each join on the consumer's thread, and must not block. If it raises or returns another
            type, the member sends no weights and logs one warning.
        weights_file: The pipeline's weights file (`kafka_assignors.weights`), read at each join. If it is missing, torn
            or expired, the member sends no weights and logs one warning.
        capacity: This member's share of the work, relative to other members' capacities; 0 for a hot standby.
        epsilon: How far the greatest work / capacity may exceed the lower bound, if that saves moves.
        move_budget: Maximum number of partitions per rebalance that may leave an owner that could keep them.
        hysteresis: Whether moves need a reason: see `core.weighted.hysteresis`.
        rack, protocol: See `Cooperative`. Cooperative unless another assignor in the consumer's list is eager.

    Raises:
        ConfigError: An argument is invalid, or a weight is NaN, negative or infinite.
    """

    name = "weighted"
    _strategy = strategy("weighted")

    def __init__(
        self,
        *,
        weights: Weights | Callable[[], Weights] | None = None,
        weights_file: str | PathLike[str] | None = None,
        capacity: float = 1.0,
        epsilon: float = EPSILON,
        move_budget: int | None = None,
        hysteresis: bool = False,
        rack: str | None = None,
        protocol: str = "auto",
    ) -> None:
        if weights is not None and weights_file is not None:
            raise ConfigError("give weights or weights_file, not both")
        if weights_file is not None and not isinstance(weights_file, str | PathLike):
            raise ConfigError(f"weights_file must be a path, not {weights_file!r}")
        self._source = weights if callable(weights) else None
        self._fixed = {} if callable(weights) else carried.arrays(checked(weights))
        self._file = None if weights_file is None else fspath(weights_file)
        self._capacity = one_capacity(capacity)
        self._said = ""
        self._number = uuid.uuid4().hex
        super().__init__(rack=rack, protocol=protocol, epsilon=epsilon, move_budget=move_budget, hysteresis=hysteresis)

    def metadata(self, topics: Collection[str]) -> Any:
        """This member's subscription, with its capacity and its weights."""
        self._topics = topics
        return super().metadata(topics)

    def _user_data(self) -> bytes | None:
        coordinator = self._attached()
        instance_id = None if coordinator is None else private.instance_id(coordinator)
        held = self._still_held(self._topics)
        known = {topic: each for topic, each in self._weights().items() if topic in self._topics}
        # An eager member has revoked all partitions and sends its last assignment; a cooperative member's subscription
        # has the partitions that it holds.
        had = () if self._incremental() else tuple(self._owned or ())
        data, why = carried.encode_within(
            had,
            self._generation,
            self._sent_rack(),
            instance_id,
            options_.tell(self._strategy.told_options()),
            self._capacity,
            carried.chosen(known, held or had, instance_id or self._number),
        )
        if why:
            self._warn(why)
        return data

    def _incremental(self) -> bool:
        coordinator = self._attached()
        return self._protocol != "eager" and (coordinator is None or private.is_cooperative(coordinator))

    def _weights(self) -> Mapping[str, Floats]:
        """This member's current weights; empty if its source fails."""
        if self._file is not None:
            found = weights_file_.read(self._file)
            if isinstance(found, weights_file_.NoWeights):
                self._warn(f"{found}; this member sends no weights")
                return {}
            self._said = ""
            return carried.arrays({topic: list(each) for topic, each in found.topics.items()})
        if self._source is None:
            return self._fixed
        try:
            known = carried.arrays(checked(self._source()))
        except Exception as error:  # an error of the user's code must not stop the join
            self._warn(
                f"the callable for weights failed: {type(error).__name__}: {error}; this member sends no weights"
            )
            return {}
        self._said = ""
        return known

    def _warn(self, text: str) -> None:
        if text != self._said:
            log.warning("%s: %s", self.name, text)
        self._said = text
