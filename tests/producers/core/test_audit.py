"""The audit names the hash that placed a topic's keys; growth tells what would move."""

from __future__ import annotations

import base64
import subprocess
import sys
from contextlib import closing

import pytest
from kafka import KafkaProducer

from kafka_assignors.producers import ConfigError, KeyHashPartitioner, partition_for_key
from kafka_assignors.producers.core import audit as module
from kafka_assignors.producers.core.audit import FAMILIES, audit, growth
from tests.support.cli import answered

KEYS = [b"user-%d" % i for i in range(3000)]


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "kafka_assignors.producers", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("preset", FAMILIES)
@pytest.mark.parametrize("n", [6, 7, 12])
def test_names_the_hash_and_lists_the_strays(preset, n):
    found = [(partition_for_key(key, n, preset), key) for key in KEYS]
    clean = audit(found * 3, n)
    assert (clean.preset, clean.keys, clean.stray_count) == (preset, len(KEYS), 0)
    others = {name: share for name, share in clean.agreement.items() if name != preset}
    assert max(others.values()) < module.NAMED_FROM
    if not preset.startswith("sarama"):
        assert all(abs(share - 1 / n) < 0.05 for share in others.values()), "the others agree by chance"
    moved = [((found[0][0] + 1) % n, KEYS[0]), *found[1:]]
    assert audit(moved, n).strays == [moved[0]]


def test_says_so_when_no_hash_explains_it():
    assert audit([(i % 7, key) for i, key in enumerate(KEYS)], 7).preset is None
    assert audit([(0, key) for key in KEYS], 1).preset is None, "with one partition every hash does"
    with pytest.raises(ConfigError, match="no records with a key"):
        audit([], 3)


def test_growth_tells_the_known_shares():
    assert growth(KEYS, 6, 6) == dict.fromkeys(FAMILIES, 0.0)
    double, one = growth(KEYS, 6, 12), growth(KEYS, 6, 7)
    for preset in FAMILIES[:4]:
        assert abs(double[preset] - 1 / 2) < 0.04
        assert abs(one[preset] - 6 / 7) < 0.04
    assert abs(one["consistent"] - 1 / 7) < 0.03
    for wrong in ([], 6, 7), (KEYS, 0, 7), (KEYS, 6, True):
        with pytest.raises(ConfigError):
            growth(*wrong)


def test_growth_command_and_its_errors():
    told = command("growth", "--from", "6", "--to", "12")
    assert told.returncode == 0
    assert "of 20000 keys move from 6 to 12 partitions" in told.stdout
    wrong = command("growth", "--from", "0", "--to", "12")
    assert (wrong.returncode, wrong.stderr.startswith("error: n (current partitions) must be")) == (2, True)


def test_where_no_broker_answers_the_option_is_named():
    told = command("audit", "orders", "--bootstrap", "127.0.0.1:1")
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith("error: --bootstrap '127.0.0.1:1': no broker answered within 10 s; is one")
    assert told.stderr.count("\n") == 1, "one line, no traceback"


@pytest.mark.parametrize("wrong", ["127.0.0.1:99999", "no such host"])
def test_an_address_that_is_none_is_refused_before_anybody_is_asked(wrong: str):
    told = command("audit", "orders", "--bootstrap", wrong)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr.startswith(f"error: bootstrap {wrong!r} is not 'host:port'")
    assert told.stderr.count("\n") == 1, "one line, no traceback"


@pytest.mark.broker
def test_audit_command_on_a_real_topic(kafka_broker, kafka_topic):
    topic = kafka_topic(partitions=7, name="audited")
    stray = (partition_for_key(b"by hand", 7, "sarama") + 1) % 7
    with closing(
        KafkaProducer(
            bootstrap_servers=kafka_broker.bootstrap, partitioner=KeyHashPartitioner("sarama"), metrics_enabled=False
        )
    ) as sending:
        for key in KEYS[:500]:
            sending.send(topic, b"v", key=key)
        sending.send(topic, b"no key")
        sending.flush(60)
        clean = command("audit", topic, "--bootstrap", kafka_broker.bootstrap)
        assert (clean.returncode, clean.stdout.splitlines()[-1]) == (0, "placed by sarama; 0 misplaced")
        sending.send(topic, b"v", key=b"by hand", partition=stray)
        sending.flush(60)
    found = command("audit", topic, "--bootstrap", kafka_broker.bootstrap)
    assert found.returncode == 1
    assert found.stdout.splitlines()[-1] == f"  misplaced: partition {stray}, key b'by hand'"
    told = command("audit", topic, "--bootstrap", kafka_broker.bootstrap, "--json")
    answer = answered("keys-audit", told, 1)
    assert (answer["preset"], answer["misplaced_count"]) == ("sarama", 1)
    assert answer["misplaced"] == [{"partition": stray, "key_base64": base64.b64encode(b"by hand").decode()}]
    growing = command("growth", "--to", "14", topic, "--json", "--bootstrap", kafka_broker.bootstrap)
    answer = answered("keys-growth", growing)
    assert (answer["from"], answer["to"], answer["keys"]) == (7, 14, 501)
    missing = command("audit", "no-such-topic", "--bootstrap", kafka_broker.bootstrap)
    assert missing.returncode == 2
    assert "no-such-topic" in missing.stderr
    assert "Traceback" not in missing.stderr
    empty = command("growth", kafka_topic(partitions=2), "--from", "2", "--to", "3", "--bootstrap",
                    kafka_broker.bootstrap)  # fmt: skip
    assert (empty.returncode, empty.stdout) == (2, "")
    assert empty.stderr.startswith("error: growth needs at least one key"), empty.stderr
