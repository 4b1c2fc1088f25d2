"""The job as its users start it: a process of its own, on a real broker, with the members' own history."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import psutil
import pyarrow.dataset
import pyarrow.parquet
import pytest
import typer
from kafka import TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types
from rich.console import Console
from typer.testing import CliRunner

from kafka_assignors.clients import weights as weights_file
from kafka_assignors.errors import MachineError, NoSuchGroup
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.broker.ports import free_ports
from kafka_assignors.integration.checker import intervals
from kafka_assignors.integration.commands.demo import Demo
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup
from kafka_assignors.integration.records import Record, read_back, send
from kafka_assignors.pipeline import cli as run
from kafka_assignors.pipeline import options, schema, session
from kafka_assignors.pipeline import run as write
from kafka_assignors.pipeline.sources.brokers import TopicSnapshot
from kafka_assignors.pipeline.sources.snapshot import Snapshot
from tests.support.cli import valid
from tests.support.footprint import footprint
from tests.support.places import ROOT
from tests.support.programs import ran
from tests.support.waiting import until

pytestmark = pytest.mark.spark

ARROW = {
    spark_types.StringType: "string", spark_types.IntegerType: "int32", spark_types.LongType: "int64",
    spark_types.DoubleType: "double", spark_types.BooleanType: "bool",
    spark_types.BinaryType: "binary",
    spark_types.TimestampType: "timestamp[us, tz=UTC]", spark_types.ArrayType: "list<element: double>",
}  # fmt: skip


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kafka_assignors.pipeline", *arguments]


def without_java(folder: Path) -> dict[str, str]:
    """An environment with every program but Java on its PATH, so that Spark runs on the wheel's."""
    rest = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "KAFKA_ASSIGNORS_JAVA")}
    for program in (f for part in rest["PATH"].split(os.pathsep) if Path(part).is_dir() for f in Path(part).iterdir()):
        link = folder / program.name
        if program.name != "java" and not link.is_symlink():
            link.symlink_to(program)
    assert shutil.which("java", path=str(folder)) is None
    return {**rest, "PATH": str(folder)}


