"""Consume, transform, produce on a real broker: each client's transactions, and what a zombie of it may commit."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaTimeoutError
from kafka.structs import OffsetAndMetadata

from kafka_assignors.errors import JavaNotFound
from kafka_assignors.integration.broker import KAFKA_VERSION, Broker
from kafka_assignors.integration.commands.judged import judged
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.config import CLIENTS, TRANSFORMING, MemberConfig
from kafka_assignors.integration.members.transformers import java as transformer
from kafka_assignors.integration.report.report import GroupResult, verdict_lines
from kafka_assignors.integration.scenario import scenario
from kafka_assignors.integration.scenario.actions import PauseAtWork, Resume
from kafka_assignors.integration.scenario.clients import of_client
from kafka_assignors.integration.scenario.runner import run_scenario
from kafka_assignors.integration.topics.sandbox import Sandbox, new_prefix
from kafka_assignors.jvm import java
from tests.support.waiting import until

COMMITTED = ("commit_ok", "commit_fail")
EXACTLY_ONCE = scenario("exactly-once")
ZOMBIE = replace(
    EXACTLY_ONCE,
    steps=tuple(
        step
        for step in EXACTLY_ONCE.steps
        if step is EXACTLY_ONCE.steps[0]
        or any(isinstance(action, PauseAtWork | Resume) and action.member == "m2" for action in step.actions)
    ),
)
"""In short: two join, one is evicted as it works, and goes on."""


def played(client: str, broker: Broker, folder: Path) -> GroupResult:
    what = of_client(ZOMBIE, client)
    try:
        with Sandbox(broker.connection, new_prefix()) as sandbox:
            return judged(run_scenario(what, broker, folder, f"run-{client}", sandbox=sandbox, group=what.name))
    except JavaNotFound as error:  # the Java that is fetched here is a runtime, without a compiler
        if os.environ.get("REQUIRE_JDK") == "1":
            raise
        pytest.skip(f"{error}; REQUIRE_JDK=1 makes this a failure")


@pytest.mark.broker
@pytest.mark.parametrize(
    "client",
    # long: the zombies of further clients
    [
        client if client == "kafka-python" else pytest.param(client, marks=pytest.mark.long)
        for client in TRANSFORMING
        if client != "aiokafka"
    ],
)
def test_a_zombie_is_fenced_and_each_record_has_one_output(client: str, kafka_broker: Broker, tmp_path: Path) -> None:
    result = played(client, kafka_broker, tmp_path)

    assert result.verdict.value is True, "\n".join(verdict_lines(result.verdict))
    assert min(result.verdict.checked[law] for law in ("X1", "X2")) > 50
    events = History.load(tmp_path).events
    # It goes on before the harness can write that it does; and is back in the group with its next generation.
    frozen = next(e.mono_ns for e in events if e.kind == "fault_begin" and e.member == "m2")
    later = [e for e in events if e.mono_ns >= frozen and e.member == "m2" and e.kind in ("generation", *COMMITTED)]
    answers = [e.kind for e in takewhile(lambda e: e.kind != "generation", later)]
    assert answers[-1:] == ["commit_fail"], "the zombie had nothing to commit, or nobody fenced it"


@pytest.mark.broker
@pytest.mark.long
@pytest.mark.source("aiokafka#844")
def test_aiokafkas_zombie_is_not_fenced_and_both_laws_find_it(kafka_broker: Broker, tmp_path: Path) -> None:
    """aiokafka sends offsets under a group id alone: the broker can't know whose they are."""
    verdict = played("aiokafka", kafka_broker, tmp_path).verdict

    assert verdict.value is False
    assert {violation.law for violation in verdict.violations} >= {"X1", "X2"}
    (zombie,) = [violation for violation in verdict.violations if violation.law == "X2"]
    assert [w.kind for w in zombie.witnesses[:3]] == ["generation_committed", "commit_begin", "commit_ok"]
    assert {w.member for w in zombie.witnesses[1:3]} == {"m2"}
    assert {w.data["author"]["member"] for w in zombie.witnesses[3:]} == {"m2"}


