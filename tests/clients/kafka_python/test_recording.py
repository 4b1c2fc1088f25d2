"""A recorded consumer of kafka-python answers and raises as before, whatever becomes of the recorder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError
from kafka.structs import MemberState

from kafka_assignors import TopicPartition
from kafka_assignors.clients.kafka_python import private
from kafka_assignors.clients.kafka_python.recording import record_consumer
from kafka_assignors.clients.recorder import member as recorder_member
from kafka_assignors.clients.recorder.sender import EventSender
from kafka_assignors.core.wire.protocol import AssignedPartitions, Subscription, encode_assignment, encode_subscription
from kafka_assignors.errors import ConfigError
from tests.clients.test_recorder import Held

SENT = encode_subscription(Subscription(("t",)))
GIVEN = encode_assignment(AssignedPartitions({"t": (0, 1)}))
ID = "app-01234567-89ab-cdef-0123-456789abcdef"
ANSWERS = {
    "group_protocols": [("range", SENT)],
    "_process_join_group_response": "joined",
    "_perform_assignment": {ID: GIVEN},
    "_process_sync_group_response": GIVEN,
    "_on_join_prepare_async": "prepared",
    "_on_join_complete_async": "adopted",
    "_handle_heartbeat_response": None,
    "maybe_leave_group_async": "gone",
    "_on_close_prepare_async": "given up",
    "close": "closed",
}


class Coordinator:
    """A coordinator with the names that the recorder uses; it answers `ANSWERS`, or raises."""

    def __init__(self, error: Exception | None = None, instance_id: str | None = None) -> None:
        self.config = {
            "group_id": "g", "group_instance_id": instance_id, "session_timeout_ms": 45_000,
            "heartbeat_interval_ms": 3_000, "max_poll_interval_ms": 300_000,
        }  # fmt: skip
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.owned: set[TopicPartition] = set()
        self.lost, self.polls_late = False, False
        self._subscription = SimpleNamespace(
            assigned_partitions=lambda: self.owned, subscription={"t"}, subscribed_pattern=None
        )
        self._generation = SimpleNamespace(is_lost=lambda: self.lost, has_member_id=lambda: True)
        self._heartbeat_closed, self.coordinator_id, self.state = False, "coordinator", MemberState.STABLE
        self.heartbeat = SimpleNamespace(poll_timeout_expired=lambda: self.polls_late)
        self._assignors, self._rebalance_protocol = {}, SimpleNamespace(name="EAGER")
        self._error = error

    def group_metadata(self) -> Any:
        return SimpleNamespace(member_id=ID, generation_id=3)

    def is_dynamic_member(self) -> bool:
        return self.config["group_instance_id"] is None

    def answer(self, name: str, given: tuple[Any, ...]) -> Any:
        self.calls.append((name, given))
        if self._error is not None:
            raise self._error
        if name == "_on_join_complete_async":
            self.owned = {TopicPartition("t", 0), TopicPartition("t", 1)}
        return ANSWERS[name]


def method(name: str) -> Any:
    if name.endswith("_async"):

        async def later(self: Coordinator, *given: Any) -> Any:
            return self.answer(name, given)

        return later
    return lambda self, *given: self.answer(name, given)


for _name in ANSWERS:
    setattr(Coordinator, _name, method(_name))

MEMBER = SimpleNamespace(member_id=ID, group_instance_id=None, metadata=SENT)
JOINED = SimpleNamespace(leader=ID, member_id=ID, generation_id=3, protocol_name="range", members=[MEMBER])
BEAT = SimpleNamespace(error_code=0)
LIFE: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("_on_join_prepare_async", (-1, "", None)),
    ("group_protocols", ()),
    ("_process_join_group_response", (JOINED, 1.0)),
    ("_perform_assignment", (ID, "range", [MEMBER])),
    ("_process_sync_group_response", ("response", 1.0)),
    ("_on_join_complete_async", (3, ID, "range", GIVEN)),
    ("_handle_heartbeat_response", (BEAT, 1.0)),
    ("_on_close_prepare_async", ()),
    ("maybe_leave_group_async", ()),
    ("close", ()),
)


def recorded(coordinator: Coordinator) -> Held:
    sink = Held()
    sink.may.set()
    sender = EventSender(sink)
    record_consumer(SimpleNamespace(_coordinator=coordinator, config={"client_id": "app"}), sender)
    coordinator.sender = sender  # type: ignore[attr-defined]
    return sink


def lived(coordinator: Coordinator, life: Sequence[tuple[str, tuple[Any, ...]]] = LIFE) -> list[Any]:
    """What each call of a member's life answers or raises."""
    answers: list[Any] = []
    for name, given in life:
        try:
            answer = getattr(coordinator, name)(*given)
            answers.append(asyncio.run(answer) if name.endswith("_async") else answer)
        except Exception as error:
            answers.append(error)
    coordinator.sender.flush(30)  # type: ignore[attr-defined]
    return answers


def kinds(sink: Held) -> list[tuple[str, Any]]:
    return [
        (row["kind"], row.get("reason") or [p["partition"] for p in row.get("partitions", ())]) for row in sink.rows()
    ]


@pytest.mark.parametrize("error", [None, OSError("broken")])
def test_a_call_that_the_recorder_does_not_expect_reaches_the_client(error: Exception | None) -> None:
    coordinator = Coordinator(error)
    recorded(coordinator)

    answers = lived(coordinator, [("_process_join_group_response", ()), ("_on_join_complete_async", (3, ID))])

    assert [name for name, _ in coordinator.calls] == ["_process_join_group_response", "_on_join_complete_async"]
    assert answers == (["joined", "adopted"] if error is None else [error, error])


