"""The audit names the hash that placed a topic's keys; growth tells what would move."""

from __future__ import annotations

import base64
import io
import os
import pty
import subprocess
import sys
from contextlib import closing, redirect_stderr
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from kafka_assignors import output
from kafka_assignors.extras import install
from kafka_assignors.producers import ConfigError, KeyHashPartitioner, partition_for_key, topic_sample
from kafka_assignors.producers.core import audit as module
from kafka_assignors.producers.core.audit import FAMILIES, Stray, audit, growth
from tests.support.cli import answered
from tests.support.hidden import without_codecs
from tests.support.kafka_python.sent import sent
from tests.support.programs import python
from tests.support.waiting import until

KEYS = [b"user-%d" % i for i in range(3000)]


def command(*arguments, **environment):
    return python("-m", "kafka_assignors.producers", *arguments, **environment)


@pytest.mark.slow
@pytest.mark.parametrize("preset", FAMILIES)
@pytest.mark.parametrize("n", [6, 7, 12])
def test_names_the_hash_and_lists_the_strays(preset, n):
    found = [(partition_for_key(key, n, preset), key) for key in KEYS]
    clean = audit(found * 3, n)
    assert (clean.preset, clean.keys, clean.stray_count) == (preset, len(KEYS), 0)
    others = {name: share for name, share in clean.agreement.items() if name != preset}
    assert max(others.values()) < module.NAMED_FROM
    if "sarama" not in preset:
        assert all(abs(share - 1 / n) < 0.05 for share in others.values()), "the others agree by chance"
    moved = [((found[0][0] + 1) % n, KEYS[0]), *found[1:]]
    [stray] = audit(moved, n).strays
    assert (stray.partition, stray.key, stray.expected) == (*moved[0], found[0][0])
    assert stray.presets == tuple(p for p in FAMILIES if partition_for_key(KEYS[0], n, p) == stray.partition)


def test_says_whose_hash_explains_the_strays():
    """Every tenth key came from another client, and one by hand."""
    found = [(partition_for_key(key, 6, "librdkafka" if i % 10 == 0 else "java"), key) for i, key in enumerate(KEYS)]
    found[1] = (({0, 1, 2, 3, 4, 5} - {partition_for_key(KEYS[1], 6, p) for p in FAMILIES}).pop(), KEYS[1])
    misplaced = [(p, key) for p, key in found if p != partition_for_key(key, 6)]

    result = audit(found, 6, strays=1000)

    assert (result.preset, result.stray_count) == ("java", len(misplaced))
    assert next(iter(result.elsewhere.items())) == ("librdkafka", len(misplaced) - 1)
    assert all(count < len(misplaced) / 2 for name, count in result.elsewhere.items() if name != "librdkafka")
    assert [(s.partition, s.key) for s in result.strays] == misplaced
    [by_hand] = [stray for stray in result.strays if "librdkafka" not in stray.presets]
    assert by_hand == Stray(found[1][0], KEYS[1], 1, partition_for_key(KEYS[1], 6), ())


def test_a_second_client_is_weighed_by_its_records() -> None:
    """Of each key's 200 records two are another client's, as after a failed deployment."""
    keys = KEYS[:50]
    found = [(partition_for_key(key, 6, "java"), key) for key in keys] * 198
    found += [(partition_for_key(key, 6, "librdkafka"), key) for key in keys] * 2
    elsewhere = {key for key in keys if partition_for_key(key, 6, "java") != partition_for_key(key, 6, "librdkafka")}

    result = audit(found, 6, strays=1)

    assert (result.preset, result.keys) == ("java", 50)
    assert result.agreement["java"] == pytest.approx(1 - 2 * len(elsewhere) / len(found))
    assert (result.stray_count, result.stray_records) == (len(elsewhere), 2 * len(elsewhere))
    assert result.elsewhere["librdkafka"] == len(elsewhere)
    assert result.strays[0].records == 2


def test_a_key_has_one_vote_however_many_records_it_has() -> None:
    """One hot key, which somebody places by hand, does not hide the hash of the others."""
    found = [(partition_for_key(key, 6, "java"), key) for key in KEYS[:50]]
    by_hand = (partition_for_key(b"hot", 6, "java") + 1) % 6

    result = audit([*found, *[(by_hand, b"hot")] * 10_000], 6)

    assert (result.preset, result.stray_count, result.stray_records) == ("java", 1, 10_000)


