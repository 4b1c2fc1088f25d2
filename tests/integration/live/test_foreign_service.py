"""A service that is no Python program, judged by its connections: a sound one is true, faults are found by name."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import KAFKA_VERSION, Broker
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.service import Service
from kafka_assignors.integration.report.report import GroupResult
from kafka_assignors.integration.report.service_view import ServiceView, service_view
from kafka_assignors.integration.scenario import SCENARIOS
from kafka_assignors.integration.scenario.clients import of_service
from kafka_assignors.integration.scenario.runner import run_scenario
from kafka_assignors.integration.topics.sandbox import Sandbox
from kafka_assignors.jvm import java, kafka_jars
from tests.integration.live.test_service_faults import laws_of
from tests.support.go import required_go_member
from tests.support.live.services import BROKER_ASSIGNED, PROGRAMS, PROGRAMS_OF_BROKER, SOUND

pytestmark = [pytest.mark.broker, pytest.mark.source("franz-go's and Sarama's own consumers")]
FOREIGN = "any other program"
"""The column of the page's table."""
OF_CLASSIC = {"G3"}
"""Laws that have nothing to judge where the broker assigns."""


def service_of(client: str, assignors: list[str], folder: Path, **more: object) -> Service:
    """The member in Go as a service: a shell writes its configuration and becomes it."""
    config = {
        "bootstrap": "{bootstrap}", "group": "{group}", "member": "app", "topics": ["{topic}"], "assignors": assignors,
        "session_timeout_ms": 10_000, "heartbeat_interval_ms": 1000, **more,
    }  # fmt: skip
    file = folder / "{replica}.json"
    script = f"cat > {file} <<'END'\n{json.dumps(config)}\nEND\nexec {required_go_member()} {client} {file}"
    return Service((shutil.which("sh") or "sh", "-c", script))


def unrecorded(program: str, folder: Path, fault: str = SOUND) -> Service:
    """A Python program as a service, whose interpreter ignores PYTHONPATH, so that it loads no recorder."""
    worker = folder / "worker.py"
    worker.write_text(program, "utf-8")
    return Service((sys.executable, "-E", str(worker), "{bootstrap}", "{group}", "{topic}", "{output}", fault))


def played(
    service: Service, broker: Broker, folder: Path, steps: int = 4, timeout_s: float = 90
) -> tuple[GroupResult, ServiceView]:
    """The verdict of churn's first steps with processes of the service."""
    output = (f"{folder.name}-done", 3) if service.takes("{output}") else None
    what = of_service(SCENARIOS["churn"], {f"{folder.name}-orders": 6}, output=output)
    what = what.__class__(**{**vars(what), "steps": what.steps[:steps]})
    with Sandbox(broker.connection) as sandbox:
        ran = run_scenario(
            what, broker, folder / "history", "run", sandbox=sandbox, group=f"billing-{folder.name}",
            timeout_s=timeout_s, service=service,
        )  # fmt: skip
    return judged(ran), service_view(History.load(ran.folder))


@pytest.mark.parametrize(
    ("client", "assignors"),
    [
        ("franz-go", ["cooperative-sticky"]),
        pytest.param("franz-go", ["range"], marks=pytest.mark.long),
        pytest.param("sarama", ["range"], marks=pytest.mark.long),
    ],
)
def test_a_sound_service_in_go_is_true_by_the_laws_of_the_page(
    client: str, assignors: list[str], kafka_broker: Broker, tmp_path: Path
) -> None:
    result, view = played(service_of(client, assignors, tmp_path), kafka_broker, tmp_path)

    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True), result.gave_up
    checked = {law for law, times in verdict.checked.items() if times}
    assert laws_of(FOREIGN, "yes") <= checked
    assert not laws_of(FOREIGN, "–") & checked
    assert len(laws_of(FOREIGN, "yes")) >= 13
    if assignors == ["cooperative-sticky"]:
        assert laws_of(FOREIGN, "cooperative") <= checked
    assert (view.unclosed, view.read_twice, view.unread) == ((), None, None)
    assert view.sent > 100
    assert "which of them were read was not seen" in "\n".join(view.lines())
    assert not list((tmp_path / "history").glob(".*"))  # all that was written is in the history


