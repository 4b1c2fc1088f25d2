"""A broker that somebody else runs: what the commands make there is removed, what was there stays as it was."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer

from kafka_assignors import CooperativeStickyAssignor, RangeAssignor
from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.integration.scenario import DEMO_TOPICS
from tests.support.footprint import footprint
from tests.support.forked import run
from tests.support.integration.commands import integration, spawn
from tests.support.kafka_python.sent import sent
from tests.support.programs import python, running

pytestmark = pytest.mark.broker
THEIRS = {**DEMO_TOPICS, "audit": 5, "rebalances": 1, "coming-a": 1}
"""Names that scenarios have too, one with another partition count."""


@pytest.fixture(scope="module")
def theirs() -> Iterator[Broker]:
    """A broker with topics, records and a group of somebody else's, and Kafka's default that makes topics unasked."""
    with start_broker(settings={"auto.create.topics.enable": "true"}) as broker:
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
            admin.create_topics(
                {t: {"num_partitions": n, "configs": {"retention.ms": "86400000"}} for t, n in THEIRS.items()},
                wait_for_metadata=True,
            )
        sent(broker.bootstrap, "orders", [{"value": b"order", "key": b"customer-%d" % n} for n in range(100)])
        with closing(
            KafkaConsumer(
                "orders",
                bootstrap_servers=broker.bootstrap,
                group_id="billing",
                auto_offset_reset="earliest",
                partition_assignment_strategy=[RangeAssignor],
            )
        ) as consumer:
            seen = 0
            while seen < 100:
                seen += sum(map(len, consumer.poll(timeout_ms=500).values()))
            consumer.commit()
        yield broker


@pytest.fixture
def unchanged(theirs: Broker) -> Iterator[Broker]:
    """That broker; the test fails if anything on it isn't as it was."""
    before = footprint(theirs.bootstrap)
    assert before["topics"] == THEIRS
    assert sum(before["ends"].values()) == 100
    assert sum(before["groups"]["billing"].values()) == 100
    yield theirs
    assert footprint(theirs.bootstrap) == before


def made_during(started: list[subprocess.Popen[str]], broker: Broker, *args: str) -> dict[str, Any]:
    """Run a command until its first step is over, and look at the broker then."""
    process = spawn(started, *args)
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if "stable in" in line:
            return footprint(broker.bootstrap)
    pytest.fail("".join(said))


@pytest.mark.long  # long: plays churn; test_at_a_terminal_it_asks plays a shorter scenario on the same broker
def test_a_run_writes_to_its_own_topics_alone(unchanged: Broker, tmp_path: Any) -> None:
    done = integration("run", "churn", "--bootstrap", unchanged.bootstrap, "--confirm", "--out", str(tmp_path / "out"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "not removed" not in done.stderr
    assert re.search(r"kafka-assignors-[0-9a-f]{12}-orders\[", done.stdout), done.stdout


@pytest.mark.long  # long: one more scenario; the test above proves whose topics a run writes to
def test_topics_that_come_and_go_and_patterns_stay_in_the_run(unchanged: Broker, tmp_path: Any) -> None:
    """The scenario deletes a topic, matches topics by pattern, and others of that name exist."""
    done = integration("run", "topics", "--bootstrap", unchanged.bootstrap, "--confirm", "--out", str(tmp_path / "out"))

    assert done.returncode == 0, done.stdout + done.stderr
    assert not re.search(r"(^|\s)coming-a\[", done.stdout), "the pattern matched somebody else's topic"


@pytest.mark.parametrize(
    "how",
    [
        signal.SIGINT,
        # long: handled alike; connection/test_interrupted.py sends SIGHUP
        *(pytest.param(each, marks=pytest.mark.long) for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)),
    ],
)
@pytest.mark.release("a run that fails removes what it made")
def test_an_interrupted_run_removes_what_it_made(
    how: signal.Signals, unchanged: Broker, started: list[subprocess.Popen[str]], tmp_path: Any
) -> None:
    during = made_during(
        started,
        unchanged,
        "run",
        "churn",
        "--bootstrap",
        unchanged.bootstrap,
        "--confirm",
        "--out",
        str(tmp_path / "out"),
    )
    started[-1].send_signal(how)
    rest = started[-1].communicate(timeout=90)[0]

    assert started[-1].returncode == 130, rest
    assert "not removed" not in rest
    topics = set(during["topics"]) - set(THEIRS)
    assert sorted(re.sub(r"^kafka-assignors-[0-9a-f]{12}-", "", topic) for topic in topics) == sorted(DEMO_TOPICS)
    assert len(during["groups"]) == 2


def test_a_run_that_fails_removes_what_it_made(unchanged: Broker, tmp_path: Any) -> None:
    done = integration(
        *("run", "churn", "--assignor", "tests.support.integration.planted:Raising", "--timeout-s", "20"),
        *("--bootstrap", unchanged.bootstrap, "--confirm", "--out", str(tmp_path / "out")),
    )

    assert done.returncode in (1, 4), done.stdout + done.stderr
    assert "planted: no answer" in done.stderr
    assert "not removed" not in done.stderr


# long: another command that asks by the same code
@pytest.mark.parametrize("command", [("run", "churn"), pytest.param(("demo",), marks=pytest.mark.long)])
def test_without_a_terminal_nothing_is_made_unasked(command: tuple[str, ...], unchanged: Broker, tmp_path: Any) -> None:
    out = tmp_path / "out"

    done = integration(*command, "--bootstrap", unchanged.bootstrap, "--out", str(out))

    assert done.returncode == 2
    assert re.search(r"names that begin with kafka-assignors-[0-9a-f]{12}-", done.stderr)
    assert re.search(r"topics .*orders \(12 partitions\)", done.stderr)
    assert re.search(r"groups .*churn", done.stderr)
    assert "add --confirm to agree" in done.stderr
    assert not out.exists()


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 2), (b"y\n", 0)])
def test_at_a_terminal_it_asks(answer: bytes, code: int, unchanged: Broker, tmp_path: Any) -> None:
    terminal, theirs = os.openpty()
    os.write(terminal, answer)
    try:
        done = python(
            "-m", "kafka_assignors.integration", "run", "range-skew", "--bootstrap", unchanged.bootstrap,
            "--out", str(tmp_path / "out"), stdin=theirs,
        )  # fmt: skip
    finally:
        os.close(theirs)
        os.close(terminal)

    assert done.returncode == code, done.stdout + done.stderr
    assert "and removes it at its end" in done.stderr
    assert "Go on? [y/N]" in done.stderr
    assert (tmp_path / "out").exists() is (code == 0)


