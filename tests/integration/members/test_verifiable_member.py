"""Our member behind VerifiableConsumer's command line: Java's words, in Java's order, beside Java in one group."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from kafka_assignors.connection import file_lines
from kafka_assignors.errors import ConfigError
from kafka_assignors.integration.broker import Broker, start_broker
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.clients.kafka_python import KafkaPythonMember
from kafka_assignors.integration.members.config import MemberConfig
from kafka_assignors.integration.members.verifiable_process import java_command, verifiable_command
from kafka_assignors.integration.records import Record, Sender, send
from kafka_assignors.integration.topics import create_topics
from kafka_assignors.integration.verifiable_member import VerifiableMember, VerifiableOutput, properties
from tests.support.integration.fixtures import MakeGroup, MakeTopic
from tests.support.integration.java_members import told
from tests.support.programs import ran
from tests.support.waiting import until

needs_broker = pytest.mark.broker
PROGRAM = (sys.executable, "-m", "kafka_assignors.integration.verifiable_member")
NEEDED = ("--bootstrap-server", "127.0.0.1:1", "--topic", "t", "--group-id", "g")


def rows(*partitions: int) -> list[dict[str, Any]]:
    return [{"topic": "t", "partition": p} for p in partitions]


def spoken(*events: tuple[str, list[int]]) -> list[tuple[str, list[int]]]:
    """(kind, partitions) of a member's events -> (name, partitions) of what is printed."""
    speech = VerifiableOutput()
    words = [each for kind, partitions in events for each in speech.words(kind, {"partitions": rows(*partitions)})]
    return [(name, [row["partition"] for row in fields["partitions"]]) for name, fields in words]


class Watched:
    """A program that prints VerifiableConsumer's objects; SIGTERM ends it.

    Attributes:
        said: What it has printed.
    """

    def __init__(self, command: list[str]) -> None:
        self.said: list[dict[str, Any]] = []
        self._program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _read(self) -> None:
        assert self._program.stdout is not None
        self.said.extend(map(json.loads, self._program.stdout))

    def wait(self, name: str, times: int) -> None:
        """Wait until it has printed this object so often."""
        until(lambda: [each["name"] for each in self.said].count(name) >= times, f"{times} {name}", within_s=60)

    def end(self) -> None:
        """Tell it to end, and read the rest."""
        self._program.terminate()
        self._program.wait(timeout=30)
        self._reader.join(timeout=30)
        assert self._program.stdout is not None
        self._program.stdout.close()


@pytest.mark.source("apache/kafka ConsumerCoordinator.onJoinComplete: revoked, then assigned, which may be nothing")
@pytest.mark.parametrize(
    ("events", "said"),
    [
        pytest.param(
            [("generation", [0, 1]), ("assigned_begin", [0, 1]), ("assigned_end", [0, 1])],
            [("partitions_assigned", [0, 1])],
            id="first",
        ),
        pytest.param(
            [("generation", [0, 1]), ("assigned_end", [0, 1]), ("generation", [0, 1])],
            [("partitions_assigned", [0, 1]), ("partitions_assigned", [])],
            id="nothing changes",
        ),
        pytest.param(
            [
                ("generation", [0, 1]),
                ("assigned_end", [0, 1]),
                ("generation", [0]),
                ("revoke_begin", [1]),
                ("revoke_end", [1]),
            ],
            [("partitions_assigned", [0, 1]), ("partitions_revoked", [1]), ("partitions_assigned", [])],
            id="cooperative, less",
        ),
        pytest.param(
            [
                ("generation", [0]),
                ("assigned_end", [0]),
                ("generation", [1]),
                ("revoke_end", [0]),
                ("assigned_end", [1]),
            ],
            [("partitions_assigned", [0]), ("partitions_revoked", [0]), ("partitions_assigned", [1])],
            id="cooperative, another",
        ),
        pytest.param(
            [
                ("generation", [0]),
                ("assigned_end", [0]),
                ("revoke_end", [0]),
                ("generation", [0]),
                ("assigned_end", [0]),
            ],
            [("partitions_assigned", [0]), ("partitions_revoked", [0]), ("partitions_assigned", [0])],
            id="eager",
        ),
        pytest.param(
            [
                ("generation", []),
                ("assigned_end", []),
                ("revoke_end", []),
                ("generation", [3]),
                ("assigned_end", [3]),
                ("lost_end", [3]),
            ],
            [
                ("partitions_assigned", []),
                ("partitions_revoked", []),
                ("partitions_assigned", [3]),
                ("partitions_revoked", [3]),
            ],
            id="eager, nothing at first, lost at last",
        ),
    ],
)
def test_each_generation_is_told_once_as_java_tells_it(
    events: list[tuple[str, list[int]]], said: list[tuple[str, list[int]]]
) -> None:
    assert spoken(*events) == said


