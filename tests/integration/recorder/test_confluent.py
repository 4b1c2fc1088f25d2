"""The recorder around confluent-kafka's consumer: it does what it does without it, and events come in order."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from kafka_assignors.integration.recorder.kafka_assignors_recorder import confluent
from kafka_assignors.integration.recorder.kafka_assignors_recorder.record import File
from tests.support.integration.recorded import GROUP, Recording
from tests.support.waiting import until


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int = -1001
    error: str | None = None


class Error:
    """Of the client, which can be compared with its own alone."""

    def __eq__(self, other: object) -> bool:
        raise SystemError("returned a result with an exception set")

    __hash__ = object.__hash__


class Message:
    """Of the client; a deserializing consumer replaces its value."""

    def __init__(self, partition: int, offset: int, error: Error | None = None) -> None:
        self._place, self._error, self._value = (partition, offset), error, b"0123456789"

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]

    def error(self) -> Error | None:
        return self._error

    def key(self) -> None:
        return None

    def value(self) -> Any:
        return self._value

    def set_value(self, value: Any) -> None:
        self._value = value


class Client(Recording):
    """A module of the client's, recorded: what its methods do is `does`, method -> function of the consumer."""

    def __init__(self, prefix: Path) -> None:
        super().__init__(prefix)
        client = self

        class Consumer:
            """The client's own words."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                self.args, self.kwargs = args, kwargs
                self.callbacks: dict[str, Any] = {}
                self.metadata: tuple[int, bytes] = (-1, b"")

            def subscribe(self, topics: Any, **callbacks: Any) -> Any:
                if not all(map(callable, callbacks.values())):
                    raise TypeError("expects a callable")
                self.callbacks = callbacks
                return client.do("subscribe", self, topics)

            def poll(self, timeout: float = -1) -> Any:
                return client.do("poll", self, timeout)

            def consume(self, num_messages: int = 1, timeout: float = -1) -> Any:
                return client.do("consume", self, num_messages)

            def commit(self, *args: Any, **kwargs: Any) -> Any:
                return client.do("commit", self, *args)

            def seek(self, place: Any) -> Any:
                return client.do("seek", self)

            def assign(self, partitions: Any) -> Any:
                return client.do("assign", self)

            def incremental_assign(self, partitions: Any) -> Any:
                return client.do("incremental_assign", self)

            def store_offsets(self, *args: Any, **kwargs: Any) -> Any:
                return client.do("store_offsets", self)

            def consumer_group_metadata(self) -> bytes:
                generation, member_id = self.metadata
                return b"CGMDv2:" + struct.pack("=i", generation) + GROUP.encode() + b"\0" + member_id + b"\0\1"

            def close(self) -> Any:
                return client.do("close", self)

            def __exit__(self, *_: object) -> Any:
                return client.do("close", self)

        self.original = Consumer
        self.module = SimpleNamespace(Consumer=Consumer)
        confluent.wrap_consumer(File(str(prefix)), GROUP, self.module)

    def consumer(self, *, joined: bool = True, **settings: Any) -> Any:
        """A consumer that owns partition 1, the rows of which are left out."""
        consumer = self.module.Consumer({"group.id": GROUP, **settings})
        if joined:
            consumer.subscribe(["t"])
            assigned(consumer, 1)
            self.forget()
        return consumer


def called(consumer: Any, name: str, *partitions: int) -> Any:
    """The client calls back."""
    return consumer.callbacks[name](consumer, [Place("t", number) for number in partitions])


def assigned(consumer: Any, *partitions: int, generation: int = 4) -> None:
    """The member joins a generation."""
    consumer.metadata = generation, b"id"
    called(consumer, "on_assign", *partitions)


def commits(*offsets: tuple[int, int], error: str | None = None) -> list[Place]:
    """Offsets of partitions, as the client tells them."""
    return [Place("t", number, offset, error) for number, offset in offsets]


CALLS: dict[str, Callable[[Any], Any]] = {
    "subscribe": lambda consumer: consumer.subscribe(["t"]),
    "poll": lambda consumer: consumer.poll(0.5),
    "consume": lambda consumer: consumer.consume(5, timeout=0.5),
    "commit": lambda consumer: consumer.commit(offsets=commits((1, 5))),
    "seek": lambda consumer: consumer.seek(Place("t", 1, 3)),
    "assign": lambda consumer: consumer.assign([]),
    "incremental_assign": lambda consumer: consumer.incremental_assign([]),
    "store_offsets": lambda consumer: consumer.store_offsets(offsets=[]),
    "close": lambda consumer: consumer.close(),
}
ANSWERS = {"poll": Message(1, 3), "consume": [Message(1, 3)], "commit": None}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(confluent, "_LATEST_S", 600)  # nothing is written but by what a test does
    return Client(tmp_path / "record")


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("group", [GROUP, "another"])
def test_a_method_returns_what_it_returns(method: str, group: str, client: Client) -> None:
    answer = ANSWERS.get(method, object())
    consumer = client.module.Consumer({"group.id": group})
    client.does[method] = lambda *_: answer
    consumer.subscribe(["t"])

    assert CALLS[method](consumer) is answer
    assert bool(client.files()) == (group == GROUP)


@pytest.mark.parametrize("error", [ValueError("refused"), KeyboardInterrupt()])
@pytest.mark.parametrize("method", CALLS)
def test_a_method_raises_what_it_raises(method: str, error: BaseException, client: Client) -> None:
    def fails(*_: Any) -> Any:
        raise error

    consumer = client.consumer()
    client.does[method] = fails

    with pytest.raises(type(error)) as raised:
        CALLS[method](consumer)
    assert (raised.value, error.__context__) == (error, None)


def test_a_subclass_that_forgets_to_begin_meets_the_client_alone(client: Client) -> None:
    class Forgetful(client.module.Consumer):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            pass

    consumer = Forgetful()
    assert [CALLS[method](consumer) for method in ("poll", "consume", "commit", "seek", "close")] == [
        "poll", "consume", "commit", "seek", "close",
    ]  # fmt: skip


def test_the_class_looks_as_it_did(client: Client) -> None:
    made = client.module.Consumer

    assert issubclass(made, client.original)
    assert (made.__name__, made.__module__, made.__doc__) == ("Consumer", __name__, "The client's own words.")
    assert made.poll.__name__ == "poll"


def test_a_client_of_another_version_is_used_as_it_is(client: Client, tmp_path: Path) -> None:
    methods = {name: method for name, method in vars(client.original).items() if name not in ("__exit__", "__dict__")}
    made = SimpleNamespace(Consumer=type("Consumer", (), methods))
    confluent.wrap_consumer(File(str(tmp_path / "other")), GROUP, made)
    assert not hasattr(made.Consumer, "__exit__")

    gone = SimpleNamespace(Consumer=type("Consumer", (), {"poll": print}))
    with pytest.raises(AttributeError, match="this version of confluent-kafka lacks subscribe, "):
        confluent.wrap_consumer(File(str(tmp_path / "other")), GROUP, gone)


@pytest.mark.parametrize("own", [None, print])
def test_the_configuration_stays_the_services(own: Any, client: Client) -> None:
    """It is a dictionary, or keywords, and the service may use it again."""
    settings = {"group.id": GROUP, **({} if own is None else {"on_commit": own})}
    before = dict(settings)

    by_position = client.module.Consumer(settings, logger="mine")
    by_keywords = client.module.Consumer(**settings)
    other = client.module.Consumer({**settings, "group.id": "another"})

    assert settings == before
    ((given,), more) = (by_position.args, by_position.kwargs)
    assert ({**given, "on_commit": 0}, more) == ({"group.id": GROUP, "on_commit": 0}, {"logger": "mine"})
    assert by_keywords.args == ()
    assert by_keywords.kwargs.keys() == {"group.id", "on_commit"}
    assert other.args == ({**before, "group.id": "another"},)


@pytest.mark.parametrize("given", [{"on_commit": 17}, {"on_commit": None}])
def test_a_configuration_that_the_client_refuses_reaches_it(given: Any, client: Client) -> None:
    assert client.module.Consumer({"group.id": GROUP, **given}).args == ({"group.id": GROUP, **given},)


def test_callbacks_that_the_client_refuses_reach_it(client: Client) -> None:
    with pytest.raises(TypeError, match="expects a callable"):
        client.module.Consumer({"group.id": GROUP}).subscribe(["t"], on_assign=None)


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        (
            {},
            {"assignors": ["confluent-kafka:range", "confluent-kafka:roundrobin"], "session_timeout_ms": 45_000,
             "heartbeat_interval_ms": 3_000, "max_poll_interval_ms": 300_000, "auto_commit": True},
        ),
        (
            {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": "6000"},
            {"assignors": ["confluent-kafka:cooperative-sticky"], "session_timeout_ms": 6_000,
             "heartbeat_interval_ms": 3_000, "max_poll_interval_ms": 300_000, "auto_commit": True},
        ),
        (
            {"group.protocol": "consumer", "enable.auto.commit": False},
            {"assignors": ["confluent-kafka:uniform"], "protocol": "consumer", "auto_commit": False},
        ),
    ],
)  # fmt: skip
def test_a_start_has_the_clients_defaults(settings: Any, config: Any, client: Client) -> None:
    client.module.Consumer({"group.id": GROUP, **settings}).subscribe(["t", "u"])

    (row,) = client.rows()
    assert (row["kind"], row["client"], row["topics"], row["config"]) == (
        "start", "confluent-kafka", ["t", "u"], config
    )  # fmt: skip


def test_a_static_member_has_its_instance_id(client: Client) -> None:
    consumer = client.consumer(**{"group.instance.id": "billing-1"})
    consumer.close()

    assert [row["instance_id"] for row in client.rows()] == ["billing-1"]


def test_a_pattern_is_one(client: Client) -> None:
    client.module.Consumer({"group.id": GROUP}).subscribe(["^orders-.*"])

    (row,) = client.rows()
    assert (row["topics"], row["config"]["pattern"]) == ([], "^orders-.*")


@pytest.mark.parametrize("own", [True, False])
def test_a_rebalance_is_told_with_the_services_callbacks_or_without(own: bool, client: Client) -> None:
    heard: list[Any] = []
    callbacks = {
        name: lambda consumer, partitions, name=name: heard.append((name, [tp.partition for tp in partitions]))
        for name in ("on_assign", "on_revoke")
    }
    consumer = client.module.Consumer({"group.id": GROUP})
    consumer.subscribe(["t"], **(callbacks if own else {}))

    assigned(consumer, 1, 2)
    called(consumer, "on_revoke", 2)
    consumer.metadata = -1, b""
    called(consumer, "on_lost", 1)

    assert client.events() == [
        ("start", []), ("generation", [1, 2]), ("assigned_begin", [1, 2]), ("assigned_end", [1, 2]),
        ("revoke_begin", [2]), ("revoke_end", [2]), ("lost_begin", [1]), ("lost_end", [1]),
    ]  # fmt: skip
    assert {row["generation"] for row in client.rows()[1:]} == {4}
    assert {row["member_id"] for row in client.rows()[1:]} == {"id"}
    expected = [("on_assign", [1, 2]), ("on_revoke", [2]), ("on_revoke", [1])]  # as the client without on_lost
    assert heard == (expected if own else [])


def test_an_error_of_the_services_callback_reaches_the_client(client: Client) -> None:
    def fails(*_: Any) -> None:
        raise ValueError("mine")

    consumer = client.module.Consumer({"group.id": GROUP})
    consumer.subscribe(["t"], on_assign=fails)

    with pytest.raises(ValueError, match="mine"):
        assigned(consumer, 1)
    assert [kind for kind, _ in client.events()][-1] == "assigned_end"


def test_unknown_metadata_stop_the_recorder_alone(client: Client) -> None:
    consumer = client.consumer()
    consumer.consumer_group_metadata = lambda: b"CGMDv9:"

    called(consumer, "on_revoke", 1)

    ((kind, _),) = client.events()
    assert kind == "error"


def test_records_are_told_before_what_follows(client: Client) -> None:
    consumer = client.consumer()
    messages = iter([Message(1, 3), Message(1, 4), Message(2, 7), Message(1, 5), Message(2, 8, Error()), None])
    client.does["poll"] = lambda _, timeout: next(messages)
    consumer._kafka_assignors_member.member.limit = 99

    for _ in range(5):
        consumer.poll(1)
    assert client.events() == []
    consumer.seek(Place("t", 1, 9))
    client.does["consume"] = lambda *_: [Message(1, 9), Message(1, 10), Message(1, 12), Message(2, 1, "an error")]
    consumer.consume(9)

    assert client.events() == [
        ("consume", [(1, 3, 5, 3, 30), (2, 7, 7, 1, 10)]),
        ("consume", [(1, 9, 10, 2, 20), (1, 12, 12, 1, 10)]),
    ]


@pytest.mark.parametrize("method", ["commit", "store_offsets"])
def test_records_are_told_before_they_are_committed(method: str, client: Client) -> None:
    """Also by a commit of what was stored, the offsets of which are told later."""
    consumer = client.consumer()
    client.does["poll"] = lambda *_: Message(1, 3)
    client.does[method] = lambda *_: client.events()
    consumer._kafka_assignors_member.member.limit = 99
    consumer.poll(1)

    assert getattr(consumer, method)()[0] == ("consume", [(1, 3, 3, 1, 10)])


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_commit_that_names_nothing_begins_before_the_client_sends_it(asynchronous: bool, client: Client) -> None:
    """A process may be killed before its client tells what it has committed. What is committed is not begun again."""
    consumer = client.consumer()
    tell = consumer.args[0]["on_commit"]
    assigned(consumer, 2)
    client.forget()
    client.does["consume"] = lambda *_: [Message(1, 3), Message(2, 7), Message(3, 1)]
    consumer.consume(3)
    sent: list[Any] = []

    def commit(*_: Any) -> Any:
        sent.append(client.events()[-1])
        return commits((1, 4), (2, 8)) if len(sent) == 1 else []

    client.does["commit"] = commit
    for _ in range(2):
        answer = consumer.commit(asynchronous=asynchronous)
        if asynchronous:
            tell(None, answer)

    ours = ("commit_begin", [(1, 4), (2, 8)])
    assert sent == [ours, ("commit_ok", [(1, 4), (2, 8)])]
    assert client.events()[1:3] == [ours, ("commit_ok", [(1, 4), (2, 8)])]


def test_a_commit_that_names_nothing_and_raises_has_failed(client: Client) -> None:
    consumer = client.consumer()
    client.does["consume"] = lambda *_: [Message(1, 3)]
    consumer.consume(1)

    def refused(*_: Any) -> None:
        raise RuntimeError("the group has moved on")

    client.does["commit"] = refused
    for named in ({}, {"offsets": commits((1, 2))}):
        with pytest.raises(RuntimeError):
            consumer.commit(asynchronous=False, **named)

    _, *events = client.events()
    assert events == [(f"commit_{edge}", [(1, offset)]) for offset in (4, 2) for edge in ("begin", "fail")]


def test_a_record_is_told_soon_even_if_no_other_comes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client may commit it by itself while the service works on it."""
    monkeypatch.setattr(confluent, "_LATEST_S", 0.001)
    consumer = client.consumer()
    client.does["poll"] = lambda *_: Message(1, 3)
    consumer._kafka_assignors_member.member.limit = 99
    consumer.poll(1)

    until(client.events, "the record is written")
    assert client.events() == [("consume", [(1, 3, 3, 1, 10)])]


