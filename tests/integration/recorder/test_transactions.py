"""The recorder around producers' transactions: they do what they do without it, and their commits are told."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors.integration.recorder.kafka_assignors_recorder import (
    aiokafka,
    confluent,
    kafka_python,
    transactions,
)
from kafka_assignors.integration.recorder.kafka_assignors_recorder.record import File, RecordedMember
from tests.support.integration.recorded import GROUP, Offset, Place, Recording, result


class Partition(SimpleNamespace):
    """A topic-partition of confluent-kafka's."""


def metadata(group: str, member_id: str) -> bytes:
    """What a consumer of confluent-kafka's tells of its membership."""
    return b"CGMDv2:" + struct.pack("=i", 4) + f"{group}\0{member_id}\0".encode() + b"\1"


class Client(Recording):
    """The producer of a client, recorded, beside a member in the group; what its methods do is `does`."""

    def __init__(self, name: str, prefix: Path) -> None:
        super().__init__(prefix)
        self.name, does = name, self.do

        class Producer:
            """The client's own words."""

            def begin_transaction(self) -> Any:
                return does("begin", self)

            def send_offsets_to_transaction(self, *args: Any, **kwargs: Any) -> Any:
                return does("send", self, args, kwargs)

            def commit_transaction(self, *timeout: float) -> Any:
                return does("commit", self)

            def abort_transaction(self, *timeout: float) -> Any:
                return does("abort", self)

        class Waiting:
            """The client's own words."""

            async def begin_transaction(self) -> Any:
                return does("begin", self)

            async def send_offsets_to_transaction(self, *args: Any, **kwargs: Any) -> Any:
                return does("send", self, args, kwargs)

            async def commit_transaction(self) -> Any:
                return does("commit", self)

            async def abort_transaction(self) -> Any:
                return does("abort", self)

        self.file = File(str(prefix))
        self.original: Any = Waiting if name == "aiokafka" else Producer
        names = {"kafka-python": "KafkaProducer", "confluent-kafka": "Producer", "aiokafka": "AIOKafkaProducer"}
        self.module = SimpleNamespace(**{names[name]: self.original})
        wraps: dict[str, Any] = {"kafka-python": kafka_python, "confluent-kafka": confluent, "aiokafka": aiokafka}
        wraps[name].wrap_producer(self.file, GROUP, self.module)
        self.made: Any = getattr(self.module, names[name])
        self.producer = self.made()
        self.member = self.add("id")

    def add(self, member_id: str) -> RecordedMember:
        """Another consumer in the group, whose start is left out."""
        member = RecordedMember(self.file, self.name, lambda: member_id)
        member.start(["t"], ["range"], ["range"], {})
        member.join(4, "range", [("t", 1)])
        member.callback("assigned", "begin", [("t", 1)])
        self.forget()
        return member

    def offsets(self, *places: tuple[int, int]) -> Any:
        """Offsets of partitions, as the client takes them."""
        if self.name == "confluent-kafka":
            return [Partition(topic="t", partition=number, offset=offset) for number, offset in places]
        if self.name == "aiokafka":
            return {Place("t", number): offset if offset % 2 else (offset, "") for number, offset in places}
        return {Place("t", number): Offset(offset) for number, offset in places}

    def membership(self, group: str = GROUP, member_id: str = "id") -> Any:
        """What the client is told of the consumer."""
        if self.name == "confluent-kafka":
            return metadata(group, member_id)
        return group if self.name == "aiokafka" else SimpleNamespace(group_id=group, member_id=member_id)

    def call(self, name: str, *given: Any, **named: Any) -> Any:
        """Call a method, and wait for a coroutine."""
        answer = getattr(self.producer, name)(*given, **named)
        return result(answer) if self.name == "aiokafka" else answer

    def begin(self) -> Any:
        return self.call("begin_transaction")

    def send(self, *places: tuple[int, int], group: str = GROUP, member_id: str = "id") -> Any:
        return self.call("send_offsets_to_transaction", self.offsets(*places), self.membership(group, member_id))

    def commit(self) -> Any:
        return self.call("commit_transaction")

    def abort(self) -> Any:
        return self.call("abort_transaction")

    def fail(self, method: str, error: BaseException | None) -> None:
        """From now on a method raises; None: it works."""

        def fails(*_: Any) -> Any:
            assert error is not None
            raise error

        self.does = {} if error is None else {method: fails}

    def told(self) -> list[tuple[str, list[tuple[int, int]], int | None]]:
        """Kind, partition with offset, and transaction of each event."""
        return [
            (kind, offsets, row.get("transaction"))
            for (kind, offsets), row in zip(self.events(), self.rows(), strict=True)
        ]


