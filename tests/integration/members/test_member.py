"""Member processes: clear errors, clean ends, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafka_assignors.errors import ConfigError, UnknownName
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.errors import BrokerUnreachable, HarnessError, MemberDied, NotDrained, NotStable
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.config import MemberConfig
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Record, Sender, read_back, send
from kafka_assignors.integration.registry import assignor_named, partitioner_named
from kafka_assignors.integration.topics import STAMPED
from kafka_assignors.integration.topics.publish import publish
from tests.support.integration.fixtures import MakeGroup, MakeTopic
from tests.support.integration.members import DEADLINE_S, GONE_S, gone, members_of
from tests.support.programs import owner, ran
from tests.support.waiting import finished, until

needs_broker = pytest.mark.broker


def run_member(config: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a member to its end, with a harness that stays: the write end of its standard input is open."""
    path = folder / "member.json"
    path.write_text(config, "utf-8")
    command = [sys.executable, "-m", "kafka_assignors.integration.members.clients.kafka_python", str(path)]
    read, write = os.pipe()
    try:
        return ran(*command, stdin=read)
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "said"), [("{", "Expecting"), ("[]", "not list"), ("{}", "missing"), ('{"surprise": 1}', "unexpected")]
)
def test_a_configuration_that_is_none_is_told_in_one_line(tmp_path: Path, config: str, said: str) -> None:
    done = run_member(config, tmp_path)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "member.json: not a member's configuration" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("assignor", "error", "said"),
    [
        ("rang", "UnknownName", "unknown assignor 'rang'; known: range, roundrobin, sticky, cooperative-sticky"),
        ("kafka-python:rang", "UnknownName", "known: kafka-python:range"),
        ("no.such.module:Class", "ConfigError", "No module named 'no'"),
        ("kafka_assignors.integration.members.clients.kafka_python:Nobody", "ConfigError", "module:Class"),
    ],
)
def test_an_unknown_assignor_ends_the_member_with_its_error_event(
    tmp_path: Path, assignor: str, error: str, said: str
) -> None:
    history = tmp_path / "m.jsonl"
    done = run_member(
        MemberConfig("127.0.0.1:1", "g", "m", ("t",), (assignor,), str(history), "run").to_json(), tmp_path
    )

    assert done.returncode == 1
    (event,) = History.load(tmp_path).events
    assert (event.kind, event.data["error"], event.data["fatal"]) == ("error", error, True)
    assert said in event.data["message"]


def test_names_that_nothing_has_list_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="known: default, roundrobin"):
        partitioner_named("defalt")
    with pytest.raises(UnknownName, match="kafka-python:sticky"):
        partitioner_named("kafka-python:x")
    with pytest.raises(ConfigError, match="can't be created"):
        partitioner_named("default", surprise=1)
    with pytest.raises(ConfigError, match="import"):
        assignor_named("kafka_assignors.integration.nowhere:X")


@needs_broker
def test_an_unknown_assignor_is_told_at_once_by_wait_stable(unjudged_group: MakeGroup, kafka_topic: MakeTopic) -> None:
    group = unjudged_group()
    group.start("m1", [kafka_topic()], ["rang"])

    with pytest.raises(
        MemberDied, match=r"member 'm1' .* exit code 1: UnknownName: unknown assignor 'rang'; known: range"
    ):
        group.wait_stable(timeout_s=30)
    assert group.running == ()


@needs_broker
def test_kafka_pythons_cooperative_assignor_beside_an_eager_one_is_refused(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic
) -> None:
    group = unjudged_group()
    group.start("m1", [kafka_topic()], ["range", "kafka-python:cooperative-sticky"])

    with pytest.raises(MemberDied, match="RebalanceProtocol"):
        group.wait_stable()


