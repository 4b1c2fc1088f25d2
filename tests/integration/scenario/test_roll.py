"""A rolling deployment with default heartbeats: each member is replaced, one after the other, under load."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.history import History
from kafka_assignors.integration.report.report import GroupResult
from kafka_assignors.integration.scenario import Scenario, scenario
from kafka_assignors.integration.scenario.clients import of_client
from kafka_assignors.integration.scenario.deployment import orchestrated
from kafka_assignors.integration.scenario.prefix import prefixed
from kafka_assignors.integration.scenario.runner import run_scenario

pytestmark = [pytest.mark.broker, pytest.mark.timeout(400)]


def played(what: Scenario, broker: Broker, folder: Path) -> GroupResult:
    what = prefixed(what, f"roll-{uuid.uuid4().hex[:8]}-")  # other tests on this broker have topics of these names
    result = judged(run_scenario(what, broker, folder, "run"))
    assert (result.verdict.violations, result.verdict.value) == ((), True), result.verdict.unknown
    return result


@pytest.mark.release("a deployment with a surge replaces members, too")
def test_two_of_five_members_are_replaced_under_load(kafka_broker: Broker, tmp_path: Path) -> None:
    """What a deployment costs: the time without an owner, what records wait, and what moves."""
    what = scenario("roll")

    row = played(replace(what, steps=what.steps[:5]), kafka_broker, tmp_path).row

    assert row.downtime_ms >= row.stop_ms > 0
    assert 0 <= row.delays_ms["p50_ms"] <= row.delays_ms["p99_ms"] <= row.delays_ms["most_ms"]
    assert (row.moves, row.killed_ms) == (row.least, None)
    assert row.generations >= len(what.steps[1:5])


@pytest.mark.parametrize("surge", [2, pytest.param(0, marks=pytest.mark.long)])
def test_a_deployment_with_a_surge_tells_each_start_and_stop(surge: int, kafka_broker: Broker, tmp_path: Path) -> None:
    """Two replicas: the new ones are in the group before the old ones go, which then go at the same time."""
    what = orchestrated(scenario("roll"), surge=surge, grace_s=20, replicas=2)

    result = played(what, kafka_broker, tmp_path)

    assert [sorted(step.owned) for step in result.steps][-1] == ["m1-new", "m2-new"]
    rows = {row.name: row for row in result.replicas}
    assert sorted(rows) == ["m1", "m1-new", "m2", "m2-new"]
    assert all(row.start_s is not None and row.start_s > 0 for row in rows.values())
    assert [rows[name].stop_s is None for name in sorted(rows)] == [False, True, False, True]
    assert not any(row.killed for row in rows.values())
    exits = {e.member: e for e in History.load(tmp_path).events if e.kind == "exit"}
    together = exits["m2"].data["asked_ns"] < exits["m1"].mono_ns
    assert together == (surge == 2)


@pytest.mark.long
def test_a_group_is_scaled_up_and_down_under_load(kafka_broker: Broker, tmp_path: Path) -> None:
    result = played(orchestrated(scenario("scale"), sizes="1..3..2"), kafka_broker, tmp_path)

    assert [len(step.owned) for step in result.steps] == [1, 2, 3, 2]
    assert [row.name for row in result.replicas if row.stop_s is not None] == ["m3"]


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
