"""Settings under KIP-848: the check names what the clients themselves refuse."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer, KafkaException

from kafka_assignors.connection.consumer_protocol import CLIENTS, REFUSED, under_consumer_protocol
from kafka_assignors.errors import ConfigError
from tests.support.cli import cli

GIVEN = {
    "session.timeout.ms": "6000", "heartbeat.interval.ms": "2000", "partition.assignment.strategy": "range",
    "group.protocol.type": "consumer", "group.instance.id": "i", "client.rack": "r", "max.poll.interval.ms": "300000",
    "enable.auto.commit": "true", "group.remote.assignor": "uniform", "auto.offset.reset": "earliest",
}  # fmt: skip


@pytest.mark.parametrize("setting", GIVEN)
def test_librdkafka_refuses_what_the_check_says(setting: str) -> None:
    said = {each.setting for each in under_consumer_protocol(GIVEN, "librdkafka") if each.kind == REFUSED}
    settings = {"bootstrap.servers": "localhost:1", "group.id": "g", "group.protocol": "consumer"}
    try:
        Consumer({**settings, setting: GIVEN[setting]}).close()
        refused = False
    except KafkaException:
        refused = True

    assert refused == (setting in said)


def test_clients_without_the_protocol_are_told_to_stay() -> None:
    found = under_consumer_protocol({"session_timeout_ms": "6000", "group_instance_id": "i"}, "kafka-python")

    assert [(each.setting, each.kind) for each in found] == [
        ("group.protocol", "refused"), ("session_timeout_ms", "refused"), ("group_instance_id", "changed")
    ]  # fmt: skip
    assert "stay with the classic protocol" in found[0].remedy


def test_an_unknown_client_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=f"'sarama'.*{', '.join(CLIENTS)}"):
        under_consumer_protocol({}, "sarama")


@pytest.mark.slow
def test_doctor_reads_a_file(tmp_path) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text("group.id=billing\nsession.timeout.ms=6000\nclient.rack=r\n")

    done = cli("doctor", "--client-config", str(file), "--json")

    assert done.returncode == 1
    assert [(c["name"], c["ok"]) for c in json.loads(done.stdout)["checks"]] == [
        ("session.timeout.ms", False), ("client.rack", None)
    ]  # fmt: skip
    file.write_text("group.id=billing\n")
    assert cli("doctor", "--client-config", str(file)).returncode == 0
    assert "has no setting" in cli("doctor", "--client-config", "/dev/null").stderr
