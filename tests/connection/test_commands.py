"""Commands on a secured broker, as a user starts them: processes, whose words and leavings hold no secret."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil
import pyspark
import pytest
from kafka import KafkaConsumer
from typer.testing import CliRunner

from kafka_assignors import RangeAssignor
from kafka_assignors.connection import Connection, Right, brokers, read_connection
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.broker.cluster import start_cluster
from kafka_assignors.integration.broker.ports import free_ports
from kafka_assignors.integration.broker.secured import Certificates, Secured
from kafka_assignors.integration.commands.cli import app as harness
from kafka_assignors.integration.members.config import CLIENTS
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.topics import Topics, create_topics
from kafka_assignors.jvm import spark_jars, spark_java_home
from kafka_assignors.pipeline.cli import app as pipeline
from kafka_assignors.producers.commands import app as producers
from tests.support.cli import valid
from tests.support.connection import sparkui
from tests.support.connection.least import NEEDED, PLAYED, PREFIX
from tests.support.connection.scenarios import short_scenario
from tests.support.kafka_python.sent import sent
from tests.support.places import ROOT
from tests.support.programs import ran, running

ENDS_S, JOINS_S = 540, 60


@contextmanager
def command_lines() -> Iterator[set[str]]:
    """The command lines of all processes that this one starts meanwhile, as `ps` shows them."""
    seen: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    seen.add(" ".join(child.cmdline()))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        over.set()
        looking.join()


def kept_by(folder: Path) -> str:
    """All that is in the files of a folder."""
    return "".join(path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file())


def await_assignment(consumer: KafkaConsumer) -> None:
    deadline = time.monotonic() + JOINS_S
    while not consumer.assignment():
        consumer.poll(timeout_ms=1000)
        assert time.monotonic() < deadline, f"no partition within {JOINS_S} s"


def by_file(user: Connection, folder: Path) -> list[str]:
    """Options that name a file, which refers to the environment."""
    assert user.password is not None
    file = folder / "client.properties"
    file.write_text(user.properties().replace(user.password, "${env:KAFKA_PASSWORD}"), "ascii")
    return ["--config", str(file)]


def by_settings(user: Connection, folder: Path) -> list[str]:
    """Options that say all of it, but the password, on the command line."""
    authority = folder / "ca.pem"
    authority.write_text(user.ca or "", "ascii")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return [
        "--bootstrap", user.bootstrap, "--set", f"security.protocol={user.protocol}",
        "-X", f"sasl.mechanism={user.mechanism}", "-X", f"ssl.truststore.location={authority}",
        "-X", f"sasl.jaas.config={module} required username=\"{user.username}\" password=\"${{env:KAFKA_PASSWORD}}\";",
    ]  # fmt: skip


BOTH_WAYS = pytest.mark.parametrize("options", [by_file, by_settings])
Options = Callable[[Connection, Path], list[str]]


def start(
    user: Connection,
    options: Options,
    folder: Path,
    *words: str,
    code: int = 0,
    by: Sequence[str] = (sys.executable, "-m"),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.CompletedProcess[str]:
    """Run a command as that user; no process shows the password, and nothing that is printed or kept has it."""
    given = folder / "given"
    given.mkdir()
    surroundings = {**os.environ, **environment, "KAFKA_PASSWORD": user.password or ""}
    with command_lines() as seen:
        done = ran(*by, *words, *options(user, given), within_s=ENDS_S, env=surroundings)
    assert any(" ".join(words[:2]) in line for line in seen), seen
    everything = done.stdout + done.stderr + "".join(seen) + kept_by(folder)
    assert not any(secret in everything for secret in user.secrets)
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return done


@pytest.mark.broker
def test_up_secure_names_a_file_that_gets_a_client_in():
    command = [sys.executable, "-u", "-m", "kafka_assignors.integration", "up", "--secure"]
    with running(*command) as (started, lines):
        told = lines.readline()
        assert "--config " in told, told
        config = Path(told.partition("--config ")[2].split()[0])
        connection = read_connection(config=config)
        assert connection.password not in told
        assert config.stat().st_mode & 0o077 == 0
        assert len(brokers(connection)) == 1
        started.send_signal(signal.SIGINT)
        assert started.wait(60) == 130
    assert not config.exists()


@pytest.mark.long  # long: a secured cluster; the tests below have a secured broker, and test_tour.py a cluster
@pytest.mark.broker
def test_commands_on_a_cluster_of_three(tmp_path: Path):
    """The first to come, with the rights of a run: the cluster has no coordinator log yet, and they can't make it."""
    with start_cluster(3, backend="shared", certificates=Certificates()) as cluster:
        assert cluster.secured is not None
        user = cluster.secured.user("alice", [*PLAYED, *NEEDED["watch"], *NEEDED["keys audit"]])
        for address in user.bootstrap.split(","):
            assert len(brokers(user.at(address))) == 3
        out = tmp_path / "run"
        ran = by_command(harness, user, "run", short_scenario(tmp_path), "--confirm", "--json", "--out", str(out))
        assert json.loads(ran)["records"] > 0
        create_topics(cluster.bootstrap, {"orders": 3})
        sent(cluster.bootstrap, "orders", [{"key": b"user-%d" % (n % 20), "value": b"x"} for n in range(60)])
        assert "20 keys on 3 partitions" in by_command(producers, user, "audit", "orders")
        ours = {"partition_assignment_strategy": [RangeAssignor]}
        with closing(
            KafkaConsumer("orders", bootstrap_servers=cluster.bootstrap, group_id="owned", **ours)
        ) as consumer:
            await_assignment(consumer)
            view = json.loads(by_command(harness, user, "watch", "owned", "--once", "--json"))
        assert [row["partition"] for row in view["owned"]] == [0, 1, 2]
        assert not any(secret in kept_by(tmp_path) for secret in user.secrets)


