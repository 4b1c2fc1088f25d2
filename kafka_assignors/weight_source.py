"""Where a member's weights come from, for every client: a mapping, a callable, the pipeline's file, or a meter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from os import PathLike, fspath

from . import weights as weights_file_
from .core.weighted.meter import Meter
from .core.weighted.model import Floats, Weights, checked
from .core.wire import weighted as carried
from .errors import ConfigError
from .fact_log import log


class WeightSource:
    """One member's source.

    Args:
        name: The assignor's protocol name, for warnings.
        weights: ``{("orders", 0): 12.5}``, ``{"orders": [12.5, 3.0]}``, or a callable that returns one of these.
        weights_file: The pipeline's weights file.
        meter: One of `meter.KINDS`.
        of: What the numbers are, for warnings.

    Attributes:
        meter: The meter, or None.

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
        if len(several := [each for each, value in given.items() if value is not None]) > 1:
            raise ConfigError(f"give {several[0]} or {several[1]}, not both")
        if weights_file is not None and not isinstance(weights_file, str | PathLike):
            raise ConfigError(f"weights_file must be a path, not {weights_file!r}")
        self._name, self._of, self._said = name, of, ""
        self._callable = weights if callable(weights) else None
        self._fixed = {} if callable(weights) else carried.arrays(checked(weights))
        self._file = None if weights_file is None else fspath(weights_file)
        self.meter = None if meter is None else Meter(meter)

    def known(self, owned: Collection[tuple[str, int]], generation: int, now: float) -> Mapping[str, Floats]:
        """What this member knows; nothing where its source fails, which is warned of once.

        Args:
            owned: The topic-partitions that it owns.
            generation: The group's generation.
            now: The meter's clock, in seconds.

        Returns:
            topic -> weight per partition, NaN if unknown.
        """
        if self.meter is not None:
            return self.meter.weights(owned, generation, now)
        if self._file is not None:
            found = weights_file_.read(self._file)
            if isinstance(found, weights_file_.NoWeights):
                self.warn(f"{found}; this member sends no weights", once=found.kind)
                return {}
            self._said = ""
            return carried.arrays({topic: list(each) for topic, each in found.topics.items()})
        if self._callable is None:
            return self._fixed
        try:
            known = carried.arrays(checked(self._callable()))
        except Exception as error:  # whatever a user's code raises must not end the join
            why = f"{type(error).__name__}: {error}"
            self.warn(f"the callable for {self._of} failed: {why}; this member sends no {self._of}")
            return {}
        self._said = ""
        return known

    def warn(self, text: str, once: str = "") -> None:
        """Log a warning, unless the last one was about the same: `once`, or `text` without it."""
        if (about := once or text) != self._said:
            log.warning("%s: %s", self._name, text)
        self._said = about
