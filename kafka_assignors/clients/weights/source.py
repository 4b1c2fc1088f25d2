"""The figures that a member placed by work knows and tells, for every client.

Its weights come from a mapping, a callable, the pipeline's file, or a meter.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from os import PathLike, fspath
from typing import Any

from ...core.weighted.hysteresis import Rests
from ...core.weighted.meter import Meter
from ...core.weighted.model import Floats, Weights, checked
from ...core.wire import choice
from ...core.wire import weighted as carried
from ...errors import ConfigError
from .. import weights as weights_file_
from ..fact_log import log


class WeightSource:
    """One member's source: at most one of a mapping or callable, the pipeline's file, and a meter.

    Args:
        name: The assignor's protocol name, for warnings.
        weights: ``{("orders", 0): 12.5}``, ``{"orders": [12.5, 3.0]}``, or a callable that returns one of these.
        meter: One of `options.KINDS`.
        of: What the numbers are, for warnings.

    Raises:
        ConfigError: More than one of them is given, or one is not as described.
    """

    def __init__(
        self,
        name: str,
        weights: Weights | Callable[[], Weights] | None = None,
        weights_file: str | PathLike[str] | None = None,
        meter: str | None = None,
        *,
        of: str = "weights",
    ) -> None:
        given = {"weights": weights, "weights_file": weights_file, "meter": meter}
        if len(several := [keyword for keyword, value in given.items() if value is not None]) > 1:
            raise ConfigError(f"give {several[0]} or {several[1]}, not both")
        self._name, self._of, self._last_warning = name, of, ""
        self._callable = weights if callable(weights) else None
        self._fixed = {} if callable(weights) else choice.arrays(checked(weights))
        self._file = None if weights_file is None else fspath(weights_file)
        self.meter = None if meter is None else Meter(meter)

    def weights(self, owned: Collection[tuple[str, int]], generation: int, now: float) -> Mapping[str, Floats]:
        """Weights per topic and partition, NaN if unknown; nothing where the source fails, which is warned of once.

        `owned` and `generation` are the member's; `now` is the meter's clock, in seconds.
        """
        if self.meter is not None:
            return self.meter.weights(owned, generation, now)
        if self._file is not None:
            file_weights = weights_file_.read(self._file)
            if isinstance(file_weights, weights_file_.NoWeights):
                self.warn(f"{file_weights}; this member sends no weights", once=file_weights.kind)
                return {}
            self._last_warning = ""
            return choice.arrays({topic: list(topic_weights) for topic, topic_weights in file_weights.topics.items()})
        if self._callable is None:
            return self._fixed
        try:
            weights = choice.arrays(checked(self._callable()))
        except Exception as error:  # whatever a user's code raises must not end the join
            why = f"{type(error).__name__}: {error}"
            self.warn(f"the callable for {self._of} failed: {why}; this member sends no {self._of}")
            return {}
        self._last_warning = ""
        return weights

    def warn(self, text: str, once: str = "") -> None:
        """Log a warning, unless the last one was about the same: `once`, or `text` without it."""
        if (about := once or text) != self._last_warning:
            log.warning("%s: %s", self._name, text)
        self._last_warning = about


class Figures:
    """A member's knowledge of itself and of partitions.

    Args:
        name: The assignor's protocol name, for warnings.
        given: The valid arguments of the assignor's constructor, by name (`core.weighted.options`).
        meter: What it measures; None for nothing.

    Attributes:
        rests: Which partitions rest; none without the hysteresis.

    Raises:
        ConfigError: Two sources of weights are given.
    """

    def __init__(self, name: str, given: Mapping[str, Any], meter: str | None = None) -> None:
        weights = given["weights"] if "weights" in given else given["lag"]
        self.source = WeightSource(name, weights, given.get("weights_file"), meter)
        self._state = WeightSource(name, given.get("state"), of="state")
        self.capacity: float = given["capacity"]
        most = given.get("max_work")
        self._own = carried.Own(
            self.capacity, priority=given.get("priority", 0), max_work=math.inf if most is None else most
        )
        self.rests = Rests(given["partition_rest_s"] if given["hysteresis"] else 0.0)
        self._number = uuid.uuid4().hex

    def user_data(  # one parameter per field of the user data
        self,
        claimed: Collection[tuple[str, int]],
        owned: Collection[tuple[str, int]],
        topics: Collection[str],
        generation: int,
        rack: str | None,
        instance_id: str | None,
        option_bytes: bytes,
        now: float,
        checks: int = 0,
        asked: int = 0,
    ) -> bytes:
        """The user data of this member's subscription. What doesn't fit into a record is warned of once.

        They claim `claimed`, and tell figures of `owned` (owned, or given up for this join) in `topics` alone.
        `generation` is that of the assignment, `option_bytes` come from `core.group.options.tell`, `now` is the meter's
        clock in seconds. `checks`: consecutive checks of the member's loop that found it to stand out; `asked`: how
        many rebalances the loop has asked for.
        """
        weights = {t: figures for t, figures in self.source.weights(owned, generation, now).items() if t in topics}
        state = {t: figures for t, figures in self._state.weights(owned, generation, now).items() if t in topics}
        own = replace(self._own, checks=checks, asked=asked)
        shared = choice.chosen(weights, owned, instance_id or self._number)
        moving = carried.Moving(choice.chosen(state, owned, "", others=0), self.rests.resting(owned, now))
        data, why = carried.encode_within(claimed, generation, rack, instance_id, option_bytes, own, shared, moving)
        if why:
            self.source.warn(why)
        return data
