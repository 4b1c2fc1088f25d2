"""Every pinned Kafka × the clients of classic groups: churn judged true. Each run has a few cells, the long run all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace

import pytest

from kafka_assignors.errors import UnknownName
from kafka_assignors.integration.broker import KAFKA_VERSION, Broker, start_broker
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.report.report import verdict_lines
from kafka_assignors.integration.scenario import SCENARIOS, Scenario, Step, scenario
from kafka_assignors.integration.scenario.actions import Join
from kafka_assignors.integration.scenario.runner import run_scenario
from kafka_assignors.jvm import kafka_versions

pytestmark = pytest.mark.broker

BEFORE_KIP_848 = tuple(version for version in kafka_versions() if int(version.partition(".")[0]) < 4)
"""Versions whose brokers don't have the consumer protocol, or not for production."""
OLDER, NEWEST = "3.9.1", kafka_versions()[-1]
ALONE = [name for name, each in SCENARIOS.items() if each.nodes == 1]
FOUR = ("m1", "m2", "m3", "m4")
MEMBERS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "ours": dict.fromkeys(FOUR, ("kafka-python", "cooperative-sticky")),
    "kafka-python": dict.fromkeys(FOUR, ("kafka-python", "kafka-python:range")),
    "aiokafka": dict.fromkeys(FOUR, ("aiokafka", "aiokafka:sticky")),
    "librdkafka": dict.fromkeys(FOUR, ("confluent", "cooperative-sticky")),
    "java": dict.fromkeys(FOUR, ("java", "cooperative-sticky")),
    "librdkafka, KIP-848": dict.fromkeys(FOUR, ("confluent-consumer", "uniform")),
    "java, KIP-848": dict.fromkeys(FOUR, ("java-consumer", "uniform")),
    "everyone": {
        "m1": ("kafka-python", "range"),
        "m2": ("aiokafka", "aiokafka:range"),
        "m3": ("confluent", "range"),
        "m4": ("java", "range"),
    },
}
"""Whose members a group has: member -> client, assignor. Java's members have the jars of the default version."""
WITHOUT = {"librdkafka, KIP-848": (*BEFORE_KIP_848, "4.0.1", "4.1.2"), "java, KIP-848": BEFORE_KIP_848}
"""Versions without a cell: without the protocol, or, with librdkafka 2.16, false at times (`docs/measurements.md`)."""


def churn_of(whose: str) -> Scenario:
    """The scenario ``churn`` with these members; one topic, because Java's tool reads one."""
    as_planned = scenario("churn")

    def recast(step: Step) -> Step:
        return replace(step, actions=tuple(map(cast, step.actions)))

    def cast(action):
        if not isinstance(action, Join):
            return action
        client, assignor = MEMBERS[whose][action.member]
        return replace(action, client=client, assignors=(assignor,))

    return replace(as_planned, topics={"orders": 12}, steps=tuple(map(recast, as_planned.steps)))


@pytest.fixture(scope="module")
def kafka() -> Iterator[Callable[[str], Broker]]:
    """A broker of a version; the tests that follow each other share it."""
    brokers: dict[str, Broker] = {}
    with ExitStack() as stack:

        def of(version: str) -> Broker:
            if version not in brokers:
                for other in [*brokers]:
                    brokers.pop(other).close()
                brokers[version] = stack.enter_context(start_broker(version=version))
            return brokers[version]

        yield of


def passes(what: Scenario, broker: Broker, folder, group: str) -> None:
    result = judged(run_scenario(what, broker, folder, "run", group=group))
    assert result.verdict.value is True, "\n".join(verdict_lines(result.verdict))


@pytest.mark.parametrize(("version", "whose"), [(OLDER, "ours"), (NEWEST, "everyone")])
def test_a_group_on_another_broker_is_judged_true(kafka, kafka_history, version, whose):
    """Joins, a leave and a kill; the coordinator's log of that version is read too."""
    broker = kafka(version)
    assert (broker.version, f"Kafka version: {version}" in broker.log_tail(400)) == (version, True)
    passes(churn_of(whose), broker, kafka_history, f"churn-{version}-{whose}")


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "whose"),
    [(v, whose) for v in kafka_versions() for whose in MEMBERS if v not in WITHOUT.get(whose, ())],
)
def test_every_version_with_every_client(kafka, kafka_history, version, whose):
    """The matrix: cells of one version follow each other."""
    passes(churn_of(whose), kafka(version), kafka_history, f"churn-{version}-{whose}")


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "name"), [(v, n) for v in (OLDER, NEWEST) for n in ALONE if (v, n) != (OLDER, "migration")]
)
def test_every_scenario_of_one_node_on_another_broker(kafka, kafka_history, version, name):
    passes(scenario(name), kafka(version), kafka_history, f"{name}-{version}")


@pytest.mark.parametrize("backend", ["jvm", "shared"])
def test_a_version_that_is_not_pinned_is_named_with_the_known_ones_and_how_to_pin_it(backend):
    with pytest.raises(UnknownName, match=r"unknown Kafka version '3\.9'; known: 3\.7\.2, .*pin another release with"):
        start_broker(backend, version="3.9")


def test_the_default_version_is_pinned():
    assert KAFKA_VERSION in kafka_versions()
