"""What the harness takes over of the rows that the recorder of a service has written."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors.history.events import Event
from kafka_assignors.history.events.bodies import CommitBeginBody, CommitFailBody, RewoundBody
from kafka_assignors.integration.checker.laws.findings import Findings
from kafka_assignors.integration.checker.laws.progress import asked_to_end
from kafka_assignors.integration.checker.ledger import RunRecord
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.config import MemberConfig
from kafka_assignors.integration.members.faults import MemberFaults
from kafka_assignors.integration.members.running import RunningMembers
from kafka_assignors.integration.members.service import SERVICE, Service, ServiceProcess
from kafka_assignors.integration.recorder.kafka_assignors_recorder import LOG
from kafka_assignors.integration.recording import RunFile
from tests.support.integration.recorded import Client, adopt, result

SECOND = (
    "its process has a second consumer in the group while the first is open; one member per process is judged: close "
    "the first before the next one joins"
)
STRANGE = "its record has lines that the recorder did not write; they are ignored"


class Recorded:
    """A service's process, and its record written by hand."""

    def __init__(self, folder: Path) -> None:
        self._folder, ticks = folder, count(1)
        self.now: Callable[[], dict[str, int]] = lambda: dict.fromkeys(("mono_ns", "ts_ns"), next(ticks))
        config = MemberConfig("localhost:1", "g", "m", ("t",), (), str(folder / "m.jsonl"), "run", client=SERVICE)
        command = (sys.executable, "-c", "import signal; signal.pause()")
        self.process = ServiceProcess(config, Service(command), folder / "m", count(1).__next__)

    def write(self, kind: str, consumer: int = 0, pid: int = 7, **fields: Any) -> None:
        """A row of the recorder's."""
        common = {**self.now(), "pid": pid, "consumer": consumer}
        self.line(json.dumps({"kind": kind, **common, **fields}).encode(), pid)

    def start(self, consumer: int = 0, pid: int = 7, client: str = "aiokafka", **config: Any) -> None:
        settings = {"assignors": [], **config}
        self.write("start", consumer, pid, client=client, topics=["t"], assignors=["range"], config=settings)

    def generation(self, number: int, consumer: int = 0, pid: int = 7) -> None:
        self.write("generation", consumer, pid, generation=number, protocol="range", partitions=[])

    def line(self, data: bytes, pid: int = 7) -> None:
        with (self._folder / f".m.record.{pid}").open("ab") as file:
            file.write(data + b"\n")

    def events(self, incarnation: int = 0) -> list[Event]:
        """Those of its history."""
        self.process.catch_up()
        path = self._folder / (f"g.m.{incarnation}.jsonl" if incarnation else "m.jsonl")
        return [Event.from_json(line) for line in path.read_text().splitlines()]

    def kinds(self, incarnation: int = 0) -> list[str]:
        return [event.kind for event in self.events(incarnation)]


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    given = Recorded(tmp_path)
    yield given
    given.process.kill()
    given.process.end(30)


def test_the_rows_of_one_consumer_are_its_history(recorded: Recorded) -> None:
    recorded.start(consumer=1)
    recorded.generation(4, consumer=1)

    events = recorded.events()

    assert [(event.kind, event.pid, event.mono_ns) for event in events] == [("start", 7, 1), ("generation", 7, 2)]
    assert "consumer" not in events[1].data
    assert [event.client for event in events] == ["aiokafka"] * 2
    assert (recorded.process.generation, recorded.process.last_error) == (4, "")
    assert recorded.process.incomplete == ""


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(lambda recorded: recorded.start(consumer=1), id="a second consumer"),
        pytest.param(lambda recorded: recorded.start(pid=3), id="a second process, whose file comes first"),
        pytest.param(lambda recorded: recorded.generation(9, pid=9), id="a fork of the member"),
        pytest.param(lambda recorded: recorded.start(), id="the same process with another program"),
    ],
)
@pytest.mark.parametrize("at_once", [False, True])
def test_a_second_consumer_is_told_and_left_out(
    second: Callable[[Recorded], None], at_once: bool, recorded: Recorded
) -> None:
    recorded.start()
    recorded.generation(4)
    if not at_once:
        assert recorded.kinds() == ["start", "generation"]
    second(recorded)
    second(recorded)

    (error,) = (event for event in recorded.events() if event.kind == "error")
    assert error.data == {"error": "SecondConsumer", "fatal": False, "message": SECOND}
    assert error.mono_ns < 10  # on the recorder's clock, not when the harness read it
    assert recorded.kinds() == ["start", "generation", "error"]
    assert (recorded.process.generation, recorded.process.last_error) == (4, SECOND)
    assert recorded.process.incomplete == SECOND


