"""A consumer that waits for records is in time for a rebalance (`guard`): kafka-python lets its group wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.errors import KafkaTimeoutError
from kafka.future import Future
from kafka.protocol.consumer import HeartbeatResponse

from kafka_assignors import StickyAssignor
from kafka_assignors.clients.kafka_python import private
from kafka_assignors.integration.broker import Broker
from tests.support.kafka_python.polling import Polling
from tests.support.waiting import until

REBALANCE_IN_PROGRESS = 27
HOUR_MS = 3_600_000
FOR_EVER = {
    "fetch_max_wait_ms": HOUR_MS, "heartbeat_interval_ms": HOUR_MS // 4, "session_timeout_ms": HOUR_MS // 2,
    "request_timeout_ms": 2 * HOUR_MS, "connections_max_idle_ms": 3 * HOUR_MS, "enable_auto_commit": False,
    **({"default_api_timeout_ms": 2 * HOUR_MS} if "default_api_timeout_ms" in KafkaConsumer.DEFAULT_CONFIG else {}),
}  # fmt: skip
"""Neither a fetch nor a heartbeat ends a wait for records."""


class AsksAgain(ConsumerRebalanceListener):
    """Asks once for a rebalance when it is assigned, as a cooperative member does that has revoked partitions."""

    def __init__(self) -> None:
        self.coordinator: Any = None

    def on_partitions_assigned(self, assigned: Any) -> None:
        if self.coordinator is not None:
            self.coordinator.request_rejoin()
            self.coordinator = None

    def on_partitions_revoked(self, revoked: Any) -> None: ...


@pytest.fixture
def idle(kafka_broker: Broker, kafka_topic: Callable[..., str]) -> Iterator[Callable[..., Polling]]:
    """Makes a consumer that polls for a minute, alone in its group, on a topic without records."""
    made = []

    def make(listener: AsksAgain | None = None) -> Polling:
        topic = kafka_topic(partitions=2)
        made.append(
            Polling(kafka_broker, f"waits-{topic}", [topic], [StickyAssignor], "idle", 60_000, listener, **FOR_EVER)
        )
        return made[-1]

    yield make
    for each in made:
        each.done.set()
        each.consumer._coordinator._manager.call_soon(each.consumer._fetcher._net.end)
        each.consumer.close(autocommit=False)


def told_to_join(member: Polling) -> None:
    """Answer a heartbeat, while it waits for records, with the news that its group rebalances."""
    coordinator, wait = member.consumer._coordinator, member.consumer._fetcher._net
    until(lambda: wait._wakeup is not None and not wait._wakeup.is_done, "it waits for records")
    told = HeartbeatResponse(version=4, throttle_time_ms=0, error_code=REBALANCE_IN_PROGRESS)
    coordinator._manager.call_soon(lambda: coordinator._handle_heartbeat_response(told, 0.0))


@pytest.mark.broker
def test_a_heartbeat_that_tells_of_a_rebalance_ends_the_wait(idle: Callable[..., Polling]) -> None:
    member = idle()
    until(lambda: member.partitions == [0, 1], "it has its partitions")

    told_to_join(member)

    until(lambda: (member.generation, member.partitions) == (2, [0, 1]), "it has joined again")


@pytest.mark.broker
def test_a_member_that_must_join_again_does_not_wait_for_records(idle: Callable[..., Polling]) -> None:
    listener = AsksAgain()
    member = idle(listener)
    until(lambda: member.partitions == [0, 1], "it has its partitions")
    listener.coordinator = member.consumer._coordinator

    told_to_join(member)

    until(lambda: (member.generation, member.partitions) == (3, [0, 1]), "it has joined twice again")


class Due:
    """A coordinator that must join again, or needn't.

    Args:
        always: Whether it must.
    """

    def __init__(self, always: bool) -> None:
        self.always, self.config = always, {"retry_backoff_ms": 70}

    def need_rejoin(self) -> bool:
        return self.always


class Fetcher:
    """One without anything to fetch; it remembers how it was made to wait, and whether the wait had ended before."""

    def __init__(self) -> None:
        both = {"wait_for": self.wait_for, "await_for": self.wait_for}  # by kafka-python's version, one of them
        self._net = SimpleNamespace(run=lambda what, *args, **_: asyncio.run(what(*args)), **both)
        self._manager = SimpleNamespace(**both)
        self.waits: list[tuple[float, bool]] = []

    async def wait_for(self, wakeup: Any, timeout_ms: float) -> None:
        self.waits.append((timeout_ms, wakeup.is_done))
        if not wakeup.is_done:
            raise KafkaTimeoutError

    def fetch_records(self, max_records: int, update_offsets: bool = True, timeout_ms: float = 0) -> Any:
        return {}, True


def test_a_member_whose_joins_lead_nowhere_waits_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    fetcher, coordinator = Fetcher(), Due(True)
    private.waiting.Wait().watch(coordinator, fetcher)

    for now_s in (10.0, 10.1, 10.49, 10.5, 10.6):
        monkeypatch.setattr(private.waiting.time, "monotonic", lambda now_s=now_s: now_s)
        fetcher.fetch_records(500, update_offsets=True, timeout_ms=1000)

    assert [ended for _, ended in fetcher.waits] == [True, False, False, True, False]


@pytest.mark.parametrize(("timeout_ms", "waits"), [(1000, [70]), (30, [30]), (0, [])])
def test_a_member_without_partitions_waits_where_it_can_be_woken(timeout_ms: float, waits: list[float]) -> None:
    """kafka-python would sleep for its backoff, and tells whoever polls to do so by the second value."""
    fetcher, coordinator = Fetcher(), Due(False)
    private.waiting.Wait().watch(coordinator, fetcher)

    answer = fetcher.fetch_records(500, update_offsets=True, timeout_ms=timeout_ms)

    assert answer == ({}, not waits)
    assert [each for each, _ in fetcher.waits] == waits


@pytest.mark.source("kafka-python 3.0.12 and 3.1.0.dev kafka/consumer/fetcher.py fetch_records")
@pytest.mark.parametrize(
    "wait",
    [
        lambda fetcher, records: fetcher._net.run(fetcher._manager.wait_for, records, 1000),
        lambda fetcher, records: fetcher._net.wait_for(records, timeout_ms=1000, raise_error=False),
    ],
    ids=["3.0", "3.1"],
)
def test_a_wait_for_records_is_ended_in_every_version(wait: Callable[[Fetcher, Future], None]) -> None:
    """A member that must join again doesn't wait; afterwards it waits, and no records are no error."""
    fetcher, coordinator = Fetcher(), Due(True)
    private.waiting.Wait().watch(coordinator, fetcher)
    wait(fetcher, Future())
    coordinator.always = False

    with suppress(KafkaTimeoutError):  # 3.0's fetcher catches it
        wait(fetcher, Future())

    assert fetcher.waits == [(1000, True), (1000, False)]


@pytest.mark.parametrize(
    ("version", "new"), [("3.0.12", False), ("3.0", False), ("3.1.0.dev", True), ("3.10.0", True), ("4.0rc1", True)]
)
def test_versions_are_compared_by_number(version: str, new: bool) -> None:
    assert private.names.is_at_least(version, (3, 1)) is new