# long: a job with a Spark of its own, on the wheel's Java; test_end_to_end.py has the command in this process
@pytest.mark.long
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_the_job_agrees_with_the_read_back_and_the_checker(
    kafka_broker: Broker, kafka_admin, kafka_topic, spark: SparkSession, tmp_path: Path, monkeypatch
) -> None:
    """Records through two partitioners, a real group whose member is killed, the job with the wheel's Java."""
    wide, narrow = kafka_topic(partitions=5, name="wide"), kafka_topic(partitions=2, name="narrow")
    folder, out = tmp_path / "history", tmp_path / "out"
    for partitioner in ("default", "random"):
        records = [
            Record(topic, f"k{i % 7}".encode() if i % 3 else None) for i in range(150) for topic in (wide, narrow)
        ]
        assert send(kafka_broker.bootstrap, folder, "r1", partitioner, records).nacked == 0
    with MemberGroup(kafka_broker.bootstrap, group=wide, folder=folder, run="r1") as group:
        group.start("m1", topics=[wide], assignors=["range"])
        group.start("m2", topics=[wide], assignors=["range"])
        group.wait_stable()
        group.kill("m1")
        group.wait_stable()
    kafka_admin.delete_records({TopicPartition(narrow, 0): 3})  # as retention does
    counts: dict[tuple[str, int], int] = {}
    for topics in read_back(kafka_broker.bootstrap, folder, "r1", [wide, narrow]).counts.values():
        for topic, partitions in topics.items():
            for partition, n in partitions.items():
                counts[topic, partition] = counts.get((topic, partition), 0) + n
    with (folder / "torn.jsonl").open("w") as file:
        file.write('{"v":1,"kind":"sta')
    inside, bin_ = tmp_path / "inside", tmp_path / "bin"
    inside.mkdir()
    bin_.mkdir()
    before = footprint(kafka_broker.bootstrap)

    done = ran(
        *command("run", "--bootstrap", kafka_broker.bootstrap, "--topics", f"{wide},{narrow}", "--history", str(folder),
                 "--out", "../out", "--weights", "../weights.json", "--what-if", "5,8", "--json",
                 "--html", "../drawn.html", "--png", "../drawn"),
        within_s=600, env=without_java(bin_), cwd=inside,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert footprint(kafka_broker.bootstrap) == before, "the job leaves no trace on the brokers"
    said = valid("report-run", json.loads(done.stdout))  # nothing else on stdout
    valid("report-page", {name: each for name, each in said.items() if name not in ("run", "cluster", "weights")})
    assert list(inside.iterdir()) == []
    assert "Exception" not in done.stderr
    loads = {(t["topic"], load["partition"]): load["records"] for t in said["topics"] for load in t["loads"]}
    assert loads == counts
    assert said["rows"]["records"] == 597
    deleted = "deleted offsets: by retention or by a request"
    assert said["rejected"] == {"not a JSON object: torn or damaged": 1, deleted: 3}
    assert said["run"] == "r1"

    placement = table(out, "placement")
    written: dict[tuple[str, int], int] = {}
    for row in placement:
        written[row["topic"], row["partition"]] = written.get((row["topic"], row["partition"]), 0) + row["records"]
    assert written == counts

    timeline = table(out, "group_timeline")
    expected = [vars(iv) for iv in intervals(History.load(folder))]
    place = ("group", "topic", "partition", "start_ns", "member", "incarnation")
    found = ({k: row[k] for k in expected[0]} for row in timeline)
    assert sorted(found, key=lambda r: [r[k] for k in place]) == expected
    assert {row["end_kind"] for row in timeline} >= {"killed", "revoked"}
    demo = Demo(kafka_broker, SimpleNamespace(name=str), tmp_path, "r1", Console(file=StringIO()))  # type: ignore[arg-type]
    demo.groups = [SimpleNamespace(intervals=intervals(History.load(folder)))]  # type: ignore[list-item]
    assert [holds for _, holds, _ in demo._compare(said, counts).checks] == [True, True], "the demo reads the answer"
    weights = weights_file.read(tmp_path / "weights.json")
    assert isinstance(weights, weights_file.Weights), weights
    weighed = {(row["topic"], row["partition"]): row for row in table(out, "partition_weights")}
    assert {tp: row["weight"] for tp, row in weighed.items()} == weights.of({wide: 5, narrow: 2})
    assert {tp: row["samples"] for tp, row in weighed.items() if row["samples"]} == counts
    assert {row["version"] for row in weighed.values()} == {weights.version} == {said["weights"]["version"]}
    rebalances = table(out, "rebalances")
    assert [row["members"] for row in sorted(rebalances, key=lambda row: row["rebalance"])][-1] == 1
    assert max(row["moves"] for row in rebalances) > 0  # those of the killed member
    assert max(row["stop_ms"] for row in rebalances) == max(row["gap_before_ms"] or 0 for row in timeline) > 0
    predicted = {row["generation"]: row["moves"] for row in table(out, "assignor_what_if") if row["elected"]}
    assert predicted == {row["generation"]: row["moves"] for row in rebalances}
    tried = {(row["topic"], row["rule"], row["partitions"]): row for row in table(out, "partitioner_what_if")}
    assert len(tried) == (2 + 3) * 6  # 5, 8; 2, 5, 8
    assert tried[wide, "roundrobin", 8]["records_per_partition"] == [300 / 8] * 8
    assert tried[wide, "java", 5]["moved_records"] > 0  # what the random partitioner misplaced
    for name, columns in run.TABLES.items():
        assert_written_as(out / name, columns)

    monkeypatch.setattr(run, "session", lambda progress: contextlib.nullcontext(spark))  # its start is what takes long
    again = CliRunner().invoke(run.app, ["report", str(out), "--png", str(tmp_path / "png")])
    assert again.exit_code == 0, again.stderr
    page = (out / "report.html").read_text("utf-8")
    assert "m1 was killed while it held" in page
    assert wide in page
    drawings = {path.name: path.read_bytes() for path in (tmp_path / "png").iterdir()}
    assert drawings.keys() == {"load.png", "what-if.png", f"timeline-{wide}.png"}
    drawn = (tmp_path / "drawn.html").read_text("utf-8")
    assert drawn.replace(f" · cluster {said['cluster']}", "", 1) == page, "one start of Spark draws the same page"
    assert {path.name: path.read_bytes() for path in (tmp_path / "drawn").iterdir()} == drawings
    assert said["out"]["page"] == str(tmp_path / "drawn.html")
    assert wide in again.stdout
    assert "not a JSON object: torn or damaged" in again.stdout


def table(out: Path, name: str) -> list[dict[str, object]]:
    return pyarrow.dataset.dataset(out / name, partitioning="hive").to_table().to_pylist()


def assert_written_as(folder: Path, columns: spark_types.StructType) -> None:
    """The files themselves hold the table: names in order, types, and `required` where there is never a null."""
    files = sorted(folder.rglob("*.parquet"))
    assert files
    inside = [field for field in columns.fields if field.name not in schema.PARTITION_COLUMNS]
    for file in files:
        found = pyarrow.parquet.ParquetFile(file).schema_arrow
        assert [(f.name, str(f.type), f.nullable) for f in found] == [
            (f.name, ARROW[type(f.dataType)], f.nullable) for f in inside
        ]
        for name in schema.PARTITION_COLUMNS:
            assert any(part.startswith(f"{name}=") for part in file.parts) == (name in columns.names)


ABSENT = "3 "
"""Marks what the cluster lacks: the command could not run. All else is wrong usage."""


@pytest.mark.broker
@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--bootstrap", "{free}", ABSENT + "--bootstrap '127.0.0.1:{port}': no broker answered"),
        ("--topics", "{topic},absent", ABSENT + "--topics: 'absent' cannot be read (UnknownTopicOrPartitionError)"),
        ("--topics", "{empty}", ABSENT + "has 3 partitions but no records"),
        ("--topics", " , ", "names no topic"),
        ("--history", "{tmp}/absent", "is not a folder"),
        ("--history", "{tmp}/out", "has no *.jsonl file"),
        ("--out", "{tmp}/file/out", "cannot be written to (Not a directory); name another folder"),
        ("--weights", "{tmp}/file", "is not a weights file; name another file, or remove it"),
        ("--weights", "{tmp}/file/weights.json", "cannot be written to (File exists); name another file"),
        ("--weights", "hdfs://host/weights.json", "only a local file can be replaced atomically"),
        ("--weights-unit", "apples", "--weights-unit 'apples' is not known; known: records_per_s, bytes_per_s"),
        ("--weights-minutes", "0", "--weights-minutes 0 would expire at once"),
        ("--what-if", "12,0", "--what-if '12,0': '0' is not a partition count"),
        ("--reference", "md5", "--reference 'md5' is not a rule; known: java,"),
        ("--hot-key-share", "1.5", "--hot-key-share 1.5 is not a share"),
        ("--group", ",", "--group ',' names no group"),
        ("--window", "soon", "--window 'soon' is not a duration"),
        ("--html", "{tmp}/out", "is a folder; name a file in it"),
        ("--png", "{tmp}/png", "needs the page that its charts belong to: add --html"),
    ],
)
def test_bad_input_is_one_line_that_names_the_option(
    kafka_broker: Broker, kafka_topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option, value, message
) -> None:
    """Found before Spark is started; the topic and history beside it are good, so nothing else is wrong."""
    monkeypatch.setattr("kafka_assignors.pipeline.sources.brokers.TIMEOUT_MS", 2000)
    monkeypatch.setattr("kafka_assignors.pipeline.cli.session", None)  # starting Spark would be a TypeError
    topic, empty = kafka_topic(1), kafka_topic(3)
    (tmp_path / "history").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "file").write_text("somebody's")
    assert send(kafka_broker.bootstrap, tmp_path / "history", "r", "default", [Record(topic)]).acked == 1
    port = free_ports(1)[0]
    value = value.format(free=f"127.0.0.1:{port}", topic=topic, empty=empty, tmp=tmp_path)
    options = {
        "--bootstrap": kafka_broker.bootstrap, "--topics": topic, "--history": str(tmp_path / "history"),
        "--out": str(tmp_path / "out"), option: value,
    }  # fmt: skip

    result = CliRunner().invoke(run.app, ["run", *(word for item in options.items() for word in item)])

    assert result.exit_code == (3 if message.startswith(ABSENT) else 2), result.output
    assert result.stdout == ""
    [error] = [line for line in result.stderr.splitlines() if not line.startswith("pipeline: ")]
    assert error.startswith("error: ")
    assert message.removeprefix(ABSENT).format(port=port) in result.stderr