@pytest.mark.parametrize(
    "anew",
    [
        pytest.param({"consumer": 1}, id="another consumer"),
        pytest.param({"pid": 9}, id="a consumer of another process"),
        pytest.param({}, id="another program of the same process"),
    ],
)
@pytest.mark.parametrize("at_once", [False, True])
def test_a_consumer_made_anew_is_another_incarnation(anew: dict[str, int], at_once: bool, recorded: Recorded) -> None:
    place = {"topic": "t", "partition": 0}
    recorded.start(session_timeout_ms=6000)
    recorded.generation(4)
    recorded.write("assigned_end", generation=4, partitions=[place], member_id="first")
    recorded.write("consume", offsets=[{**place, "first": 0, "last": 4, "count": 5, "bytes": 0}])
    recorded.write("stop")
    if not at_once:
        assert recorded.kinds()[-1] == "stop"
        assert (recorded.process.generation, recorded.process.member_id) == (-1, None)  # so it is waited for
        assert (recorded.process.owned, recorded.process.position, recorded.process.at_work) == (set(), {}, False)
    recorded.start(**anew, client="kafka-python")
    recorded.generation(5, **anew)

    first, second = recorded.events(), recorded.events(1)
    assert [event.kind for event in first] == ["start", "generation", "assigned_end", "consume", "stop", "end"]
    assert [event.kind for event in second] == ["start", "generation"]
    assert [{(event.incarnation, event.client) for event in events} for events in (first[:-1], second)] == [
        {(0, "aiokafka")}, {(1, "kafka-python")},
    ]  # fmt: skip
    assert recorded.process.named("pause")["incarnation"] == 1
    assert (recorded.process.generation, recorded.process.incomplete) == (5, "")


def test_each_consumer_made_anew_has_its_number(recorded: Recorded) -> None:
    for consumer in range(4):
        recorded.start(consumer)
        recorded.write("stop", consumer)

    assert [recorded.kinds(number) for number in range(4)] == [["start", "stop", "end"]] * 3 + [["start", "stop"]]


def test_a_recorded_service_makes_its_consumer_anew(recorded: Recorded, tmp_path: Path) -> None:
    """From the client's calls to the histories."""
    client = Client(tmp_path / ".m.record")
    client.does["complete"] = adopt
    for number in (1, 2):
        consumer = client.module.KafkaConsumer()
        result(consumer._coordinator._on_join_prepare_async(-1, ""))
        consumer._coordinator._generation.member_id = f"id-{number}"
        result(consumer._coordinator._on_join_complete_async(number, f"id-{number}", "range", b"\1"))
        consumer.close()

    histories = [[event for event in recorded.events(number) if event.kind != "end"] for number in (0, 1)]
    kinds = ["start", "generation", "assigned_begin", "assigned_end", "stop"]
    assert [[event.kind for event in events] for events in histories] == [kinds, kinds]
    assert [{event.member_id for event in events} for events in histories] == [{None, "id-1"}, {None, "id-2"}]
    assert recorded.process.incomplete == ""


def test_what_a_closed_consumer_tells_once_there_is_another_is_left_out(recorded: Recorded) -> None:
    recorded.start()
    recorded.write("stop")
    recorded.start(1)
    recorded.generation(4)

    assert recorded.kinds(1) == ["start", "error"]
    assert recorded.process.incomplete == SECOND


def test_commits_of_a_consumer_made_anew_are_compared_with_what_it_reads(recorded: Recorded) -> None:
    """Its first commit may be of where another member ended meanwhile; what its predecessor read is none of its."""
    place = {"topic": "t", "partition": 0}
    for consumer, offset in enumerate((5, 50)):
        recorded.start(consumer)
        recorded.write("commit_begin", consumer, offsets=[{**place, "offset": offset}])
        recorded.write("stop", consumer)
    assert (recorded.kinds()[-2:], recorded.process.incomplete) == (["stop", "end"], "")
    recorded.start(2)
    recorded.write("consume", 2, offsets=[{**place, "first": 0, "last": 90, "count": 91, "bytes": 0}])
    recorded.write("stop", 2)
    recorded.start(3)
    for offset in (5, 9):
        recorded.write("commit_begin", 3, offsets=[{**place, "offset": offset}])
    recorded.events()

    assert "did not see it read" in recorded.process.incomplete


def test_a_consumer_made_anew_speaks_its_own_protocol(recorded: Recorded) -> None:
    recorded.start(client="confluent-kafka", protocol="consumer")
    recorded.write("stop")
    recorded.start(1, client="confluent-kafka")
    recorded.events()

    assert not recorded.process.config.broker_assigned


def test_a_proxy_hears_of_a_consumer_made_anew(recorded: Recorded) -> None:
    """Its faults name the incarnation that they hit."""
    admitted: list[tuple[object, ...]] = []
    proxy = SimpleNamespace(admit=lambda *given: admitted.append(given))
    recorded.process.via = proxy  # type: ignore[assignment]
    recorded.start()
    recorded.write("stop")
    recorded.start(1)
    recorded.events()

    assert admitted == [("m", "g", 1)]


