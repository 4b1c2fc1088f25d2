"""Every pinned Kafka × the clients of classic groups: churn judged true. The long run has all cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kafka_assignors.errors import UnknownName
from kafka_assignors.integration.broker import KAFKA_VERSION, Broker, start_broker
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.report.report import verdict_lines
from kafka_assignors.integration.scenario import SCENARIOS, Scenario, scenario
from kafka_assignors.integration.scenario.prefix import prefixed
from kafka_assignors.integration.scenario.runner import run_scenario
from kafka_assignors.jvm import jars, kafka_versions
from tests.matrix.cells import MEMBERS, churn_of, exists
from tests.support.go import CLIENTS, required_go_member
from tests.support.waiting import until

pytestmark = pytest.mark.broker

OLDER, NEWEST = "3.9.1", kafka_versions()[-1]
ALONE = [name for name, each in SCENARIOS.items() if each.nodes == 1]
AT_TIMES_FALSE = {("4.0.1", "librdkafka, KIP-848"), ("4.1.2", "librdkafka, KIP-848")}
"""Cells that are false in some runs (`docs/versions.md#false-cells`)."""


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


@pytest.mark.long  # long: what other versions do rarely changes; all other tests have the pinned one
@pytest.mark.parametrize(("version", "whose"), [(OLDER, "ours"), (NEWEST, "everyone")])
def test_a_group_on_another_broker_is_judged_true(kafka, kafka_history, version, whose):
    """Joins, a leave and a kill; the coordinator's log of that version is read too."""
    broker = kafka(version)
    assert broker.version == version
    until(lambda: f"Kafka version: {version}" in broker.log_tail(400), "its version in its log")
    passes(churn_of(whose), broker, kafka_history, f"churn-{version}-{whose}")


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "whose"),
    [
        (v, whose)
        for v in kafka_versions()
        for whose in MEMBERS
        if exists(v, whose) and (v, whose) not in AT_TIMES_FALSE
    ],
)
def test_every_version_with_every_client(kafka, kafka_history, version, whose):
    """The matrix: cells of one version follow each other."""
    if any(client in CLIENTS for client, _ in MEMBERS[whose].values()):
        required_go_member()
    passes(churn_of(whose), kafka(version), kafka_history, f"churn-{version}-{whose}")


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "name"), [(v, n) for v in (OLDER, NEWEST) for n in ALONE if (v, n) != (OLDER, "migration")]
)
def test_every_scenario_of_one_node_on_another_broker(kafka, kafka_history, version, name):
    passes(prefixed(scenario(name), f"{name}-"), kafka(version), kafka_history, f"{name}-{version}")  # a shared broker


@pytest.mark.parametrize("backend", ["jvm", "shared"])
def test_a_version_that_is_not_pinned_is_named_with_the_known_ones_and_how_to_pin_it(backend):
    with pytest.raises(UnknownName, match=r"unknown Kafka version '3\.9'; known: 3\.7\.2, .*pin another release with"):
        start_broker(backend, version="3.9")


def test_the_default_version_is_pinned():
    assert KAFKA_VERSION in kafka_versions()
    assert KAFKA_VERSION == jars.KAFKA_VERSION