def by_command(app: Any, user: Connection, *words: str) -> str:
    """What a command prints that works."""
    with user.file() as config:
        done = CliRunner().invoke(app, [*words, "--config", str(config)])
    assert done.exit_code == 0, (done.output, done.exception)
    assert not any(secret in done.output for secret in user.secrets)
    return done.stdout


@pytest.fixture(scope="module")
def watched(secured_broker: Broker, orders: str) -> Iterator[str]:
    """A group with a member that owns partitions and has committed; nobody joins it later, as nobody polls."""
    consumer = KafkaConsumer(
        orders, bootstrap_servers=secured_broker.bootstrap, group_id="watched", client_id="owner",
        auto_offset_reset="earliest", partition_assignment_strategy=[RangeAssignor],
    )  # fmt: skip
    with closing(consumer):
        deadline = time.monotonic() + JOINS_S
        while not consumer.poll(timeout_ms=1000):
            assert time.monotonic() < deadline, f"no record within {JOINS_S} s"
        consumer.commit()
        yield "watched"


@BOTH_WAYS
def test_commands_that_read(options: Options, secured: Secured, orders: str, watched: str, tmp_path: Path):
    see = [Right("Describe", "Topic", orders), Right("Describe", "Group", watched)]
    read = [Right("Read", "Topic", orders)]
    growth = ["growth", "--from", "4", "--to", "8", orders]
    expected = [
        (harness, ["watch", watched, "--once", "--json"], see, '"owner"'),
        (producers, ["audit", orders], read, f"{orders}: 50 keys on 4 partitions"),
        (producers, growth, read, "of 50 keys move from 4 to 8"),
    ]
    for app, words, rights, says in expected:
        user = secured.user(f"{words[0]}-{options.__name__}", rights)
        environment = {"KAFKA_PASSWORD": user.password or ""}
        done = CliRunner().invoke(app, [*words, *options(user, tmp_path)], env=environment)
        assert done.exit_code == 0, (words, done.output, done.exception)
        assert says in done.stdout
        assert not any(secret in done.output for secret in user.secrets)


@pytest.mark.parametrize(
    "options",
    # long: the demo of commands/test_cli.py leaves nothing on a secured broker, and plays with the rights of its user
    [pytest.param(each, marks=pytest.mark.long) for each in (by_file, by_settings)],
)
def test_a_run_leaves_nothing_on_a_secured_cluster(
    options: Options, secured: Secured, secured_broker: Broker, orders: str, tmp_path: Path
):
    """Member processes, the sender and the reader of the coordinator log get in; what was made is gone afterwards."""
    user = secured.user(f"player-{options.__name__}", PLAYED)
    words = ("run", short_scenario(tmp_path), "--confirm", "--out", str(tmp_path / "out"), "--json")
    done = start(user, options, tmp_path, "kafka_assignors.integration", *words)
    assert "left at" not in done.stderr
    assert json.loads(done.stdout)["records"] > 0
    with closing(Topics(secured_broker.bootstrap)) as topics:
        assert not [name for name in topics.counts((), ("",)) if name.startswith(PREFIX)]


# long: test_secrets_on_disk.py has a member of each client in one secured group, test_rights.py their rights
@pytest.mark.long
def test_members_of_every_client_get_in(secured: Secured, secured_broker: Broker, tmp_path: Path):
    create_topics(secured_broker.bootstrap, {"shared": len(CLIENTS)})
    rights = [Right("Read", "Topic", each) for each in ("shared", "__consumer_offsets")]
    user = secured.user("members", [*rights, Right("Read", "Group", "mixed")])
    with command_lines() as seen, MemberGroup(user, "mixed", tmp_path / "history", "run") as members:
        for client in CLIENTS:
            members.start(client, ["shared"], ["range"], client=client)
        owned = members.wait_stable(timeout_s=JOINS_S).owned
    assert {name: len(topics["shared"]) for name, topics in owned.items()} == dict.fromkeys(CLIENTS, 1)
    everything = "".join(seen) + kept_by(tmp_path)
    assert not any(secret in everything for secret in user.secrets)


