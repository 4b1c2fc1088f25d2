"""The assignors for kafka-python, and everything that is special to that client."""

from __future__ import annotations

from .assignors import (
    ASSIGNORS,
    PROTOCOLS,
    CompactStickyAssignor,
    CooperativeStickyAssignor,
    CoPartitionedAssignor,
    LagAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    WeightedAssignor,
    assignor,
)

__all__ = [
    "ASSIGNORS",
    "PROTOCOLS",
    "CoPartitionedAssignor",
    "CompactStickyAssignor",
    "CooperativeStickyAssignor",
    "LagAssignor",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "WeightedAssignor",
    "assignor",
]