def test_the_thread_of_a_consumer_ends_with_it(client: Client) -> None:
    before = set(threading.enumerate())
    consumer = client.consumer()
    (writer,) = set(threading.enumerate()) - before

    del consumer
    writer.join(60)

    assert not writer.is_alive()


def test_a_poll_is_one_poll_and_records_are_told_while_it_waits(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confluent, "_LATEST_S", 0.001)
    consumer = client.consumer()
    timeouts: list[float] = []
    messages = iter([Message(1, 3), None])

    def poll(_: Any, timeout: float) -> Any:
        timeouts.append(timeout)
        if len(timeouts) == 2:
            until(client.events, "the record is told")
        return next(messages)

    client.does["poll"] = poll
    consumer._kafka_assignors_member.member.limit = 99

    assert isinstance(consumer.poll(9), Message)
    assert consumer.poll(timeout=8) is None
    assert timeouts == [9, 8]


def test_a_subclass_may_replace_a_value(client: Client) -> None:
    """As the deserializing consumer does."""

    class Deserializing(client.module.Consumer):  # type: ignore[name-defined,misc]
        def poll(self, timeout: float = -1) -> Any:
            message = super().poll(timeout)
            message.set_value({"an": "object"})
            return message

    consumer = Deserializing({"group.id": GROUP})
    consumer.subscribe(["t"])
    client.forget()
    messages = iter([Message(1, 3), Message(1, 4, "an error")])
    client.does["poll"] = lambda *_: next(messages)

    consumer.poll(1)
    consumer.poll(1)
    consumer.close()

    assert client.events() == [("consume", [(1, 3, 3, 1, 10)]), ("stop", [])]


