"""A rolling deployment with default heartbeats: each member is replaced, one after the other, under load."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.report.report import GroupResult
from kafka_assignors.integration.scenario import Scenario, scenario
from kafka_assignors.integration.scenario.clients import of_client
from kafka_assignors.integration.scenario.prefix import prefixed
from kafka_assignors.integration.scenario.runner import run_scenario

pytestmark = [pytest.mark.broker, pytest.mark.timeout(400)]


def played(what: Scenario, broker: Broker, folder: Path) -> GroupResult:
    what = prefixed(what, f"roll-{uuid.uuid4().hex[:8]}-")  # other tests on this broker have topics of these names
    result = judged(run_scenario(what, broker, folder, "run"))
    assert (result.verdict.violations, result.verdict.value) == ((), True), result.verdict.unknown
    return result


def test_two_of_five_members_are_replaced_under_load(kafka_broker: Broker, tmp_path: Path) -> None:
    """What a deployment costs: the time without an owner, what records wait, and what moves."""
    what = scenario("roll")

    row = played(replace(what, steps=what.steps[:5]), kafka_broker, tmp_path).row

    assert row.downtime_ms >= row.stop_ms > 0
    assert 0 <= row.delays_ms["p50_ms"] <= row.delays_ms["p99_ms"] <= row.delays_ms["most_ms"]
    assert (row.moves, row.killed_ms) == (row.least, None)
    assert row.generations >= len(what.steps[1:5])


@pytest.mark.long
@pytest.mark.parametrize("client", ["kafka-python", "bridge", "java", "confluent-consumer"])
def test_every_member_is_replaced_under_load(client: str, kafka_broker: Broker, tmp_path: Path) -> None:
    played(of_client(scenario("roll"), client), kafka_broker, tmp_path)


@pytest.mark.long
def test_every_static_member_is_replaced_under_load(kafka_broker: Broker, tmp_path: Path) -> None:
    """Nothing moves, and no generation is needed: a partition waits for its own member's next process."""
    row = played(scenario("roll-static"), kafka_broker, tmp_path).row

    assert (row.moves, row.generations) == (0, 0)
    assert row.downtime_ms > 0
