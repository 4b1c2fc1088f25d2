"""The scenarios with members of the consumer protocol (KIP-848), and a group that changes its protocol and returns.

Each run plays a short form of each; the long run plays the whole scenarios with both clients, and many migrations.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.broker.cluster import Cluster
from kafka_assignors.integration.checker import LAWS
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.history import History
from kafka_assignors.integration.report.report import GroupResult, StepRow
from kafka_assignors.integration.scenario import Scenario, scenario
from kafka_assignors.integration.scenario.actions import Join
from kafka_assignors.integration.scenario.catalogue import Step
from kafka_assignors.integration.scenario.chaos import chaos
from kafka_assignors.integration.scenario.clients import of_client
from kafka_assignors.integration.scenario.prefix import prefixed
from kafka_assignors.integration.scenario.runner import run_scenario
from tests.support.integration.records import read_twice

pytestmark = [pytest.mark.broker, pytest.mark.source("KIP-848; librdkafka's consumer, Kafka's VerifiableConsumer")]

CONSUMERS = ["confluent-consumer", "java-consumer"]
MIGRATIONS = 20


def passes(what: Scenario, broker: Broker | Cluster, folder: Path) -> GroupResult:
    """Play a scenario; its verdict is true, and what was not judged has its reason."""
    what = prefixed(what, f"{folder.name}-")  # the broker is shared
    result = judged(run_scenario(what, broker, folder, "run", group=f"{what.name}-{folder.name}", timeout_s=90))
    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True), result.gave_up
    assert {law for law, times in verdict.checked.items() if times} | set(verdict.skipped) == set(LAWS)
    return result


def first_steps(name: str, count: int) -> Scenario:
    what = of_client(scenario(name), "confluent-consumer")
    return replace(what, steps=what.steps[:count])


# long: the same return as of a classic member in scenario/test_scenarios.py; the broker judges it alike
@pytest.mark.long
def test_a_static_member_returns_unnoticed(kafka_broker: Broker, tmp_path: Path) -> None:
    before, after = passes(first_steps("static", 2), kafka_broker, tmp_path).steps

    assert (after.generation, after.owned) == (before.generation, before.owned)


# long: scenario/test_scenarios.py has a paused member, test_consumer_protocol.py a group of this kind with a killed
# one
@pytest.mark.long
def test_a_paused_member_is_removed_and_loses_what_it_had(kafka_broker: Broker, tmp_path: Path) -> None:
    result = passes(of_client(scenario("pause"), "confluent-consumer"), kafka_broker, tmp_path)

    joined, without, again = (sorted(step.owned) for step in result.steps)
    assert (joined, without, again) == (["m1", "m2", "m3"], ["m1", "m3"], ["m1", "m2", "m3"])
    assert result.verdict.checked["T1"] == 1
    assert {i.end_kind for i in result.intervals if i.zombie_ms} == {"lost"}


# long: librdkafka's own limit between polls; test_consumer_protocol.py judges a group of these members
@pytest.mark.long
def test_a_member_that_stops_polling_leaves_and_loses_what_it_had(kafka_broker: Broker, tmp_path: Path) -> None:
    result = passes(of_client(scenario("stall"), "confluent-consumer"), kafka_broker, tmp_path)

    assert [sorted(step.owned) for step in result.steps] == [["m1", "m2", "m3"], ["m1", "m3"], ["m1", "m2", "m3"]]
    assert result.verdict.checked["T2"] == 1


@pytest.mark.long  # long: scenario/test_faults.py has new partitions, in a group of ours; law T3 judges both alike
def test_new_partitions_are_assigned(kafka_broker: Broker, tmp_path: Path) -> None:
    result = passes(first_steps("topics", 2), kafka_broker, tmp_path)

    assert result.verdict.checked["T3"] == 1
    assert sum(len(ps) for owned in result.steps[-1].owned.values() for ps in owned.values()) == 9 + 3 + 3


@pytest.mark.long  # long: scenario/test_faults.py has new topics and changed subscriptions, in a group of ours
def test_a_pattern_gets_a_new_topic_and_a_subscription_changes_in_place(kafka_broker: Broker, tmp_path: Path) -> None:
    what = of_client(scenario("topics"), "confluent-consumer")
    by_name, by_pattern = Join("m1", topics=("staying",)), Join("m4", pattern="growing|coming-.*")
    joined = tuple(replace(each, client="confluent-consumer") for each in (by_name, by_pattern))
    steps = (Step("m1 and m4 join", joined), *what.steps[4:6])
    played = replace(what, topics={"growing": 6, "staying": 3}, steps=steps)
    result = passes(played, kafka_broker, tmp_path)

    def topics(step: StepRow, member: str) -> set[str]:
        return {topic.rpartition(f"{tmp_path.name}-")[2] for topic in step.owned[member]}

    before, created, changed = result.steps
    assert (topics(before, "m4"), topics(before, "m1")) == ({"growing"}, {"staying"})
    assert topics(created, "m4") == {"growing", "coming-a"}
    assert topics(changed, "m1") > {"staying"}
    assert result.verdict.checked["T3"] == 1


# long: proxy/test_proxy.py has faults, test_consumer_protocol.py a group of this kind that rests after a kill
@pytest.mark.long
def test_a_fault_of_the_network_breaks_no_law(kafka_broker: Broker, tmp_path: Path) -> None:
    passes(of_client(chaos(0, steps=2), "confluent-consumer"), kafka_broker, tmp_path)


@pytest.mark.long  # long: nodes fail for a group of Kafka's own protocol as in scenario/test_nodes.py for a classic one
def test_a_group_goes_on_with_the_next_coordinator(kafka_cluster: Cluster, tmp_path: Path) -> None:
    try:
        result = passes(first_steps("nodes", 4), kafka_cluster, tmp_path)
    finally:
        kafka_cluster.restore()

    _, joined, killed, back = result.steps
    assert joined.generation == killed.generation == back.generation
    assert joined.owned == killed.owned == back.owned


def migration(client: str = "kafka-python") -> Scenario:
    return of_client(scenario("migration"), client)


# long: the coordinator converts a group, which rarely changes; checker/judge/test_migrated.py judges such histories
@pytest.mark.long
def test_a_group_changes_its_protocol_and_returns(kafka_broker: Broker, tmp_path: Path) -> None:
    """One of two members changes it: the coordinator converts the group, and back when no such member is left."""
    steps = migration().steps
    first = replace(steps[0], actions=steps[0].actions[:2])
    what = replace(migration(), steps=(first, *steps[1:3], *steps[7:9]))

    migrates(what, kafka_broker, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("client", CONSUMERS)
@pytest.mark.parametrize("name", ["static", "fenced", "pause", "topics", "churn"])
def test_every_scenario_is_true(name: str, client: str, kafka_broker: Broker, tmp_path: Path) -> None:
    passes(of_client(scenario(name), client), kafka_broker, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("client", CONSUMERS)
def test_a_group_outlives_its_brokers(client: str, kafka_cluster: Cluster, tmp_path: Path) -> None:
    try:
        passes(of_client(scenario("nodes"), client), kafka_cluster, tmp_path)
    finally:
        kafka_cluster.restore()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("client", CONSUMERS)
@pytest.mark.parametrize("seed", range(5))
def test_network_faults_break_no_law(seed: int, client: str, kafka_broker: Broker, tmp_path: Path) -> None:
    passes(of_client(chaos(seed), client), kafka_broker, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(MIGRATIONS))
def test_a_migration_loses_nothing(number: int, kafka_broker: Broker, tmp_path: Path) -> None:
    migrates(migration(("kafka-python", "java", "confluent", "aiokafka")[number % 4]), kafka_broker, tmp_path)


def migrates(what: Scenario, broker: Broker, folder: Path) -> None:
    """Every record is consumed, twice only where a partition changed its owner, and both protocols were used."""
    result = passes(what, broker, folder)
    verdict = result.verdict
    assert verdict.checked["C3"] == verdict.measures["acked"] > 0
    assert read_twice(History.load(folder)) <= {(i.topic, i.partition) for i in result.intervals if i.moved}
    used = [step.protocol for step in result.steps]
    assert used[0] == used[-1] != used[2]
    assert "uniform" in used
