"""A recording to OpenTelemetry: each event is a log record with a file's line; a failure stops nothing."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors import TopicPartition, record
from kafka_assignors.clients import record as record_module
from kafka_assignors.clients.recorder import otel
from kafka_assignors.clients.recorder.otel import OTEL, OtelSink
from kafka_assignors.connection import Connection
from kafka_assignors.errors import ConfigError
from kafka_assignors.extras import install
from kafka_assignors.recordings import read_group
from tests.clients.test_recorder import Librdkafka
from tests.support.programs import python
from tests.support.waiting import until

_logs = pytest.importorskip("opentelemetry._logs")
sdk = pytest.importorskip("opentelemetry.sdk._logs")
export = pytest.importorskip("opentelemetry.sdk._logs.export")

PLACES = [TopicPartition("t", number) for number in range(3)]


@pytest.fixture(autouse=True)
def _own_senders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process has one sender to OpenTelemetry."""
    monkeypatch.setattr("kafka_assignors.clients.record._senders", {})


@pytest.fixture
def provide(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Sets the provider with a processor, as a service does once per process."""

    def provided(processor: Any) -> None:
        provider = sdk.LoggerProvider(shutdown_on_exit=False)
        provider.add_log_record_processor(processor)
        monkeypatch.setattr(_logs, "get_logger_provider", lambda: provider)

    return provided


def joined() -> Librdkafka:
    consumer = Librdkafka()
    consumer.generation, consumer.member_id = 4, "app-01234567-89ab-cdef-0123-456789abcdef"
    return consumer


def played(calls: list[str] | None = None) -> None:
    """A member gets three partitions, gives one up, and loses the others."""
    consumer = joined()
    own = {} if calls is None else {"on_assign": lambda *_: calls.append("on_assign")}
    callbacks = record(consumer, to=OTEL, **own)
    callbacks["on_assign"](consumer, PLACES)
    consumer.generation = 5
    callbacks["on_revoke"](consumer, PLACES[:1])
    callbacks["on_lost"](consumer, PLACES[1:])


def test_each_event_is_a_log_record(provide: Callable[[Any], None], tmp_path: Path) -> None:
    exporter = export.InMemoryLogRecordExporter()
    provide(export.SimpleLogRecordProcessor(exporter))
    played()
    until(lambda: len(exporter.get_finished_logs()) == 8, "all events are emitted")
    emitted = [data.log_record for data in exporter.get_finished_logs()]

    first, lost = emitted[0], emitted[-1]
    assert first.event_name == "kafka_assignors.generation"
    assert dict(first.attributes) == {
        "messaging.system": "kafka", "messaging.consumer.group.name": "g", "kafka_assignors.member": "app",
        "kafka_assignors.member_id": "app-01234567-89ab-cdef-0123-456789abcdef", "kafka_assignors.generation": 4,
        "kafka_assignors.partitions": 3,
    }  # fmt: skip
    assert (first.severity_number.name, lost.severity_number.name) == ("INFO", "WARN")
    assert [json.loads(one.body)["ts_ns"] for one in emitted] == [one.timestamp for one in emitted]

    (tmp_path / "bodies.jsonl").write_text("".join(f"{one.body}\n" for one in emitted))
    group = read_group("g", [str(tmp_path)], lambda: Connection(""), pytest.fail)
    assert [generation.number for generation in group.generations] == [4, 5]


def test_without_the_package_the_fix_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError) as refused:
        record(joined(), to=OTEL)
    assert str(refused.value) == (
        f"record: to='otel:' needs opentelemetry-api, 1.37 or later; install it by: {install('otel')}"
    )


def test_an_older_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "1.36.0")
    with pytest.raises(ConfigError, match=r"1\.36\.0 is installed; update it by: pip install"):
        record(joined(), to=OTEL)


@pytest.mark.parametrize("to", ["otel:billing", "otel:/logs"])
def test_it_takes_no_name(to: str) -> None:
    with pytest.raises(ConfigError, match="not 'otel:'"):
        record(joined(), to=to)


class Broken:
    """A processor that fails."""

    def on_emit(self, _record: Any) -> None:
        raise OSError("the collector is away")


def test_a_failure_is_logged_once_and_the_service_goes_on(
    provide: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A processor that raises, and no provider, with which OpenTelemetry drops everything without a word."""
    for put, words in (
        (lambda: provide(Broken()), "the collector is away"),
        (lambda: monkeypatch.setattr(_logs, "get_logger_provider", _logs.NoOpLoggerProvider), "no logger provider"),
    ):
        put()
        monkeypatch.setattr("kafka_assignors.clients.record._senders", {})
        calls: list[str] = []
        caplog.clear()
        with caplog.at_level(logging.WARNING, "kafka_assignors"):
            played(calls)
            until(lambda words=words: words in caplog.text, "the failure is logged")
            played(calls)
            assert record_module._senders[OTEL].flush(30)
        assert calls == ["on_assign", "on_assign"]
        assert caplog.text.count(words) == 1


def test_an_event_that_collectors_refuse_is_left_out(
    provide: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter = export.InMemoryLogRecordExporter()
    provide(export.SimpleLogRecordProcessor(exporter))
    monkeypatch.setattr(otel, "MOST_LINE_BYTES", 60)
    row = b'{"kind":"stop","ts_ns":1,"group":"g","member":"m"}'
    with pytest.raises(ValueError, match="1 events are longer than 60 bytes"):
        OtelSink().write([row, row[:-1] + b',"reason":"its consumer was closed"}'])
    assert len(exporter.get_finished_logs()) == 1


SERVICE = """
import sys, tempfile
from kafka_assignors import TopicPartition, record
from tests.clients.test_otel_recording import joined
for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
    del sys.modules[name]
record(joined(), to=tempfile.mkdtemp())
assert not any(name.startswith("opentelemetry") for name in sys.modules)

from opentelemetry import _logs
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, ConsoleLogRecordExporter
provider = LoggerProvider()
provider.add_log_record_processor(BatchLogRecordProcessor(ConsoleLogRecordExporter(
    formatter=lambda one: f"{getattr(one, 'log_record', one).event_name}\\n")))
_logs.set_logger_provider(provider)
consumer = joined()
record(consumer, to="otel:")["on_assign"](consumer, [TopicPartition("t", 0)])
"""


@pytest.mark.slow
def test_a_service_that_ends_at_once_loses_nothing_and_others_do_not_import_it() -> None:
    """The recorder is flushed before the SDK ends, since its provider was set first."""
    done = python("-c", SERVICE, check=True)
    assert done.stdout.split() == [
        f"kafka_assignors.{kind}" for kind in ("generation", "assigned_begin", "assigned_end")
    ]
