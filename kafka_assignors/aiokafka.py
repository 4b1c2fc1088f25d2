"""The assignors for aiokafka, under the name that applications import (`clients.aiokafka`)."""

from __future__ import annotations

from .clients.aiokafka import (
    Assignor,
    CompactStickyAssignor,
    CoPartitionedAssignor,
    LagAssignor,
    RangeAssignor,
    Refused,
    RoundRobinAssignor,
    StickyAssignor,
    WeightedAssignor,
)

__all__ = [
    "Assignor", "CoPartitionedAssignor", "CompactStickyAssignor", "LagAssignor", "RangeAssignor", "Refused",
    "RoundRobinAssignor", "StickyAssignor", "WeightedAssignor",
]  # fmt: skip
