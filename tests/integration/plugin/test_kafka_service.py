"""A user's own suite with ``kafka_service``: it passes and fails as the verdicts over its processes say."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_assignors.errors import ConfigError
from kafka_assignors.integration import running_service
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.errors import HarnessError
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.service import Service
from kafka_assignors.integration.proxy import FaultProxy, Reset
from kafka_assignors.integration.records import Record
from kafka_assignors.integration.records.own import maker
from kafka_assignors.integration.running_service import RunningService, asked_service, require_valid
from tests.support.footprint import footprint
from tests.support.integration.suites import pytest_in, report_of

WORKER = """\
import os, signal, sys, time
from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka_assignors import RangeAssignor
group, topic, fault = sys.argv[1:]
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
consumer = KafkaConsumer(
    topic, bootstrap_servers=os.environ["BROKER"], group_id=group, auto_offset_reset="earliest",
    enable_auto_commit=False, session_timeout_ms=10_000, heartbeat_interval_ms=1000,
    partition_assignment_strategy=[RangeAssignor()],  # kafka-python's own may forget a join
)
if fault == "writes":
    with open(f"{os.environ['KAFKA_ASSIGNORS_RECORD']}.{os.getpid()}", "a") as record:
        record.write("not the recorder's\\n")
while not stop:
    values = []
    for batch in consumer.poll(timeout_ms=200).values():
        for record in batch:
            values.append(record.value)
            print(os.environ["NAME"], "bills", record.topic, record.partition, record.offset)
    if fault == "seeks" and b"again" in values:
        fault = ""
        print("once again")
        consumer.seek_to_beginning()  # and commits when it has read all of it again
    elif values:
        try:
            consumer.commit()
        except KafkaError as error:  # a rebalance: whoever gets the partition reads these records again
            print("refused", error)
consumer.close()
if fault == "hangs" and os.environ["NAME"] == "m1":
    time.sleep(60)
"""
BILLER = """\
import signal, sys
from kafka import KafkaConsumer, KafkaProducer
from kafka_assignors import RangeAssignor
address, group, topic, output, name, loses = sys.argv[1:]
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
producer = KafkaProducer(bootstrap_servers=address)
consumer = KafkaConsumer(
    topic, bootstrap_servers=address, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False,
    client_id=name, session_timeout_ms=6_000, heartbeat_interval_ms=500,
    partition_assignment_strategy=[RangeAssignor()],
)
while not stop:
    batches = consumer.poll(timeout_ms=200)
    for batch in batches.values():
        for record in batch:
            if loses == "backwards":
                producer.send(output, record.value[::-1])
            elif loses == "sound" or record.offset != 3:
                producer.send(output, b"bill of " + record.value)
    producer.flush()
    if batches:
        consumer.commit()
consumer.close()
"""
SUITE = """
import sys

import pytest

from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.records import Record

ENVIRONMENT = {"BROKER": "{bootstrap}", "NAME": "{replica}"}


def command(fault="none"):
    return [sys.executable, "worker.py", "{group}", "{topic}", fault]


def test_is_sound(kafka_service):
    service = kafka_service(
        command(), replicas=2, topics={"orders": 4}, environment=ENVIRONMENT, group="billing", require={"C3", "O4"}
    )
    assert service.running == (1, 2)
    assert service.send([b"an order", Record(service.topics["orders"], b"bob", value=b"another")]).acked == 2
    with service.sending(rate_per_s=50):
        service.roll()
        assert service.running == (3, 4)
        service.kill(3)
        assert service.start() == 5
        stable = service.wait_stable()
    assert sorted(stable.owned) == ["m4", "m5"]
    service.stop(5)
    service.wait_stable()
    service.wait_done()
    with pytest.raises(ConfigError, match="no replica 5 of the service runs; running: 4"):
        service.kill(5)


def test_seeks_back(kafka_service):
    service = kafka_service(command("seeks"), replicas=1, topics={"orders": 1}, environment=ENVIRONMENT)
    service.send(20)
    service.wait_done()
    service.send([b"again"])
    service.wait_done()


def test_writes_into_its_record(kafka_service):
    service = kafka_service(command("writes"), replicas=1, environment=ENVIRONMENT)
    service.send(20)
    service.wait_done()


def test_ends_at_once(kafka_service):
    kafka_service([sys.executable, "-c", "exit('no database')", "{bootstrap} {group} {topic}"], replicas=1)


def test_has_no_program(kafka_service):
    kafka_service("no-such-program {bootstrap} {group} {topic}")
