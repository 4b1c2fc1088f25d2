"""Plans with the time they took; see `core.plan`."""

from __future__ import annotations

import time
from typing import Any

from .core.group import Group
from .plans.plan import Plan
from .plans.plan import plan as _plan


def plan(group: Group, strategy: str = "cooperative-sticky", **options: Any) -> Plan:
    """What a strategy would do with a group, and how good that is.

    Args:
        group: Members with their claims, topics with their partition counts, racks.
        strategy: A name of `core.strategies.STRATEGIES`, such as ``"range"`` or ``"cooperative-sticky"``.
        options: Those of the strategy, as its assignor class takes them.

    Returns:
        The plan: see `Plan.explain`, `Plan.to_json`, `Plan.goals`.

    Raises:
        UnknownName: No strategy has that name.
        ConfigError: It has no such option, or not with that value.
    """
    return _plan(group, strategy, clock=time.perf_counter, **options)
