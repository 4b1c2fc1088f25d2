"""Assignors of Kafka consumer groups: Java's assignments, or better ones.

Names are imported on first access. `plan` and its arguments need no Kafka client.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .clients.kafka_python import (
        CompactStickyAssignor,
        CooperativeCoPartitionedAssignor,
        CooperativeStickyAssignor,
        CoPartitionedAssignor,
        LagAssignor,
        RangeAssignor,
        RoundRobinAssignor,
        StickyAssignor,
        WeightedAssignor,
    )
    from .clients.kafka_python.guard import guard
    from .clients.kafka_python.leaving import leave
    from .clients.kafka_python.stateless import (
        AverageAssignor,
        AverageByCircleAssignor,
        ConfigAssignor,
        ConsistentHashAssignor,
        MachineRoomNearbyAssignor,
        MetaqConsistentHashAssignor,
        MetaqDefaultAssignor,
        RocketmqConsistentHashAssignor,
    )
    from .clients.record import record
    from .core.group import Group, Member, TopicPartition
    from .errors import ConfigError, KafkaAssignorsError
    from .operator.plans.plan import Plan, plan

__all__ = [
    "AverageAssignor", "AverageByCircleAssignor", "CoPartitionedAssignor", "CompactStickyAssignor", "ConfigAssignor",
    "ConfigError", "ConsistentHashAssignor", "CooperativeCoPartitionedAssignor", "CooperativeStickyAssignor", "Group",
    "KafkaAssignorsError", "LagAssignor", "MachineRoomNearbyAssignor", "Member", "MetaqConsistentHashAssignor",
    "MetaqDefaultAssignor", "Plan", "RangeAssignor", "RocketmqConsistentHashAssignor", "RoundRobinAssignor",
    "StickyAssignor", "TopicPartition", "WeightedAssignor", "guard", "leave", "plan", "record",
]  # fmt: skip

_CORE = {
    "ConfigError": ".errors",
    "Group": ".core.group",
    "KafkaAssignorsError": ".errors",
    "Member": ".core.group",
    "Plan": ".operator.plans.plan",
    "TopicPartition": ".core.group",
    "plan": ".operator.plans.plan",
    "record": ".clients.record",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _CORE:
        return getattr(import_module(_CORE[name], __name__), name)
    try:
        from .clients import kafka_python
    except ImportError as error:
        # `from kafka_assignors import RangeAssignor` would hide the message of a ClientMissing.
        if sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap":
            raise
        from .errors import ClientMissing

        raise ClientMissing(str(error)) from error
    if name == "guard":
        from .clients.kafka_python.guard import guard

        return guard
    if name == "leave":
        from .clients.kafka_python.leaving import leave

        return leave
    if hasattr(kafka_python, name):
        return getattr(kafka_python, name)
    from .clients.kafka_python import stateless

    return getattr(stateless, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
