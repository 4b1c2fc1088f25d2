"""Play a scenario on a broker: real members, one step after the other, then the verdict over the kept history."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import actions
from .broker import Broker
from .broker.cluster import Cluster
from .checker import check
from .group import MemberGroup
from .history import History
from .errors import NotSupported
from .outages import Outages
from .proxy import Applied, FaultProxy, NetworkFault
from .records import Sender
from .report import GroupResult, StepRow
from .scenario import Scenario, Step
from .topics import create_topics

OnStep = Callable[[StepRow], None]


def play(
    scenario: Scenario,
    broker: Broker,
    folder: Path,
    run: str,
    *,
    group: str | None = None,
    on_step: OnStep | None = None,
    timeout_s: float = 40,
) -> GroupResult:
    """Run the scenario to its end and judge it.

    Args:
        scenario: What shall happen.
        broker: Where; it must be ready.
        folder: Gets the history of this group, and nothing else may write there.
        run: Id of the run, on every event.
        group: Group id; by default the scenario's name and the run's first characters.
        on_step: Called when the group is stable after each step.
        timeout_s: For each step, and for the group to have consumed everything at the end.

    Raises:
        NotSupported: The scenario has network faults, and the broker no listener for a proxy.
        NotStable, MemberDied, NotDrained, NotOver: The scenario didn't get to its end; the history up to there is kept.
        ConfigError: A topic exists with another partition count.
    """
    proxy = FaultProxy(broker.routes, folder, run) if scenario.network_faults else None
    with proxy or nullcontext():
        return _play(scenario, broker, folder, run, group, on_step, timeout_s, proxy)