def test_what_it_says_is_what_the_reader_of_java_understands() -> None:
    """Events -> words -> events: what was consumed and committed comes back."""
    runs = [
        {"topic": "t", "partition": 1, "first": 3, "last": 4, "count": 2, "bytes": 6},
        {"topic": "t", "partition": 1, "first": 6, "last": 6, "count": 1, "bytes": 4},
    ]
    commit = [{"topic": "t", "partition": 1, "offset": 7}]
    speech = VerifiableOutput()
    ((consumed, summary),) = speech.words("consume", {"offsets": runs})
    assert (consumed, summary["count"]) == ("records_consumed", 3)
    assert summary["partitions"] == [{"topic": "t", "partition": 1, "count": 3, "minOffset": 3, "maxOffset": 6}]
    words = [
        *speech.words("commit_fail", {"offsets": commit, "error": "E"}),
        *speech.words("commit_ok", {"offsets": commit}),
    ]

    events = told([json.dumps({"timestamp": 1, "name": name, **fields}) for name, fields in words])

    assert [(kind, f["offsets"], f.get("error")) for kind, f in events] == [
        ("commit_fail", commit, "E"),
        ("commit_ok", commit, None),
    ]


def test_settings_by_javas_names_become_kafka_pythons(tmp_path: Path) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text(
        "# a comment\n\nmax.poll.records=7\ncheck.crcs = FALSE\nclient.rack=a\n"
        "group.id=from the options\nreceive.buffer.bytes=1024\nsecurity.protocol=PLAINTEXT\n"
    )

    assert properties(file_lines(file), file) == {
        "max_poll_records": 7, "check_crcs": False, "client_rack": "a", "receive_buffer_bytes": 1024,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("max.poll.records", "1: max.poll.records: a setting is name=value"),
        ("max.pol.records=5", "1: max.pol.records: kafka-python has no such setting"),
        ("max.poll.records=five", "1: max.poll.records=five: a whole number"),
        ("check.crcs=yes", "1: check.crcs=yes: true or false"),
        ("selector=x", "1: selector: is not supported in a settings file"),
    ],
)
def test_a_setting_that_cannot_work_is_named_with_its_line(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text(line + "\n")

    with pytest.raises(ConfigError) as caught:
        properties(file_lines(file), file)

    assert f"{file}:{message}" in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--topic", "t"], "the following arguments are required: --bootstrap-server/--broker-list, --group-id"),
        ([*NEEDED, "--group-protocol", "consumer"], "argument --group-protocol: invalid choice: 'consumer'"),
        ([*NEEDED, "--max-messages", "few"], "argument --max-messages: invalid int value: 'few'"),
        ([*NEEDED, "--assignment-strategy", "com.acme.Ours"], "unknown assignor 'com.acme.Ours'; known: "),
        ([*NEEDED, "--hand-over", "-1"], "argument --hand-over: invalid seconds value: '-1'"),
        ([*NEEDED, "--command-config", "nowhere"], "nowhere can't be read (No such file or directory)"),
    ],
)
def test_options_that_cannot_work_are_refused(options: list[str], message: str) -> None:
    done = ran(*PROGRAM, *options)

    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_it_tries_a_broker_that_is_back_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard's limit: with kafka-python's own, it read again 44 s after an outage of 12 s."""
    limits = []

    def consume(member: Any) -> None:
        limits.append(member._consumer._manager.config["reconnect_backoff_max_ms"])

    monkeypatch.setattr(KafkaPythonMember, "_consume", consume)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        config = MemberConfig(at, "g", "m", ("t",), ("range",), "", "", consumer={"api_version": (2, 5)})
        VerifiableMember(config, verbose=False, commits=True, most=None).run()

    assert limits == [1000]


@pytest.mark.long
@needs_broker
def test_it_reads_again_soon_after_an_outage() -> None:
    """Measured: 1.0 s after the broker is back from 12 s; kafka-python alone waits for up to 36 s."""
    with start_broker() as broker:
        create_topics(broker.bootstrap, {"t": 1})
        line = [*PROGRAM, "--bootstrap-server", broker.bootstrap, "--topic", "t", "--group-id", "g"]
        with Watched(line) as member:
            member.wait("partitions_assigned", 1)
            broker.kill()
            time.sleep(12)  # the outage itself
            broker.restart()
            back = time.monotonic()
            with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
                producer.send("t", b"after an outage").get(60)
            member.wait("records_consumed", 1)
            assert time.monotonic() - back < 10
            member.end()


@pytest.mark.slow
def test_it_may_consume_nothing() -> None:
    done = ran(*PROGRAM, *NEEDED, "--max-messages", "0")

    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == ["startup_complete", "shutdown_complete"]


# long: scenario/test_faults.py has a fenced member of ours; this is the code that Kafka's system tests read
@pytest.mark.long
@needs_broker
def test_a_fenced_member_ends_with_code_0(kafka_broker: Broker, kafka_topic: MakeTopic) -> None:
    """As Java's: the process that took its instance id goes on in its place."""
    topic = kafka_topic()
    needed = ["--bootstrap-server", kafka_broker.bootstrap, "--topic", topic, "--group-id", topic]
    line = [*PROGRAM, *needed, "--group-instance-id", "one"]

    def started() -> subprocess.Popen[str]:
        program = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert program.stdout is not None
        told = [json.loads(program.stdout.readline())["name"] for _ in range(2)]
        assert told == ["startup_complete", "partitions_assigned"]
        return program

    with started() as old, started() as new:
        _, errors = old.communicate(timeout=30)
        new.terminate()
        new.communicate(timeout=30)

    assert (old.returncode, new.returncode) == (0, 128 + signal.SIGTERM), errors
    assert "fenced: " in errors