@pytest.mark.parametrize(
    ("n", "alike"),
    [
        (2, ["sarama", "sarama-reference", "franz-go-sarama"]),
        (8, ["sarama-reference", "franz-go-sarama"]),
        (16, ["sarama-reference", "franz-go-sarama"]),
    ],
)
def test_names_all_presets_that_place_alike_on_so_many_partitions(n, alike):
    """The forms of FNV-1a differ in how they lose the sign, which is a multiple of each power of two."""
    for preset in alike:
        result = audit([(partition_for_key(key, n, preset), key) for key in KEYS], n)
        assert ([result.preset, *result.alike], result.stray_count) == (alike, 0)


def test_an_empty_key_is_nowhere_astray_where_the_client_takes_it_for_none():
    found = [(partition_for_key(key, 7, "librdkafka"), key) for key in KEYS]
    assert audit([*found, (3, b""), (5, b"")], 7).stray_count == 0


def test_says_so_when_no_hash_explains_it():
    assert audit([(i % 7, key) for i, key in enumerate(KEYS)], 7).preset is None
    assert audit([(0, key) for key in KEYS], 1).preset is None, "with one partition every hash does"
    with pytest.raises(ConfigError, match="no records with a key"):
        audit([], 3)


@pytest.mark.slow
def test_growth_tells_the_known_shares():
    assert growth(KEYS, 6, 6) == dict.fromkeys(FAMILIES, 0.0)
    double, one = growth(KEYS, 6, 12), growth(KEYS, 6, 7)
    for preset in FAMILIES.keys() - {"consistent"}:
        assert abs(double[preset] - 1 / 2) < 0.04
        assert abs(one[preset] - 6 / 7) < 0.04
    assert abs(one["consistent"] - 1 / 7) < 0.03
    for wrong in ([], 6, 7), (KEYS, 0, 7), (KEYS, 6, True):
        with pytest.raises(ConfigError):
            growth(*wrong)


@pytest.mark.slow
def test_growth_command_and_its_errors():
    told = command("growth", "--from", "6", "--to", "12")
    assert told.returncode == 0
    assert "of 20000 keys move from 6 to 12 partitions" in told.stdout
    wrong = command("growth", "--from", "0", "--to", "12")
    assert (wrong.returncode, wrong.stderr.startswith("error: n (current partitions) must be")) == (2, True)


@pytest.mark.slow
def test_where_no_broker_answers_the_option_is_named():
    told = command("audit", "orders", "--bootstrap", "127.0.0.1:1")
    assert (told.returncode, told.stdout) == (3, "")
    assert told.stderr.startswith("error: --bootstrap '127.0.0.1:1': no broker answered; is one")
    assert told.stderr.count("\n") == 1, "one line, no traceback"


@pytest.mark.slow
@pytest.mark.parametrize("words", [("audit", "orders"), ("growth", "--to", "12", "orders")])
def test_a_dead_broker_is_told_before_a_client_begins_to_wait(words: tuple[str, ...], tmp_path: Path):
    """kafka-python's constructor retries for ten seconds; without that package nobody can."""
    told = command(*words, "--bootstrap", "127.0.0.1:1", PYTHONPATH=without_codecs(tmp_path, ["kafka"]))
    assert "no broker answered" in told.stderr


