"""Play a scenario on a broker: real members, one step after the other, then the verdict over the kept history."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from .broker import Broker
from .checker import check
from .group import MemberGroup
from .history import History
from .records import Sender
from .report import GroupResult, StepRow
from .scenario import Join, Kill, Leave, Pause, Scenario, Step
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
        NotStable, MemberDied, NotDrained: The scenario didn't get to its end; the history up to there is kept.
        ConfigError: A topic exists with another partition count.
    """
    create_topics(broker.bootstrap, scenario.topics)
    group = group or f"{scenario.name}-{run[:8]}"
    steps: list[StepRow] = []
    sender = (
        Sender(broker.bootstrap, folder, run, list(scenario.topics), "default", scenario.rate_per_s)
        if scenario.rate_per_s
        else None
    )
    timeouts = {"session_timeout_ms": scenario.session_timeout_ms}
    with MemberGroup(broker.bootstrap, group, folder, run, **timeouts) as members:
        with sender or nullcontext():
            for step in scenario.steps:
                steps.append(_take(members, scenario, step, timeout_s))
                if on_step:
                    on_step(steps[-1])
        members.drain(timeout_s)
    history = History.load(folder)
    verdict = check(history)
    return GroupResult(
        title=f"{scenario.name}: {', '.join(scenario.assignors)}" if scenario.name == "churn" else scenario.name,
        about=scenario.about,
        steps=tuple(steps),
        verdict=verdict,
        intervals=tuple(verdict.intervals),
    )


def _take(members: MemberGroup, scenario: Scenario, step: Step, timeout_s: float) -> StepRow:
    members.step(step.name, scenario.gap_ms)
    for action in step.actions:
        if isinstance(action, Join):
            topics = action.topics or tuple(scenario.topics)
            members.start(
                action.member,
                list(topics),
                list(action.assignors or scenario.assignors),
                client=action.client,
                instance_id=action.member if action.static else None,
            )
        elif isinstance(action, Leave):
            members.stop(action.member)
        elif isinstance(action, Kill):
            members.kill(action.member)
        elif isinstance(action, Pause):
            members.pause(action.member)
        else:
            members.resume(action.member)
    stable = members.wait_stable(timeout_s=timeout_s)
    return StepRow(
        step.name, stable.generation, stable.protocol, stable.owned, len(stable.moves), stable.seconds, stable.mono_ns
    )
