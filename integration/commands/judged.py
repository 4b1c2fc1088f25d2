"""Turns a scenario's run into a verdict and rows for the page and the tables."""

from __future__ import annotations

from collections.abc import Collection

from rich.console import Console

from ..checker import check
from ..history import History
from ..members.group import Stable
from ..report.replicas_view import replicas_of
from ..report.report import GroupResult, StepRow, step_table
from ..report.timeline_view import timeline_views
from ..report.work_view import work_views
from ..scenario.runner import ScenarioRun


def judged(ran: ScenarioRun, require: Collection[str] = ()) -> GroupResult:
    """Judge the history of a run; `require`: laws beside those of the scenario that the run can show."""
    history, scenario = History.load(ran.folder), ran.scenario
    verdict = check(history, require, scenario.require)
    return GroupResult(
        title=f"{scenario.name}: {', '.join(scenario.assignors)}" if scenario.name == "churn" else scenario.name,
        about=scenario.about,
        steps=tuple(step_row(name, stable) for name, stable in ran.steps),
        verdict=verdict,
        intervals=tuple(verdict.intervals),
        timeline=timeline_views(history).get(ran.group),
        gave_up=ran.gave_up,
        work=work_views(history).get(ran.group),
        replicas=replicas_of(history, ran.group),
        group=ran.group,
    )


def step_row(name: str, stable: Stable) -> StepRow:
    """One step of a run, and the stable group after it, as a row."""
    return StepRow(
        name, stable.generation, stable.protocol, stable.owned, len(stable.moves), stable.seconds, stable.mono_ns
    )


def tell_step(console: Console, step: StepRow, indent: str = "") -> None:
    """Print a step of a run, and who owns what after it."""
    console.print(
        f"{indent}{step.name}: generation {step.generation}, elected {step.protocol}, "
        f"{step.moves} moved, stable in {step.seconds:.2f} s"
    )
    console.print(step_table(step))
