"""A deployment and an autoscaler as an orchestrator plays them: the steps, and which options can't be."""

from __future__ import annotations

import math
import re
from itertools import accumulate
from typing import Any

import pytest

from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.members.config import CLIENTS
from kafka_assignors.integration.scenario import SCENARIOS, Scenario, scenario
from kafka_assignors.integration.scenario.actions import Join, Leave
from kafka_assignors.integration.scenario.clients import of_client, of_service
from kafka_assignors.integration.scenario.deployment import orchestrated
from kafka_assignors.integration.scenario.file import problems


def sizes(what: Scenario) -> list[int]:
    """How many members run after each action."""
    changes = [1 if isinstance(action, Join) else -1 for step in what.steps for action in step.actions]
    return list(accumulate(changes))


@pytest.mark.parametrize(
    ("surge", "replicas", "steps", "most", "least"),
    [(2, 5, 1 + 2 * 3, 7, 5), (5, 5, 1 + 2, 10, 5), (1, 3, 1 + 2 * 3, 4, 3), (0, 3, 1 + 3, 3, 2), (1, 1, 1 + 2, 2, 1)],
)
def test_new_members_come_before_as_many_old_ones_go(
    surge: int, replicas: int, steps: int, most: int, least: int
) -> None:
    """With a surge there are never fewer members than before, and never more than that above it."""
    what = orchestrated(scenario("roll"), surge=surge, grace_s=12, replicas=replicas)
    running = sizes(what)[replicas - 1 :]

    assert list(problems(what)) == []
    assert len(what.steps) == steps
    assert (max(running), min(running), running[-1]) == (most, least, replicas)
    leaves = [action for step in what.steps for action in step.actions if isinstance(action, Leave)]
    assert [leave.member for leave in leaves] == [f"m{number}" for number in range(1, replicas + 1)]
    assert {(leave.grace_s, leave.hand_over_s) for leave in leaves} == {(12, 6)}
    assert "12 s" in what.about


def test_without_options_a_scenario_is_as_it_was() -> None:
    for what in SCENARIOS.values():
        assert orchestrated(what) is what
    assert [len(step.actions) for step in orchestrated(scenario("roll"), replicas=2).steps] == [2, 1, 1, 1, 1]


def test_one_option_of_a_deployment_gives_the_other_its_default() -> None:
    assert sizes(orchestrated(scenario("roll"), grace_s=5)) == sizes(orchestrated(scenario("roll"), surge=1))
    (leave,) = orchestrated(scenario("roll"), surge=1, replicas=1).steps[-1].actions
    assert leave == Leave("m1", 15, 30)


@pytest.mark.parametrize(
    ("course", "running"), [(None, [3, 4, 5, 6, 7, 8, 7, 6, 5, 4, 3]), ("1..3", [1, 2, 3]), ("2..1..3", [2, 1, 2, 3])]
)
def test_an_autoscaler_goes_from_size_to_size_one_at_a_time(course: str | None, running: list[int]) -> None:
    what = orchestrated(scenario("scale"), sizes=course)

    assert list(problems(what)) == []
    assert sizes(what)[running[0] - 1 :] == running
    assert len(what.steps) == len(running)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("what", [orchestrated(scenario("roll"), surge=2), scenario("scale")], ids=["roll", "scale"])
def test_every_client_plays_them(what: Scenario, client: str) -> None:
    played = of_client(what, client)

    assert list(problems(played)) == []
    assert [step.name for step in played.steps] == [step.name for step in what.steps]


def test_a_process_of_a_service_gets_sigterm_and_the_same_grace() -> None:
    played = of_service(orchestrated(scenario("roll"), surge=2, grace_s=10), {"orders": 6})

    leaves = [action for step in played.steps for action in step.actions if isinstance(action, Leave)]
    assert {(leave.grace_s, leave.hand_over_s) for leave in leaves} == {(10, 0)}


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("churn", {"surge": 1}, "--surge 1 is for scenario roll, and 'churn' replaces no member; remove it"),
        ("scale", {"surge": 1}, "--surge 1 is for scenario roll, and 'scale' replaces no member"),
        ("churn", {"grace_s": 5}, "--grace 5 is for scenarios roll and scale; 'churn' is played without it"),
        ("roll", {"sizes": "1..2"}, "--sizes 1..2 is for scenario scale, and 'roll' has one of its own"),
        ("roll", {"grace_s": 0}, "--grace 0 is no time from SIGTERM to SIGKILL; give seconds above 0"),
        ("roll", {"grace_s": -1}, "--grace -1 is no time"),
        ("scale", {"grace_s": math.nan}, "--grace nan is no time"),
        ("roll", {"grace_s": math.inf}, "--grace inf is no time"),
        ("roll", {"surge": 6}, "--surge 6 is no number of new processes for 5 old ones; give 0 to 5"),
        ("roll", {"surge": -1}, "--surge -1 is no number of new processes"),
        ("roll", {"surge": 3, "replicas": 2}, "--surge 3 is no number of new processes for 2 old ones; give 0 to 2"),
        ("roll", {"replicas": 0}, "--replicas 0 is no number of processes to replace; give 1 to 64"),
        ("roll", {"replicas": 65}, "--replicas 65 is no number"),
        ("scale", {"sizes": "3"}, "--sizes '3' is not A..B..C, such as 3..8..3"),
        ("scale", {"sizes": "3..x"}, "--sizes '3..x' is not A..B..C"),
        ("scale", {"sizes": "3-8"}, "--sizes '3-8' is not A..B..C"),
        ("scale", {"sizes": "3..0"}, "--sizes 3..0: each is a number of processes from 1 to 64"),
        ("scale", {"sizes": "3..65"}, "--sizes 3..65: each is a number"),
        ("scale", {"sizes": "3..3..4"}, "--sizes 3..3..4: 3 follows 3, which changes nothing"),
    ],
)
def test_an_option_that_can_not_be_is_named(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        orchestrated(scenario(name), **options)