def test_a_commit_that_is_waited_for(client: Client) -> None:
    """Of offsets, of a message, and of what was stored, which the answer tells."""
    consumer = client.consumer()
    answers = iter([commits((1, 5)), commits((1, 8)), [*commits((1, 9)), *commits((2, 4), error="refused")]])
    client.does["commit"] = lambda *_: next(answers)

    consumer.commit(offsets=commits((1, 5)), asynchronous=False)
    consumer.commit(Message(1, 7), asynchronous=False)
    consumer.commit(asynchronous=False)

    assert client.events() == [
        ("commit_begin", [(1, 5)]), ("commit_ok", [(1, 5)]), ("commit_begin", [(1, 8)]), ("commit_ok", [(1, 8)]),
        ("commit_begin", [(1, 9), (2, 4)]), ("commit_ok", [(1, 9)]), ("commit_fail", [(2, 4)]),
    ]  # fmt: skip


@pytest.mark.parametrize("offsets", [True, False])
def test_a_commit_that_fails(offsets: bool, client: Client) -> None:
    consumer = client.consumer()

    def fails(*_: Any) -> Any:
        raise ValueError("no")

    client.does["commit"] = fails
    for asynchronous in (True, False):
        with pytest.raises(ValueError, match="no"):
            consumer.commit(offsets=commits((1, 5)) if offsets else None, asynchronous=asynchronous)

    assert client.events() == (
        [(f"commit_{edge}", [(1, 5)]) for edge in ("begin", "fail", "begin", "fail")] if offsets else []
    )