def test_report_of_a_folder_without_tables_names_the_command(tmp_path: Path) -> None:
    result = CliRunner().invoke(run.app, ["report", str(tmp_path)])

    assert result.exit_code == 2
    assert "it has no complete run; create one with: kafka-assignors report run" in result.stderr


def test_a_session_of_ours_has_no_web_pages(spark: SparkSession) -> None:
    """`tests/connection` looks through those of spark-submit for secrets."""
    assert spark.sparkContext.uiWebUrl is None


def test_every_command_that_is_documented_exists() -> None:
    """Options in README, docs and docstrings are those of the command line."""
    root = ROOT
    texts = [
        *root.glob("*.md"),
        *root.glob("docs/*.md"),
        *root.glob("integration/**/*.py"),
        *root.glob("pipeline/**/*.py"),
    ]
    known = {
        name: {option for parameter in command.params for option in parameter.opts} | {"--help"}
        for name, command in typer.main.get_command(run.app).commands.items()  # type: ignore[attr-defined]
    }
    found = 0
    for path in texts:
        for name, rest in re.findall(r"(?<![\w-])report (run|page|stream)\b([^`|#\n\"]*)", path.read_text("utf-8")):
            options = set(re.findall(r"--[a-z][a-z-]*", rest))
            assert options <= known["report" if name == "page" else name], f"{path.name}: report {name}{rest}"
            found += len(options)
    assert found > 8