@pytest.fixture(params=["kafka-python", "confluent-kafka", "aiokafka"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Client:
    return Client(request.param, tmp_path / "record")


CALLS: dict[str, Callable[[Client], Any]] = {
    "begin": Client.begin,
    "send": lambda client: client.send((1, 5)),
    "commit": Client.commit,
    "abort": Client.abort,
}


@pytest.mark.parametrize("method", CALLS)
def test_a_method_returns_what_it_returns(method: str, client: Client) -> None:
    answer = object()
    client.does[method] = lambda *_: answer

    assert CALLS[method](client) is answer


@pytest.mark.parametrize("error", [ValueError("refused"), KeyboardInterrupt(), GeneratorExit()])
@pytest.mark.parametrize("method", CALLS)
def test_a_method_raises_what_it_raises(method: str, error: BaseException, client: Client) -> None:
    client.begin()
    client.send((1, 5))
    client.fail(method, error)

    with pytest.raises(type(error)) as raised:
        CALLS[method](client)

    assert (raised.value, error.__cause__, error.__context__) == (error, None, None)


def test_the_arguments_reach_the_client(client: Client) -> None:
    """As they are given, and also those that it refuses."""
    given: list[Any] = []
    client.does["send"] = lambda _, args, kwargs: given.append((args, kwargs))
    names = {"kafka-python": ("offsets", "group_metadata"), "confluent-kafka": ("positions", "group_metadata")}
    first, second = names.get(client.name, ("offsets", "group_id"))
    offsets, membership = client.offsets((1, 5)), client.membership()
    client.begin()

    client.call("send_offsets_to_transaction", offsets, membership)
    client.call("send_offsets_to_transaction", **{first: offsets, second: membership})

    assert given == [((offsets, membership), {}), ((), {first: offsets, second: membership})]
    assert [kind for kind, *_ in client.told()] == ["commit_begin", "commit_begin"]


@pytest.mark.parametrize("wrong", [(), (7,), (None, None), ("text", "text", "text", "text")])
def test_what_the_client_refuses_is_no_commit(wrong: tuple[Any, ...], client: Client) -> None:
    client.begin()
    client.fail("send", TypeError("the client's"))

    with pytest.raises(TypeError, match="the client's"):
        client.call("send_offsets_to_transaction", *wrong)
    client.fail("send", None)
    client.send((1, 5))

    assert client.told() == [("commit_begin", [(1, 5)], 1)]


def test_what_the_client_takes_and_the_recorder_cannot_read_ends_the_recording(client: Client) -> None:
    """The member's commits are not known from there on."""
    client.begin()

    assert client.call("send_offsets_to_transaction", 7, 7) == "send"
    client.send((1, 5))

    assert [kind for kind, *_ in client.told()] == ["error"]
    assert client.rows()[0]["message"].startswith("the recorder stopped: ")


def test_a_transaction_commits_the_members_offsets(client: Client) -> None:
    """They begin before they are sent, and are accepted when it is committed. Each transaction has its number."""
    seen: list[Any] = []
    client.does |= {"send": lambda *_: seen.append(client.told()), "commit": lambda *_: seen.append(client.told())}
    client.begin()
    client.send((1, 5), (2, 8))
    client.commit()
    client.begin()
    client.commit()
    client.begin()
    client.send((1, 6))
    client.send((2, 9))
    client.commit()

    begun = ("commit_begin", [(1, 5), (2, 8)], 1)
    assert seen[:2] == [[begun], [begun]]
    assert client.told() == [
        begun, ("commit_ok", [(1, 5), (2, 8)], 1),
        ("commit_begin", [(1, 6)], 3), ("commit_begin", [(2, 9)], 3),
        ("commit_ok", [(1, 6)], 3), ("commit_ok", [(2, 9)], 3),
    ]  # fmt: skip
    assert {row["member_id"] for row in client.rows()} == {"id"}


def test_offsets_that_the_producer_refuses_may_be_sent_again(client: Client) -> None:
    client.begin()
    client.fail("send", RuntimeError("a rebalance"))
    with pytest.raises(RuntimeError):
        client.send((1, 5))
    client.fail("send", None)
    client.send((1, 5))
    client.commit()

    assert client.told() == [
        ("commit_begin", [(1, 5)], 1), ("commit_fail", [(1, 5)], 1),
        ("commit_begin", [(1, 5)], 1), ("commit_ok", [(1, 5)], 1),
    ]  # fmt: skip
    assert client.rows()[1]["error"] == "RuntimeError: a rebalance"


def test_a_commit_that_fails_may_be_tried_again(client: Client) -> None:
    client.begin()
    client.send((1, 5))
    client.fail("commit", RuntimeError("slow"))
    with pytest.raises(RuntimeError):
        client.commit()
    client.fail("commit", None)
    client.commit()

    assert client.told() == [
        ("commit_begin", [(1, 5)], 1), ("commit_fail", [(1, 5)], 1),
        ("commit_begin", [(1, 5)], 1), ("commit_ok", [(1, 5)], 1),
    ]  # fmt: skip


def test_a_member_goes_back_after_an_aborted_transaction(client: Client) -> None:
    """To the committed offset: to another one it goes for a reason of its own."""
    client.begin()
    client.send((1, 5))
    client.commit()
    client.member.seek("t", 1, 5)
    client.begin()
    client.send((1, 7))
    client.abort()
    client.forget()

    client.member.seek("t", 1, 4)
    client.member.seek("t", 1, 5)
    client.member.seek("t", 2, 3)  # of which it has committed nothing
    assert client.told() == [("rewound", [(1, 5)], None), ("rewound", [(2, 3)], None)]
    client.member.callback("assigned", "begin", [("t", 1)])
    client.forget()
    client.member.seek("t", 1, 9)  # another member may have committed that meanwhile
    assert client.told() == [("rewound", [(1, 9)], None)]

    client.begin()
    client.commit()
    client.forget()
    client.member.seek("t", 1, 9)
    assert client.told() == []


def test_an_abort_ends_what_was_sent(client: Client) -> None:
    """One that fails ends nothing, and what has failed already is not told again."""
    client.begin()
    client.send((1, 5))
    client.fail("abort", RuntimeError("slow"))
    with pytest.raises(RuntimeError):
        client.abort()
    assert client.told() == [("commit_begin", [(1, 5)], 1)]
    client.member.seek("t", 1, 5)
    client.fail("abort", None)
    client.abort()

    client.begin()
    client.send((1, 5))
    client.fail("commit", RuntimeError("fenced"))
    with pytest.raises(RuntimeError):
        client.commit()
    client.abort()

    assert client.told() == [
        ("commit_begin", [(1, 5)], 1), ("commit_fail", [(1, 5)], 1),
        ("commit_begin", [(1, 5)], 2), ("commit_fail", [(1, 5)], 2),
    ]  # fmt: skip
    assert [row["error"] for row in client.rows()[1::2]] == [
        "the service aborted the transaction", "RuntimeError: fenced",
    ]  # fmt: skip


def test_offsets_of_another_group_are_not_the_members(client: Client) -> None:
    client.begin()
    client.send((1, 5), group="another")
    client.send()
    client.commit()

    assert client.told() == []


def test_the_member_is_the_one_that_is_named(client: Client) -> None:
    """Where the client names none, or one that is gone, it is the last one that has joined."""
    second = client.add("second")
    client.begin()
    client.send((1, 5))
    client.send((1, 6), member_id="gone")

    expected = ["second", "second"] if client.name == "aiokafka" else ["id", "second"]
    assert [row["member_id"] for row in client.rows()] == expected
    assert second.number == 1


def test_without_a_member_nothing_is_told(client: Client) -> None:
    del client.member
    client.begin()
    assert client.send((1, 5)) == "send"
    assert client.commit() == "commit"

    assert client.rows() == []


def test_a_fork_of_the_member_is_none(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is another one, in which a second member would be seen."""
    monkeypatch.setattr(os, "getpid", lambda: -7)
    client.begin()
    client.send((1, 5))

    assert client.rows() == []


def test_a_member_whose_recording_ended_stays_silent(client: Client) -> None:
    client.member.fail(ValueError("a defect"))
    client.begin()
    client.send((1, 5))
    client.commit()

    assert [kind for kind, *_ in client.told()] == ["error"]


def test_a_producer_that_takes_no_attributes_is_told_and_goes_on(
    client: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    class Closed(client.made):  # type: ignore[name-defined,misc]
        def __setattr__(self, name: str, value: Any) -> None:
            raise AttributeError("mine")

    client.producer = Closed()

    assert client.begin() == "begin"
    assert "a producer is not recorded: AttributeError('mine')" in capfd.readouterr().err


def test_the_class_looks_as_it_did(client: Client) -> None:
    assert issubclass(client.made, client.original)
    assert client.made.__doc__ == "The client's own words."
    assert (client.made.__name__, client.made.__module__) == (client.original.__name__, __name__)
    assert [getattr(client.made, name).__name__ for name in transactions.METHODS] == list(transactions.METHODS)


def test_a_client_without_transactions_is_used_as_it_is(tmp_path: Path) -> None:
    made = SimpleNamespace(KafkaProducer=type("KafkaProducer", (), {"send": print}))
    before = dict(vars(made.KafkaProducer))

    kafka_python.wrap_producer(File(str(tmp_path / "record")), GROUP, made)

    assert dict(vars(made.KafkaProducer)) == before