def test_a_client_that_cannot_transform_is_refused_by_its_name() -> None:
    assert set(TRANSFORMING) < set(CLIENTS)
    assert of_client(EXACTLY_ONCE, "aiokafka").assignors == ("sticky",)
    assert len(of_client(scenario("churn"), "java").topics) == 1


def test_a_java_without_a_compiler_is_told_by_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runtime = replace(java(), executable=tmp_path / "bin" / "java")
    monkeypatch.setattr(transformer, "java", lambda: runtime)
    monkeypatch.setattr(transformer, "cache_folder", lambda: tmp_path)
    config = MemberConfig("h:1", "g", "m", ("t",), ("range",), "h", "r", client="java", output="done")

    with pytest.raises(JavaNotFound, match=f"{tmp_path / 'bin'} has no javac; install a JDK"):
        transformer.arguments(config, {}, tmp_path / "m.properties", KAFKA_VERSION)


@pytest.mark.long  # long: a defect of another client
@pytest.mark.broker
@pytest.mark.source("KIP-447")
def test_aiokafka_fetches_an_older_offset_while_a_transaction_commits_a_newer_one(
    kafka_broker: Broker, kafka_topic: Callable[..., str]
) -> None:
    """A member of aiokafka's that takes a partition over then begins too early; kafka-python's waits for the end.

    When this fails, aiokafka asks for stable offsets, and our member need not wait for its own.
    """
    topic, connection = kafka_topic(partitions=1), kafka_broker.connection
    at, end = TopicPartition(topic, 0), OffsetAndMetadata(7, "", -1)
    how: dict[str, Any] = {"group_id": topic, "isolation_level": "read_committed", "enable_auto_commit": False}
    producer = KafkaProducer(**connection.kafka_python(), transactional_id=topic)

    async def committed_to_aiokafka() -> int | None:
        async with AIOKafkaConsumer(**connection.aiokafka(), **how) as consumer:
            return cast("int | None", await consumer.committed(at))

    with closing(producer), closing(KafkaConsumer(**connection.kafka_python(), **how)) as careful:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({at: end}, topic)

        assert asyncio.run(committed_to_aiokafka()) is None
        with pytest.raises(KafkaTimeoutError):
            careful.committed(at, timeout_ms=1000)

        producer.commit_transaction()
        assert careful.committed(at) == 7
        until(lambda: asyncio.run(committed_to_aiokafka()) == 7, "aiokafka fetches the offset")


@pytest.mark.broker
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", TRANSFORMING)
@pytest.mark.parametrize("name", ["exactly-once", "exactly-once-nodes"])
def test_the_whole_of_it_by_the_command_line(name: str, client: str, tmp_path: Path) -> None:
    command = [*(sys.executable, "-m", "kafka_assignors.integration", "run", name, "--client", client)]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "run"), "--json"], capture_output=True, text=True, check=False
    )

    said = json.loads(done.stdout)
    assert min(said["laws"][law] for law in ("X1", "X2", "C3")) > 0
    if name == "exactly-once":
        events = History.load(tmp_path / "run" / "history").events
        faults = [e for e in events if e.kind == "fault_begin" and e.data["fault"] in ("pause", "stall")]
        begun = {e.member: e.mono_ns for e in faults}
        assert sorted(begun) == ["m2", "m3", "m4"]  # m3 dies as it stands still
        answered = [e for e in events if e.kind in COMMITTED and e.mono_ns > begun.get(e.member, e.mono_ns)]
        answers = {e.member: e.kind for e in reversed(answered)}
        assert client == "aiokafka" or answers == {"m2": "commit_fail", "m4": "commit_fail"}
    # only where a member stands still is there a zombie
    expected = client != "aiokafka" or name != "exactly-once"
    assert said["value"] is expected, done.stdout + done.stderr