@pytest.mark.parametrize("fault", ["kill", "pause", "pause too early", "stop"])
def test_a_member_that_makes_its_consumer_anew_ends_and_fails_under_its_last_number(
    fault: str, recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history has no gap, and law E1 finds each end where it belongs."""

    def renew() -> None:
        recorded.write("stop")
        recorded.start(1)

    recorded.now = lambda: {"mono_ns": time.monotonic_ns(), "ts_ns": time.time_ns()}
    recorded.start()
    recorded.events()
    with RunFile(tmp_path / "g.harness.jsonl", "run", "harness", group="g") as writer:
        members = RunningMembers("g", writer)
        members.by_name["m"] = recorded.process
        if fault == "pause too early":
            pause = recorded.process.pause
            monkeypatch.setattr(recorded.process, "pause", lambda: (renew(), pause()))
        else:
            renew()
        if fault == "stop":
            recorded.process.terminate()
        elif fault != "kill":
            MemberFaults(members).pause("m")
            MemberFaults(members).resume("m")
        if fault == "stop":
            members.ended("m", 30)
        else:
            MemberFaults(members).kill("m")

    history = History.load(tmp_path)
    assert history.problems == ()
    hits = [(event.kind, event.data["fault"], event.incarnation) for event in history.events if "fault" in event.data]
    early = [("fault_begin", "pause", 0), ("fault_end", "pause", 0)] if fault == "pause too early" else []
    paused = [("fault_begin", "pause", 1), ("fault_end", "pause", 1)] if fault.startswith("pause") else []
    killed = [("fault_begin", "kill", 1), ("fault_end", "kill", 1)] if fault != "stop" else []
    assert hits == early + paused + killed
    assert [event.incarnation for event in history.events if event.kind == "exit"] == [1]
    findings = Findings(checked={"E1": 0})
    asked_to_end(RunRecord.of(history).groups["g"], findings)
    assert (findings.violations, findings.unknown, findings.checked["E1"]) == ([], [], 1)


def test_the_first_consumer_goes_on(recorded: Recorded) -> None:
    recorded.start()
    recorded.start(consumer=1)
    recorded.generation(9, consumer=1)
    recorded.generation(4)

    assert recorded.kinds() == ["start", "error", "generation"]
    assert recorded.process.generation == 4


def test_what_follows_another_program_is_not_the_members(recorded: Recorded) -> None:
    recorded.start()
    recorded.start()
    recorded.generation(9)

    assert recorded.kinds() == ["start", "error"]


@pytest.mark.parametrize(
    "line",
    [
        b"hello", b"\xff\xfe", b"[1]", b"17", b"{}", b'{"mono_ns":1,"ts_ns":1,"pid":1}', b"[" * 100_000,
        b'{"kind":"finished","mono_ns":1,"ts_ns":1,"pid":1,"offsets":[]}',
        b'{"kind":"generation","mono_ns":1,"ts_ns":1,"pid":1}',
        b'{"kind":"stop","mono_ns":"1","ts_ns":1,"pid":1}',
        b'{"kind":"stop","mono_ns":1,"ts_ns":1,"pid":1,"log_bytes":-1}',
        b'{"kind":"stop","mono_ns":1,"ts_ns":1,"pid":1,"log_bytes":"1"}',
        b'{"kind":"start","mono_ns":1,"ts_ns":1,"pid":1,"topics":"t","assignors":[],"config":{}}',
        b'{"kind":"start","mono_ns":1,"ts_ns":1,"pid":1,"topics":[],"assignors":[],"config":{},"client":"x"}',
        b'{"kind":"assigned_end","mono_ns":1,"ts_ns":1,"pid":1,"generation":1,"partitions":["t"]}',
        b'{"kind":"consume","mono_ns":1,"ts_ns":1,"pid":1,"offsets":[{"topic":"t","partition":1}]}',
        b'{"kind":"rewound","mono_ns":1,"ts_ns":1,"pid":1,"offsets":[{"topic":"t","partition":1}]}',
        b'{"kind":"commit_ok","mono_ns":1,"ts_ns":1,"pid":1,"offsets":[],"transaction":"1"}',
        b'{"kind":"stop","mono_ns":1,"ts_ns":1,"pid":1,"instance_id":7}',
    ],
)  # fmt: skip
def test_a_line_of_the_services_own_is_told_and_left_out(line: bytes, recorded: Recorded) -> None:
    recorded.start()
    recorded.line(line[:200])
    recorded.line(line)
    recorded.generation(4)

    (error,) = (event for event in recorded.events() if event.kind == "error")
    assert error.data == {"error": "StrangeLine", "fatal": False, "message": STRANGE}
    assert sorted(recorded.kinds()) == ["error", "generation", "start"]


def test_transactions_and_what_follows_an_aborted_one_are_its_history(recorded: Recorded) -> None:
    """A law takes the numbers of transactions, and where it goes back."""
    recorded.start()
    offsets = [{"topic": "t", "partition": 0, "offset": 5}]
    for kind in ("commit_begin", "commit_fail"):
        recorded.write(kind, offsets=offsets, transaction=3, error="an abort")
    recorded.write("rewound", offsets=offsets)

    begin, fail, back = recorded.events()[1:]

    assert isinstance(begin.body, CommitBeginBody)
    assert isinstance(fail.body, CommitFailBody)
    assert isinstance(back.body, RewoundBody)
    assert (begin.body.transaction, fail.body.transaction, fail.body.error) == (3, 3, "an abort")
    assert [(row.tp, row.offset) for row in back.body.offsets] == [(("t", 0), 5)]
    assert recorded.process.incomplete == ""


@pytest.mark.parametrize(
    ("reads", "commits", "unseen"),
    [
        ([(0, 4)], [5], False),
        ([], [5], False),
        ([], [5, 5], False),
        ([], [5, 3], False),
        ([], [5, 6], True),
        ([(5, 5)], [5, 6, 7], True),
        ([(5, 8)], [5, 6, 9], False),
    ],
)
def test_commits_beyond_what_it_was_seen_reading_are_told(
    reads: list[tuple[int, int]], commits: list[int], unseen: bool, recorded: Recorded
) -> None:
    """The first commit may be of where it began."""
    recorded.start()
    for first, last in reads:
        run = {"topic": "t", "partition": 0, "first": first, "last": last, "count": 1 + last - first, "bytes": 0}
        recorded.write("consume", offsets=[run])
    for offset in commits:
        recorded.write("commit_begin", offsets=[{"topic": "t", "partition": 0, "offset": offset}])

    assert ("error" in recorded.kinds()) == unseen
    assert ("did not see it read" in recorded.process.incomplete) == unseen


def test_a_partition_that_comes_back_begins_where_another_member_ended(recorded: Recorded) -> None:
    recorded.start()
    for offset in (5, 50, 51):
        place = {"topic": "t", "partition": 0}
        recorded.write("assigned_begin", generation=offset, partitions=[place])
        recorded.write("commit_begin", offsets=[{**place, "offset": offset}])

    assert "error" not in recorded.kinds()


def test_its_session_is_known_once_it_tells(recorded: Recorded) -> None:
    assert recorded.process.session_ms is None

    recorded.start(session_timeout_ms=6000)
    recorded.events()

    assert recorded.process.session_ms == 6000


def test_a_process_prints_unbuffered_into_a_log_that_its_recorder_measures(tmp_path: Path) -> None:
    """Else the lines of a killed process were lost, and an event would lie beside older ones."""
    config = MemberConfig("localhost:1", "g", "m", ("t",), (), str(tmp_path / "m.jsonl"), "run", client=SERVICE)
    names = (LOG, "PYTHONUNBUFFERED")
    process = ServiceProcess(
        config, Service((sys.executable, "-c", f"import os; print(*map(os.environ.get, {names}))")), tmp_path / "m",
        count(1).__next__,
    )  # fmt: skip
    process.end(30)

    assert process.output.read_text() == f"{process.output} 1\n"


def test_a_member_of_a_group_in_which_the_broker_assigns_is_one(recorded: Recorded) -> None:
    recorded.start(client="confluent-kafka", protocol="consumer")

    assert [event.client for event in recorded.events()] == ["confluent-kafka"]
    assert recorded.process.config.broker_assigned


def test_a_recorder_that_stopped_before_the_first_join_is_told(recorded: Recorded) -> None:
    recorded.write("error", error="AttributeError", fatal=False, message="the recorder stopped: AttributeError: x")

    assert recorded.kinds() == ["error"]
    assert recorded.process.last_error.startswith("the recorder stopped")
    assert recorded.process.incomplete == recorded.process.last_error


def test_half_a_line_is_taken_over_when_it_is_whole(recorded: Recorded, tmp_path: Path) -> None:
    recorded.start()
    path = tmp_path / ".m.record.7"
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    assert recorded.kinds() == []
    path.write_bytes(whole)

    assert recorded.kinds() == ["start"]


@pytest.mark.parametrize("whole", [True, False])
def test_the_record_goes_once_all_of_it_is_history(whole: bool, recorded: Recorded, tmp_path: Path) -> None:
    recorded.start()
    if not whole:
        recorded.line(b"of the service's own")

    recorded.process.kill()
    recorded.process.end(30)

    assert [path.name for path in tmp_path.glob(".m.record.*")] == ([] if whole else [".m.record.7"])
