"""The recorder's own limits: it never raises, never waits, is bounded, and says once what it loses."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import struct
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors import TopicPartition, record
from kafka_assignors.clients.confluent_recording import metadata_of
from kafka_assignors.clients.recorder import sender as sending
from kafka_assignors.clients.recorder.member import JoinedMember, ServiceMember, client_id_of
from kafka_assignors.clients.recorder.sender import EventSender
from kafka_assignors.clients.recorder.sinks import FileSink, TopicSink
from kafka_assignors.errors import ConfigError
from kafka_assignors.history.events import INCOMPLETE
from tests.support.waiting import until

COMMON = {"group": "g", "member": "m", "client": "kafka-python"}


class Held:
    """A sink that waits until it may write, and can fail."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.may, self.error = threading.Event(), None
        self.forks = 0

    def write(self, lines: Sequence[bytes]) -> None:
        self.may.wait(30)
        if self.error is not None:
            raise self.error
        self.lines += lines

    def fork(self) -> None:
        self.forks += 1

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


def member(sender: EventSender) -> ServiceMember:
    return ServiceMember(sender, group="g", client="kafka-python", client_id="m", instance_id=None, host="h")


def test_events_are_written_in_order_on_a_thread_of_their_own() -> None:
    sink = Held()
    sender = EventSender(sink)
    for n in range(5):
        sender.put("stop", COMMON, {"reason": str(n)})
    assert sink.lines == [], "nothing waits for the sink"
    sink.may.set()
    assert sender.flush(30)
    assert [(row["seq"], row["reason"]) for row in sink.rows()] == [(n, str(n)) for n in range(5)]


def test_what_waits_is_bounded_and_what_was_dropped_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MOST_WAITING", 3)
    sink = Held()
    sender = EventSender(sink)
    sender.put("stop", COMMON, {})
    until(lambda: not sender._waiting, "the first is being written")
    for _ in range(10):
        sender.put("stop", COMMON, {})
    assert len(sender._waiting) == 3
    sink.may.set()
    until(lambda: any(row["kind"] == "error" for row in sink.rows()), "the loss is recorded")
    (error,) = [row for row in sink.rows() if row["kind"] == "error"]
    assert (error["error"], error["message"].partition(" ")[0], error["seq"]) == (INCOMPLETE, "7", 4 + 7)


def test_a_large_event_does_not_wait_beside_others_above_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MOST_WAITING_BYTES", 100)
    sink = Held()
    sender = EventSender(sink)
    sender.put("stop", COMMON, {})
    until(lambda: not sender._waiting, "the first is being written")
    for _ in range(5):
        sender.put("stop", COMMON, {}, 60)
    assert len(sender._waiting) == 1
    sink.may.set()
    sender.flush(30)


def test_a_sink_that_fails_is_told_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kafka_assignors")
    sink = Held()
    sink.may.set()
    sink.error = OSError(28, "No space left on device")  # type: ignore[assignment]
    sender = EventSender(sink)
    for _ in range(3):
        sender.put("stop", COMMON, {})
        assert sender.flush(30)
    assert [each.getMessage() for each in caplog.records] == [
        "record: events of this process are lost, its consumers go on: [Errno 28] No space left on device"
    ]
    sink.error = None
    sender.put("stop", COMMON, {"reason": "there is space again"})
    assert sender.flush(30)
    assert [row["reason"] for row in sink.rows()] == ["there is space again"]


def test_a_recorder_that_fails_ends_by_itself_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kafka_assignors")
    recorded = member(EventSender(Held()))
    calls = []

    def fail() -> None:
        calls.append(1)
        raise AttributeError("no such name")

    for _ in range(3):
        recorded.guarded(fail)
    assert calls == [1]
    (told,) = [each.getMessage() for each in caplog.records]
    assert told.endswith("AttributeError: no such name")


def test_a_file_is_bounded_and_keeps_what_was_before(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "new" / "folder", most_bytes=100)
    for n in range(9):
        sink.write([b"x" * 40, str(n).encode()])
    files = sorted(path.name.split(".", 1)[1] for path in (tmp_path / "new" / "folder").iterdir())
    assert files in ([f"{os.getpid()}.old.jsonl"], [f"{os.getpid()}.jsonl", f"{os.getpid()}.old.jsonl"])
    assert sum(path.stat().st_size for path in (tmp_path / "new" / "folder").iterdir()) < 2 * 100 + 90
    newest = sink.path if sink.path.exists() else next((tmp_path / "new" / "folder").glob("*.old.jsonl"))
    assert newest.read_bytes().splitlines()[-1] == b"8"