"""

ORCHESTRATED = """
import sys

import pytest

from kafka_assignors.errors import ConfigError

ENVIRONMENT = {"BROKER": "{bootstrap}", "NAME": "{replica}"}


def command(fault="none"):
    return [sys.executable, "worker.py", "{group}", "{topic}", fault]


def test_is_orchestrated(kafka_service):
    service = kafka_service(command("hangs"), replicas=2, topics={"orders": 4}, environment=ENVIRONMENT)
    with service.sending(rate_per_s=50):
        service.pause(2)
        service.wait_stable()
        service.resume(2)
        service.wait_stable()
        assert service.roll(surge=2, grace_s=5) == (1,)
        assert service.running == (3, 4)
        assert service.scale(3, grace_s=5) == ()
        assert service.scale(2) == ()
        assert service.running == (3, 4)
        assert service.roll(surge=0, grace_s=5) == ()
        assert service.running == (6, 7)
    for surge in (3, -1, 1.5, True):
        with pytest.raises(ConfigError, match="is no number of new replicas for 2 old ones; give 0 to 2"):
            service.roll(surge=surge)
    for grace_s in (0, float("nan")):
        with pytest.raises(ConfigError, match="is no time from SIGTERM to SIGKILL"):
            service.roll(grace_s=grace_s)
    with pytest.raises(ConfigError, match="is no number of replicas"):
        service.scale(0)
    service.wait_done()


def biller(kafka_service, loses, **functions):
    words = ["{bootstrap}", "{group}", "{topic}", "{output}", "{replica}", loses]
    command = [sys.executable, "biller.py", *words]
    return kafka_service(command, replicas=2, topics={"orders": 2}, output={"bills": 2}, require={"X1"}, **functions)


def test_writes_each_bill(kafka_service):
    service = biller(kafka_service, "sound")
    with pytest.raises(ConfigError, match="values of your own have no id"):
        service.send([b"another"])
    with pytest.raises(ConfigError, match="values of your own have no id"):
        service.sending(values=[b"another"])
    with service.sending(rate_per_s=50):
        service.roll()
    service.send(20)


def test_loses_a_bill(kafka_service):
    biller(kafka_service, "loses").send(20)


def order(id):
    assert not id.startswith("order"), "the id alone"
    return f"order {id}"


def test_takes_orders_of_its_own(kafka_service):
    service = biller(kafka_service, "backwards", records=order, match="bills:order_of")
    service.send(20)
    with service.sending(rate_per_s=50):
        service.roll()


def test_has_bills_of_nobody(kafka_service):
    biller(kafka_service, "backwards", records=order, match=lambda output: None).send(20)
"""
BILLS = """
def order_of(output):
    return output.value[::-1].decode().removeprefix("order ")
"""


def written(folder: Path, broker: Broker, suite: str) -> None:
    """A user's suite and programs, against a broker that runs."""
    (folder / "conftest.py").write_text('pytest_plugins = ["kafka_assignors.pytest_plugin"]')
    (folder / "worker.py").write_text(WORKER)
    (folder / "biller.py").write_text(BILLER)
    (folder / "bills.py").write_text(BILLS)
    (folder / "test_theirs.py").write_text(suite)
    (folder / "pytest.ini").write_text(f"[pytest]\nkafka_backend = external\nkafka_bootstrap = {broker.bootstrap}\n")