# long: test_rights.py plays a scenario with the least rights; plugin/test_fixtures.py has an external broker
@pytest.mark.long
def test_the_pytest_plugin_plays_on_a_secured_broker(secured: Secured, tmp_path: Path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["kafka_assignors.pytest_plugin"]')
    (tmp_path / "test_it.py").write_text(
        "def test_it(kafka_group, kafka_topic):\n"
        "    topic, group = kafka_topic(partitions=2), kafka_group()\n"
        '    group.start("m1", [topic], ["cooperative-sticky"])\n'
        "    group.wait_stable()\n"
    )
    rights = [Right(each, "Topic", "topic-", prefixed=True) for each in ("Create", "Read", "Delete")]
    rights += [Right(each, "Group", "group-", prefixed=True) for each in ("Read", "Delete")]
    user = secured.user("tester", [*rights, Right("Read", "Topic", "__consumer_offsets")])

    def options(user: Connection, folder: Path) -> list[str]:
        return ["--kafka-config", by_file(user, folder)[1]]

    words = ["pytest", str(tmp_path), f"--rootdir={tmp_path}", "--kafka-backend=external", "-W", "ignore"]
    done = start(user, options, tmp_path, *words)
    assert "1 passed" in done.stdout.splitlines()[-1]
    assert "left at" not in done.stderr


@pytest.fixture
def spark_log(tmp_path: Path) -> Path:
    """Spark's own event log, for processes with `SPARK_CONF_DIR` there: what its UI and history server show."""
    (log := tmp_path / "events").mkdir()
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir {log.as_uri()}\n"
    )
    return log


def submit(port: int) -> list[str]:
    """spark-submit with its UI at that port; `python -m kafka_assignors.pipeline` has none."""
    settings = {
        "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "4", "spark.ui.port": str(port),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",  # as ours
    }  # fmt: skip
    return [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]",
        "--jars", ",".join(map(str, spark_jars())), "--driver-memory", "1g",
        *(word for name, value in {**settings, **sparkui.SETTINGS}.items() for word in ("--conf", f"{name}={value}")),
    ]  # fmt: skip


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("what", "options", "tab"),
    [
        # long: the demo's long test runs the job by a file on a secured broker as well, and looks for secrets
        pytest.param("run --group", by_file, "/SQL/", marks=pytest.mark.long),
        # long: spark-submit and pages of Spark's, which rarely change; test_read.py has how settings are read, shown
        pytest.param("stream", by_settings, "/StreamingQuery/", marks=pytest.mark.long),
    ],
)
def test_the_pipeline_reads_a_secured_topic_and_shows_no_secret(
    what: str, options: Options, tab: str, secured: Secured, orders: str, watched: str, spark_log: Path, tmp_path: Path
):
    """Nor do Spark's plans, settings and events, its UI while it works, and what that answers to programs."""
    user = secured.user(f"analyst-{options.__name__}", NEEDED[f"report {what}"])
    name, *groups = what.split()
    words = (name, "--topics", orders, *(f"{each}={watched}" for each in groups), "--json")
    out, job, [port] = str(tmp_path / "out"), str(ROOT / "pipeline" / "__main__.py"), free_ports(1)
    surroundings = {
        "SPARK_CONF_DIR": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": str(spark_java_home()),
        "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    with sparkui.shown(port) as pages:
        said = start(user, options, tmp_path, job, *words, "--out", out, by=submit(port), environment=surroundings)
    answer = valid(f"report-{name}", json.loads(said.stdout.strip().splitlines()[-1]))
    assert answer["topics"][0]["records"] == 200
    assert "SparkListenerSQLExecutionStart" in kept_by(spark_log)
    shows = {page: "".join(texts) for page, texts in pages.items()}
    (rest,) = {page.rpartition("/")[0] for page in shows if page.endswith("/allexecutors")}
    assert {"/environment/", "/SQL/", tab, f"{rest}/environment", f"{rest}/jobs"} <= shows.keys()
    for plans in ("/SQL/execution/?id=", f"{rest}/sql?details=true"):
        assert any("Kafka" in text for page, text in shows.items() if page.startswith(plans)), plans
    assert [page for page, text in shows.items() for secret in user.secrets if secret in text] == []


PIPELINE = {name: rights for name, rights in NEEDED.items() if name.startswith("report")}


@pytest.mark.parametrize(("what", "missing"), [(name, right) for name in PIPELINE for right in PIPELINE[name]])
def test_the_pipeline_names_the_right_that_is_missing(
    what: str, missing: Right, user: Callable[..., Connection], orders: str, tmp_path: Path
):
    """Before Spark starts."""
    lesser = user(*(right for right in NEEDED[what] if right != missing))
    _, name, *groups = what.split()
    words = [name, "--topics", orders, "--out", str(tmp_path / "out"), *(f"{each}=watched" for each in groups)]
    with lesser.file() as config:
        done = CliRunner().invoke(pipeline, [*words, "--config", str(config)])
    assert done.exit_code == 3, (done.output, done.exception)
    assert (
        f"user {lesser.username!r} lacks the permission {missing}; an administrator can grant it with: " in done.stderr
    )
