"""Transactional calls that don't return, and what our transforming members do about them.

kafka-python 3.0.12 forgets a request whose coordinator refuses the connection, and its caller waits for the answer
without a time limit: our member keeps the request. librdkafka 2.16.1 can wait for a coordinator that it has forgotten,
beyond the time limit of the call: our member replaces the producer.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError as RdKafkaError
from confluent_kafka import KafkaException, TopicPartition
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import CommitFailedError, KafkaConnectionError, KafkaTimeoutError
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager

from kafka_assignors.integration.members.config import MemberConfig
from kafka_assignors.integration.members.control import Control
from kafka_assignors.integration.members.transformers import aiokafka, confluent, kafka_python
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


def errors_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The errors that a member reports, by which the history says what it went on after."""
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [each["error"] for each in said if each["name"] == "error"]


def test_a_retriable_call_is_made_again_and_the_error_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    answers: Iterator[KafkaException | None] = iter([refused(retriable=True), refused(retriable=True), None])
    limits = []

    def commit_transaction(timeout_s: float) -> None:
        limits.append(timeout_s)
        if (error := next(answers)) is not None:
            raise error

    transactional(commit_transaction)

    assert len(limits) == 3
    assert sorted(limits, reverse=True) == limits
    assert errors_of(capsys) == ["_TIMED_OUT", "_TIMED_OUT"]


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
    """A transactional producer. If it `hangs`, its offsets are never answered until `released`.

    Args:
        refuses: Calls that raise a retriable error each time.
    """

    def __init__(self, hangs: bool, refuses: tuple[str, ...] = ()) -> None:
        self.hangs, self.released, self.refuses = hangs, threading.Event(), refuses
        self.begin_transaction = self.produce = lambda *_, **__: None
        self.aborted = 0

    def send_offsets_to_transaction(self, offsets: Any, membership: Any, timeout_s: float) -> None:
        if self.hangs:
            self.released.wait()
        if "offsets" in self.refuses:
            raise refused(retriable=True)

    def abort_transaction(self, timeout_s: float) -> None:
        if "abort" in self.refuses:
            raise refused(retriable=True)
        self.aborted += 1

    def commit_transaction(self, timeout_s: float) -> None:
        if "commit" in self.refuses:
            raise refused(retriable=True)


RECORD = SimpleNamespace(topic=lambda: "t", partition=lambda: 0, offset=lambda: 4, key=lambda: b"k", value=lambda: b"v")


class Consumer:
    """A member's consumer, with one partition.

    Args:
        answers: What `committed` returns or raises, one call after the other.
    """

    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers
        self.sought: list[int] = []

    def consumer_group_metadata(self) -> str:
        return "generation 3"

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("t", 0)]

    def committed(self, partitions: list[TopicPartition], timeout_s: float) -> list[Any]:
        answer: Any = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert len(answer) == len(partitions)
        return list(answer)

    def seek(self, partition: Any) -> None:
        self.sought.append(partition.offset)


def batches_of(consumer: Consumer, monkeypatch: pytest.MonkeyPatch, producers: list[Producer]) -> Any:
    """A transforming member's batches, with these producers one after the other."""
    monkeypatch.setattr(confluent, "_producer", lambda _: producers.pop(0))
    for name in ("TIMEOUT_S", "OVERDUE_S"):
        monkeypatch.setattr(confluent, name, 0.1)
    monkeypatch.setattr(confluent, "RETRY_S", 0)
    config = MemberConfig("h:1", "g", "m", ("t",), ("range",), "h", "r", output="done")
    return confluent._Batches(config, cast("Any", consumer))


@pytest.mark.source("confluent-kafka KafkaError.retriable: the operation may be called again")
@pytest.mark.parametrize("refuses", [("offsets",), ("offsets", "abort"), ("commit",)])
def test_a_member_of_librdkafkas_outlives_a_coordinator_that_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], refuses: tuple[str, ...]
) -> None:
    """Time is up: the transaction is aborted; if that isn't answered either, a new producer aborts it.

    A commit that isn't answered may still arrive, so its producer is not used again.
    """
    away, made = Producer(hangs=False, refuses=refuses), Producer(hangs=False)
    left = [away, made]
    consumer = Consumer([[TopicPartition("t", 0, 4)]])
    batches = batches_of(consumer, monkeypatch, left)

    batches.add(RECORD)
    batches.finish()
    away.refuses = ()
    batches.add(RECORD)
    batches.finish()

    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["success"] for each in said if each["name"] == "offsets_committed"] == [False, True]
    assert {each["error"] for each in said if each["name"] == "error"} == {"_TIMED_OUT"}
    assert (away.aborted, len(left)) == ((1, 1) if refuses == ("offsets",) else (0, 0))
    assert consumer.sought == [4]