@pytest.mark.broker
def test_a_suite_fails_where_its_service_breaks_a_law(kafka_broker: Broker, tmp_path: Path) -> None:
    """One run: which tests pass, and what a failure says of law, record, replica, and its log around the record."""
    written(tmp_path, kafka_broker, SUITE)
    before = footprint(kafka_broker.bootstrap)

    done = pytest_in(tmp_path, "-rA")

    after = footprint(kafka_broker.bootstrap)
    shown = done.stdout + done.stderr
    assert set(after["groups"]) <= set(before["groups"]), "an external broker's groups are removed"
    assert set(after["topics"]) <= set(before["topics"])
    outcomes = dict(re.findall(r"^(?:PASSED|FAILED) test_theirs.py::(\w+)(.*)$", shown, re.MULTILINE))
    assert set(re.findall(r"^PASSED test_theirs.py::(\w+)", shown, re.MULTILINE)) == {"test_is_sound"}, shown
    assert len(outcomes) == 5

    report = report_of("test_seeks_back", shown)
    place = r"orders-\w+-\d+"
    assert re.match(rf"\s*C2: m1 went back in {place}-0 from offset 20 to 0 while it owned it\n", report), report
    assert "verdict FALSE" in report
    (history,) = re.findall(r"judge it again: kafka-assignors judge (\S+)", report)
    assert re.search(
        rf"^m1 printed before and after \S+ \(event \d+\), to {history}/service-\S+\.m1\.0\.log:$", report, 8
    )
    around = rf"  m1 bills {place} 0 20\n  once again\n  -- \S+ --\n  m1 bills {place} 0 0\n  m1 bills {place} 0 1\n"
    assert re.search(around, report), report
    assert "m1 bills" not in report.replace("m1 bills", "", 9), "no more than five lines on each side"
    assert "21 records sent; read by nobody: 0; read twice: 21;" in report

    report = report_of("test_writes_into_its_record", shown)
    assert "verdict UNKNOWN" in report
    assert "'m1'" in report
    assert "its record has lines that the recorder did not write" in report
    assert "m1 printed last" in report

    report = report_of("test_ends_at_once", shown)
    assert re.search(
        r"^E .*MemberDied: member 'm1' of group 'service-\S+' ended with exit code 1: no database", report, 8
    )
    assert "def begin" not in report, "not the harness's lines"
    assert "verdict over its groups" in report

    report = report_of("test_has_no_program", shown)
    assert "ConfigError: kafka_service 'no-such-program {bootstrap} {group} {topic}': no program" in report


@pytest.mark.broker
@pytest.mark.release("the suite above has the same fixture")
def test_a_suite_rolls_and_scales_its_service_and_judges_its_outputs(kafka_broker: Broker, tmp_path: Path) -> None:
    """A replica that outlasts its grace is told; an output that is missing fails the test."""
    written(tmp_path, kafka_broker, ORCHESTRATED)

    done = pytest_in(tmp_path, "-rA")

    shown = done.stdout + done.stderr
    passed = set(re.findall(r"^PASSED test_theirs.py::(\w+)", shown, re.MULTILINE))
    assert passed == {"test_is_orchestrated", "test_writes_each_bill", "test_takes_orders_of_its_own"}, shown
    report = report_of("test_loses_a_bill", shown)
    assert re.match(r"\s*X1: 1 record\(s\) of orders-\S+ have no committed output: offset 3\n", report), report
    assert "records without an output: 2; with several: 0" in report
    assert "records without an output: 20; with several: 0" in report_of("test_has_bills_of_nobody", shown)


@pytest.mark.broker
def test_a_fault_of_the_network_hits_one_process(
    kafka_service: Callable[..., RunningService], kafka_faults: FaultProxy, kafka_history: Path, tmp_path: Path
) -> None:
    (tmp_path / "biller.py").write_text(BILLER)
    words = ["{bootstrap}", "{group}", "{topic}", "{output}", "{replica}", "sound"]
    service = kafka_service(
        [sys.executable, str(tmp_path / "biller.py"), *words], replicas=2, output={"bills": 2}, via=kafka_faults
    )

    kafka_faults.apply(Reset("m1", times=1, every_ms=50)).wait()
    service.wait_stable()

    (begin,) = (event for event in History.load(kafka_history).events if event.kind == "fault_begin")
    assert (begin.member, begin.data["fault"]) == ("m1", "reset")
    service.send(20)