@needs_broker
def test_members_without_a_common_assignor_are_told_so_and_the_group_goes_on(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, group = kafka_topic(partitions=2), unjudged_group()
    group.start("m1", [topic], ["range"])
    before = group.wait_stable()
    group.start("m2", [topic], ["roundrobin", "sticky"])

    with pytest.raises(MemberDied, match=r"'m2' offers roundrobin, sticky, .*INCONSISTENT_GROUP_PROTOCOL"):
        group.wait_stable()
    after = group.wait_stable()
    group.close()

    assert after.owned == before.owned == {"m1": {topic: [0, 1]}}
    assert after.generation == before.generation
    assert {violation.law for violation in check(History.load(tmp_path)).violations} == {"E1"}, "m2 ended unasked"


@needs_broker
def test_an_assignor_that_raises_is_told_with_its_member(unjudged_group: MakeGroup, kafka_topic: MakeTopic) -> None:
    group = unjudged_group()
    group.start("m1", [kafka_topic()], ["tests.support.integration.planted:Raising"])

    with pytest.raises(MemberDied, match="RuntimeError: planted: no answer"):
        group.wait_stable()


@needs_broker
def test_a_group_that_cannot_become_stable_tells_what_was_last_seen(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """By its error and in the history, so that a kept history is never true."""
    topic, group = kafka_topic(partitions=2), unjudged_group()
    group.start("m1", [topic], ["tests.support.integration.planted:Dropping"])
    group.wait_stable(complete=False)

    with pytest.raises(NotStable) as caught:
        group.wait_stable(timeout_s=0.5)
    with pytest.raises(NotStable, match=r"has \['m1'\], not \['m1', 'm2'\]"):
        group.wait_stable(["m1", "m2"], timeout_s=0.2)

    message = str(caught.value)
    assert f"no member owns {topic}[0]" in message
    assert "is not stable after 0.5 s" in message
    assert f"m1: generation 2, holds {topic}[1]" in message or f"m1: generation 1, holds {topic}[1]" in message
    group.close()
    history = History.load(tmp_path)
    waited = [event.data for event in history.events if event.kind == "not_stable"]
    assert [(each["waited_s"], each["members"], each["topics"]) for each in waited] == [
        (0.5, ["m1"], {topic: 2}),
        (0.2, ["m1", "m2"], {topic: 2}),
    ]
    assert waited[0]["due"] == [f"no member owns {topic}[0]"]
    assert {event.data["generation"] for event in history.events if event.kind == "generation"} >= {
        each["generation"] for each in waited
    }
    (begins,) = (event for event in history.events if event.kind == "topics")
    assert begins.data["topics"] == {topic: 2}
    after = [e.kind for e in history.events if e.src == "harness" and e.kind in ("closing", "exit")]
    assert after == ["closing", "exit"]
    assert f"was not stable after 0.5 s; due: no member owns {topic}[0]" in " ".join(check(history).unknown)


@needs_broker
def test_records_that_nobody_reads_are_told_by_drain(
    kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """A member that starts at the end never reads what was there before."""
    topic, group = kafka_topic(partitions=1), unjudged_group()
    send(kafka_broker.bootstrap, tmp_path, "run", "default", [Record(topic)] * 7)
    group.start("m1", [topic], ["range"], auto_offset_reset="latest")
    group.wait_stable()

    with pytest.raises(NotDrained, match=f"{topic}-0: 7"):
        group.drain(timeout_s=0.5)

    group.close()
    verdict = check(History.load(tmp_path))
    assert verdict.value is None
    assert f"had 7 records left after 0.5 s, in {topic}-0" in " ".join(verdict.unknown)


@needs_broker
def test_starting_and_stopping_what_cannot_be(unjudged_group: MakeGroup, kafka_topic: MakeTopic) -> None:
    topic, group = kafka_topic(), unjudged_group()
    group.start("m1", [topic], ["range"])

    with pytest.raises(ConfigError, match=r"'m1' .* is already running"):
        group.start("m1", [topic], ["range"])
    with pytest.raises(ConfigError, match=r"no member 'm9' .*running: m1"):
        group.stop("m9")
    with pytest.raises(ConfigError, match="needs lists"):
        group.start("m2", "topic", ["range"])
    with pytest.raises(ConfigError, match="needs lists"):
        group.start("m2", [topic], [])


@needs_broker
def test_a_killed_member_leaves_a_history_and_no_process(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, group = kafka_topic(partitions=2), unjudged_group()
    group.start("m1", [topic], ["range"])
    group.wait_stable()
    (pid,) = members_of(tmp_path)

    group.kill("m1")

    assert gone(pid)
    assert group.running == ()
    group.close()
    history = History.load(tmp_path)
    assert history.problems == ()
    fault, ended = (next(e for e in history.events if e.kind == kind) for kind in ("fault_begin", "exit"))
    assert (fault.data["fault"], fault.data["target"], fault.member) == ("kill", "m1", "m1")
    assert (ended.data["code"], ended.data["signal"]) == (-9, "SIGKILL")
    assert fault.mono_ns < ended.mono_ns
    assert all(e.mono_ns < ended.mono_ns for e in history.events if e.src == "member")


@needs_broker
def test_a_stopped_member_revokes_leaves_and_says_so(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, group = kafka_topic(partitions=2), unjudged_group()
    group.start("m1", [topic], ["cooperative-sticky"])
    group.wait_stable()

    # Its poll lasts half a minute; it isn't waited for.
    finished(lambda: group.stop("m1"), within_s=20)

    kinds = [e.kind for e in History.load(tmp_path).events if e.src == "member"]
    assert kinds[-3:] == ["revoke_begin", "revoke_end", "stop"]


@needs_broker
def test_an_exception_inside_the_group_leaves_no_process(
    kafka_broker: Broker, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    def fail() -> None:
        with MemberGroup(kafka_broker.bootstrap, "failing", tmp_path, "run") as group:
            group.start("m1", [kafka_topic()], ["range"])
            group.wait_stable()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()

    assert all(gone(pid) for pid in members_of(tmp_path))
    assert len(members_of(tmp_path)) == 1


@needs_broker
def test_no_member_outlives_its_harness(kafka_broker: Broker, kafka_topic: MakeTopic, tmp_path: Path) -> None:
    """The harness gets SIGKILL; its members notice and end."""
    program = f"""
        import signal
        from pathlib import Path
        from kafka_assignors.integration.members.group import MemberGroup
        with MemberGroup({kafka_broker.bootstrap!r}, "orphans", Path({str(tmp_path)!r}), "run") as group:
            for name in ("m1", "m2"):
                group.start(name, [{kafka_topic(partitions=2)!r}], ["range"])
            group.wait_stable()
            print("stable", flush=True)
            signal.pause()
    """
    with owner(program) as (_, words):
        assert words == ["stable"]
        pids = members_of(tmp_path)
        assert len(pids) == 2
        assert not any(gone(pid) for pid in pids)

    until(lambda: all(gone(pid) for pid in pids), "the members of a dead harness end", GONE_S)


@needs_broker
def test_a_member_that_dies_by_itself_is_told_with_its_last_words(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    group = unjudged_group()
    group.start("m1", [kafka_topic()], ["range"])
    group.wait_stable()
    (pid,) = members_of(tmp_path)
    os.kill(pid, signal.SIGABRT)

    with pytest.raises(MemberDied, match="exit code -6"):
        group.wait_stable(["m2"], timeout_s=DEADLINE_S)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_no_broker_is_one_clear_error(tmp_path: Path) -> None:
    def tried(make: Callable[[], object]) -> str:
        with pytest.raises(BrokerUnreachable) as caught:
            make()
        return str(caught.value)

    ways: list[Callable[[], object]] = [
        lambda: MemberGroup("127.0.0.1:1", "g", tmp_path, "run"),
        lambda: send("127.0.0.1:1", tmp_path, "run", "default", []),
        lambda: read_back("127.0.0.1:1", tmp_path, "run", ["t"]),
        lambda: Sender("127.0.0.1:1", tmp_path, "run", ["t"], "default", 10),
        lambda: publish("127.0.0.1:1", "events", tmp_path),
    ]
    with ThreadPoolExecutor(len(ways)) as pool:
        said = list(pool.map(tried, ways, timeout=60))

    assert all("no Kafka broker at 127.0.0.1:1" in text for text in said)


@needs_broker
def test_reading_back_a_topic_that_is_not_there(kafka_broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no topic 'nowhere'"):
        read_back(kafka_broker.bootstrap, tmp_path, "run", ["nowhere"])


@pytest.mark.parametrize(("rate", "keys", "topics"), [(0, 1, ["t"]), (1, 0, ["t"]), (1, 1, [])])
def test_a_sender_without_a_rate_keys_or_topics_is_refused(
    rate: float, keys: int, topics: list[str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="a sender needs"):
        Sender("127.0.0.1:1", tmp_path, "run", topics, "default", rate, keys=keys)


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: Sender("127.0.0.1:1", folder, "run", ["t"], "default", 10, acks="most"),
        lambda folder: send("127.0.0.1:1", folder, "run", "default", [], acks="most"),
    ],
)
def test_acknowledgements_of_nobody_are_refused(make: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="acks is 'all' or 'leader', not 'most'"):
        make(tmp_path)


@needs_broker
@pytest.mark.parametrize(("configs", "dated"), [(STAMPED["configs"], True), (STAMPED["configs"], False), ({}, True)])
def test_what_a_broker_dates_is_kept_if_its_clock_is_this_machines(
    configs: dict[str, str], dated: bool, kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, begin_ms = kafka_topic(configs=configs), time.time() * 1000
    send(kafka_broker.bootstrap, tmp_path / "sent", "run", "default", [Record(topic, b"k")])

    read_back(kafka_broker.bootstrap, tmp_path / "read", "run", [topic], dated=dated)

    (file,) = (tmp_path / "read").glob("*.jsonl")
    (row,) = (json.loads(line) for line in file.read_text().splitlines() if '"kind":"read_back"' in line)
    assert ("appended_ms" in row) == (dated and bool(configs))
    assert begin_ms - 1 <= row.get("appended_ms", begin_ms) <= time.time() * 1000


@needs_broker
def test_a_sender_that_is_quiet_sends_nothing(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = kafka_topic()

    def there() -> int:
        return read_back(kafka_broker.bootstrap, tmp_path / "reader", "run", [topic]).records

    def acked() -> int:
        return sum(path.read_text().count('"kind":"ack"') for path in tmp_path.glob("producer-*.jsonl"))

    sender = Sender(kafka_broker.bootstrap, tmp_path, "run", [topic], "default", 500, acks="leader")
    with pytest.raises(HarnessError, match="the background sender is not running"), sender.quiet():
        pass
    with sender:
        for _ in range(2):
            until(there, "a record", DEADLINE_S)
            with sender.quiet():
                told = acked()
                assert there() == told > 0
                assert there() == acked() == told  # another 50 records or so, if it went on
            until(lambda told=told: there() > told, "more records", DEADLINE_S)
    assert (sender.stop().acked, sender.stop().nacked) == (there(), 0)


def test_a_configuration_survives_its_file() -> None:
    config = MemberConfig(
        "h:1", "g", "m", ("t", "u"), ("range",), "x.jsonl", "run", 3, "i", "r", consumer={"a": 1}, program=("p", "q")
    )

    assert MemberConfig.from_json(config.to_json()) == config
    assert json.loads(config.to_json())["consumer"] == {"a": 1}
