"""Where each client's default partitioner places a key, and the command that tells it."""

from __future__ import annotations

import base64

import pytest
from confluent_kafka import Producer

from kafka_assignors.producers import ConfigError, partition_for_key
from kafka_assignors.producers.core.keys.defaults import DEFAULTS, placed_by_default
from kafka_assignors.producers.core.keys.keyed import PRESETS
from tests.support.cli import answered, cli
from tests.support.kafka_python.sent import sent
from tests.support.producers.reading import read_back
from tests.support.programs import python


def test_every_client_is_named_once_and_every_rule_is_another_one():
    clients = [client for each in DEFAULTS for client in each.clients]
    assert len(clients) == len(set(clients))
    presets = [each.preset for each in DEFAULTS if each.preset is not None]
    assert len({PRESETS[name].place for name in presets}) == len(presets)


@pytest.mark.parametrize("n", [1, 6, 7, 100])
def test_a_key_lies_where_its_client_s_preset_says(n):
    for key in (b"user-1", "ключ".encode(), b"\x00\xff"):
        found = placed_by_default(key, n)
        assert {found[each] for each in ("Java", "kafka-python", "aiokafka", "franz-go", "KafkaJS")} == {
            partition_for_key(key, n)
        }
        assert found["librdkafka"] == found["confluent-kafka"] == partition_for_key(key, n, "librdkafka")
        assert found["Sarama"] == partition_for_key(key, n, "sarama")
        assert found["segmentio"] is None


def test_librdkafka_spreads_an_empty_key_and_java_does_not():
    found = placed_by_default(b"", 6)
    assert (found["librdkafka"], found["Java"]) == (None, partition_for_key(b"", 6))


def test_no_partitions_are_an_error():
    with pytest.raises(ConfigError, match="n \\(number of partitions\\)"):
        placed_by_default(b"k", 0)


@pytest.mark.slow
def test_keys_come_as_text_hexadecimal_or_base64():
    forms = (["ключ"], ["--hex", "ключ".encode().hex()], ["--base64", base64.b64encode("ключ".encode()).decode()])
    told = [answered("keys-place", cli("keys", "place", "t", *each, "--partitions", "6", "--json")) for each in forms]
    assert told[0] == told[1] == told[2]
    [key] = told[0]["keys"]
    assert base64.b64decode(key["key_base64"]) == "ключ".encode()
    assert key["partition"] == dict(placed_by_default("ключ".encode(), 6))
    assert {"librdkafka", "confluent-kafka"} <= set(key["elsewhere"])


@pytest.mark.slow
def test_the_table_marks_where_clients_disagree():
    done = cli("keys", "place", "orders", "user-1", "user-2", "--partitions", "6")
    title, head, one, two, *rest = done.stdout.splitlines()
    assert title == "orders: 6 partitions"
    assert head.split() == ["key", "Java", "librdkafka", "Sarama", "KafkaJS", "1", "segmentio"]
    assert one.split() == ["user-1", "2", "2", "0*", "1*", "any*"]
    assert two.split() == ["user-2", "2", "4*", "3*", "3*", "any*"]
    assert "Java: murmur2; also kafka-python, aiokafka, franz-go, KafkaJS" in rest
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.slow
def test_no_broker_client_or_array_library_is_loaded():
    """Cold, the answer comes within half a second of CPU."""
    code = (
        "import sys; from kafka_assignors.operator.cli.app import main; "
        "main(['keys', 'place', 't', 'k', '--partitions', '6']); print(*sys.modules, file=sys.stderr)"
    )
    done = python("-c", code, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & {"numpy", "scipy", "kafka", "confluent_kafka", "rich"}


@pytest.mark.broker
def test_the_live_topic_s_partitions_count_and_the_clients_place_so(kafka_broker, kafka_topic):
    topic, keys = kafka_topic(partitions=7, name="placed"), [f"user-{i}" for i in range(40)]
    told = answered("keys-place", cli("keys", "place", topic, *keys, "-b", kafka_broker.bootstrap, "--json"))
    assert told["partitions"] == 7
    sent(kafka_broker.bootstrap, topic, [{"value": b"kafka-python", "key": key.encode()} for key in keys])
    native = Producer({"bootstrap.servers": kafka_broker.bootstrap})
    for key in keys:
        native.produce(topic, b"confluent-kafka", key=key.encode())
    assert native.flush(60) == 0
    lie = {(value.decode(), key): p for p, key, value in read_back(kafka_broker, topic, 2 * len(keys))}
    for each in told["keys"]:
        key = base64.b64decode(each["key_base64"])
        for client in ("kafka-python", "confluent-kafka"):
            assert lie[client, key] == each["partition"][client], (client, key)


@pytest.mark.broker
@pytest.mark.parametrize("topic", ["no-such-topic", "no such topic", "n" * 300])
def test_a_topic_that_is_not_there_is_named(kafka_broker, topic):
    done = cli("keys", "place", topic, "k", "-b", kafka_broker.bootstrap)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"error: topic {topic!r} is not in the cluster's metadata; is the name right?\n"
