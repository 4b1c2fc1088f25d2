"""A user's own service, played and judged without a line of its own: sound ones are true, faults are found by name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.service import Service
from kafka_assignors.integration.report.report import GroupResult
from kafka_assignors.integration.report.service_view import ServiceView, service_view
from kafka_assignors.integration.scenario import SCENARIOS, Scenario
from kafka_assignors.integration.scenario.clients import of_service
from kafka_assignors.integration.scenario.deployment import orchestrated
from kafka_assignors.integration.scenario.runner import run_scenario
from kafka_assignors.integration.topics.sandbox import Sandbox

pytestmark = [pytest.mark.broker, pytest.mark.source("kafka-python's own documentation of KafkaConsumer")]

BEGIN = """\
import signal, sys, time
from kafka import KafkaConsumer, ConsumerRebalanceListener
from kafka.errors import KafkaError
from kafka_assignors import CooperativeStickyAssignor, RangeAssignor
address, group, topic = sys.argv[1:4]
settings = dict(bootstrap_servers=address, group_id=group, auto_offset_reset="earliest",
                session_timeout_ms=10_000, heartbeat_interval_ms=1000)
guarded = {**settings, "partition_assignment_strategy": [RangeAssignor()]}  # kafka-python's own may forget a join
stop = []
def commit():
    try:
        consumer.commit()
    except KafkaError:  # a rebalance: whoever gets the partition reads these records again
        pass
"""
ITERATES = """\
consumer = KafkaConsumer(topic, **settings)
for message in consumer:
    print(message.topic, message.partition, message.offset)
"""
CLOSES = """\
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
consumer = KafkaConsumer(topic, enable_auto_commit=False, **guarded)
while not stop:
    if consumer.poll(timeout_ms=200):
        commit()
consumer.close()
"""
LISTENS = """\
class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked):
        pass
    def on_partitions_assigned(self, assigned):
        pass
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
consumer = KafkaConsumer(enable_auto_commit=False, **guarded)
consumer.subscribe([topic], listener=Listener())
while not stop:
    if consumer.poll(timeout_ms=200):
        commit()
consumer.close()
"""
COOPERATES = """\
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
settings |= dict(partition_assignment_strategy=[CooperativeStickyAssignor], auto_commit_interval_ms=300)
consumer = KafkaConsumer(topic, **settings)
while not stop:
    consumer.poll(timeout_ms=200)
consumer.close()
"""
"""Commits by itself, also in a rebalance before it gives partitions up, on a connection of the guard's."""
BY_ITSELF = """\
from confluent_kafka import Consumer
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
consumer = Consumer({"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest",
                     "session.timeout.ms": 10_000, "heartbeat.interval.ms": 1000, "auto.commit.interval.ms": 300})
consumer.subscribe([topic])
while not stop:
    consumer.poll(0.2)
consumer.close()
"""
"""As confluent-kafka's consumer does if nothing is set, more often: in turns, and as partitions are revoked."""
SEEKS_BACK = CLOSES.replace("while not stop:", "polls = 0\nwhile not stop:").replace(
    "commit()\n", "commit()\n        polls += 1\n        if polls == 20:\n            consumer.seek_to_beginning()\n"
)
OUTLASTS = CLOSES.replace("lambda *_: stop.append(1)", "lambda *_: stop.append(1) if sys.argv[4] != 'm2' else None")
TWO_CONSUMERS = CLOSES.replace(
    "while not stop:\n",
    "other = KafkaConsumer(topic, enable_auto_commit=False, **settings)\nwhile not stop:\n"
    "    other.poll(timeout_ms=200)\n",
)
OTHER_GROUP = CLOSES.replace("**guarded)", "**{**guarded, 'group_id': 'another'})")


