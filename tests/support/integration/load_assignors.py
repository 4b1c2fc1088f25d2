"""Members of another version, and one whose meter fails."""

from __future__ import annotations

from typing import Any

from kafka_assignors import LagAssignor, WeightedAssignor
from kafka_assignors.core.wire import weighted as carried


class Newer(WeightedAssignor):
    """Sends user data of the next version."""

    def _user_data(self) -> bytes | None:
        return bytes([carried.VERSION + 1]) + b"what comes"


class NewerLag(LagAssignor):
    """The same by lag."""

    def _user_data(self) -> bytes | None:
        return bytes([carried.VERSION + 1]) + b"what comes"


class Stopping(WeightedAssignor):
    """Its meter fails at the first look at offsets."""

    def __init__(self, **options: Any) -> None:
        super().__init__(meter="work", check_every_s=1, rest_s=5, **options)

    def _tick(self, now: float) -> None:
        raise RuntimeError("the meter fails, as planned")
