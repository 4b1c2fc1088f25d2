"""A signal that reaches a kafka-python member while it closes doesn't end its process before its last event."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.structs import MemberState

from kafka_assignors.integration.members.clients import kafka_python
from kafka_assignors.integration.members.config import MemberConfig
from kafka_assignors.integration.members.control import Control

SIGNALS = (signal.SIGTERM, signal.SIGALRM)


@pytest.fixture(autouse=True)
def _handlers_are_restored() -> Iterator[None]:
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)


class Closing:
    """A consumer that is told to end once more while it closes."""

    _coordinator = SimpleNamespace(state=None, need_rejoin=lambda: True)

    def __init__(self, **_: Any) -> None:
        pass

    def group_metadata(self) -> Any:
        return SimpleNamespace(member_id="m-1")

    def subscribe(self, **_: Any) -> None:
        pass

    def close(self, timeout_ms: int) -> None:
        for number in SIGNALS:
            os.kill(os.getpid(), number)


@pytest.mark.parametrize("told", SIGNALS)
def test_no_timer_runs_once_a_member_has_ended(told: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer that runs at the interpreter's end kills it: by then Python has put back the signal's default."""
    written: list[str] = []
    monkeypatch.setattr(kafka_python, "KafkaConsumer", Closing)
    monkeypatch.setattr(kafka_python, "forbid_topic_creation", lambda _: None)
    monkeypatch.setattr(kafka_python.KafkaPythonMember, "_consume", lambda _: os.kill(os.getpid(), told))
    config = MemberConfig("h:1", "g", "m", ("t",), ("kafka-python:range",), "h", "r")
    writer: Any = SimpleNamespace(write=lambda kind, **_: written.append(kind))

    kafka_python.KafkaPythonMember(config, writer, Control()).run()

    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert written == ["start", "stop"]


class Waiting(Closing):
    """A consumer whose poll the signal reaches in an unlucky moment."""

    _coordinator = SimpleNamespace(state=MemberState.STABLE, need_rejoin=lambda: False)

    def poll(self, timeout_ms: int) -> Any:
        condition = threading.Condition()
        condition.acquire()
        try:
            condition.release()  # as inside of `wait`
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            condition.release()


def test_a_signal_while_a_poll_takes_its_lock_again_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython 3.11 ``Condition.wait``: what the handler raises is replaced by a RuntimeError about the lock."""
    written: list[str] = []
    monkeypatch.setattr(kafka_python, "KafkaConsumer", Waiting)
    monkeypatch.setattr(kafka_python, "forbid_topic_creation", lambda _: None)
    config = MemberConfig("h:1", "g", "m", ("t",), ("kafka-python:range",), "h", "r")
    writer: Any = SimpleNamespace(write=lambda kind, **_: written.append(kind))

    kafka_python.KafkaPythonMember(config, writer, Control()).run()

    assert written == ["start", "stop"]
