"""The assignors for kafka-python, and everything that is special to that client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import assignors
from .assignors import (
    PROTOCOLS,
    CompactStickyAssignor,
    CooperativeCoPartitionedAssignor,
    CooperativeStickyAssignor,
    CoPartitionedAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    assignor,
)

if TYPE_CHECKING:
    from .assignors import ASSIGNORS
    from .weighted import LagAssignor, WeightedAssignor

__all__ = [
    "ASSIGNORS", "PROTOCOLS", "CoPartitionedAssignor", "CompactStickyAssignor", "CooperativeCoPartitionedAssignor",
    "CooperativeStickyAssignor", "LagAssignor", "RangeAssignor", "RoundRobinAssignor", "StickyAssignor",
    "WeightedAssignor", "assignor",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "ASSIGNORS":
        return assignors.ASSIGNORS
    if name in ("LagAssignor", "WeightedAssignor"):  # on first access: their modules import NumPy
        from . import weighted

        return getattr(weighted, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