def test_a_line_that_was_torn_damages_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, write, parts = FileSink(tmp_path), os.write, iter((3, OSError(28, "full")))

    def torn(handle: int, data: bytes) -> int:
        part = next(parts, None)
        if isinstance(part, OSError):
            raise part
        return write(handle, data if part is None else data[:part])

    monkeypatch.setattr(os, "write", torn)
    with pytest.raises(OSError, match="full"):
        sink.write([b"lost"])
    sink.write([b"whole"])
    assert sink.path.read_bytes() == b"los\nwhole\n"


def test_a_forked_process_writes_a_file_of_its_own(tmp_path: Path) -> None:
    sender = EventSender(FileSink(tmp_path))
    sender.put("stop", COMMON, {"reason": "parent"})
    assert sender.flush(30)

    child = os.fork()
    if child == 0:
        try:
            sender.put("stop", COMMON, {"reason": "child"})
            os._exit(0 if sender.flush(30) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    rows = {path.name.split(".")[-2]: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert rows[str(os.getpid())]["reason"] == "parent"
    (other,) = [row for pid, row in rows.items() if pid != str(os.getpid())]
    assert (other["reason"], other["seq"]) == ("child", 0)
    assert other["run"] != rows[str(os.getpid())]["run"]


def test_a_line_that_no_record_holds_is_left_out_and_told() -> None:
    sent: list[bytes] = []

    class Producer:
        def send(self, value: bytes) -> None:
            sent.append(value)

        def flush(self) -> None:
            """Nothing waits."""

    sink = TopicSink(Producer)
    with pytest.raises(ValueError, match="1 events are longer"):
        sink.write([b"a", b"x" * 1_000_000, b"b"])
    assert sent == [b"a", b"b"]


def test_partitions_given_up_are_told_once() -> None:
    sink = Held()
    sink.may.set()
    sender = EventSender(sink)
    recorded = member(sender)
    recorded.joined("m-1", 3, "range", "m-1", [JoinedMember("m-1", None, b"")])
    recorded.adopting(3, "range", b"")
    recorded.owns([("t", 0), ("t", 1)])
    recorded.gives_up([("t", 1), ("t", 7)])
    recorded.gives_up([("t", 1)], lost=True)
    recorded.owns([("t", 0)])
    recorded.stop("closed")
    recorded.stop("closed again")
    assert sender.flush(30)
    rows = [(row["kind"], [p["partition"] for p in row.get("partitions", ())]) for row in sink.rows()]
    assert rows == [
        ("generation", []), ("assigned_begin", [0, 1]), ("assigned_end", [0, 1]), ("revoke_begin", [1]),
        ("revoke_end", [1]), ("stop", []),
    ]  # fmt: skip
    assert {row["member_id"] for row in sink.rows()} == {"m-1"}


def test_a_client_id_is_read_from_a_member_id() -> None:
    uuid = "01234567-89ab-cdef-0123-456789abcdef"
    assert client_id_of(JoinedMember(f"my-app-{uuid}", None, b"")) == "my-app"
    assert client_id_of(JoinedMember(f"i1-{uuid}", "i1", b"")) == "i1"


@pytest.mark.parametrize("to", ["", "topic:", b"folder"])
def test_a_destination_that_is_none_is_refused(to: Any) -> None:
    with pytest.raises(ConfigError, match="no folder"):
        record(object(), to=to)


def test_what_is_no_consumer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="KafkaConsumer"):
        record(object(), to=tmp_path)


class Librdkafka:
    """A consumer that tells its group metadata as confluent-kafka's does."""

    generation, member_id, instance_id = -1, "", ""

    def consumer_group_metadata(self) -> bytes:
        static = f"\0{self.instance_id}\0" if self.instance_id else "\1"
        return b"CGMDv2:" + struct.pack("=i", self.generation) + f"g\0{self.member_id}\0{static}".encode()


Librdkafka.__module__ = "cimpl"


def test_callbacks_record_a_consumer_of_librdkafka_and_call_the_services_own(tmp_path: Path) -> None:
    consumer, calls = Librdkafka(), []
    places = [TopicPartition("t", number) for number in range(3)]
    own = {name: lambda *given, name=name: calls.append((name, *given)) or name for name in ("on_assign", "on_revoke")}
    callbacks = record(consumer, to=tmp_path, **own)
    consumer.generation, consumer.member_id = 4, "app-01234567-89ab-cdef-0123-456789abcdef"
    assert callbacks["on_assign"](consumer, places) == "on_assign"
    consumer.generation = 5
    assert callbacks["on_revoke"](consumer, places[:1]) == "on_revoke"
    assert callbacks["on_lost"](consumer, places[1:]) == "on_revoke"
    assert calls == [
        ("on_assign", consumer, places), ("on_revoke", consumer, places[:1]), ("on_revoke", consumer, places[1:]),
    ]  # fmt: skip
    (path,) = until_some(lambda: list(tmp_path.iterdir()))
    until(lambda: path.read_text().count("lost_end") == 1, "all is written")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {(row["group"], row["member"], row["client"]) for row in rows} == {("g", "app", "confluent-kafka")}
    told = [(row["kind"], row["generation"], [p["partition"] for p in row["partitions"]]) for row in rows]
    assert told == [
        ("generation", 4, [0, 1, 2]), ("assigned_begin", 4, [0, 1, 2]), ("assigned_end", 4, [0, 1, 2]),
        ("generation", 5, [1, 2]), ("revoke_begin", 5, [0]), ("revoke_end", 5, [0]),
        ("lost_begin", 5, [1, 2]), ("lost_end", 5, [1, 2]),
    ]  # fmt: skip


def until_some(look: Callable[[], list[Path]]) -> list[Path]:
    until(look, "something is there")
    return look()


@pytest.mark.parametrize("instance_id", ["", "i1"])
def test_a_consumer_of_librdkafka_that_is_static_shows_its_instance_id(instance_id: str) -> None:
    consumer = Librdkafka()
    consumer.instance_id, consumer.member_id, consumer.generation = instance_id, "m", 7
    metadata = metadata_of(consumer)
    assert metadata is not None
    assert vars(metadata) == {"generation": 7, "group": "g", "member_id": "m", "instance_id": instance_id}


@pytest.mark.parametrize("static", [{}, {"group.instance.id": "i1"}])
def test_a_real_consumer_of_librdkafka_shows_its_group(static: dict[str, str], tmp_path: Path) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, **static}
    consumer = confluent_kafka.Consumer(settings)
    metadata = metadata_of(consumer)
    assert metadata is not None
    assert (metadata.group, metadata.instance_id) == ("g", static.get("group.instance.id", ""))
    assert sorted(record(consumer, to=tmp_path)) == ["on_assign", "on_lost", "on_revoke"]
    with pytest.raises(ConfigError, match="to a folder"):
        record(consumer, to="topic:t")
    consumer.close()


