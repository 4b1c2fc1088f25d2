"""A coordinator log that wasn't read to its end isn't sealed as if it had been."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from kafka_assignors.core.wire.protocol import decode_subscription
from kafka_assignors.history.broker_group import CURRENT, GROUP, MEMBER, TARGET, TARGET_EPOCH
from kafka_assignors.history.coordinator_log import BrokerAssigned
from kafka_assignors.history.writer import EventWriter
from kafka_assignors.integration.members import coordinator_log
from kafka_assignors.integration.members.coordinator_log import CoordinatorLog


class Broker:
    """A consumer of a log with so many records, of which it delivers some, and then nothing or an error."""

    def __init__(self, end: int, position: int = 0, error: Exception | None = None) -> None:
        self.end, self.at, self.error = end, position, error

    def assignment(self) -> set[str]:
        return {"the log"}

    def end_offsets(self, partitions: list[str], timeout_ms: int) -> dict[str, int]:
        return dict.fromkeys(partitions, self.end)

    def position(self, _: str) -> int:
        return self.at

    def poll(self, timeout_ms: int) -> dict[str, list[Any]]:
        if self.error is not None:
            raise self.error
        return {}

    def close(self) -> None:
        pass


def kinds(monkeypatch: pytest.MonkeyPatch, folder: Path, broker: Callable[[], Broker]) -> list[str]:
    """What the file has once the reader is closed."""
    monkeypatch.setattr(coordinator_log, "_open", lambda *_: (broker(), broker))
    monkeypatch.setattr(coordinator_log, "_CLOSE_S", 0.3)
    path = folder / "g.coordlog.jsonl"
    log = CoordinatorLog("h:1", "g", EventWriter(path, "run", "coordlog", group="g"))
    log.close()
    log.close()
    return [json.loads(line)["kind"] for line in path.read_text("utf-8").splitlines()]


def test_a_log_that_was_read_to_its_end_is_sealed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert kinds(monkeypatch, tmp_path, lambda: Broker(end=7, position=7)) == ["end"]


def test_a_reader_that_died_leaves_no_seal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert kinds(monkeypatch, tmp_path, lambda: Broker(end=7, error=OSError("gone"))) == []


def test_an_empty_poll_is_not_the_end_of_the_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert kinds(monkeypatch, tmp_path, lambda: Broker(end=7, position=5)) == []


class Busy(Broker):
    """A log that grows with each read, and whose last two records are of an open transaction."""

    def poll(self, timeout_ms: int) -> dict[str, list[Any]]:
        self.end += 1
        self.at = self.end - 2
        return {}


def test_a_log_that_grows_is_read_to_where_it_ended_at_the_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    busy = Busy(end=7, position=3)

    assert kinds(monkeypatch, tmp_path, lambda: busy) == ["end"]


class Forgetful(Broker):
    """A consumer that gets no answer where the log ends, as its nodes have restarted."""

    def end_offsets(self, partitions: list[str], timeout_ms: int) -> dict[str, int]:
        raise KafkaTimeoutError


def test_a_consumer_that_gets_no_answer_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = [Broker(end=7, position=7), Forgetful(end=7), Broker(end=7)]

    assert kinds(monkeypatch, tmp_path, lambda: made.pop(0)) == ["end"]


def test_a_log_whose_end_nobody_tells_is_not_sealed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert kinds(monkeypatch, tmp_path, lambda: Forgetful(end=7, position=7)) == []


def subscribes(*topics: str) -> BrokerAssigned:
    said = {"clientId": "m1", "clientHost": "/h", "instanceId": None, "rackId": None, "subscribedTopicRegex": ""}
    more = {"subscribedTopicNames": list(topics), "serverAssignor": None, "rebalanceTimeoutMs": 1}
    return BrokerAssigned(MEMBER, "g", "id-1", said | more)


def of_epoch(epoch: int) -> list[BrokerAssigned]:
    """The target of an epoch, and the member that has it."""
    return [
        BrokerAssigned(TARGET, "g", "id-1", {"topicPartitions": []}),
        BrokerAssigned(TARGET_EPOCH, "g", None, {"assignmentEpoch": epoch}),
        BrokerAssigned(CURRENT, "g", "id-1", {"memberEpoch": epoch, "previousMemberEpoch": epoch - 1}),
    ]


class Batches(Broker):
    """A log of so many batches, each a decision of the coordinator, one per read."""

    def __init__(self, batches: list[list[BrokerAssigned]]) -> None:
        super().__init__(end=len(batches))
        self.batches, self.begin = list(batches), threading.Event()

    def poll(self, timeout_ms: int) -> dict[str, list[Any]]:
        assert self.begin.wait(10)
        if not self.batches:
            return {}
        self.at += 1
        return {"the log": [SimpleNamespace(key=said, value=b"", timestamp=1) for said in self.batches.pop(0)]}


def test_a_decision_of_the_coordinator_is_shown_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A new subscription without the epoch that it causes looks like a group at rest."""
    epoch = [BrokerAssigned(GROUP, "g", None, {"epoch": 1})]
    changed = [subscribes("a", "b"), BrokerAssigned(GROUP, "g", None, {"epoch": 2})]
    log = Batches([[subscribes("a"), *epoch, *of_epoch(1)], changed, of_epoch(2)])
    monkeypatch.setattr(coordinator_log, "_open", lambda *_: (log, lambda: log))
    monkeypatch.setattr(coordinator_log, "decode", lambda key, _: key)
    shown: list[tuple[tuple[str, ...], bool]] = []

    class Watched(threading.Condition):
        def notify_all(self) -> None:
            generation = reader.generation
            for member in generation.members if generation else ():
                shown.append((decode_subscription(member.subscription).topics, not reader.unsettled))
            super().notify_all()

    monkeypatch.setattr(coordinator_log, "threading", SimpleNamespace(Condition=Watched, Thread=threading.Thread))
    reader = CoordinatorLog("h:1", "g", EventWriter(tmp_path / "g.coordlog.jsonl", "run", "coordlog", group="g"))
    log.begin.set()
    assert reader.catch_up()
    reader.close()

    assert shown[:3] == [(("a",), True), (("a", "b"), False), (("a", "b"), True)]
