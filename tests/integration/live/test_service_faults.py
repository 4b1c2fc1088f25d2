"""A service of each client that follows its documentation is true; a fault planted in it is found by name."""

from __future__ import annotations

import sys
from itertools import takewhile
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.service import Service
from kafka_assignors.integration.report.report import GroupResult
from kafka_assignors.integration.report.service_view import ServiceView, service_view
from kafka_assignors.integration.scenario import SCENARIOS
from kafka_assignors.integration.scenario.clients import of_service
from kafka_assignors.integration.scenario.runner import run_scenario
from kafka_assignors.integration.topics.sandbox import Sandbox
from tests.support.live.services import BROKER_ASSIGNED, FAULTS, PROGRAMS, PROGRAMS_OF_BROKER, SOUND
from tests.support.pages import PAGES

pytestmark = [
    pytest.mark.broker,
    pytest.mark.source("the documentation of kafka-python's, confluent-kafka's and aiokafka's consumers"),
]
FOUND_BY = {"seeks back": "C2"}
"""Fault -> the law that finds it, if it isn't X1."""


def played(client: str, fault: str, broker: Broker, folder: Path) -> tuple[GroupResult, ServiceView]:
    """The verdict of churn with processes of a client's service."""
    worker = folder / "worker.py"
    worker.write_text({**PROGRAMS, **PROGRAMS_OF_BROKER}[client], "utf-8")
    command = (sys.executable, str(worker), "{bootstrap}", "{group}", "{topic}", "{output}", fault)
    what = of_service(SCENARIOS["churn"], {f"{folder.name}-orders": 6}, output=(f"{folder.name}-done", 3))
    with Sandbox(broker.connection) as sandbox:
        ran = run_scenario(
            what, broker, folder / "history", "run", sandbox=sandbox, group=f"billing-{folder.name}", timeout_s=90,
            service=Service(command, exactly_once=fault == "sends an output again"),
        )  # fmt: skip
    return judged(ran), service_view(History.load(ran.folder))


def laws_of(client: str, word: str) -> set[str]:
    """The laws that the page's table has this word for, in a client's column."""
    rows = [line.strip("| ").split(" | ") for line in PAGES["docs/service.md"].splitlines() if line.startswith("| ")]
    ((at, head),) = ((at, row) for at, row in enumerate(rows) if row[0] == "laws")
    table = takewhile(lambda row: len(row) == len(head), rows[at + 1 :])
    column = head.index(client)
    return {law for row in table if row[column] == word for law in row[0].split(", ")}


# long: a kill rests for the session that the broker sets
@pytest.mark.parametrize("client", [*PROGRAMS, pytest.param(BROKER_ASSIGNED, marks=pytest.mark.long)])
def test_a_sound_service_is_true_by_the_laws_of_the_page(client: str, kafka_broker: Broker, tmp_path: Path) -> None:
    result, view = played(client, SOUND, kafka_broker, tmp_path)

    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True), result.gave_up
    checked = {law for law, times in verdict.checked.items() if times}
    assert len(checked) >= 20
    assert laws_of(client, "yes") | laws_of(client, "with `--output`") <= checked
    assert not laws_of(client, "–") & checked
    assert len(laws_of(client, "yes")) > 15
    assert verdict.checked["X1"] == view.sent > 100
    assert (view.unread, view.without_output, view.unclosed) == (0, 0, ())


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("client", PROGRAMS)
def test_a_fault_is_found(client: str, fault: str, kafka_broker: Broker, tmp_path: Path) -> None:
    result, view = played(client, fault, kafka_broker, tmp_path)

    assert FOUND_BY.get(fault, "X1") in {violation.law for violation in result.verdict.violations}, result.gave_up
    if fault == "seeks back":
        assert view.furthest_back > 0
    elif fault == "sends an output again":
        assert view.several_outputs
    else:
        assert view.without_output