# long: another command that asks by the same code
@pytest.mark.parametrize("command", [("run", "range-skew"), pytest.param(("demo",), marks=pytest.mark.long)])
def test_an_events_topic_that_exists_is_refused(command: tuple[str, ...], unchanged: Broker, tmp_path: Any) -> None:
    done = integration(
        *command,
        "--bootstrap",
        unchanged.bootstrap,
        "--confirm",
        "--events-topic",
        "rebalances",
        "--out",
        str(tmp_path / "o"),
    )

    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "--events-topic rebalances: the topic exists at" in done.stderr


def test_an_assignor_writes_nothing(unchanged: Broker) -> None:
    """A consumer of another group with ours: what is written is what its client commits."""
    settings = {"group_id": "reader", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with closing(
        KafkaConsumer(
            "orders",
            bootstrap_servers=unchanged.bootstrap,
            partition_assignment_strategy=[CooperativeStickyAssignor],
            **settings,
        )
    ) as consumer:
        seen = 0
        while seen < 100:
            seen += sum(map(len, consumer.poll(timeout_ms=500).values()))
    with closing(KafkaAdminClient(bootstrap_servers=unchanged.bootstrap)) as admin:
        committed = admin.list_group_offsets({"reader": None})["reader"]
        admin.delete_groups(["reader"])
    assert committed == {}


def test_commands_that_read_leave_no_trace(unchanged: Broker) -> None:
    """Also of names that don't exist, on a broker that makes topics unasked."""
    where = ("--bootstrap", unchanged.bootstrap)
    commands = [
        (
            (
                "kafka_assignors.integration",
                "watch",
                "billing",
                "--once",
                "--bootstrap",
                f"127.0.0.1:1,{unchanged.bootstrap}",
            ),
            0,
        ),
        (("kafka_assignors.integration", "watch", "nobody", "--once", *where), 3),
        (("kafka_assignors", "groups", *where), 0),
        (("kafka_assignors", "why", "billing", *where), 0),
        (("kafka_assignors", "plan", "billing", *where), 3),
        (("kafka_assignors", "vote", "billing", *where), 4),
        *((("kafka_assignors", command, "nobody", *where), 3) for command in ("why", "plan", "vote")),
        (("kafka_assignors", "doctor", "--group", "billing", "--topic", "orders", *where), 0),
        (("kafka_assignors", "doctor", "--group", "nobody", "--topic", "nowhere", *where), 1),
        (("kafka_assignors.producers", "audit", "orders", *where), 0),
        (("kafka_assignors.producers", "audit", "nowhere", *where), 3),
        (("kafka_assignors.producers", "place", "orders", "k", *where), 0),
        (("kafka_assignors.producers", "place", "nowhere", "k", *where), 3),
        (("kafka_assignors.producers", "growth", "--from", "12", "--to", "24", "orders", *where), 0),
        (("kafka_assignors.producers", "growth", "--from", "12", "--to", "24", "nowhere", *where), 3),
    ]
    for command, code in commands:
        done = run(*command, timeout_s=60)
        assert done.returncode == code, (command, done.stdout + done.stderr)
    exporter = ("exporter", "billing", "nobody", "--port", "0", *where)
    with running(sys.executable, "-m", "kafka_assignors", *exporter) as (process, lines):
        assert "serving" in lines.readline()
    assert process.returncode == 130
