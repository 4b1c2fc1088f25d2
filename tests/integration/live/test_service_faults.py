"""A service of each client that follows its documentation is true; a fault planted in it is found by name."""

from __future__ import annotations

import sys
from dataclasses import replace
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
from tests.support.further import further
from tests.support.live.seeds import at_work
from tests.support.live.services import (
    BROKER_ASSIGNED,
    CHANCY,
    FAULTS,
    PROGRAMS,
    PROGRAMS_OF_BROKER,
    SOUND,
    TWINS,
    Fault,
    anew,
    in_threads,
    in_transactions,
)
from tests.support.pages import PAGES

pytestmark = [
    pytest.mark.broker,
    pytest.mark.source("the documentation of kafka-python's, confluent-kafka's and aiokafka's consumers"),
]
OF_BATCHES = Fault({**PROGRAMS, **PROGRAMS_OF_BROKER}, "works on one batch after the other")


def played(client: str, name: str, fault: Fault, broker: Broker, folder: Path) -> tuple[GroupResult, ServiceView]:
    """The verdict of a fault's scenario with processes of a client's service, which has the fault of that name."""
    worker = folder / "worker.py"
    worker.write_text(fault.programs[client], "utf-8")
    command = (sys.executable, str(worker), "{bootstrap}", "{group}", "{topic}", "{output}", name)
    scenario = SCENARIOS[fault.scenario]
    what = of_service(
        replace(scenario, steps=fault.steps or scenario.steps),
        {f"{folder.name}-orders": 6},
        output=(f"{folder.name}-done", 3),
    )
    what = replace(what, steps=tuple(map(at_work, what.steps)))
    with Sandbox(broker.connection) as sandbox:
        ran = run_scenario(
            what, broker, folder / "history", "run", sandbox=sandbox,
            group=f"billing-{folder.name}", timeout_s=fault.timeout_s,
            service=Service(command, exactly_once=fault.exactly_once),
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
@pytest.mark.parametrize("client", [*further(PROGRAMS), pytest.param(BROKER_ASSIGNED, marks=pytest.mark.long)])
def test_a_sound_service_is_true_by_the_laws_of_the_page(client: str, kafka_broker: Broker, tmp_path: Path) -> None:
    result, view = played(client, SOUND, OF_BATCHES, kafka_broker, tmp_path)

    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True), result.gave_up
    checked = {law for law, times in verdict.checked.items() if times}
    assert len(checked) >= 20
    assert laws_of(client, "yes") | laws_of(client, "with `--output`") <= checked
    assert not laws_of(client, "–") & checked
    assert len(laws_of(client, "yes")) > 15
    assert verdict.checked["X1"] == view.sent > 100
    assert (view.unread, view.without_output, view.unclosed) == (0, 0, ())
    assert (view.committed_first, view.overtaken) == (0, 0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("client", "name"),
    [(client, name) for name in TWINS for client in FAULTS[name].programs if (client, name) != CHANCY],
)
def test_a_service_without_the_fault_is_true(client: str, name: str, kafka_broker: Broker, tmp_path: Path) -> None:
    """It is played and judged as the one with the fault: by the same promise, for the same time."""
    result, view = played(client, SOUND, replace(FAULTS[name], timeout_s=90), kafka_broker, tmp_path)

    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True), result.gave_up
    assert verdict.checked["X1"] == view.sent > 100
    assert (view.unread, view.without_output, view.unclosed) == (0, 0, ())
    assert view.committed_first == 0
    assert view.overtaken == 0 or name == in_threads.SHARED, "only a pool works on several records at once"
    if FAULTS[name].exactly_once:
        assert view.several_outputs == 0
    if name == anew.UNCLOSED:
        events = History.load(tmp_path / "history").events
        assert {event.incarnation for event in events if event.kind == "start"} == {0, 1}


@pytest.mark.long
@pytest.mark.parametrize("client", in_transactions.PROGRAMS)
def test_outputs_and_offsets_in_one_transaction_are_exactly_once(
    client: str, kafka_broker: Broker, tmp_path: Path
) -> None:
    """Also after a kill, as the page advises, and after an abort. The transactions' commits are in the history."""
    fault = Fault(in_transactions.PROGRAMS, "works in transactions", exactly_once=True)
    result, view = played(client, SOUND, fault, kafka_broker, tmp_path)

    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True), result.gave_up
    assert verdict.checked["X1"] == view.sent > 100
    assert (view.without_output, view.several_outputs, view.committed_first, view.overtaken) == (0, 0, 0, 0)
    assert verdict.checked["C7"] > 20
    events = History.load(tmp_path / "history").events
    numbers = {kind: {e.data["transaction"] for e in events if e.kind == kind} for kind in ("commit_ok", "commit_fail")}
    assert len(numbers["commit_ok"]) > 10
    assert len(numbers["commit_fail"]) > 2
    assert any(event.kind == "rewound" for event in events)


@pytest.mark.long
@pytest.mark.parametrize(("client", "name"), [(client, name) for name in FAULTS for client in FAULTS[name].programs])
def test_a_fault_is_found(client: str, name: str, kafka_broker: Broker, tmp_path: Path) -> None:
    fault = FAULTS[name]
    law = fault.otherwise.get(client, fault.found_by)
    result, view = played(client, name, fault, kafka_broker, tmp_path)

    verdict = result.verdict
    assert verdict.value is (False if law else None), (verdict.violations, verdict.unknown, result.gave_up)
    if fault.unknown:
        assert any(fault.unknown in reason for reason in verdict.unknown), (verdict.unknown, result.gave_up)
    else:
        laws = {violation.law for violation in verdict.violations}
        assert not {law, fault.also}.isdisjoint(laws), (verdict.violations, result.gave_up)
    if law == "X1":
        assert view.several_outputs if fault.exactly_once else view.without_output
    elif law == "X3":
        assert view.committed_first
    elif law == "C2" and "C2" in laws:
        assert view.furthest_back > 0
