"""Which scenario a client plays: what it lacks is replaced or left out, and said."""

from __future__ import annotations

import pytest

from kafka_assignors.errors import ConfigError, UnknownName
from kafka_assignors.integration.members.config import BROKER_ASSIGNED
from kafka_assignors.integration.members.service import SERVICE
from kafka_assignors.integration.scenario import SCENARIOS, Scenario, scenario
from kafka_assignors.integration.scenario.actions import AddPartitions, Join, Kill, Leave, WaitEnd
from kafka_assignors.integration.scenario.catalogue import Step
from kafka_assignors.integration.scenario.chaos import chaos
from kafka_assignors.integration.scenario.clients import of_client, of_service
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


BY_SERVICES = (
    "churn", "roll", "scale", "range-skew", "kip-54-1", "kip-54-2", "pause", "hand-over", "proxy-faults", "nodes",
)  # fmt: skip


@pytest.mark.parametrize("name", BY_SERVICES)
def test_a_service_plays_what_needs_no_help_of_its_processes(name: str) -> None:
    played = of_service(SCENARIOS[name], {})
    joins = [action for step in played.steps for action in step.actions if isinstance(action, Join)]

    assert set(clients(played)) == {SERVICE}
    assert [step.name for step in played.steps] == [step.name for step in SCENARIOS[name].steps]
    assert [action.member for action in joins] == [
        action.member for step in SCENARIOS[name].steps for action in step.actions if isinstance(action, Join)
    ]
    assert (played.assignors, played.consumer, played.require) == ((SERVICE,), {}, SCENARIOS[name].require)
    assert played.topics == SCENARIOS[name].topics


@pytest.mark.parametrize("seed", range(20))
def test_a_service_plays_drawn_faults_of_the_network(seed: int) -> None:
    assert set(clients(of_service(chaos(seed), {}))) == {SERVICE}


@pytest.mark.parametrize("name", sorted(SCENARIOS.keys() - set(BY_SERVICES)))
def test_a_scenario_that_takes_members_of_the_harness_is_refused_and_others_are_named(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        of_service(SCENARIOS[name], {})

    assert f"scenario {name!r} can't be played with a service: " in str(refused.value)
    assert str(refused.value).endswith(f"; choose one of: {', '.join(BY_SERVICES)}, chaos")


def test_a_service_leaves_by_sigterm_alone() -> None:
    """The harness can't ask it to hand its partitions over."""
    steps = of_service(scenario("hand-over"), {}).steps

    assert [a.hand_over_s for step in steps for a in step.actions if isinstance(a, Leave)] == [0, 0]


def test_a_service_reads_the_topics_that_are_named() -> None:
    assert of_service(scenario("churn"), {"orders": 3}).topics == {"orders": 3}

    grows = Scenario("mine", "", (Step("growing grows", (Join("m1"), AddPartitions("growing", 9))),), {"growing": 6})
    assert of_service(grows, {}).steps[0].actions[1] == AddPartitions("growing", 9)
    for what, topic in ((grows, "growing"), (scenario("kip-54-2"), "kip54b-t0")):
        with pytest.raises(ConfigError, match=f"needs topic '{topic}'; add --topic {topic}:PARTITIONS"):
            of_service(what, {"orders": 3})


def test_churn_begins_with_as_many_processes_as_are_wanted() -> None:
    played = of_service(scenario("churn"), {}, 5)

    assert [step.name for step in played.steps] == ["5 join", "another joins", "m2 leaves", "m3 is killed"]
    assert [a.member for a in played.steps[0].actions if isinstance(a, Join)] == ["m1", "m2", "m3", "m4", "m5"]
    assert played.steps[1].actions == (Join("m6", client=SERVICE),)
    assert played.about == "5 members join, another joins, one leaves, one is killed."


@pytest.mark.parametrize(
    ("name", "replicas", "words"),
    [
        ("churn", 2, "--replicas 2 is too few: m2 leaves and m3 is killed; give at least 3"),
        ("churn", -1, "--replicas -1 is too few"),
        ("pause", 3, "--replicas 3 is for scenarios churn and roll; 'pause' has members of its own; remove it"),
    ],
)
def test_replicas_that_a_scenario_cannot_have_are_named(name: str, replicas: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        of_service(scenario(name), {}, replicas)
