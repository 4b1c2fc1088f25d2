"""A recorded consumer of aiokafka answers and raises as before, and its first join is recorded too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors import TopicPartition
from kafka_assignors.clients.aiokafka_recording import record_consumer
from kafka_assignors.clients.recorder.sender import EventSender
from kafka_assignors.core.wire.protocol import AssignedPartitions, Subscription, encode_assignment, encode_subscription
from tests.clients.test_recorder import Held

SENT = encode_subscription(Subscription(("t",)))
GIVEN = encode_assignment(AssignedPartitions({"t": (0,)}))
ID = "app-01234567-89ab-cdef-0123-456789abcdef"


class JoinGroupRequest:
    _group_protocols = [("range", SENT)]


class SyncGroupRequest:
    pass


class HeartbeatRequest:
    pass


ANSWERS: dict[type[object], Any] = {
    JoinGroupRequest: SimpleNamespace(
        error_code=0, leader_id=ID, member_id=ID, generation_id=3, group_protocol="range", members=[(ID, None, SENT)]
    ),
    SyncGroupRequest: SimpleNamespace(error_code=0, member_assignment=GIVEN),
    HeartbeatRequest: SimpleNamespace(error_code=25),
}


class Coordinator:
    """A coordinator with the names that the recorder uses."""

    group_id, generation, member_id, _group_instance_id = "g", 3, ID, None
    _session_timeout_ms, _heartbeat_interval_ms, _rebalance_timeout_ms, _max_poll_interval = 10_000, 3_000, 30_000, 300
    _assignors = (SimpleNamespace(name="range"),)

    def __init__(self, subscription: Any, error: Exception | None) -> None:
        self._subscription, self._error = subscription, error
        self._closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def _send_req(self, request: Any) -> Any:
        if self._error is not None:
            raise self._error
        return ANSWERS[type(request)]

    async def _perform_assignment(self, response: Any) -> Any:
        return {ID: GIVEN}

    async def _on_join_prepare(self, previous: Any) -> str:
        return "prepared"

    async def _on_join_complete(self, generation: int, member_id: str, protocol: str, given: bytes) -> str:
        self._subscription.owned = {TopicPartition("t", 0)}
        return "adopted"

    async def _maybe_leave_group(self) -> str:
        return "gone"

    async def close(self) -> str:
        self._closing.set_result(None)
        return str(await self._maybe_leave_group())


class Consumer:
    """A consumer that joins in its start, as one does that has topics."""

    _group_id, _coordinator = "g", None

    def __init__(self, error: Exception | None = None) -> None:
        self._client = SimpleNamespace(_client_id="app")
        self._error = error
        self._subscription = SimpleNamespace(
            owned=set(), topics={"t"}, subscribed_pattern=None, fetcher_idle_time=0.0, wait_for_assignment=self._joined
        )
        self._subscription.assigned_partitions = lambda: self._subscription.owned

    async def start(self) -> str:
        self._coordinator = Coordinator(self._subscription, self._error)
        self.answers = await self._subscription.wait_for_assignment()
        return "started"

    async def _joined(self) -> list[Any]:
        coordinator: Any = self._coordinator
        answers: list[Any] = []
        steps: tuple[Callable[[], Awaitable[Any]], ...] = (
            lambda: coordinator._on_join_prepare(None),
            lambda: coordinator._send_req(JoinGroupRequest()),
            lambda: coordinator._perform_assignment(ANSWERS[JoinGroupRequest]),
            lambda: coordinator._send_req(SyncGroupRequest()),
            lambda: coordinator._on_join_complete(3, ID, "range", GIVEN),
            lambda: coordinator._send_req(HeartbeatRequest()),
        )
        for step in steps:
            try:
                answers.append(await step())
            except Exception as error:
                answers.append(error)
        return answers


def lived(consumer: Consumer, *, late: bool = False) -> Held:
    sink = Held()
    sink.may.set()
    sender = EventSender(sink)

    async def live() -> None:
        if not late:
            record_consumer(consumer, sender)
        assert await consumer.start() == "started"
        if late:
            record_consumer(consumer, sender)
        assert await consumer._coordinator.close() == "gone"  # type: ignore[attr-defined]

    asyncio.run(live())
    sender.flush(30)
    return sink


ADOPTED = [
    "prepared", ANSWERS[JoinGroupRequest], {ID: GIVEN}, ANSWERS[SyncGroupRequest], "adopted", ANSWERS[HeartbeatRequest],
]  # fmt: skip


def test_a_life_is_recorded_from_its_first_join_on_and_answered_as_before() -> None:
    consumer = Consumer()
    rows = lived(consumer).rows()
    assert consumer.answers == ADOPTED
    assert [row["kind"] for row in rows] == [
        "start", "assign_end", "generation", "assigned_begin", "assigned_end", "error", "revoke_begin", "revoke_end",
        "stop",
    ]  # fmt: skip
    assert rows[2]["sent"]["subscription"] == SENT.hex()
    assert rows[1]["members"][0]["assignment"] == GIVEN.hex()
    assert (rows[5]["error"], rows[8]["reason"]) == ("UnknownMemberIdError", "its consumer was closed")


def test_what_is_raised_is_raised_as_before() -> None:
    pytest.importorskip("aiokafka")
    error = ConnectionError("no broker")
    consumer = Consumer(error)
    lived(consumer)
    assert consumer.answers == ["prepared", error, {ID: GIVEN}, error, "adopted", error]


def test_a_consumer_that_has_started_is_recorded_from_then_on() -> None:
    consumer = Consumer()
    assert lived(consumer, late=True).rows() == []
    assert consumer.answers == ADOPTED