def test_the_outcome_of_a_commit_is_told_by_the_clients_callback(client: Client) -> None:
    heard: list[Any] = []
    consumer = client.consumer(on_commit=lambda *given: heard.append(given))
    tell = consumer.args[0]["on_commit"]

    consumer.commit(offsets=commits((1, 5)))
    consumer.commit(Message(1, 6))
    tell(None, commits((1, 5)))
    tell("no", commits((1, 7)))

    assert client.events() == [
        ("commit_begin", [(1, 5)]), ("commit_begin", [(1, 7)]), ("commit_ok", [(1, 5)]), ("commit_fail", [(1, 7)]),
    ]  # fmt: skip
    assert heard == [(None, commits((1, 5))), ("no", commits((1, 7)))]


def test_what_the_client_chose_to_commit_is_told_so(client: Client) -> None:
    """By itself, or as the service named nothing: it may have chosen long before, or more as it sends it."""
    consumer = client.consumer()
    tell = consumer.args[0]["on_commit"]
    client.does["consume"] = lambda *_: [Message(1, 3)]

    tell(None, commits((1, 3)))
    consumer.consume(1)
    consumer.commit()
    tell(None, commits((1, 5)))
    consumer.commit(offsets=commits((1, 6)))
    tell("_NO_OFFSET", [])
    tell("_NO_OFFSET", None)

    rows = [row for row in client.rows() if row["kind"] != "consume"]
    assert [(row["kind"], row["offsets"][0]["offset"], row.get("by_client")) for row in rows] == [
        ("commit_begin", 3, True), ("commit_ok", 3, None),
        ("commit_begin", 4, True), ("commit_begin", 5, True), ("commit_ok", 5, None),
        ("commit_begin", 6, None),
    ]  # fmt: skip
    assert consumer._kafka_assignors_member._chosen == []