def test_committed_offsets_are_asked_for_again_while_a_coordinator_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An offset with an error is no offset: reading from the beginning would make all outputs again."""
    unstable = SimpleNamespace(
        topic="t", partition=0, offset=-1001, error=RdKafkaError(RdKafkaError.UNSTABLE_OFFSET_COMMIT)
    )
    away = KafkaException(RdKafkaError(RdKafkaError._TRANSPORT, "away"))
    consumer = Consumer([away, [unstable], [TopicPartition("t", 0, 4)]])
    batches = batches_of(consumer, monkeypatch, [Producer(hangs=False)])

    batches._rewind([TopicPartition("t", 0)])

    assert consumer.sought == [4]
    assert errors_of(capsys) == ["_TRANSPORT", "UNSTABLE_OFFSET_COMMIT"]


def test_an_error_that_no_question_mends_ends_the_member(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = KafkaException(RdKafkaError(RdKafkaError.GROUP_AUTHORIZATION_FAILED))
    batches = batches_of(Consumer([denied]), monkeypatch, [Producer(hangs=False)])

    with pytest.raises(KafkaException):
        batches._rewind([TopicPartition("t", 0)])


def test_a_member_of_kafka_pythons_aborts_again_after_a_retriable_error(monkeypatch: pytest.MonkeyPatch) -> None:
    config = MemberConfig("h:1", "g", "m", ("t",), ("range",), "h", "r", output="done")
    written: list[tuple[str, Any]] = []
    writer: Any = SimpleNamespace(write=lambda kind, **data: written.append((kind, data.get("error"))))
    member = kafka_python.TransformingMember(config, writer, Control())
    outcomes: Iterator[Any] = iter([KafkaTimeoutError(), None])

    def abort() -> None:
        if (error := next(outcomes)) is not None:
            raise error

    def refuse(*_: Any) -> None:
        raise CommitFailedError

    monkeypatch.setattr(kafka_python, "RETRY_S", 0)
    monkeypatch.setattr(member, "_begin", lambda: None)
    member._producer = SimpleNamespace(
        begin_transaction=lambda: None,
        send=lambda *_: None,
        send_offsets_to_transaction=refuse,
        abort_transaction=abort,
    )
    member._consumer = SimpleNamespace(
        group_metadata=lambda: SimpleNamespace(member_id="m-1"), assignment=set, committed=lambda _: 0
    )
    record = SimpleNamespace(offset=4, key=b"k", value=b"v", serialized_key_size=1, serialized_value_size=1)

    member.take({KafkaTopicPartition("t", 0): [record]})

    assert [kind for kind, _ in written] == ["consume", "commit_begin", "commit_fail", "error", "rewound"]
    assert ("error", "KafkaTimeoutError") in written


@pytest.mark.source("librdkafka#5456")
def test_a_member_of_librdkafkas_replaces_a_producer_that_hangs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hung, made = Producer(hangs=True), Producer(hangs=False)
    left = [hung, made]
    consumer = Consumer([[TopicPartition("t", 0, 4)]])
    batches = batches_of(consumer, monkeypatch, left)

    for _ in range(2):
        batches.add(RECORD)
        batches.finish()
    hung.released.set()

    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = [(each["name"], each.get("success")) for each in said if each["name"] in ("offsets_committed", "rewound")]
    assert told == [("offsets_committed", False), ("rewound", None), ("offsets_committed", True)]
    assert consumer.sought == [4]
    assert any("send_offsets_to_transaction hasn't returned" in each.get("error", "") for each in said)


def test_a_call_that_goes_on_after_its_limit_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent, "OVERDUE_S", 0.1)
    released = threading.Event()

    def init_transactions(timeout_s: float) -> None:
        released.wait()

    with pytest.raises(CallOverdue, match=r"init_transactions hasn't returned 0\.1 s after its limit of 0\.1 s"):
        transactional(init_transactions, timeout_s=0.1)
    released.set()


@pytest.mark.parametrize(("lasts_s", "count"), [(0.0, 1), (0.06, 2)])
def test_a_member_of_aiokafkas_goes_on_with_a_new_producer_after_a_slow_commit(
    monkeypatch: pytest.MonkeyPatch, lasts_s: float, count: int
) -> None:
    """Its request timeout is 50 ms."""
    calls: list[tuple[int, str]] = []

    class AioProducer:
        made = 0

        def __init__(self, **_: Any) -> None:
            AioProducer.made += 1
            self._number = AioProducer.made

        def __getattr__(self, name: str) -> Any:
            async def call(*_: Any, **__: Any) -> None:
                calls.append((self._number, name))
                if name == "commit_transaction":
                    await asyncio.sleep(lasts_s)

            return call

    async def committed(_: Any) -> int:
        return 5

    async def play() -> None:
        await member._start()
        await member._take({KafkaTopicPartition("t", 0): [record]})

    monkeypatch.setattr(aiokafka, "AIOKafkaProducer", AioProducer)
    access = {"security.protocol": "PLAINTEXT", "request.timeout.ms": "50"}
    config = MemberConfig("h:1", "g", "m", ("t",), ("range",), "h", "r", output="done", access=access)
    kinds: list[str] = []
    writer: Any = SimpleNamespace(write=lambda kind, **_: kinds.append(kind))
    member = aiokafka.TransformingAioMember(config, writer, Control())
    member._consumer = SimpleNamespace(committed=committed)
    record = SimpleNamespace(offset=4, key=b"k", value=b"v", serialized_key_size=1, serialized_value_size=1)

    asyncio.run(play())

    assert kinds[-1] == "commit_ok"
    assert AioProducer.made == count
    renewed = [(1, "stop"), (2, "start")] if count == 2 else []
    assert calls[calls.index((1, "commit_transaction")) + 1 :] == renewed