@pytest.mark.slow
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
        assert (clean.returncode, clean.stdout.splitlines()[-1]) == (0, "placed by sarama (Sarama); 0 misplaced")
        assert clean.stdout.splitlines()[0] == f"{topic}: 500 keys on 7 partitions, in all 501 offsets"
        sending.send(topic, b"v", key=b"by hand", partition=stray)
        sending.flush(60)
    found = command("audit", topic, "--bootstrap", kafka_broker.bootstrap)
    assert found.returncode == 1
    right = partition_for_key(b"by hand", 7, "sarama")
    whose = [name for name in FAMILIES if partition_for_key(b"by hand", 7, name) == stray]
    assert found.stdout.splitlines()[-1] == (
        f"  misplaced: partition {stray}, key b'by hand', 1 record: where {', '.join(whose) or 'no preset'} places it; "
        f"sarama places it on {right}"
    )
    told = command("audit", topic, "--bootstrap", kafka_broker.bootstrap, "--json")
    answer = answered("keys-audit", told, 1)
    assert (answer["preset"], answer["misplaced_count"], answer["misplaced_records"]) == ("sarama", 1, 1)
    key = base64.b64encode(b"by hand").decode()
    assert answer["misplaced"] == [
        {"partition": stray, "key_base64": key, "records": 1, "expected_partition": right, "presets": whose}
    ]
    assert (answer["offsets"], answer["offsets_read"]) == (502, 502)
    few = command("audit", topic, "--bootstrap", kafka_broker.bootstrap, "--records", "10")
    assert few.stdout.startswith(
        f"{topic}: 70 keys on 7 partitions, in 70 of 502 offsets (13.9%), the first 10 of each"
    )
    told = command("audit", topic, "--bootstrap", kafka_broker.bootstrap, "--records", "10", "--json")
    answer = answered("keys-audit", told, told.returncode)
    assert (answer["offsets"], answer["offsets_read"]) == (502, 70)
    growing = command("growth", "--to", "14", topic, "--json", "--bootstrap", kafka_broker.bootstrap)
    answer = answered("keys-growth", growing)
    assert (answer["from"], answer["to"], answer["keys"]) == (7, 14, 501)
    missing = command("audit", "no-such-topic", "--bootstrap", kafka_broker.bootstrap)
    assert missing.returncode == 3
    assert "no-such-topic" in missing.stderr
    assert "Traceback" not in missing.stderr
    empty = command("growth", kafka_topic(partitions=2), "--from", "2", "--to", "3", "--bootstrap",
                    kafka_broker.bootstrap)  # fmt: skip
    assert (empty.returncode, empty.stdout) == (2, "")
    assert empty.stderr.startswith("error: growth needs at least one key"), empty.stderr


@pytest.mark.broker
# long: further codecs that kafka-python has not; members/test_codecs.py reads all
@pytest.mark.parametrize(
    "codec", ["gzip", "zstd", *(pytest.param(each, marks=pytest.mark.long) for each in ("snappy", "lz4"))]
)
def test_a_compressed_topic_is_read_or_the_package_named(codec, kafka_broker, kafka_admin, kafka_topic, tmp_path):
    """kafka-python has gzip alone; confluent-kafka reads all, and the error without both names what to install."""
    topic = kafka_topic(partitions=3)
    sending = Producer({"bootstrap.servers": kafka_broker.bootstrap, "compression.codec": codec, "linger.ms": 50})
    for key in KEYS[:200]:
        sending.produce(topic, b"value" * 20, key=key)
    assert sending.flush(60) == 0
    asked = ("audit", topic, "--json", "--bootstrap", kafka_broker.bootstrap)

    answer = answered("keys-audit", command(*asked, PYTHONPATH=without_codecs(tmp_path / "codecs")))
    assert (answer["preset"], answer["keys"], answer["offsets_read"]) == ("librdkafka", 200, 200)
    assert "kafka-assignors-keys" not in {row["group_id"] for row in kafka_admin.list_groups()}

    told = command(*asked, PYTHONPATH=without_codecs(tmp_path / "both", ["confluent_kafka"]))
    if codec == "gzip":
        assert answered("keys-audit", told)["keys"] == 200
    else:
        package = {"snappy": "python-snappy", "lz4": "lz4", "zstd": "zstandard"}[codec]
        assert (told.returncode, told.stdout) == (3, "")
        assert f"compressed by {codec}" in told.stderr
        assert f"pip install {package};" in told.stderr
        assert install("confluent") in told.stderr
        assert told.stderr.count("\n") == 1, "one line, no traceback"


@pytest.mark.broker
def test_progress_is_shown_on_a_terminal(kafka_broker, kafka_topic):
    topic = kafka_topic(partitions=2)
    sent(kafka_broker.bootstrap, topic, [{"value": b"v", "key": key} for key in KEYS[:50]])
    screen, terminal = pty.openpty()
    words = [sys.executable, "-m", "kafka_assignors.producers", "audit", topic, "--bootstrap", kafka_broker.bootstrap]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal, env={**os.environ, "TERM": "xterm"}
    ) as run:
        os.close(terminal)
        out, _ = run.communicate(timeout=120)
        seen = os.read(screen, 65_536).decode()
    os.close(screen)
    assert out.startswith(f"{topic}: 50 keys".encode())
    assert f"reading {topic}" in seen
    assert "/50" in seen


def test_progress_in_a_pipe_is_a_line_each_five_seconds(monkeypatch):
    monkeypatch.setattr(output, "TOLD_EVERY_S", 0.01)
    said = io.StringIO()
    with redirect_stderr(said), topic_sample._progress("reading orders", 900) as tell:
        tell(200)
        until(lambda: "200 of 900 offsets" in said.getvalue(), "it is told")
    assert {line.partition(": ")[0] for line in said.getvalue().splitlines()} == {"reading orders"}