def test_what_goes_may_be_committed_until_its_callback_has_ended(client: Client) -> None:
    """A commit that names nothing has it, too."""
    consumer = client.module.Consumer({"group.id": GROUP, "enable.auto.commit": False})
    consumer.subscribe(["t"], on_revoke=lambda consumer, _: consumer.commit())
    assigned(consumer, 1)
    client.does["consume"] = lambda *_: [Message(1, 3)]
    consumer.consume(1)
    client.forget()

    called(consumer, "on_revoke", 1)

    assert client.events() == [("revoke_begin", [1]), ("commit_begin", [(1, 4)]), ("revoke_end", [1])]


@pytest.mark.parametrize(
    ("settings", "offset"),
    [
        ({}, 5),
        ({"enable.auto.commit": False}, None),
        ({"enable.auto.commit": "false"}, None),
        ({"enable.auto.offset.store": False}, 4),
    ],
    ids=str,
)
def test_what_the_client_commits_as_a_partition_goes_began_before(
    settings: dict[str, Any], offset: int | None, client: Client
) -> None:
    """What was read, or what the service stored. Nobody tells how it ended before others may have the partition."""
    consumer = client.consumer(**settings)
    assigned(consumer, 1, 2)
    client.does["consume"] = lambda *_: [Message(1, 3), Message(1, 4)]
    consumer.consume(9)
    consumer.store_offsets(offsets=commits((1, 4)))
    if offset == 5:
        consumer.consume(9)
    client.forget()

    called(consumer, "on_lost", 2)
    called(consumer, "on_revoke", 1)
    called(consumer, "on_revoke", 2)

    kinds = [row["kind"] for row in client.rows()]
    begun = [(1, offset)] if offset else None
    assert [places for kind, places in client.events() if kind == "commit_begin"] == ([begun] if begun else [])
    assert begun is None or kinds.index("commit_begin") < kinds.index("revoke_begin")


