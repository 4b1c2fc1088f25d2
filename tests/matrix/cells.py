"""The cells: which members a group has, on which brokers, and the scenario that each cell plays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kafka_assignors.integration.scenario import Scenario, Step, scenario
from kafka_assignors.integration.scenario.actions import Join
from kafka_assignors.jvm import kafka_versions
from tests.support.go import CLIENTS, go_member

FOUR = ("m1", "m2", "m3", "m4")
MEMBERS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "ours": dict.fromkeys(FOUR, ("kafka-python", "cooperative-sticky")),
    "kafka-python": dict.fromkeys(FOUR, ("kafka-python", "kafka-python:range")),
    "aiokafka": dict.fromkeys(FOUR, ("aiokafka", "aiokafka:sticky")),
    "librdkafka": dict.fromkeys(FOUR, ("confluent", "cooperative-sticky")),
    "java": dict.fromkeys(FOUR, ("java", "cooperative-sticky")),
    "librdkafka, KIP-848": dict.fromkeys(FOUR, ("confluent-consumer", "uniform")),
    "java, KIP-848": dict.fromkeys(FOUR, ("java-consumer", "uniform")),
    "franz-go and ours": {
        **dict.fromkeys(("m1", "m3"), ("franz-go", "cooperative-sticky")),
        **dict.fromkeys(("m2", "m4"), ("kafka-python", "cooperative-sticky")),
    },
    "Sarama and ours": {
        **dict.fromkeys(("m1", "m3"), ("sarama", "cooperative-sticky")),
        **dict.fromkeys(("m2", "m4"), ("kafka-python", "cooperative-sticky")),
    },
    "everyone": {
        "m1": ("kafka-python", "range"),
        "m2": ("aiokafka", "aiokafka:range"),
        "m3": ("confluent", "range"),
        "m4": ("java", "range"),
    },
}
"""Whose members a group has: member -> client, assignor. Java's members have the jars of the default version."""

BEFORE_KIP_848 = tuple(version for version in kafka_versions() if int(version.partition(".")[0]) < 4)
"""Versions whose brokers don't have the consumer protocol, or not for production."""


def exists(version: str, whose: str) -> bool:
    """Whether a broker of this version serves these members."""
    return not (whose.endswith("KIP-848") and version in BEFORE_KIP_848)


def churn_of(whose: str, topic: str = "orders") -> Scenario:
    """The scenario ``churn`` with these members; one topic, because Java's tool reads one.

    Raises:
        NoGo: A member is in Go, and there is no Go.
    """
    as_planned = scenario("churn")

    def recast(step: Step) -> Step:
        return replace(step, actions=tuple(map(cast, step.actions)))

    def cast(action):
        if not isinstance(action, Join):
            return action
        client, assignor = MEMBERS[whose][action.member]
        program = {"program": [str(go_member()), client]} if client in CLIENTS else {}
        return replace(action, client=client, assignors=(assignor,), consumer={**action.consumer, **program})

    return replace(as_planned, topics={topic: 12}, steps=tuple(map(recast, as_planned.steps)))