@needs_broker
def test_it_prints_what_java_prints(kafka_broker: Broker, kafka_topic: MakeTopic, tmp_path: Path) -> None:
    """The same options, a group each: the same objects in the same order, but for the time."""
    topic = kafka_topic()
    records = [Record(topic, b"key-\xc3\xbc"), *(Record(topic) for _ in range(9))]
    assert send(kafka_broker.bootstrap, tmp_path, "run", "default", records).acked == len(records)
    said = {}
    for client in ("java", "verifiable"):
        config = MemberConfig(
            bootstrap=kafka_broker.bootstrap, group=f"{topic}-{client}", member=client, topics=(topic,),
            assignors=("range",), history="", run="",
        )  # fmt: skip
        settings = tmp_path / f"{client}.properties"
        if client == "java":
            line = java_command(config, settings, tmp_path / "java.log")
        else:
            line = verifiable_command(config, settings)
        done = ran(*line, "--max-messages", str(len(records)))
        assert done.returncode == 0, done.stderr
        said[client] = [json.loads(line) for line in done.stdout.splitlines()]
        assert all(isinstance(each.pop("timestamp"), int) for each in said[client])

    # Kafka 4's own word as its JVM ends, which kafkatest doesn't read and other clients needn't say.
    assert said["java"].pop() == {"name": "shutdown_requested"}
    assert said["verifiable"] == said["java"]
    assert [each["name"] for each in said["java"]] == [
        "startup_complete", "partitions_assigned", *["record_data"] * 10, "records_consumed", "offsets_committed",
        "partitions_revoked", "shutdown_complete",
    ]  # fmt: skip


