"""The recorder around aiokafka's consumer: it does what it does without it, and events come in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors.integration.recorder.kafka_assignors_recorder import aiokafka
from kafka_assignors.integration.recorder.kafka_assignors_recorder.record import File
from tests.support.integration.recorded import GROUP, Offset, Place, Record, Recording, places, result


class Client(Recording):
    """A module of the client's, recorded."""

    def __init__(self, prefix: Path) -> None:
        super().__init__(prefix)
        does = self.do

        class GroupCoordinator:
            def __init__(self, group_id: str = GROUP, pattern: Any = None) -> None:
                self.group_id, self.member_id = group_id, ""
                self._session_timeout_ms, self._heartbeat_interval_ms, self._max_poll_interval = 10_000, 3_000, 300.0
                self._assignors = (SimpleNamespace(name="roundrobin"),)
                self._subscription = SimpleNamespace(
                    subscribed_pattern=pattern, topics={"t"}, partitions_auto_assigned=lambda: True,
                    assigned_partitions=lambda: places(b"\1"),
                )  # fmt: skip
                self._closing: asyncio.Future[None] | SimpleNamespace = SimpleNamespace(done=lambda: False)

            async def _on_join_prepare(self, previous_assignment: Any) -> Any:
                return does("prepare", self)

            async def _on_join_complete(
                self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
            ) -> Any:
                return does("complete", self)

            async def _do_commit_offsets(self, assignment: Any, offsets: Any) -> Any:
                return does("commit", self)

            async def _maybe_leave_group(self) -> Any:
                return does("leave", self)

        class Fetcher:
            def __init__(self, subscriptions: Any) -> None:
                self._subscriptions = subscriptions

            async def fetched_records(self, partitions: Any, timeout: float = 0) -> Any:
                return does("getmany", self)

            async def next_record(self, partitions: Any) -> Any:
                return does("getone", self)

            def seek_to(self, tp: Any, offset: int) -> Any:
                return does("seek_to", self)

        class AIOKafkaConsumer:
            def __init__(self, **settings: Any) -> None:
                self._coordinator = GroupCoordinator(**settings)
                self._subscription = self._coordinator._subscription
                self._fetcher = Fetcher(self._subscription)

            async def getmany(self, *partitions: Any, timeout_ms: int = 0) -> Any:
                return await self._fetcher.fetched_records(partitions, timeout_ms)

            async def getone(self, *partitions: Any) -> Any:
                return await self._fetcher.next_record(partitions)

            def unsubscribe(self) -> Any:
                return does("unsubscribe", self)

            def seek(self, partition: Any, offset: int) -> Any:
                self._fetcher.seek_to(partition, offset)
                return does("seek", self)

            async def seek_to_beginning(self, *partitions: Any) -> Any:
                return does("seek_to_beginning", self)

            seek_to_end = seek_to_committed = seek_to_beginning

        self.module = SimpleNamespace(
            GroupCoordinator=GroupCoordinator,
            AIOKafkaConsumer=AIOKafkaConsumer,
            Fetcher=Fetcher,
            ConsumerProtocol=SimpleNamespace(
                ASSIGNMENT=SimpleNamespace(decode=lambda data: SimpleNamespace(partitions=lambda: places(data)))
            ),
        )
        aiokafka.wrap_coordinator(File(str(prefix)), GROUP, self.module)
        aiokafka.wrap_fetcher(self.module)
        aiokafka.wrap_consumer(self.module)

    def consumer(self, **settings: Any) -> Any:
        """A consumer that owns partition 1, the rows of which are left out."""
        consumer = self.module.AIOKafkaConsumer(**settings)
        CALLS["prepare"](consumer)
        consumer._coordinator.member_id = "id"
        CALLS["complete"](consumer)
        self.forget()
        return consumer


def read_one(consumer: Any) -> Any:
    async def read() -> Any:
        return await consumer.getone()

    return asyncio.run(read())