@pytest.mark.long  # three JVMs
@pytest.mark.jvm
@pytest.mark.source("Kafka's kafka-console-consumer")
@pytest.mark.parametrize("protocol", ["session.timeout.ms=10000", "group.protocol=consumer"])
def test_a_sound_service_in_java_is_true_by_the_laws_of_the_page(
    protocol: str, kafka_broker: Broker, tmp_path: Path
) -> None:
    service = Service((
        str(java().executable), "-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
        "-cp", os.pathsep.join(map(str, kafka_jars(KAFKA_VERSION))), "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--bootstrap-server", "{bootstrap}", "--topic", "{topic}", "--group", "{group}", "--from-beginning",
        "--command-property", protocol, "--command-property", "auto.commit.interval.ms=200",
    ))  # fmt: skip

    result, view = played(service, kafka_broker, tmp_path)

    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True), result.gave_up
    checked = {law for law, times in verdict.checked.items() if times}
    assert laws_of(FOREIGN, "yes") - (OF_CLASSIC if "consumer" in protocol else set()) <= checked
    assert not laws_of(FOREIGN, "–") & checked
    assert view.sent > 100


@pytest.mark.release("the service in Go has none")
def test_a_sound_service_without_its_recorder_is_true(kafka_broker: Broker, tmp_path: Path) -> None:
    result, view = played(unrecorded(PROGRAMS["confluent-kafka"], tmp_path), kafka_broker, tmp_path)

    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True), result.gave_up
    checked = {law for law, times in verdict.checked.items() if times}
    assert laws_of(FOREIGN, "yes") | laws_of(FOREIGN, "with `--output`") <= checked
    assert verdict.checked["X1"] == view.sent > 100
    assert (view.without_output, view.unclosed) == (0, ())


COMMITS_AHEAD = PROGRAMS["confluent-kafka"].replace(
    "consumer.commit(asynchronous=False)",
    "consumer.commit(asynchronous=False, offsets=[TopicPartition(tp.topic, tp.partition, tp.offset + 1)\n"
    "                        for tp in consumer.position(consumer.assignment()) if tp.offset > 0])",
)
"""It commits the record behind the last that it has."""
JOINS_TWICE = PROGRAMS["confluent-kafka"].replace(
    "consumer.subscribe([topic])",
    "other = Consumer({'bootstrap.servers': address, 'group.id': group})\nother.subscribe([topic])\n"
    "consumer.subscribe([topic])",
)


def test_a_commit_ahead_of_what_was_sent_is_found(kafka_broker: Broker, tmp_path: Path) -> None:
    result, _ = played(unrecorded(COMMITS_AHEAD, tmp_path), kafka_broker, tmp_path, steps=2)

    messages = [violation.message for violation in result.verdict.violations if violation.law == "C5"]
    assert messages, (result.verdict, result.gave_up)
    assert "had been sent to processes of the group" in messages[0]


@pytest.mark.release("test_service.py has one with the recorder")
def test_a_process_with_two_consumers_is_not_judged(kafka_broker: Broker, tmp_path: Path) -> None:
    result, _ = played(unrecorded(JOINS_TWICE, tmp_path), kafka_broker, tmp_path, steps=1, timeout_s=10)

    assert result.verdict.value is None
    assert any("one member per process is judged" in reason for reason in result.verdict.unknown), result.verdict


@pytest.mark.release("test_consumer_protocol.py has members of it")
def test_a_sound_service_of_the_consumer_protocol_is_true(kafka_broker: Broker, tmp_path: Path) -> None:
    service = unrecorded(PROGRAMS_OF_BROKER[BROKER_ASSIGNED], tmp_path)

    result, view = played(service, kafka_broker, tmp_path, steps=3)  # a killed one's session is the broker's, 45 s

    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True), result.gave_up
    checked = {law for law, times in verdict.checked.items() if times}
    assert (laws_of(FOREIGN, "yes") - OF_CLASSIC) | laws_of(FOREIGN, "with `--output`") <= checked
    assert (view.without_output, view.unclosed) == (0, ())


@pytest.mark.release("found under the classic protocol above")
def test_a_commit_ahead_of_what_was_sent_is_found_under_the_consumer_protocol(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    program = COMMITS_AHEAD.replace('"session.timeout.ms": SESSION_MS,', '"group.protocol": "consumer",').replace(
        '"heartbeat.interval.ms": BEAT_MS, ', ""
    )
    result, _ = played(unrecorded(program, tmp_path), kafka_broker, tmp_path, steps=2)

    assert "C5" in {violation.law for violation in result.verdict.violations}, (result.verdict, result.gave_up)


@pytest.mark.long
@pytest.mark.parametrize(("fault", "law"), [("commits before it works", "X3"), ("loses the batch in flight", "X1")])
def test_a_service_that_loses_records_is_found_by_its_outputs(
    fault: str, law: str, kafka_broker: Broker, tmp_path: Path
) -> None:
    result, view = played(unrecorded(PROGRAMS["confluent-kafka"], tmp_path, fault), kafka_broker, tmp_path)

    assert law in {violation.law for violation in result.verdict.violations}, result.gave_up
    assert view.committed_first if law == "X3" else view.without_output
