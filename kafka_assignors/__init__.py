"""Which member of a consumer group gets which partition: assignors that place like Java, or better.

The assignors for kafka-python are imported when they are first asked for; `kafka_assignors.core` needs no Kafka client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .kafka_python import CooperativeStickyAssignor, RangeAssignor, RoundRobinAssignor, StickyAssignor
    from .stateless import (
        AverageAssignor,
        AverageByCircleAssignor,
        ConfigAssignor,
        ConsistentHashAssignor,
        MachineRoomNearbyAssignor,
        MetaqConsistentHashAssignor,
        MetaqDefaultAssignor,
        RocketmqConsistentHashAssignor,
    )

__all__ = [
    "AverageAssignor",
    "AverageByCircleAssignor",
    "ConfigAssignor",
    "ConsistentHashAssignor",
    "CooperativeStickyAssignor",
    "MachineRoomNearbyAssignor",
    "MetaqConsistentHashAssignor",
    "MetaqDefaultAssignor",
    "RangeAssignor",
    "RocketmqConsistentHashAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import kafka_python, stateless

    return getattr(stateless if hasattr(stateless, name) else kafka_python, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