CALLS: dict[str, Callable[[Any], Any]] = {
    "prepare": lambda consumer: result(consumer._coordinator._on_join_prepare(SimpleNamespace(tps=places(b"\1")))),
    "complete": lambda consumer: result(consumer._coordinator._on_join_complete(4, "id", "roundrobin", b"\1")),
    "commit": lambda consumer: result(consumer._coordinator._do_commit_offsets(None, {Place("t", 1): Offset(5)})),
    "leave": lambda consumer: result(consumer._coordinator._maybe_leave_group()),
    "getmany": lambda consumer: result(consumer.getmany(timeout_ms=1)),
    "getone": read_one,
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "seek": lambda consumer: consumer.seek(Place("t", 1), 3),
    "seek_to_beginning": lambda consumer: result(consumer.seek_to_beginning()),
}
ANSWERS = {"getmany": {Place("t", 1): [Record("t", 1, 3)]}, "getone": Record("t", 1, 3)}


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path / "record")


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("group", [GROUP, "another"])
def test_a_method_returns_what_it_returns(method: str, group: str, client: Client) -> None:
    answer = ANSWERS.get(method, object())
    consumer = client.consumer(group_id=group)
    client.does[method] = lambda *_: answer

    assert CALLS[method](consumer) is answer
    assert bool(client.files()) == (group == GROUP)


@pytest.mark.parametrize("error", [ValueError("refused"), asyncio.CancelledError()])
@pytest.mark.parametrize("method", CALLS)
def test_a_method_raises_what_it_raises(method: str, error: BaseException, client: Client) -> None:
    def fails(*_: Any) -> Any:
        raise error

    consumer = client.consumer()
    client.does[method] = fails

    with pytest.raises(type(error)) as raised:
        CALLS[method](consumer)
    assert str(raised.value) == str(error)


def test_a_join_is_told(client: Client) -> None:
    """It reads from its adoption on, so its callback's end is not waited for."""
    consumer = client.module.AIOKafkaConsumer()

    result(consumer._coordinator._on_join_prepare(None))
    consumer._coordinator.member_id = "id"
    client.does["complete"] = lambda *_: client.events()[-1]
    assert CALLS["complete"](consumer) == ("assigned_end", [1])

    assert client.events() == [("start", []), ("generation", [1]), ("assigned_begin", [1]), ("assigned_end", [1])]
    start, generation, *_ = client.rows()
    assert (start["client"], start["topics"]) == ("aiokafka", ["t"])
    assert start["config"] == {
        "assignors": ["aiokafka:roundrobin"], "session_timeout_ms": 10_000, "heartbeat_interval_ms": 3_000,
        "max_poll_interval_ms": 300_000,
    }  # fmt: skip
    assert (generation["generation"], generation["protocol"], generation["member_id"]) == (4, "roundrobin", "id")
    assert "instance_id" not in generation


def test_a_static_member_has_its_instance_id(client: Client) -> None:
    consumer = client.module.AIOKafkaConsumer()
    consumer._coordinator._group_instance_id = "billing-1"

    CALLS["prepare"](consumer)

    assert {row["instance_id"] for row in client.rows()} == {"billing-1"}


def test_a_pattern_is_one(client: Client) -> None:
    consumer = client.module.AIOKafkaConsumer(pattern=SimpleNamespace(pattern="orders-.*"))

    CALLS["prepare"](consumer)

    assert client.rows()[0]["config"]["pattern"] == "orders-.*"


@pytest.mark.parametrize("method", ["prepare", "unsubscribe"])
def test_a_member_gives_up_all_partitions(method: str, client: Client) -> None:
    consumer = client.consumer()
    client.does[method] = lambda *_: client.events()

    assert CALLS[method](consumer) == [("revoke_begin", [1])]
    assert client.events() == [("revoke_begin", [1]), ("revoke_end", [1])]