def test_a_commit_as_a_partition_goes_may_be_answered_after_it(client: Client) -> None:
    consumer = client.consumer()
    tell = consumer.args[0]["on_commit"]
    called(consumer, "on_revoke", 1)
    client.forget()

    tell(None, commits((1, 5)))
    tell("refused", commits((1, 5)))

    assert client.events() == [(f"commit_{edge}", [(1, 5)]) for edge in ("begin", "ok", "begin", "fail")]


def test_a_close_is_told_once(client: Client) -> None:
    """It gives partitions up before."""
    consumer = client.consumer()
    client.does["close"] = lambda consumer: called(consumer, "on_revoke", 1)

    consumer.__exit__(None, None, None)
    client.does.clear()
    consumer.close()

    assert client.events() == [("revoke_begin", [1]), ("revoke_end", [1]), ("stop", [])]


def test_the_arguments_of_a_poll_reach_the_client(client: Client) -> None:
    consumer = client.consumer()
    client.does["poll"] = lambda _, timeout: timeout

    assert (consumer.poll.__name__, client.module.Consumer.poll.__doc__) == ("poll", client.original.poll.__doc__)
    for given, words in (((1, 2), "positional argument"), ((1,), "multiple values")):
        with pytest.raises(TypeError, match=words):
            consumer.poll(*given, **({"timeout": 2} if given == (1,) else {}))
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        consumer.poll(nothing=1)


@pytest.mark.parametrize("wrong", [{"message": "text"}, {"offsets": ["text"]}, {"offsets": 7}])
def test_a_commit_of_what_no_client_takes_does_not_stop_the_recorder(wrong: Any, client: Client) -> None:
    def refuses(*_: Any) -> None:
        raise TypeError("expected a message")

    consumer = client.consumer()
    client.does["commit"] = refuses

    with pytest.raises(TypeError, match="expected a message"):
        consumer.commit(**wrong)
    consumer.close()

    assert client.events() == [("stop", [])]


def test_what_is_no_subscription_starts_nothing(client: Client) -> None:
    consumer = client.module.Consumer({"group.id": GROUP})
    for wrong in ("t", 7, [7], ("t",)):
        consumer.subscribe(wrong)
    for given, named in (((["t"], *[print] * 4), {}), ((["t"],), {"topics": ["t"]})):
        with pytest.raises(TypeError):
            consumer.subscribe(*given, **named)
    assert client.rows() == []

    consumer.subscribe(["t"])

    assert [row["topics"] for row in client.rows()] == [["t"]]


def test_a_close_with_arguments_is_none(client: Client) -> None:
    consumer = client.consumer()

    with pytest.raises(TypeError, match="positional argument"):
        consumer.close(1)

    assert client.events() == []