def test_a_life_is_recorded_and_answered_as_before() -> None:
    coordinator = Coordinator()
    sink = recorded(coordinator)
    assert lived(coordinator) == [ANSWERS[name] for name, _ in LIFE]
    assert coordinator.calls == list(LIFE)
    assert kinds(sink) == [
        ("start", []), ("assign_end", []), ("generation", [0, 1]), ("assigned_begin", [0, 1]),
        ("assigned_end", [0, 1]), ("revoke_begin", [0, 1]), ("revoke_end", [0, 1]), ("stop", "it unsubscribed"),
    ]  # fmt: skip
    rows = {row["kind"]: row for row in sink.rows()}
    assert [row["member_id"] for row in rows["assign_end"]["members"]] == [ID]
    sent = rows["generation"]["sent"]
    assert (sent["subscription"], sent["assignment"], sent["client_id"]) == (SENT.hex(), GIVEN.hex(), "app")
    assert (sent["session_timeout_ms"], sent["rebalance_timeout_ms"]) == (45_000, 300_000)
    assert rows["generation"]["leader"] == ID


@pytest.mark.parametrize("error", [RebalanceInProgressError(), IllegalGenerationError(), ValueError("of a listener")])
def test_what_is_raised_is_raised_as_before(error: Exception) -> None:
    coordinator = Coordinator(error)
    recorded(coordinator)
    assert lived(coordinator) == [error] * len(LIFE)
    assert coordinator.calls == list(LIFE)


def test_a_recorder_that_breaks_changes_nothing_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "kafka_assignors")
    for name in vars(recorder_member.ServiceMember):
        if not name.startswith("_") and name != "guarded" and callable(getattr(recorder_member.ServiceMember, name)):

            def broken(*_given: Any, **_named: Any) -> None:
                raise RuntimeError("a defect")

            monkeypatch.setattr(recorder_member.ServiceMember, name, broken)
    coordinator = Coordinator()
    recorded(coordinator)
    assert lived(coordinator) == [ANSWERS[name] for name, _ in LIFE]
    assert coordinator.calls == list(LIFE)
    assert [each.getMessage().partition(":")[0] for each in caplog.records] == ["record"]


def test_an_assignment_that_the_coordinator_refuses_is_not_recorded() -> None:
    coordinator = Coordinator()
    sink = recorded(coordinator)
    lived(coordinator, LIFE[:4])
    coordinator._error = RebalanceInProgressError()
    lived(coordinator, LIFE[4:5])
    assert "assign_end" not in dict(kinds(sink))


def test_why_a_member_leaves_is_recorded_as_the_client_knows_it() -> None:
    for change, reason in (
        ({"_heartbeat_closed": True}, "its consumer was closed"),
        ({"polls_late": True}, "it did not poll for max_poll_interval_ms (300 s)"),
        ({}, "it unsubscribed"),
    ):
        coordinator = Coordinator()
        sink = recorded(coordinator)
        lived(coordinator, LIFE[:6])
        vars(coordinator).update(change)
        lived(coordinator, LIFE[8:9])
        assert kinds(sink)[-1] == ("stop", reason)


def test_a_static_member_that_is_closed_has_not_left() -> None:
    coordinator = Coordinator(instance_id="i1")
    sink = recorded(coordinator)
    lived(coordinator)
    (reason,) = [text for kind, text in kinds(sink) if kind == "stop"]
    assert "a static member stays" in reason
    assert {row["instance_id"] for row in sink.rows()} == {"i1"}


def test_a_member_that_was_removed_tells_what_it_heard_and_what_it_lost() -> None:
    coordinator = Coordinator()
    sink = recorded(coordinator)
    lived(coordinator, LIFE[:6])
    lived(coordinator, [("_handle_heartbeat_response", (SimpleNamespace(error_code=UnknownMemberIdError.errno), 1.0))])
    lived(
        coordinator, [("_handle_heartbeat_response", (SimpleNamespace(error_code=RebalanceInProgressError.errno), 1.0))]
    )
    coordinator.lost = True
    lived(coordinator, LIFE[:1])
    assert kinds(sink)[5:] == [("error", []), ("lost_begin", [0, 1]), ("lost_end", [0, 1])]
    assert next(row["error"] for row in sink.rows() if row["kind"] == "error") == "UnknownMemberIdError"


def test_a_consumer_is_recorded_once() -> None:
    coordinator = Coordinator()
    recorded(coordinator)
    before = vars(coordinator)["close"]
    record_consumer(SimpleNamespace(_coordinator=coordinator, config={}), EventSender(Held()))
    assert vars(coordinator)["close"] is before


@pytest.mark.parametrize("name", sorted({path.split(".")[0] for path in private.names.RECORD}))
def test_without_a_private_name_the_consumer_is_refused_and_unchanged(name: str, tmp_path: Path) -> None:
    coordinator = Coordinator()
    if name in vars(coordinator):
        delattr(coordinator, name)
    else:

        class Lacking(Coordinator):
            def __getattribute__(self, asked: str) -> Any:
                if asked == name:
                    raise AttributeError(asked)
                return super().__getattribute__(asked)

        coordinator = Lacking()
    before = dict(vars(coordinator))
    with pytest.raises(ConfigError, match=f"lacks {name}"):
        record_consumer(SimpleNamespace(_coordinator=coordinator, config={"client_id": "app"}), EventSender(Held()))
    assert vars(coordinator) == before
