"""Transactional calls that don't return, and what our transforming members do about them.

kafka-python 3.0.12 forgets a request whose coordinator refuses the connection, and its caller waits for the answer
without a time limit: our member keeps the request. librdkafka 2.16.1 can wait for a coordinator that it has forgotten,
beyond the time limit of the call: our member replaces the producer.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError as RdKafkaError
from confluent_kafka import KafkaException, TopicPartition
from kafka.errors import KafkaConnectionError
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager

from kafka_assignors.integration.members.config import MemberConfig
from kafka_assignors.integration.members.transformers import confluent
from kafka_assignors.integration.members.transformers.confluent import CallOverdue, transactional
from kafka_assignors.integration.members.transformers.kafka_python import keep_requests

JAVAS = pytest.mark.source("apache/kafka Sender.maybeFindCoordinatorAndRetry")


class Unreachable:
    """A client of a cluster whose nodes all refuse the connection."""

    def __init__(self) -> None:
        self.cluster = SimpleNamespace()

    def await_ready(self, node: str, timeout_ms: int) -> bool:
        raise KafkaConnectionError(f"{node}: ECONNREFUSED")


def asked(coordinator: str | None, *, kept: bool = False) -> tuple[list[str], bool]:
    """Ask for a producer id, and let the sender work once: what waits to be sent then, and whether it was answered."""
    manager = TransactionManager("orders")
    manager._transaction_coordinator = coordinator
    answer: Any = manager.initialize_transactions()
    accumulator, client = SimpleNamespace(has_incomplete=False), Unreachable()
    if kept:
        keep_requests(client)
    Sender(client, None, accumulator, transaction_manager=manager)._maybe_send_pending_request()
    return sorted(type(request).__name__ for *_, request in manager._pending_requests), answer.is_done


@JAVAS
def test_a_request_waits_while_its_coordinator_is_looked_up() -> None:
    assert asked(None) == (["FindCoordinatorHandler", "InitProducerIdHandler"], False)


@JAVAS
def test_a_request_is_lost_when_its_coordinator_refuses_the_connection() -> None:
    """When this fails, kafka-python is mended, and our member need do nothing about it."""
    assert asked("coordinator-1") == (["FindCoordinatorHandler"], False)


@JAVAS
def test_our_member_keeps_a_request_when_its_coordinator_refuses_the_connection() -> None:
    assert asked("coordinator-1", kept=True) == asked(None)


def refused(*, retriable: bool = False, abort: bool = False) -> KafkaException:
    return KafkaException(RdKafkaError(RdKafkaError._TIMED_OUT, "no answer", False, retriable, abort))


def test_a_retriable_call_is_made_again() -> None:
    answers: Iterator[KafkaException | None] = iter([refused(retriable=True), refused(retriable=True), None])
    limits = []

    def commit_transaction(timeout_s: float) -> None:
        limits.append(timeout_s)
        if (error := next(answers)) is not None:
            raise error

    transactional(commit_transaction)

    assert len(limits) == 3
    assert sorted(limits, reverse=True) == limits


@pytest.mark.parametrize("error", [refused(), refused(abort=True)])
def test_other_errors_are_raised_at_once(error: KafkaException) -> None:
    calls = []

    def commit_transaction(timeout_s: float) -> None:
        calls.append(timeout_s)
        raise error

    with pytest.raises(KafkaException):
        transactional(commit_transaction)
    assert len(calls) == 1


def test_a_call_is_not_made_again_after_its_limit() -> None:
    def commit_transaction(timeout_s: float) -> None:
        raise refused(retriable=True)

    with pytest.raises(KafkaException):
        transactional(commit_transaction, timeout_s=0.1)


class Producer:
    """A transactional producer. If it `hangs`, its offsets are never answered until `released`."""

    def __init__(self, hangs: bool) -> None:
        self.hangs, self.released = hangs, threading.Event()
        self.begin_transaction = self.produce = lambda *_, **__: None

    def send_offsets_to_transaction(self, offsets: Any, membership: Any, timeout_s: float) -> None:
        if self.hangs:
            self.released.wait()

    def commit_transaction(self, timeout_s: float) -> None:
        """It is committed."""


@pytest.mark.source("librdkafka#5456")
def test_a_member_of_librdkafkas_replaces_a_producer_that_hangs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hung, made = Producer(hangs=True), Producer(hangs=False)
    left = [hung, made]
    record = SimpleNamespace(
        topic=lambda: "t", partition=lambda: 0, offset=lambda: 4, key=lambda: b"k", value=lambda: b"v"
    )
    sought = []
    consumer = SimpleNamespace(
        consumer_group_metadata=lambda: "generation 3",
        assignment=lambda: [TopicPartition("t", 0)],
        committed=lambda tps, _: [TopicPartition("t", 0, 4) for _ in tps],
        seek=lambda tp: sought.append(tp.offset),
    )
    monkeypatch.setattr(confluent, "_producer", lambda _: left.pop(0))
    monkeypatch.setattr(confluent, "TIMEOUT_S", 0.1)
    monkeypatch.setattr(confluent, "OVERDUE_S", 0.1)
    batches = confluent._Batches(MemberConfig("h:1", "g", "m", ("t",), ("range",), "h", "r", output="done"), consumer)

    for _ in range(2):
        batches.add(record)
        batches.finish()
    hung.released.set()

    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = [(each["name"], each.get("success")) for each in said if each["name"] in ("offsets_committed", "rewound")]
    assert told == [("offsets_committed", False), ("rewound", None), ("offsets_committed", True)]
    assert sought == [4]
    assert any("send_offsets_to_transaction hasn't returned" in each.get("error", "") for each in said)


def test_a_call_that_goes_on_after_its_limit_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent, "OVERDUE_S", 0.1)
    released = threading.Event()

    def init_transactions(timeout_s: float) -> None:
        released.wait()

    with pytest.raises(CallOverdue, match=r"init_transactions hasn't returned 0\.1 s after its limit of 0\.1 s"):
        transactional(init_transactions, timeout_s=0.1)
    released.set()
