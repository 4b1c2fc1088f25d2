"""The recorder around a client's methods: they return and raise what they do without it, and events come in order."""

from __future__ import annotations

import ast
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kafka_assignors.integration.recorder.kafka_assignors_recorder import kafka_python, record
from tests.support.integration.recorded import Client, Offset, Place, Protocol, Record, adopt, places, result
from tests.support.waiting import finished

CALLS: dict[str, Callable[[Any], Any]] = {
    "prepare": lambda consumer: result(consumer._coordinator._on_join_prepare_async(1, member_id="id")),
    "complete": lambda consumer: result(consumer._coordinator._on_join_complete_async(2, "id", "range", b"\1")),
    "close_prepare": lambda consumer: result(consumer._coordinator._on_close_prepare_async()),
    "invoke": lambda consumer: result(
        consumer._coordinator._invoke_rebalance_listener_async("on_partitions_lost", places(b"\1"))
    ),
    "commit": lambda consumer: result(consumer._coordinator._send_offset_commit_request({Place("t", 1): Offset(5)})),
    "poll": lambda consumer: consumer.poll(timeout_ms=1),
    "next": lambda consumer: next(iter([consumer.__next__()])),
    "seek": lambda consumer: consumer.seek(Place("t", 1), 3),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "close": lambda consumer: consumer.close(autocommit=False),
}
"""Wrapped method of the client's -> a call of it."""
RECORDS = {Place("t", 1): [Record("t", 1, offset) for offset in (3, 4, 5)]}


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path / "record")


class Odd(BaseException):
    """A service's own exception, which isn't an Exception."""

    def __str__(self) -> str:
        raise RuntimeError("and it can't be printed")


