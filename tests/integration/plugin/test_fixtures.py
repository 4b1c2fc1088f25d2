"""The fixtures that a user's own suite gets by ``pytest_plugins = ["kafka_assignors.pytest_plugin"]``."""

from __future__ import annotations

import re

import pytest
from kafka import KafkaProducer

from kafka_assignors.integration.broker.ready import nodes
from tests.support.programs import python

pytestmark = pytest.mark.broker

SUITE = """
def test_topic(kafka_topic, kafka_admin):
    topic = kafka_topic(partitions=3, name="orders", configs={"retention.ms": "1000"})
    (described,) = kafka_admin.describe_topics([topic])
    assert len(described["partitions"]) == 3
    print("TOPIC", topic)

def test_that_fails(kafka_broker):
    print("AT", kafka_broker.bootstrap)
    assert False
"""


def test_topics_are_unique_and_ready_at_once(kafka_broker, kafka_topic):
    first, second = kafka_topic(partitions=2, name="orders"), kafka_topic(partitions=2, name="orders")

    assert first != second
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)
    try:
        assert producer.send(first, b"x", partition=1).get(timeout=10).offset == 0
    finally:
        producer.close()


def test_the_session_has_one_broker_that_serves(kafka_broker, kafka_admin):
    assert len(nodes(kafka_broker.bootstrap)) == len(kafka_admin.describe_cluster()["brokers"]) == 1


def test_an_external_broker_goes_on_and_keeps_no_topic(kafka_broker, kafka_admin, tmp_path):
    """A whole pytest run against a broker that runs already; a failure shows where its log is."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["kafka_assignors.pytest_plugin"]')
    (tmp_path / "test_external.py").write_text(SUITE)
    options = ["-rA", "-W", "ignore", "--kafka-backend=external", f"--kafka-bootstrap={kafka_broker.bootstrap}"]
    done = python("-m", "pytest", *options, cwd=tmp_path)

    assert "1 failed, 1 passed" in done.stdout.splitlines()[-1], done.stdout + done.stderr
    (topic,) = re.findall(r"TOPIC (orders-\S+)", done.stdout)
    assert topic not in kafka_admin.list_topics()
    assert f"AT {kafka_broker.bootstrap}" in done.stdout
    assert f"log of <external broker unknown at {kafka_broker.bootstrap}>" in done.stdout
    assert nodes(kafka_broker.bootstrap)