@pytest.mark.parametrize(
    ("command", "environment", "words"),
    [
        ("", {}, "kafka_service '' has no words; give the command"),
        ([], {}, "kafka_service '' has no words"),
        ("worker 'x", {}, 'kafka_service "worker \'x": no closing quotation; quote its words'),
        ("no-such-program {bootstrap}", {}, "no program 'no-such-program' is found from this folder; check its name"),
        (sys.executable, {}, "add {bootstrap} to the command, or environment={'NAME': '{bootstrap}'}"),
        (
            [sys.executable, "{bootstrap}", "{topic}"], {},
            "tests share a broker, where it may only read what its test makes; add {group} to the command",
        ),
        (sys.executable, {"A": "{bootstrap}", "G": "{group}"}, "add {topic} to the command, or environment={'NAME'"),
        (f"{sys.executable} {{bootstrap}}", {"WORKERS": 3}, "the variable 'WORKERS' has the value 3, which is no text"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_be_started_is_named(
    command: str | Sequence[str], environment: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        asked_service(command, environment)


@pytest.mark.parametrize(
    ("replicas", "topics", "group", "words"),
    [
        (0, {"orders": 6}, "billing", "replicas=0 is no number of processes of a service; give 1 or more"),
        ("3", {"orders": 6}, "billing", "replicas='3' is no number"),
        (True, {"orders": 6}, "billing", "replicas=True is no number"),
        (1, {}, "billing", "topics={} has no topic for the service to read"),
        (1, {"orders": 0}, "billing", "topics={'orders': 0} is not a name and 1 to 10,000 partitions"),
        (1, {"or ders": 6}, "billing", "topics={'or ders': 6} is not a name and"),
        (1, {"orders": "6"}, "billing", "topics={'orders': '6'} is not a name and"),
        (1, {"orders": 6}, " ", "group=' ' is empty; name the group of your service"),
    ],
)
def test_what_is_asked_for_beside_the_command_is_checked(replicas: Any, topics: Any, group: str, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        require_valid(replicas, topics, group)
    require_valid(1, {"orders": 6}, "billing")


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ({"orders": 3}, "output={'orders': 3} is not one topic beside those that the service reads"),
        ({"bills": 3, "refunds": 3}, "output={'bills': 3, 'refunds': 3} is not one topic"),
        ({"bills": 0}, "output={'bills': 0} is not a name and 1 to 10,000 partitions"),
    ],
)
def test_an_output_is_one_topic_that_the_service_does_not_read(output: dict[str, int], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        require_valid(1, {"orders": 6}, "billing", output)
    require_valid(1, {"orders": 6}, "billing", {"bills": 3})


def test_what_is_promised_of_outputs_is_asked_for() -> None:
    command = [sys.executable, "{bootstrap}", "{group}", "{topic}"]
    assert asked_service([*command, "{output}"], {}, output=True, exactly_once=True).exactly_once
    with pytest.raises(ConfigError, match=r"exactly_once=True needs output=\{'NAME': PARTITIONS\}"):
        asked_service(command, {}, exactly_once=True)
    with pytest.raises(ConfigError, match=r"may only write what its test makes; add \{output\} to the command"):
        asked_service(command, {}, output=True)
    with pytest.raises(ConfigError, match=r"add \{replica\} to the command"):
        asked_service(command, {}, network_faults=True)
    with pytest.raises(ConfigError, match=r"match='bills:order_of' needs output=\{'NAME': PARTITIONS\}"):
        asked_service(command, {}, match="bills:order_of")


def test_outputs_are_matched_by_a_function_or_its_name() -> None:
    def asked(match: Any) -> Service:
        return asked_service([sys.executable, "{bootstrap} {group} {topic} {output}"], {}, output=True, match=match)

    output = SimpleNamespace(topic="bills", partition=0, offset=4, value=b"7")
    for match in (lambda record: record.value.decode(), "operator:attrgetter"):
        assert asked(match).match is not None
    matched = asked(lambda record: record.value.decode()).match
    assert matched is not None
    assert matched(output) == "7"
    wrong = asked(json.loads).match
    assert wrong is not None
    with pytest.raises(HarnessError, match=r"^match loads: it raised TypeError for the output at bills-0, offset 4"):
        wrong(output)
    with pytest.raises(ConfigError, match=r"^match=7 is neither a function nor its name as module:function$"):
        asked(7)
    with pytest.raises(ConfigError, match=r"^match nowhere:order_of: ModuleNotFoundError"):
        asked("nowhere:order_of")


def test_records_of_the_tests_own_are_sent_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their outputs are judged, too: each has the id that the function gets."""
    sent: list[Record] = []

    def send(_connection: Any, _folder: Any, _run: Any, _partitioner: Any, records: Iterable[Record]) -> Any:
        sent.extend(records)
        return SimpleNamespace(sender="s")

    monkeypatch.setattr(running_service, "send", send)
    made = maker("records", lambda id: f"order {id}")
    given: Any = (Group(), Service(("worker",)), SimpleNamespace(), {"orders": "orders-1"})
    service = RunningService(*given, output="bills-1", records=made)

    service.send(2)

    assert [(record.topic, record.value) for record in sent] == [("orders-1", made)] * 2
    with pytest.raises(ConfigError, match="values of your own have no id"):
        service.send([b"another"])


class Group:
    """A group that only notes what is done with it."""

    folder, run = Path("history"), "run"

    def __init__(self) -> None:
        self.members: list[str] = []
        self.longest_session_ms: int | None = None
        self.actions: list[str] = []

    @property
    def running(self) -> tuple[str, ...]:
        return tuple(sorted(self.members))

    def step(self, name: str, gap_ms: int, *, beside_work: bool) -> None:
        self.actions.append(f"{name} ({gap_ms}{', beside work' if beside_work else ''})")

    def start(self, name: str, topics: Sequence[str], *_: Any, **__: Any) -> None:
        assert topics == ["orders-1"]
        self.members.append(name)

    def stop(self, name: str) -> None:
        self.members.remove(name)

    def end(self, *names: str, grace_s: float, on_kill: Callable[[str], object]) -> tuple[str, ...]:
        """The one named m2 outlasts its grace."""
        self.actions.append(f"{', '.join(names)} within {grace_s:g} s")
        for name in names:
            self.members.remove(name)
            if name == "m2":
                on_kill(name)
        return tuple(name for name in names if name == "m2")

    def wait_stable(self, timeout_s: float) -> None:
        self.actions.append(f"stable within {timeout_s:g} s")


def running(group: Group, gap_ms: int | None = 5) -> RunningService:
    given: Any = (group, Service(("worker",)), SimpleNamespace(), {"orders": "orders-1"})
    return RunningService(*given, gap_ms=gap_ms, timeout_s=9)


def test_each_replica_is_rolled_in_turn_a_new_one_first() -> None:
    group = Group()
    service = running(group)
    service.begin(10)
    for number in range(3, 10):
        service.stop(number)
    group.actions.clear()

    service.roll()

    rest = "stable within 9 s"
    assert group.actions == [
        "m11 starts (5)", rest, "m1 gets SIGTERM (5)", rest,
        "m12 starts (5)", rest, "m2 gets SIGTERM (5)", rest,
        "m13 starts (5)", rest, "m10 gets SIGTERM (5)", rest,
    ]  # fmt: skip
    assert service.running == (11, 12, 13)


def test_a_deployment_with_a_surge_starts_the_new_ones_first() -> None:
    group = Group()
    service = running(group)
    service.begin(3)
    group.actions.clear()

    assert service.roll(surge=2, grace_s=7) == (2,)

    rest = "stable within 9 s"
    assert group.actions == [
        "m4, m5 start (5)", rest, "m1, m2 get SIGTERM (5)", "m1, m2 within 7 s", "m2 is killed (5)", rest,
        "m6 starts (5)", rest, "m3 gets SIGTERM (5)", "m3 within 7 s", rest,
    ]  # fmt: skip
    assert service.running == (4, 5, 6)


def test_without_a_surge_an_old_one_ends_first() -> None:
    group = Group()
    service = running(group)
    service.begin(2)
    group.actions.clear()

    assert service.roll(surge=0) == ()

    rest = "stable within 9 s"
    assert group.actions == ["m1 gets SIGTERM (5)", "m3 starts (5)", rest, "m2 gets SIGTERM (5)", "m4 starts (5)", rest]


def test_a_service_is_scaled_one_at_a_time_and_the_last_one_goes_first() -> None:
    group = Group()
    service = running(group)
    service.begin(1)
    group.actions.clear()

    assert service.scale(3) == ()
    assert service.scale(1, grace_s=7) == (2,)

    rest = "stable within 9 s"
    assert group.actions == [
        "m2 starts (5)", rest, "m3 starts (5)", rest,
        "m3 gets SIGTERM (5)", "m3 within 7 s", rest,
        "m2 gets SIGTERM (5)", "m2 within 7 s", "m2 is killed (5)", rest,
    ]  # fmt: skip
    assert service.running == (1,)


def test_a_partition_may_rest_for_a_session_and_a_join() -> None:
    group = Group()
    service = running(group, gap_ms=None)
    service.begin(1)
    group.longest_session_ms = 10_000
    service.start()

    begun = [action for action in group.actions if "start" in action]
    assert begun == ["1 start (61000, beside work)", "m2 starts (26000, beside work)"]


@pytest.mark.parametrize("number", [0, 2, "m1"])
def test_a_replica_that_does_not_run_is_named(number: Any) -> None:
    service = running(Group())
    service.begin(1)

    with pytest.raises(ConfigError, match=f"^no replica {number!r} of the service runs; running: 1$"):
        service.kill(number)
    service.stop(1)
    with pytest.raises(ConfigError, match=r"^no replica 1 of the service runs; running: none$"):
        service.stop(1)


def test_a_record_that_is_neither_bytes_nor_a_record_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^record 1 is 'an order', neither bytes nor a Record; encode it$"):
        running(Group()).send([b"an order", "an order"])  # type: ignore[list-item]