# long: four starts of Java; test_it_prints_what_java_prints has the words of a member with partitions
@pytest.mark.long
@needs_broker
@pytest.mark.source(
    "apache/kafka ConsumerCoordinator.onJoinPrepare: an eager member with a generation revokes nothing, too"
)
# long: of an eager group; its words are those of a cooperative one
@pytest.mark.parametrize("assignor", [pytest.param("range", marks=pytest.mark.long), "cooperative-sticky"])
def test_a_member_without_partitions_says_what_java_says(
    assignor: str, kafka_broker: Broker, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """One partition, which the first member keeps; the second joins, a third joins, the second leaves."""
    topic, said = kafka_topic(), {}
    for client in ("java", "verifiable"):
        group = f"{topic}-{client}"

        def line(name: str, client: str, group: str = group) -> list[str]:
            config = MemberConfig(
                bootstrap=kafka_broker.bootstrap, group=group, member=name, topics=(topic,), assignors=(assignor,),
                history="", run="", heartbeat_interval_ms=300,
            )  # fmt: skip
            settings = tmp_path / f"{group}-{name}.properties"
            if client == "java":
                return java_command(config, settings, tmp_path / "java.log")
            return verifiable_command(config, settings)

        with Watched(line("m1", "verifiable")) as first:
            first.wait("partitions_assigned", 1)
            with Watched(line("m2", client)) as second:
                second.wait("partitions_assigned", 1)
                with Watched(line("m3", "verifiable")) as third:
                    third.wait("partitions_assigned", 1)
                    second.wait("partitions_assigned", 2)
                    second.end()
        said[client] = [(each["name"], each.get("partitions")) for each in second.said]
        assert first.said[1]["partitions"] == [{"topic": topic, "partition": 0}]

    said["java"].remove(("shutdown_requested", None))
    assert said["verifiable"] == said["java"]
    revoked = [("partitions_revoked", [])] if assignor == "range" else []
    assert said["java"] == [
        ("startup_complete", None), ("partitions_assigned", []), *revoked, ("partitions_assigned", []),
        ("shutdown_complete", None),
    ]  # fmt: skip


@needs_broker
def test_it_ends_after_so_many_records_and_the_next_goes_on_there(
    kafka_broker: Broker, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = kafka_topic()
    send(kafka_broker.bootstrap, tmp_path, "run", "default", [Record(topic)] * 10)
    needed = ["--bootstrap-server", kafka_broker.bootstrap, "--topic", topic, "--group-id", topic]
    for begin, end in ((0, 4), (4, 10)):
        done = ran(*PROGRAM, *needed, "--max-messages", str(end - begin))
        assert done.returncode == 0, done.stderr
        said = [json.loads(line) for line in done.stdout.splitlines()]

        consumed = [row for each in said if each["name"] == "records_consumed" for row in each["partitions"]]
        assert (consumed[0]["minOffset"], consumed[-1]["maxOffset"]) == (begin, end - 1)
        assert sum(row["count"] for row in consumed) == end - begin
        assert [each["offsets"][0]["offset"] for each in said if each["name"] == "offsets_committed"][-1] == end
        assert "record_data" not in {each["name"] for each in said}


@needs_broker
# long: handled as SIGTERM is
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_signal_makes_it_leave_its_group(
    number: signal.Signals, kafka_broker: Broker, kafka_topic: MakeTopic
) -> None:
    topic = kafka_topic()
    needed = ["--broker-list", kafka_broker.bootstrap, "--topic", topic, "--group-id", topic, "--enable-autocommit"]
    with subprocess.Popen([*PROGRAM, *needed], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert json.loads(program.stdout.readline())["name"] == "startup_complete"
        assigned = json.loads(program.stdout.readline())
        assert (assigned["name"], assigned["partitions"]) == ("partitions_assigned", [{"topic": topic, "partition": 0}])
        program.send_signal(number)
        rest, errors = program.communicate(timeout=20)

    assert program.returncode == 128 + number, errors
    assert [json.loads(line)["name"] for line in rest.splitlines()] == ["partitions_revoked", "shutdown_complete"]


@needs_broker
# long: a follower has fewer rounds
@pytest.mark.parametrize(
    "leader", [True, pytest.param(False, marks=pytest.mark.long)], ids=["the leader", "a follower"]
)
def test_it_hands_its_partitions_over_before_it_leaves(
    leader: bool, kafka_broker: Broker, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """It joins once more, and the other one takes over long before its next heartbeat."""
    topic, heartbeat_ms = kafka_topic(partitions=2), 20_000
    (tmp_path / "client.properties").write_text(f"heartbeat.interval.ms={heartbeat_ms}\n")
    line = [*PROGRAM, "--bootstrap-server", kafka_broker.bootstrap, "--topic", topic, "--group-id", topic]
    line += ["--assignment-strategy", "cooperative-sticky", "--hand-over", "60"]
    line += ["--command-config", str(tmp_path / "client.properties"), "--session-timeout", str(3 * heartbeat_ms)]
    with Watched(line) as first:
        first.wait("partitions_assigned", 1)
        with Watched(line) as second:
            until(lambda: any(each.get("partitions") for each in second.said), "the second has one", within_s=60)
            first.wait("partitions_assigned", 3)  # alone, without what it gives away, and as the second takes that
            leaves, stays = (first, second) if leader else (second, first)
            before = len(leaves.said)
            leaves.end()
            until(lambda: stays.said[-1]["name"] == "partitions_assigned" and stays.said[-1]["partitions"], "the other")
    names = [each["name"] for each in leaves.said[before:] if each["name"].startswith("partitions")]
    assert sorted(names) == ["partitions_assigned", "partitions_revoked"], "it has joined again"
    (revoked,) = (each for each in leaves.said[before:] if each["name"] == "partitions_revoked")
    given = [each for each in stays.said if each["name"] == "partitions_assigned" and each["partitions"]]
    (taken,) = (each for each in given if each["partitions"] == revoked["partitions"])
    assert taken["timestamp"] - revoked["timestamp"] < heartbeat_ms / 4


@needs_broker
def test_whoever_keeps_what_it_has_is_cooperative_whatever_its_assignor_is_called(
    unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """What v1 gives up as v2 joins it gives up in the generation that takes it."""
    topic, group = kafka_topic(partitions=4), unjudged_group()
    for name in ("v1", "v2"):
        group.start(name, [topic], ["tests.support.integration.planted:Incremental"], client="verifiable")
        group.wait_stable()
    group.close()

    history = History.load(tmp_path)
    verdict = check(history)
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    assert min(verdict.checked[law] for law in ("R2", "R3", "R5", "R6", "R8")) > 0
    first = next(e for e in history.events if e.kind == "revoke_begin" and e.member == "v1")
    committed = [e for e in history.events if e.kind == "generation_committed"]
    (taking,) = [e for e in committed if e.data["generation"] == first.data["generation"]]
    assert {row["client_id"] for row in taking.data["members"]} == {"v1", "v2"}
    assert [len(row["owned"]) for row in taking.data["members"] if row["client_id"] == "v1"] == [4]


@needs_broker
# long: test_it_prints_what_java_prints has its words, live/test_mixed.py Java's and our members in a group
@pytest.mark.parametrize(
    ("assignor", "steps"),
    [pytest.param("range", 3, marks=pytest.mark.long), pytest.param("cooperative-sticky", 5, marks=pytest.mark.long)],
)
def test_it_shares_a_group_with_java(
    assignor: str, steps: int, kafka_broker: Broker, unjudged_group: MakeGroup, kafka_topic: MakeTopic, tmp_path: Path
) -> None:
    """It leads, Java joins; it dies, Java leads; it comes back and leaves; every law that words can answer holds."""
    topic, group = kafka_topic(partitions=6), unjudged_group()
    with Sender(kafka_broker.bootstrap, tmp_path, "run", [topic], "default", 25):
        seen = []
        lives = {
            "v1 leads": lambda: group.start("v1", [topic], [assignor], client="verifiable"),
            "j1 joins": lambda: group.start("j1", [topic], [assignor], client="java"),
            "v1 is killed": lambda: group.kill("v1"),
            "v1 is back": lambda: group.start("v1", [topic], [assignor], client="verifiable"),
            "v1 leaves": lambda: group.stop("v1"),
        }
        for step, act in list(lives.items())[:steps]:
            group.step(step)
            act()
            seen.append(group.wait_stable())
    group.drain()
    group.close()

    assert [sorted(s.owned) for s in seen] == [["v1"], ["j1", "v1"], ["j1"], ["j1", "v1"], ["j1"]][:steps]
    assert [s.leader for s in seen] == ["v1", "v1", "j1", "j1", "j1"][:steps]
    assert {len(s.owned["v1"][topic]) for s in seen[1::2]} == {3}
    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.unknown, verdict.value) == ((), (), True)
    judged = {law for law, times in verdict.checked.items() if times}
    assert judged >= {"O1", "O2", "O3", "G1", "G2", "G3", "R1", "R5", "R6", "C1", "C2", "C3", "C5", "T1", "K1"}
