"""Which scenario a client plays: what it lacks is replaced or left out, and said."""

from __future__ import annotations

import pytest

from kafka_assignors.errors import UnknownName
from kafka_assignors.integration.members.config import BROKER_ASSIGNED
from kafka_assignors.integration.scenario import SCENARIOS, Scenario, scenario
from kafka_assignors.integration.scenario.actions import Join, Kill, Leave, WaitEnd
from kafka_assignors.integration.scenario.chaos import chaos
from kafka_assignors.integration.scenario.clients import of_client
from kafka_assignors.integration.scenario.file import problems


def clients(what: Scenario) -> list[str]:
    return [a.client for step in what.steps for a in step.actions if isinstance(a, Join)]


@pytest.mark.parametrize(
    ("client", "classic", "consumer"),
    [
        ("kafka-python", "kafka-python", "confluent-consumer"),
        ("aiokafka", "aiokafka", "confluent-consumer"),
        ("confluent", "confluent", "confluent-consumer"),
        ("confluent-consumer", "confluent", "confluent-consumer"),
        ("java", "java", "java-consumer"),
        ("java-consumer", "java", "java-consumer"),
    ],
)
def test_a_migration_has_members_of_both_protocols(client: str, classic: str, consumer: str) -> None:
    played = of_client(scenario("migration"), client)

    assert clients(played) == [classic] * 3 + [consumer] * 3 + [classic] * 3
    assert played.assignors == ({"aiokafka": "sticky", "confluent": "range"}.get(classic, "cooperative-sticky"),)


@pytest.mark.parametrize("client", BROKER_ASSIGNED)
def test_the_owner_of_an_instance_id_keeps_it_under_the_consumer_protocol(client: str) -> None:
    static, fenced = (of_client(scenario(name), client) for name in ("static", "fenced"))

    assert [type(a) for a in static.steps[1].actions] == [Leave, Join]
    assert [type(a) for a in static.steps[2].actions] == [Kill, Join, WaitEnd]
    assert fenced.steps[1].actions[-1] == WaitEnd("twin")
    assert set(clients(static) + clients(fenced)) == {client}


def test_steps_that_a_client_cannot_play_are_left_out_and_named() -> None:
    played = of_client(scenario("topics"), "confluent")
    java = of_client(scenario("topics"), "java-consumer")

    assert [step.name for step in played.steps] == [step.name for step in scenario("topics").steps[:3]]
    assert "Without the steps that confluent can't play: m4 joins by a pattern, " in played.about
    assert [step.name for step in java.steps] == ["three members join", "growing grows from 6 to 9 partitions"]
    assert of_client(scenario("topics"), "kafka-python") == scenario("topics")
    assert len(of_client(scenario("topics"), "confluent-consumer").steps) == len(scenario("topics").steps)


@pytest.mark.parametrize(("client", "hand_over_s"), [("kafka-python", 20), ("bridge", 20), ("java", 0)])
def test_a_client_that_hands_nothing_over_leaves(client: str, hand_over_s: float) -> None:
    played = of_client(scenario("hand-over"), client)
    leaves = [action for step in played.steps for action in step.actions if isinstance(action, Leave)]
    assert [each.hand_over_s for each in leaves] == [hand_over_s] * 2


@pytest.mark.parametrize("client", ["aiokafka", "confluent", "java", *BROKER_ASSIGNED])
@pytest.mark.parametrize("name", ["static", "fenced", "pause", "topics", "nodes", "churn", "migration"])
def test_what_a_client_plays_is_a_lawful_scenario(name: str, client: str) -> None:
    assert list(problems(of_client(SCENARIOS[name], client))) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_fault_hits_requests_that_members_of_the_protocol_send(seed: int) -> None:
    def apis(client: str) -> list[str | None]:
        steps = of_client(chaos(seed), client).steps
        return [getattr(action, "api", None) for step in steps for action in step.actions]

    wanted = {"Heartbeat": "ConsumerGroupHeartbeat"}
    assert apis("java-consumer") == [wanted.get(api or "", api) for api in apis("kafka-python")]


def test_an_unknown_client_is_named() -> None:
    with pytest.raises(UnknownName, match="client 'jav'"):
        of_client(scenario("churn"), "jav")