def played(  # how a program is played, given by name
    program: str,
    broker: Broker,
    folder: Path,
    scenario: Scenario = SCENARIOS["churn"],
    steps: int = 4,
    timeout_s: float = 60,
) -> tuple[GroupResult, ServiceView]:
    """The verdict of a scenario's first steps with processes of a program."""
    worker = folder / "worker.py"
    worker.write_text(BEGIN + program, "utf-8")
    service = Service((sys.executable, str(worker), "{bootstrap}", "{group}", "{topic}", "{replica}"))
    what = of_service(scenario, {f"{folder.name}-orders": 6})
    what = what.__class__(**{**vars(what), "steps": what.steps[:steps]})
    with Sandbox(broker.connection) as sandbox:
        ran = run_scenario(
            what, broker, folder / "history", "run", sandbox=sandbox, group=f"billing-{folder.name}",
            timeout_s=timeout_s, service=service,
        )  # fmt: skip
    return judged(ran), service_view(History.load(ran.folder))


def broken(result: GroupResult) -> set[str]:
    return {violation.law for violation in result.verdict.violations}


FURTHER = pytest.mark.release("the one with a listener")


# long: `test_service_faults` plays one that polls, with outputs
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(CLOSES, marks=pytest.mark.long, id="polls"),
        pytest.param(LISTENS, id="with a listener"),
        pytest.param(COOPERATES, id="cooperative, commits by itself", marks=FURTHER),
        pytest.param(BY_ITSELF, id="librdkafka, commits by itself", marks=FURTHER),
    ],
)
def test_a_sound_service_is_true_by_twenty_laws(program: str, kafka_broker: Broker, tmp_path: Path) -> None:
    result, view = played(program, kafka_broker, tmp_path)

    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True), result.gave_up
    assert sum(times > 0 for times in verdict.checked.values()) >= 20
    assert (view.unread, view.unclosed) == (0, ())  # a coordinator refuses a commit between a join and its sync
    assert view.sent > 100


def test_a_loop_that_does_not_close_its_consumer_is_told_so(kafka_broker: Broker, tmp_path: Path) -> None:
    result, view = played(ITERATES, kafka_broker, tmp_path, steps=3)

    assert broken(result) == {"O4"}
    assert (view.unclosed, view.unread) == (("m2",), 0)
    assert "m2 ended on SIGTERM without closing the consumer" in "\n".join(view.lines())


def test_a_service_that_seeks_back_is_found(kafka_broker: Broker, tmp_path: Path) -> None:
    result, view = played(SEEKS_BACK, kafka_broker, tmp_path, steps=2)

    assert "C2" in broken(result)
    assert view.read_twice > 0 < view.furthest_back


def test_a_service_with_two_consumers_is_not_judged(kafka_broker: Broker, tmp_path: Path) -> None:
    result, _ = played(TWO_CONSUMERS, kafka_broker, tmp_path, steps=1, timeout_s=8)

    assert result.verdict.value is None
    assert any("one member per process is judged" in reason for reason in result.verdict.unknown), result.verdict


@pytest.mark.release("test_deployment.py has the grace, without a broker")
def test_a_process_that_outlasts_the_grace_is_killed_and_told(kafka_broker: Broker, tmp_path: Path) -> None:
    """m2 takes no notice of SIGTERM. Its kill is a step of its own, which may last for its session."""
    deployment = orchestrated(SCENARIOS["roll"], surge=2, grace_s=6, replicas=2)

    result, view = played(OUTLASTS, kafka_broker, tmp_path, deployment)

    verdict = result.verdict
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True), result.gave_up
    assert [step.name for step in result.steps][-1] == "m1 and m2 leave; m2 is killed"
    rows = {row.name: row for row in result.replicas}
    assert [name for name, row in rows.items() if row.killed] == ["m2"]
    assert (rows["m1"].stop_s or 9) < 6 <= (rows["m2"].stop_s or 0)
    assert all(row.start_s is not None and row.start_s > 0 for row in rows.values())
    assert (view.unread, view.unclosed) == (0, ())


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (OTHER_GROUP, ["no consumer of it has joined the group"]),
        ("sys.exit('no database')", ["ended with exit code 1", "no database"]),
    ],
    ids=["another group", "exits at once"],
)
def test_a_service_that_never_joins_is_named(
    program: str, words: Sequence[str], kafka_broker: Broker, tmp_path: Path
) -> None:
    result, _ = played(program, kafka_broker, tmp_path, steps=1, timeout_s=8)

    assert result.verdict.value is None
    assert all(word in result.gave_up for word in words), result.gave_up