def test_what_was_given_up_for_a_rebalance_is_not_given_up_again(client: Client) -> None:
    """The service unsubscribes before the rebalance has ended."""
    consumer = client.consumer()

    CALLS["prepare"](consumer)
    CALLS["unsubscribe"](consumer)
    CALLS["complete"](consumer)
    CALLS["unsubscribe"](consumer)

    assert [kind for kind, _ in client.events()] == [
        "revoke_begin", "revoke_end", "generation", "assigned_begin", "assigned_end", "revoke_begin", "revoke_end",
    ]  # fmt: skip


def test_a_commit_is_accepted_or_refused(client: Client) -> None:
    consumer, answers = client.consumer(), iter([None, ValueError("no")])

    def commit(_: Any) -> None:
        if answer := next(answers):
            raise answer

    client.does["commit"] = commit
    CALLS["commit"](consumer)
    with pytest.raises(ValueError, match="no"):
        CALLS["commit"](consumer)
    client.does.clear()
    result(consumer._coordinator._do_commit_offsets(None, {}))

    assert client.events() == [(f"commit_{edge}", [(1, 5)]) for edge in ("begin", "ok", "begin", "fail")]
    assert client.rows()[-1]["error"] == "ValueError: no"


def test_a_close_is_told_before_the_member_leaves(client: Client) -> None:
    """A member that is idle leaves too, and joins again."""
    consumer = client.consumer()

    CALLS["leave"](consumer)
    assert client.events() == []
    consumer._coordinator._closing = SimpleNamespace(done=lambda: True)
    client.does["leave"] = lambda *_: client.events()
    assert CALLS["leave"](consumer) == [("stop", [])]


def test_records_are_told_before_what_follows(client: Client) -> None:
    consumer = client.consumer()
    records = iter([Record("t", 1, 3), Record("t", 2, 7), Record("t", 1, 4), Record("t", 1, 9)])
    client.does["getone"] = lambda *_: next(records)
    client.does["getmany"] = lambda *_: {Place("t", 1): [Record("t", 1, 10), Record("t", 1, 12)]}
    consumer._coordinator._kafka_assignors_member.limit = 9

    async def read() -> None:
        for _ in range(3):
            await consumer.getone()
        assert client.events() == []
        consumer.seek(Place("t", 1), 9)
        await consumer.getone()
        await consumer.getmany()

    asyncio.run(read())

    assert client.events() == [
        ("consume", [(1, 3, 4, 2, 20), (2, 7, 7, 1, 10)]),
        ("consume", [(1, 9, 9, 1, 10)]),
        ("consume", [(1, 10, 10, 1, 10), (1, 12, 12, 1, 10)]),
    ]


def test_a_record_is_told_soon_even_if_no_other_comes(client: Client) -> None:
    consumer = client.consumer()
    client.does["getone"] = lambda *_: Record("t", 1, 3)
    consumer._coordinator._kafka_assignors_member.limit = 9

    async def read() -> None:
        await consumer.getone()
        while not client.events():
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(read(), 60))

    assert client.events() == [("consume", [(1, 3, 3, 1, 10)])]


def test_another_version_is_used_as_it_is(client: Client, tmp_path: Path) -> None:
    module = Client(tmp_path / "other").module
    del module.GroupCoordinator._do_commit_offsets
    before = dict(vars(module.GroupCoordinator))

    with pytest.raises(AttributeError, match="this version of aiokafka lacks _do_commit_offsets"):
        aiokafka.wrap_coordinator(File(str(tmp_path / "other")), GROUP, module)
    assert dict(vars(module.GroupCoordinator)) == before


def test_an_unsubscription_with_wrong_arguments_is_none(client: Client) -> None:
    consumer = client.consumer()

    with pytest.raises(TypeError, match="positional argument"):
        consumer.unsubscribe("t")
    consumer.unsubscribe()

    assert client.events() == [("revoke_begin", [1]), ("revoke_end", [1])]
