"""Kafka 3.9 beside 4.3: a group judged in every run, the whole contract and every scenario when asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_assignors.errors import UnknownName
from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.report.report import verdict_lines
from kafka_assignors.integration.scenario import SCENARIOS, Scenario, scenario
from kafka_assignors.integration.scenario.runner import run_scenario

pytestmark = pytest.mark.broker

OLDER = "3.9.1"
ALONE = [name for name, each in SCENARIOS.items() if each.nodes == 1]


@pytest.fixture(scope="module")
def older() -> Iterator[Broker]:
    with start_broker(version=OLDER) as broker:
        yield broker


def passes(what: Scenario, broker: Broker, folder) -> None:
    result = judged(run_scenario(what, broker, folder, "run", group=f"{what.name}-{OLDER}"))
    assert result.verdict.value is True, "\n".join(verdict_lines(result.verdict))


def test_a_group_on_an_older_broker_is_judged_true(older, kafka_history):
    """Joins, a leave and a kill; the coordinator's log of that version is read too."""
    assert (older.version, "Kafka version: 3.9.1" in older.log_tail(400)) == (OLDER, True)
    passes(scenario("churn"), older, kafka_history)


@pytest.mark.long
@pytest.mark.parametrize("name", ALONE)
def test_every_scenario_of_one_node_on_an_older_broker(older, kafka_history, name):
    passes(scenario(name), older, kafka_history)


@pytest.mark.parametrize("backend", ["jvm", "shared"])
def test_a_version_that_is_not_pinned_is_named_with_the_known_ones(backend):
    with pytest.raises(UnknownName, match=r"unknown Kafka version '3\.9'; known: 3\.9\.1, 4\.3\.0"):
        start_broker(backend, version="3.9")