def test_an_error_of_the_jvm_is_its_cause_and_the_log(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text("all of it")

    with pytest.raises(MachineError, match=r"Spark failed: .*the reason") as caught, session._plain_errors(log):
        spark.sql("select raise_error('the reason')").collect()

    assert "\n" not in str(caught.value)
    kept = Path(str(caught.value).rpartition("full log: ")[2].rstrip(")"))
    assert kept.read_text() == "all of it"
    kept.unlink()


@pytest.mark.parametrize(
    ("logged", "told"),
    [
        (
            "WARN x\njava.lang.OutOfMemoryError: Java heap space\n\tat y.OtherError.z\nWARN u\n",
            "java.lang.OutOfMemoryError: J",
        ),
        ("WARN x\n", r"\[Errno 111\]"),
    ],
)
def test_a_jvm_that_ended_is_told_by_its_exit_code_and_the_last_error_that_it_logged(
    tmp_path: Path, logged: str, told: str
) -> None:
    log = tmp_path / "spark.log"
    log.write_text(logged)
    program = subprocess.Popen([sys.executable, "-c", "raise SystemExit(52)"])
    with (
        pytest.raises(MachineError, match="Spark failed: its JVM ended with exit code 52: " + told) as caught,
        session._plain_errors(log, program),
        socket.create_connection(("127.0.0.1", *free_ports(1))),
    ):
        pass
    Path(str(caught.value).rpartition("full log: ")[2].rstrip(")")).unlink()


def test_an_error_in_a_python_worker_is_its_last_line(spark: SparkSession, tmp_path: Path) -> None:
    def fail(batches):
        raise ValueError(f"the reason, after {sum(1 for _ in batches)} batches")

    (tmp_path / "spark.log").write_text("")
    with (
        pytest.raises(MachineError, match=r"Spark failed: ValueError: the reason, after \d batches") as caught,
        session._plain_errors(tmp_path / "spark.log"),
    ):
        spark.range(3).mapInArrow(fail, "id long").collect()
    Path(str(caught.value).rpartition("full log: ")[2].rstrip(")")).unlink()


def javas(pid: int) -> list[psutil.Process]:
    return [child for child in psutil.Process(pid).children(recursive=True) if "java" in child.name()]


@pytest.mark.long  # long: more starts of Spark; in test_stream.py the JVM ends with its driver even by SIGKILL
@pytest.mark.broker
@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_ends_the_jvm_too(
    started: bool, how: signal.Signals, kafka_broker: Broker, kafka_topic, tmp_path: Path
) -> None:
    topic = kafka_topic(1)
    assert send(kafka_broker.bootstrap, tmp_path / "history", "r", "default", [Record(topic)]).acked == 1
    arguments = ["--bootstrap", kafka_broker.bootstrap, "--topics", topic, "--history", str(tmp_path / "history")]
    with subprocess.Popen(
        command("run", *arguments, "--out", str(tmp_path / "out")), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        until(lambda: javas(process.pid), "Spark's JVM", within_s=120)
        if started:
            until(lambda: re.fullmatch(r"pipeline: spark [\d.]+ s\n", process.stderr.readline()), "Spark", within_s=120)
        children = javas(process.pid)

        process.send_signal(how)

        rest = process.stderr.read()
        assert (process.wait(timeout=60), rest.splitlines()[-1]) == (130, "interrupted")
        _, alive = psutil.wait_procs(children, timeout=10)
        assert alive == []


def test_a_group_that_nobody_knows_is_told() -> None:
    with pytest.raises(NoSuchGroup, match=r"--group: __consumer_offsets has no records of 'absent', 'gone'"):
        options.check_groups(["absent", "here", "gone"], {"here"})
    options.check_groups(["here"], {"here"})


@pytest.mark.parametrize(
    ("end", "logged", "torn", "expected"),
    [(3000, 0, 0, True), (3001, 0, 0, False), (2000, 1001, 0, False), (3000, 0, 1, False)],
)
def test_few_rows_are_those_of_topics_log_and_history(
    spark, tmp_path, monkeypatch, end, logged, torn, expected
) -> None:
    monkeypatch.setattr(write, "FEW_RECORDS", 3000)
    monkeypatch.setattr(write, "FEW_BYTES", 100)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "h.jsonl").write_text("x" * (100 + torn))
    snapshot = Snapshot(
        TopicSnapshot("c", {"t": 1}, {("t", 0): 5}, {("t", 0): 5 + end}),
        TopicSnapshot("c", {"o": 1}, {("o", 0): 0}, {("o", 0): logged}),
    )

    assert write.few(spark, snapshot, write.RunOptions(out="unused", history=str(tmp_path))) is expected


def test_settings_are_as_before_after_a_part_that_is_interpreted(spark: SparkSession) -> None:
    names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")
    before = [spark.conf.get(name, None) for name in names]

    with session.interpreted(spark):
        assert [spark.conf.get(name) for name in names] == ["false", "NO_CODEGEN"]
        plan = spark.range(10).where("id > 3")._jdf.queryExecution().executedPlan().toString()

    assert "*(1)" not in plan  # Spark's sign of compiled code
    assert "*(1)" in spark.range(10).where("id > 3")._jdf.queryExecution().executedPlan().toString()
    assert [spark.conf.get(name, None) for name in names] == before