def test_a_consumer_of_kip_848_is_refused(tmp_path: Path) -> None:
    """librdkafka draws its member id before it joins; static or not."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, "group.protocol": "consumer"}
    for static in ({}, {"group.instance.id": "i1"}):
        consumer = confluent_kafka.Consumer({**settings, **static})
        with pytest.raises(ConfigError, match=r"group\.protocol=consumer .*`kafka-assignors why`"):
            record(consumer, to=tmp_path)
        consumer.close()
    assert list(tmp_path.iterdir()) == []


def test_a_consumer_that_shows_kip_848_later_is_recorded_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As of a librdkafka whose member id the coordinator makes: nothing false is written, and the service goes on."""
    consumer, calls = Librdkafka(), list[str]()
    callbacks = record(consumer, to=tmp_path, on_assign=lambda *_: calls.append("on_assign"))
    consumer.generation, consumer.member_id = 4, "UfCj5Pe7TgObnP3xkOMTnw"
    with caplog.at_level(logging.WARNING, "kafka_assignors"):
        callbacks["on_assign"](consumer, [TopicPartition("t", 0)])
        callbacks["on_assign"](consumer, [TopicPartition("t", 1)])
    assert calls == ["on_assign", "on_assign"]
    assert [record_.getMessage().count("group.protocol=consumer") for record_ in caplog.records] == [1]
    assert list(tmp_path.iterdir()) == []


def test_callbacks_are_of_librdkafka_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="on_assign: only"):
        record(object(), to=tmp_path, on_assign=print)


def test_a_consumer_without_a_group_is_refused(tmp_path: Path) -> None:
    aiokafka = pytest.importorskip("aiokafka")

    async def make() -> None:
        consumer = aiokafka.AIOKafkaConsumer("t", bootstrap_servers="127.0.0.1:1")
        try:
            record(consumer, to=tmp_path)
        finally:
            await consumer.stop()

    with pytest.raises(ConfigError, match="no group_id"):
        asyncio.run(make())
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(ConfigError, match="is a file"):
        record(object(), to=tmp_path / "f")