def broken(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    """Some functions of `os` fail, for the recorder alone."""
    monkeypatch.setattr(record, "os", SimpleNamespace(**{**vars(os), **functions}))


def full(*_: Any) -> Any:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("group", ["billing", "another", None])
def test_a_method_returns_what_it_returns(method: str, group: str | None, client: Client) -> None:
    answer = Record("t", 1, 3) if method == "next" else RECORDS if method == "poll" else object()
    consumer = client.consumer(owned=b"\1", generation=1 if group == "billing" else None, group_id=group)
    client.does[method] = lambda *_: answer

    assert CALLS[method](consumer) is answer
    assert bool(client.files()) == (group == "billing")


@pytest.mark.parametrize("error", [ValueError("refused"), KeyboardInterrupt(), GeneratorExit(), Odd()])
@pytest.mark.parametrize("method", CALLS)
def test_a_method_raises_what_it_raises(method: str, error: BaseException, client: Client) -> None:
    """The same object, and nothing is added to its causes."""
    cause, context = OSError(), KeyError()
    error.__cause__, error.__context__ = cause, context

    def fails(*_: Any) -> Any:
        raise error

    consumer = client.consumer(owned=b"\1")
    client.does[method] = fails

    with pytest.raises(type(error)) as raised:
        CALLS[method](consumer)

    assert (raised.value, error.__cause__, error.__context__) == (error, cause, context)


@pytest.mark.parametrize("method", [method for method in CALLS if method != "seek"])  # which writes nothing here
def test_a_recorder_that_cannot_write_is_told_once_and_changes_nothing(
    method: str, client: Client, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    consumer = client.consumer(owned=b"\1", protocol=Protocol.EAGER)
    answer = Record("t", 1, 3) if method == "next" else RECORDS
    client.does[method] = lambda *_: answer
    broken(monkeypatch, write=full)

    assert [CALLS[method](consumer) for _ in range(3)] == [answer] * 3
    assert capfd.readouterr().err.count("the recorder stopped") == 1
    assert client.rows() == []


@pytest.mark.parametrize("method", ["prepare", "complete", "close_prepare", "unsubscribe", "close"])
@pytest.mark.parametrize("names", [("_subscription", "_generation", "_closed"), ("config", "_assignors")])
def test_private_names_that_are_gone_stop_the_recorder_alone(
    method: str, names: tuple[str, ...], client: Client
) -> None:
    consumer = client.consumer(generation=None)
    for subject in (consumer, consumer._coordinator):
        for name in names:
            vars(subject).pop(name, None)

    assert CALLS[method](consumer) == method
    assert CALLS["invoke"](consumer) == "invoke"
    assert {row["kind"] for row in client.rows()} <= {"error"}


def test_a_recorder_that_stopped_keeps_no_records(client: Client) -> None:
    consumer = client.consumer()
    consumer._coordinator._kafka_assignors_member.fail(ValueError())
    client.does["next"] = lambda *_: Record("t", 1, 3)

    for _ in range(1000):
        CALLS["next"](consumer)

    assert len(consumer._coordinator._kafka_assignors_member.pending) == 0
    assert [kind for kind, _ in client.events()] == ["error"]


def test_records_of_a_consumer_that_is_not_closed_are_told(client: Client) -> None:
    """When it is collected; the same at the process's end."""
    consumer = client.consumer()
    client.does["next"] = lambda *_: Record("t", 1, 3)
    consumer._coordinator._kafka_assignors_member.limit = 9

    CALLS["next"](consumer)
    assert client.events() == []
    del consumer

    assert client.events() == [("consume", [(1, 3, 3, 1, 10)])]
    assert client.rows()[0]["member_id"] == "id"


def test_the_end_of_the_recording_is_an_event(client: Client) -> None:
    consumer = client.consumer()
    del consumer._coordinator._subscription

    CALLS["prepare"](consumer)
    CALLS["invoke"](consumer)

    (row,) = client.rows()
    assert (row["kind"], row["error"], row["fatal"], row["member_id"]) == ("error", "AttributeError", False, "id")
    assert row["message"].startswith("the recorder stopped: AttributeError: ")


@pytest.mark.parametrize("missing", [None, SimpleNamespace(write=full)])
def test_a_process_without_standard_error_goes_on(
    missing: Any, client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    consumer = client.consumer()
    broken(monkeypatch, write=full)
    monkeypatch.setattr("sys.stderr", missing)

    assert CALLS["invoke"](consumer) == "invoke"
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("protocol", Protocol)
def test_the_first_join_of_a_consumer(protocol: Protocol, client: Client) -> None:
    consumer = client.consumer(generation=None, protocol=protocol)
    client.does["complete"] = adopt

    CALLS["prepare"](consumer)
    CALLS["complete"](consumer)

    assert client.events() == [("start", []), ("generation", [1]), ("assigned_begin", [1]), ("assigned_end", [1])]
    start = client.rows()[0]
    assert (start["topics"], start["assignors"], start["consumer"]) == (["t"], ["range"], 0)
    assert start["config"] == {"assignors": ["kafka-python:range"], "session_timeout_ms": 45000}
    assert "instance_id" not in start


def test_a_static_member_has_its_instance_id(client: Client) -> None:
    consumer = client.consumer(generation=None)
    consumer._coordinator.config["group_instance_id"] = "billing-1"
    client.does["complete"] = adopt

    CALLS["prepare"](consumer)
    CALLS["complete"](consumer)

    assert {row["instance_id"] for row in client.rows()} == {"billing-1"}


def rebalance(consumer: Any, assignment: bytes) -> None:
    CALLS["prepare"](consumer)
    result(consumer._coordinator._on_join_complete_async(2, "id", "range", member_assignment_bytes=assignment))


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (
            Protocol.EAGER,
            [("revoke_begin", [1, 2]), ("revoke_end", [1, 2]), ("generation", [2, 3]), ("assigned_begin", [2, 3]),
             ("assigned_end", [2, 3])],
        ),
        (
            Protocol.COOPERATIVE,
            [("generation", [2, 3]), ("revoke_begin", [1]), ("revoke_end", [1]), ("assigned_begin", [3]),
             ("assigned_end", [3])],
        ),
    ],
)  # fmt: skip
def test_without_a_listener_the_subscription_tells(protocol: Protocol, expected: Any, client: Client) -> None:
    consumer = client.consumer(owned=b"\1\2", protocol=protocol)
    client.does["complete"] = adopt

    rebalance(consumer, b"\2\3")

    assert client.events() == expected
    assert [row["generation"] for row in client.rows() if "assigned" in row["kind"]] == [2, 2]


@pytest.mark.parametrize("method", ["prepare", "close_prepare", "unsubscribe"])
def test_what_was_given_up_for_a_rebalance_is_not_given_up_again(method: str, client: Client) -> None:
    """A rebalance that does not end before the service closes: the client lists the partitions until the next join."""
    consumer = client.consumer(owned=b"\1\2", protocol=Protocol.EAGER)
    client.does["complete"] = adopt

    CALLS["prepare"](consumer)
    CALLS[method](consumer)
    assert client.events() == [("revoke_begin", [1, 2]), ("revoke_end", [1, 2])]
    CALLS["complete"](consumer)
    client.forget()
    CALLS[method](consumer)
    assert client.events() == [("revoke_begin", [1]), ("revoke_end", [1])]


@pytest.mark.parametrize("protocol", Protocol)
def test_with_a_listener_its_calls_alone_are_told(protocol: Protocol, client: Client) -> None:
    consumer = client.consumer(owned=b"\1\2", protocol=protocol, listener=object())

    def complete(coordinator: Any, *given: Any) -> None:
        adopt(coordinator, *given)
        result(coordinator._invoke_rebalance_listener_async("on_partitions_assigned", arg=places(b"\3")))
        result(coordinator._invoke_rebalance_listener_async("another_method", None))

    client.does["complete"] = complete

    rebalance(consumer, b"\2\3")

    assert client.events() == [("generation", [2, 3]), ("assigned_begin", [3]), ("assigned_end", [3])]


@pytest.mark.parametrize("protocol", Protocol)
def test_an_assignment_that_the_client_refuses_changes_nothing(protocol: Protocol, client: Client) -> None:
    """The client asks for another rebalance, as a topic was deleted."""
    consumer = client.consumer(owned=b"\1", protocol=protocol)

    result(consumer._coordinator._on_join_complete_async(2, "id", "range", b"\1\7"))

    assert client.events() == [("generation", [1, 7])]


@pytest.mark.parametrize("method", ["prepare", "close_prepare", "unsubscribe"])
def test_a_member_that_was_removed_loses_its_partitions(method: str, client: Client) -> None:
    consumer = client.consumer(owned=b"\1\2")
    consumer._coordinator._generation.member_id = ""

    CALLS[method](consumer)

    assert client.events() == [("lost_begin", [1, 2]), ("lost_end", [1, 2])]
    assert {row["member_id"] for row in client.rows()} == {"id"}


@pytest.mark.parametrize("listener", [None, object()])
def test_unsubscribe_gives_up_all_partitions_and_calls_no_listener(listener: object, client: Client) -> None:
    consumer = client.consumer(owned=b"\1\2", listener=listener)

    CALLS["unsubscribe"](consumer)

    assert client.events() == [("revoke_begin", [1, 2]), ("revoke_end", [1, 2])]


def test_close_is_told_once(client: Client) -> None:
    consumer = client.consumer(owned=b"\1")
    client.does["close"] = lambda consumer: CALLS["close_prepare"](consumer)

    CALLS["close"](consumer)
    CALLS["close"](consumer)

    assert client.events()[:3] == [("revoke_begin", [1]), ("revoke_end", [1]), ("stop", [])]
    assert [kind for kind, _ in client.events()].count("stop") == 1


def test_a_commit_is_accepted_or_refused(client: Client) -> None:
    consumer, answers = client.consumer(owned=b"\1"), iter([None, ValueError("no")])

    def commit(_: Any, offsets: Any) -> None:
        offsets.clear()
        if answer := next(answers):
            raise answer

    client.does["commit"] = commit
    CALLS["commit"](consumer)
    with pytest.raises(ValueError, match="no"):
        CALLS["commit"](consumer)
    client.does.clear()
    result(consumer._coordinator._send_offset_commit_request({}))

    assert client.events() == [(f"commit_{edge}", [(1, 5)]) for edge in ("begin", "ok", "begin", "fail")]
    assert client.rows()[-1]["error"] == "ValueError: no"


def test_a_commit_of_the_guards_on_a_connection_of_its_own_is_told(client: Client) -> None:
    """`kafka_assignors` sends the commits of a cooperative member in a rebalance itself."""
    consumer, answers = client.consumer(owned=b"\1"), iter([None, ValueError("no")])

    async def commit_beside(coordinator: Any, offsets: Any, timeout_s: float) -> None:
        assert (coordinator, timeout_s) == (consumer._coordinator, 1.0)
        if answer := next(answers):
            raise answer

    module = SimpleNamespace(commit_beside=commit_beside)
    kafka_python.wrap_guard(module)
    result(module.commit_beside(consumer._coordinator, {Place("t", 1): Offset(5)}, 1.0))
    with pytest.raises(ValueError, match="no"):
        result(module.commit_beside(consumer._coordinator, {Place("t", 1): Offset(5)}, timeout_s=1.0))

    assert client.events() == [(f"commit_{edge}", [(1, 5)]) for edge in ("begin", "ok", "begin", "fail")]


def test_offsets_may_be_integers_of_numpy(client: Client) -> None:
    consumer = client.consumer()

    result(consumer._coordinator._send_offset_commit_request({Place("t", 1): Offset(np.int64(5))}))

    assert client.events() == [("commit_begin", [(1, 5)]), ("commit_ok", [(1, 5)])]


def test_what_a_poll_returns_is_told_in_runs(client: Client) -> None:
    """Markers and compacted records leave gaps; a record may lack key or value."""
    consumer = client.consumer()
    client.does["poll"] = lambda *_: {
        Place("t", 0): [],
        Place("t", 1): [Record("t", 1, offset) for offset in (3, 4, 6, 8, 9)],
        Place("t", 2): [Record("t", 2, 1, 4, 10), Record("t", 2, 2, -1, -1)],
    }

    consumer.poll()
    consumer.poll(0, None, False)
    consumer.poll(update_offsets=False)

    runs = [(1, 3, 4, 2, 20), (1, 6, 6, 1, 10), (1, 8, 9, 2, 20), (2, 1, 2, 2, 14)]
    assert client.events() == [("consume", runs)]


def test_records_of_an_iterator_are_told_before_a_commit(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 10**9
    monkeypatch.setattr(record, "time", SimpleNamespace(monotonic_ns=lambda: now_ns, time_ns=lambda: 1))
    consumer = client.consumer()
    records = iter([Record("t", 1, 1), Record("t", 1, 2), Record("t", 2, 7), Record("t", 2, 9), Record("t", 2, 10)])
    client.does["next"] = lambda *_: next(records)

    for _ in range(4):
        CALLS["next"](consumer)
    CALLS["commit"](consumer)
    CALLS["next"](consumer)
    consumer.poll(update_offsets=False)

    assert client.events() == [
        ("consume", [(1, 1, 1, 1, 10)]),
        ("consume", [(1, 2, 2, 1, 10), (2, 7, 7, 1, 10), (2, 9, 9, 1, 10)]),
        ("commit_begin", [(1, 5)]),
        ("commit_ok", [(1, 5)]),
        ("consume", [(2, 10, 10, 1, 10)]),
    ]


@pytest.mark.slow
def test_a_slow_iterators_records_are_told_one_by_one(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after it was fast: then the records wait until its rate is looked at again."""
    clock = {"ns": 10**9}
    monkeypatch.setattr(record, "time", SimpleNamespace(monotonic_ns=lambda: clock["ns"], time_ns=lambda: 1))
    consumer, offsets = client.consumer(), iter(range(10**6))
    client.does["next"] = lambda *_: Record("t", 1, next(offsets))

    def unwritten(pause_ns: int) -> int:
        clock["ns"] += pause_ns
        handed_out = CALLS["next"](consumer).offset
        _, runs = client.events()[-1]
        return handed_out - runs[-1][2]

    assert unwritten(1) == 0
    fast = [unwritten(20_000) for _ in range(3000)]
    assert max(fast) < record._FLUSH_NS / 20_000 + record._STEP
    assert len(client.rows()) < 6
    for pause_ns in (10**9, record._APART_NS + 1):
        slow = [unwritten(pause_ns) for _ in range(record._STEP + 9)]
        assert max(slow) <= max(fast) + record._STEP
        assert set(slow[record._STEP :]) == {0}
    assert max(unwritten(record._APART_NS) for _ in range(2 * record._STEP)) > 0

    clock["ns"] += 10**9
    consumer._coordinator._kafka_assignors_member.flush()  # as a poll that returns nothing does
    assert [unwritten(2 * record._APART_NS) for _ in range(9)] == [0] * 9


def test_a_consumer_that_never_joins_is_no_member(client: Client) -> None:
    """It commits or reads partitions that it chose; a second one has its own number."""
    consumer, second = client.consumer(generation=None), client.consumer(owned=b"\1")
    client.does |= {"poll": lambda *_: RECORDS, "next": lambda *_: Record("t", 1, 3)}

    for call in ("poll", "commit", "close", *["next"] * 5):
        CALLS[call](consumer)
    assert client.rows() == []
    CALLS["poll"](second)
    assert [row["consumer"] for row in client.rows()] == [1]


def test_files_that_the_service_closes_are_opened_again(client: Client, tmp_path: Path) -> None:
    """A daemon closes all descriptors, and the next file that it opens gets the number."""
    consumer = client.consumer()
    CALLS["invoke"](consumer)
    descriptor = client.file._fd
    os.close(descriptor)
    CALLS["invoke"](consumer)
    os.close(client.file._fd)
    other = os.open(tmp_path / "data", os.O_WRONLY | os.O_CREAT)
    assert other == descriptor
    CALLS["invoke"](consumer)

    assert len(client.rows()) == 6
    assert (tmp_path / "data").read_bytes() == b""
    os.close(other)


def test_a_line_that_the_disk_takes_in_pieces_is_whole(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = client.consumer()
    broken(monkeypatch, write=lambda descriptor, data: os.write(descriptor, data[:7]))

    CALLS["invoke"](consumer)

    assert client.events() == [("lost_begin", [1]), ("lost_end", [1])]


def test_a_torn_line_damages_no_other_one(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer, sizes = client.consumer(), iter([7])

    def write(descriptor: int, data: bytes) -> int:
        size = next(sizes, 0)
        return os.write(descriptor, data[:size]) if size else full()

    broken(monkeypatch, write=write)
    CALLS["invoke"](consumer)
    monkeypatch.undo()
    client.file.write({"kind": "stop"})

    assert client.files()[0].read_text().splitlines()[1:] == ['{"kind":"stop"}']


def test_a_forked_process_has_its_own_file_and_no_ones_lock(client: Client) -> None:
    """At the fork another thread has the lock, and records of the parent wait to be written."""
    consumer, forked, locked = client.consumer(), threading.Event(), threading.Event()
    client.does["next"] = lambda *_: Record("t", 1, 3)

    def lock() -> None:
        with client.file.lock:
            locked.set()
            forked.wait(60)

    thread = threading.Thread(target=lock, daemon=True)
    consumer._coordinator._kafka_assignors_member.limit = 5
    CALLS["next"](consumer)
    thread.start()
    locked.wait(60)
    child = os.fork()
    if child == 0:
        try:
            CALLS["invoke"](consumer)
        finally:
            os._exit(0)
    finished(lambda: os.waitpid(child, 0), 30)
    forked.set()
    thread.join()
    CALLS["commit"](consumer)

    kinds = {row["pid"]: [] for row in client.rows()}
    for row in client.rows():
        kinds[row["pid"]].append(row["kind"])
    assert kinds == {child: ["lost_begin", "lost_end"], os.getpid(): ["consume", "commit_begin", "commit_ok"]}


def test_the_recorder_does_not_keep_a_consumer_alive(client: Client) -> None:
    consumer = client.consumer(owned=b"\1")
    CALLS["invoke"](consumer)
    gone = weakref.ref(consumer._coordinator)

    del consumer

    assert gone() is None


def test_an_old_client_is_used_as_it_is(tmp_path: Path) -> None:
    module = Client(tmp_path / "record").module
    del module.ConsumerCoordinator._on_close_prepare_async
    before = dict(vars(module.ConsumerCoordinator))

    with pytest.raises(AttributeError, match="this version of kafka-python lacks _on_close_prepare_async"):
        kafka_python.wrap_coordinator(record.File(str(tmp_path / "other")), "billing", module)
    assert dict(vars(module.ConsumerCoordinator)) == before


def test_the_recorder_is_python_3_8() -> None:
    for path in Path(record.__file__).parents[1].rglob("*.py"):
        ast.parse(path.read_text("utf-8"), feature_version=(3, 8))


def test_an_event_tells_how_long_the_log_of_the_process_was(tmp_path: Path) -> None:
    """The lines that a person looks for are those around it."""
    log = tmp_path / "log"
    client = Client(tmp_path / "record", log)
    client.does["poll"] = lambda _: RECORDS
    consumer = client.consumer()
    for text in ("", "one\n", "two\n"):
        with log.open("a") as file:
            file.write(text)
        consumer.poll()
    log.unlink()
    consumer.poll()

    assert [row.get("log_bytes") for row in client.rows() if row["kind"] == "consume"] == [0, 4, 8, None]


def test_a_close_or_unsubscription_with_wrong_arguments_is_none(client: Client) -> None:
    """The client refuses it, and goes on owning its partitions."""
    consumer = client.consumer(owned=b"\1")

    with pytest.raises(TypeError, match="unexpected keyword argument"):
        consumer.close(nothing=1)
    with pytest.raises(TypeError, match="positional argument"):
        consumer.unsubscribe("t")

    assert client.events() == []
