"""A service's records are made by a user's function, and another one tells whose an output is, as service.md shows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.commands.services import AskedService
from kafka_assignors.integration.scenario.actions import Join, Leave
from kafka_assignors.integration.scenario.catalogue import Scenario, Step
from kafka_assignors.integration.scenario.clients import of_service
from kafka_assignors.integration.scenario.runner import run_scenario
from kafka_assignors.integration.topics.sandbox import Sandbox
from tests.support.live.services.beginnings import BEGINNINGS
from tests.support.pages import example

pytestmark = pytest.mark.broker

WORKER = (
    BEGINNINGS["confluent-kafka"]
    + """
consumer = make()
consumer.subscribe([topic])
while not stop:
    for message in consumer.consume(BATCH, 0.2):
        if message.error() is None:
            producer.produce(output, json.dumps({"invoice": json.loads(message.value())}))
    producer.flush()
    try:
        consumer.commit(asynchronous=False)
    except KafkaException:
        pass  # nothing to commit, or a rebalance
consumer.close()
"""
)
NOBODYS = '\n\ndef nobodys(output):\n    """Finds no record of any output."""\n'


@pytest.mark.parametrize(("match", "value"), [("order_of", True), ("nobodys", False)])
def test_records_and_outputs_of_the_users_own(
    match: str, value: bool, kafka_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = f"orders_{match}"
    Path(f"{module}.py").write_text(example("docs/service.md", "def order_of") + NOBODYS, "utf-8")
    Path("worker.py").write_text(WORKER, "utf-8")
    asked = AskedService(
        f"{sys.executable} worker.py {{bootstrap}} {{group}} {{topic}} {{output}} none", None,
        (f"{tmp_path.name}-orders:3",), f"g-{tmp_path.name}", f"{module}:order", (), f"{tmp_path.name}-invoices:2",
        match=f"{module}:{match}",
    )  # fmt: skip
    steps = (Step("two join", (Join("m1"), Join("m2"))), Step("m2 leaves", (Leave("m2"),)))
    what = of_service(Scenario("own", "", steps), asked.topic_counts(), None, asked.output_topic())

    with Sandbox(kafka_broker.connection) as sandbox:
        ran = run_scenario(
            what, kafka_broker, tmp_path / "history", "run", sandbox=sandbox, group=asked.group_named("own"),
            timeout_s=60, service=asked.service(existing=False), values=asked.values(),
        )  # fmt: skip
    verdict = judged(ran).verdict

    assert (verdict.value, {broken.law for broken in verdict.violations}) == (value, set() if value else {"X1"})
    assert verdict.checked["X1"] > 50
    reader = KafkaConsumer(bootstrap_servers=kafka_broker.bootstrap, consumer_timeout_ms=2000)
    reader.assign([TopicPartition(f"{tmp_path.name}-orders", number) for number in range(3)])
    reader.seek_to_beginning()
    record = next(reader)
    reader.close()
    order = json.loads(record.value)["order"]
    assert record.key == order[-1].encode()
