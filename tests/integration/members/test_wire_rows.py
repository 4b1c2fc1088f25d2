"""Who tells of a service's process: its recorder, or else the tap before its connections."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.history.events import Event
from kafka_assignors.integration.errors import HarnessError
from kafka_assignors.integration.members.config import MemberConfig
from kafka_assignors.integration.members.service import SERVICE, Service, ServiceProcess
from kafka_assignors.integration.proxy import Tapped, WireTap
from tests.support.waiting import until


class HandTap(WireTap):
    """A tap whose rows are written by hand. `failure`: why it can't vouch for them at the end."""

    def __init__(self) -> None:
        self.failure = ""

    def listen(self, group: str, rows: Path, log: Path) -> Tapped:
        return Tapped(1, "127.0.0.1:40000", rows)

    def close_process(self, tapped: Tapped) -> None:
        if self.failure:
            raise HarnessError(self.failure)


class Both:
    """A process, the rows of its tap and those of its recorder."""

    def __init__(self, folder: Path) -> None:
        self.tap, self._folder, self._now_ns = HandTap(), folder, 0
        config = MemberConfig("localhost:1", "g", "m", ("t",), (), str(folder / "m.jsonl"), "run", client=SERVICE)
        command = (sys.executable, "-c", "import sys; print(sys.argv[1], flush=True); sys.stdin.read()", "{bootstrap}")
        self.process = ServiceProcess(config, Service(command), folder / "m", count(1).__next__, self.tap)

    def _write(self, name: str, kind: str, **fields: Any) -> None:
        self._now_ns += 1
        row = {"kind": kind, "mono_ns": self._now_ns, "ts_ns": self._now_ns, "consumer": 0, **fields}
        with (self._folder / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def wire(self, kind: str, **fields: Any) -> None:
        self._write(".m.wire", kind, **fields)

    def start(self, **fields: Any) -> None:
        """The first join, by the tap."""
        config = {"assignors": ["wire:range"], "session_timeout_ms": 6000}
        self.wire("start", client="wire", topics=["t"], assignors=["range"], config=config, **fields)

    def generation(self, number: int = 4, topics: tuple[str, ...] = ("t",), **fields: Any) -> None:
        self.wire("generation", generation=number, protocol="range", partitions=[], topics=list(topics), **fields)

    def recorded(self) -> None:
        """The first join, by the recorder."""
        fields = {"client": "aiokafka", "topics": ["t"], "assignors": ["range"], "config": {"assignors": []}}
        self._write(".m.record.7", "start", pid=7, **fields)

    def events(self) -> list[Event]:
        self.process.catch_up()
        return [Event.from_json(line) for line in (self._folder / "m.jsonl").read_text().splitlines()]

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events()]

    def end(self) -> None:
        self.process.kill()
        self.process.end(30)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    given = Both(tmp_path)
    yield given
    given.end()


def test_the_process_gets_the_taps_address(both: Both) -> None:
    until(lambda: both.process.output.read_text() == "127.0.0.1:40000\n", "it prints the address")


def test_without_a_recorder_the_connections_tell_from_the_first_assignment_on(both: Both) -> None:
    both.start(instance_id="i")
    assert both.kinds() == []  # a recorder may still tell
    both.generation(instance_id="i", member_id="m-1")

    events = both.events()

    assert [(event.kind, event.client, event.instance_id) for event in events] == [
        ("start", "wire", "i"), ("generation", "wire", "i"),
    ]  # fmt: skip
    assert events[1].pid == both.process.program.pid
    assert (both.process.generation, both.process.member_id, both.process.session_ms) == (4, "m-1", 6000)
    assert (both.process.last_error, both.process.incomplete) == ("", "")
    both.wire("stop")
    assert both.kinds() == ["start", "generation", "stop"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_recorder_that_tells_is_believed(at_once: bool, both: Both) -> None:
    both.recorded()
    if not at_once:
        both.events()
    both.start()
    both.generation()
    both.wire("error", error="Unread", fatal=False, message="the consumer protocol")

    assert [(event.kind, event.client) for event in both.events()] == [("start", "aiokafka")]
    assert both.process.incomplete == ""


def test_a_recorder_that_tells_later_is_a_second_consumer(both: Both) -> None:
    both.start()
    both.generation()
    both.events()
    both.recorded()

    assert both.kinds() == ["start", "generation", "error"]
    assert "second consumer" in both.process.incomplete


def test_a_second_consumer_on_the_wire_is_told(both: Both) -> None:
    both.start()
    both.generation()
    both.wire("start", client="wire", topics=["t"], assignors=["range"], config={}, **{"consumer": 1})

    assert both.kinds() == ["start", "generation", "error"]
    assert "second consumer" in both.process.incomplete


def test_commits_need_no_reads_that_were_seen(both: Both) -> None:
    both.start()
    both.generation()
    for offset in (5, 50):
        both.wire("commit_begin", offsets=[{"topic": "t", "partition": 0, "offset": offset}])

    assert both.kinds() == ["start", "generation", "commit_begin", "commit_begin"]


def test_a_new_subscription_is_what_it_reads(both: Both) -> None:
    both.start()
    both.generation(topics=("t", "u"))
    both.events()

    assert both.process.topics == ("t", "u")


def test_what_is_not_read_before_the_first_assignment_is_told(both: Both) -> None:
    both.wire("error", error="Unread", fatal=False, message="the consumer protocol is not read")
    assert both.kinds() == []
    assert both.process.last_error == "the consumer protocol is not read"
    both.start()
    both.generation()

    assert both.kinds() == ["start", "generation"]  # no event is before the start
    assert both.process.incomplete == "the consumer protocol is not read"


def test_the_taps_file_goes_once_all_of_it_is_history(both: Both, tmp_path: Path) -> None:
    both.start()
    both.generation()
    both.end()

    assert not list(tmp_path.glob(".m.wire"))


@pytest.mark.parametrize("has_recorder", [False, True])
def test_a_tap_that_failed_counts_where_it_tells(has_recorder: bool, both: Both) -> None:
    both.tap.failure = "1 of its connections did not end with it"
    if has_recorder:
        both.recorded()
    both.start()
    both.generation()
    both.end()

    assert both.process.incomplete == ("" if has_recorder else both.tap.failure)
