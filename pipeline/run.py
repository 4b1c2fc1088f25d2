"""The command line, and the only file that starts Spark.

``python -m pipeline`` runs Spark on this machine. Started by ``spark-submit`` the same job takes the master, the jars
and the resources it is given.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Annotated, Any, NoReturn

import pyspark
import typer
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession

from kafka_assignors.core.strategies import STRATEGIES
from kafka_assignors.errors import ConfigError, KafkaAssignorsError, MachineError
from kafka_assignors.jvm import spark_jars, spark_java_home

from . import options, read, rebalances, report, schema, transform, weights, what_if

BAD_INPUT = 3
TABLES = {
    "placement": schema.PLACEMENT,
    "topic_load": schema.TOPIC_LOAD,
    "group_timeline": schema.GROUP_TIMELINE,
    "rebalances": schema.REBALANCES,
    "assignor_what_if": schema.ASSIGNOR_WHAT_IF,
    "partitioner_what_if": schema.PARTITIONER_WHAT_IF,
    "partition_weights": schema.PARTITION_WEIGHTS,
    "rejected": schema.REJECTED,
}

SQL_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # What the tables say; the default is a 96-bit type that nobody else writes any more.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
Out = Annotated[str, typer.Option(help="Folder or URI of the tables; those in it are replaced.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


@app.callback()
def _main() -> None:
    """What the records and rebalances say: load, skew and who owned what, by Spark."""


@app.command()
def run(
    bootstrap: Annotated[str, typer.Option(help="HOST:PORT[,HOST:PORT] of the brokers.")],
    topics: Annotated[str, typer.Option(help="Comma-separated topics with the records.")],
    history: Annotated[str, typer.Option(help="Folder or URI of a run's history (*.jsonl, at any depth).")],
    out: Out,
    window: Annotated[str, typer.Option(help="Length of the windows of placement.")] = "1 minute",
    run_id: Annotated[str | None, typer.Option("--run", help="Id for placement; the history's if it has one.")] = None,
    what_if_counts: Annotated[
        str | None, typer.Option("--what-if", help="Comma-separated partition counts to try every rule with.")
    ] = None,
    weights_file: Annotated[
        str | None, typer.Option("--weights", help="File to keep the weights for the next assignment in.")
    ] = None,
    weights_unit: Annotated[str, typer.Option(help="records_per_s or bytes_per_s.")] = "records_per_s",
    weights_minutes: Annotated[int, typer.Option(help="How long the weights may be used.")] = 60,
    json_: Json = False,
) -> None:
    """Read topics and a history; write tables of load, ownership and weights as Parquet; print them."""
    with _reported() as steps:
        names = options.topic_names(topics)
        options.check_window(window)
        history, out = options.history_folder(history), options.out_folder(out)
        other_counts = options.partition_counts(what_if_counts)
        target = options.weights_target(weights_file, weights_unit, weights_minutes)
        with steps("topics"):
            found = read.topics(bootstrap, names)
        with session(steps) as spark:
            said = job(spark, bootstrap, found, history, out, window, run_id, other_counts, target, steps)
    _print({**said, "seconds": steps.seconds}, json_)


@app.command(name="report")
def report_(out: Out, json_: Json = False) -> None:
    """Print what an earlier run wrote."""
    with _reported() as steps:
        out = options.absolute(out)
        for table in TABLES:
            if (folder := options.local(f"{out}/{table}")) and not folder.is_dir():
                raise ConfigError(f"--out {out!r}: no {table}/ in it; write it by: python -m pipeline run --out {out}")
        with session(steps) as spark, steps("summary"):
            said = report.summary({table: _written(spark, out, table) for table in TABLES})
    _print({**said, "out": _paths(out), "seconds": steps.seconds}, json_)


def job(
    spark: SparkSession,
    bootstrap: str,
    topics: read.Topics,
    history: str,
    out: str,
    window: str,
    run_id: str | None,
    other_counts: list[int],
    target: weights.Target,
    steps: Steps,
) -> dict[str, Any]:
    """The job itself, in a session of any kind. Returns what ``--json`` prints, but for the seconds.

    Raises:
        ConfigError: The history has no event, or several runs where `run_id` is None; a weights file is none.
        MachineError: The weights file cannot be written.
    """
    with steps("events"):
        parsed = read.parse(read.lines(spark, history)).persist()
        events = read.events(parsed)
        counts = {row["run"]: row["count"] for row in events.groupBy("run").count().collect()}
    run_id = run_id or options.only_run(counts, history)
    with steps("placement"):
        records = read.records(spark, bootstrap, topics, run_id)
        placement = transform.placement(records, window, topics.partitions).persist()
        write(placement, f"{out}/placement")
    with steps("topic_load"):
        write(transform.topic_load(placement, topics.partitions), f"{out}/topic_load")
    with steps("partitioner_what_if"):
        # A second pass over the topics, with the keys: for those who asked.
        tried = _frame(spark, [], "partitioner_what_if")
        if other_counts:
            tried = what_if.partitioners(read.keys(spark, bootstrap, topics, run_id), topics.partitions, other_counts)
        write(tried, f"{out}/partitioner_what_if")
    with steps("partition_weights"):
        measured = weights.measure(placement, topics.partitions, target.unit)
        settled, changes = weights.update(measured, target)
        write(weights.table(spark, run_id, measured, settled), f"{out}/partition_weights")
    with steps("group_timeline"):
        write(transform.group_timeline(events), f"{out}/group_timeline")
    with steps("rebalances"):
        found = rebalances.collect(events)
        gaps = rebalances.gaps(_written(spark, out, "group_timeline"))
        write(_frame(spark, rebalances.per_rebalance(found, gaps), "rebalances"), f"{out}/rebalances")
        replayed = rebalances.what_if(found, measured.loads, STRATEGIES)
        write(_frame(spark, replayed, "assignor_what_if"), f"{out}/assignor_what_if")
    with steps("rejected"):
        write(read.rejected(parsed, run_id), f"{out}/rejected")
    with steps("summary"):  # of what was written, read again
        said = report.summary({table: _written(spark, out, table) for table in TABLES})
    said["rows"] = {
        "records": sum(topic["records"] for topic in said["topics"]),
        "events": sum(counts.values()),
        **said["rows"],
    }
    return {"run": run_id, "cluster": topics.cluster, **said, "weights": changes, "out": _paths(out)}


def write(frame: DataFrame, path: str) -> None:
    """Replace one table by a frame that has its schema."""
    folders = [name for name in schema.PARTITION_COLUMNS if name in frame.columns]
    frame.write.mode("overwrite").partitionBy(*folders).parquet(path)


def _written(spark: SparkSession, out: str, table: str) -> DataFrame:
    return spark.read.schema(TABLES[table]).parquet(f"{out}/{table}")


def _frame(spark: SparkSession, rows: Iterable[tuple[Any, ...]], table: str) -> DataFrame:
    return spark.createDataFrame(list(rows), TABLES[table])


@contextlib.contextmanager
def session(steps: Steps) -> Iterator[SparkSession]:
    """A Spark session: that of spark-submit, else one of this process alone that is gone, JVM and all, afterwards.

    Raises:
        JavaNotFound, JarError: As `kafka_assignors.jvm` says.
        MachineError: Spark does not start, or fails at work; says why and where the log is.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # set by spark-submit
        spark = SparkSession.builder.config(map=SQL_SETTINGS).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        with _plain_errors():
            yield spark
        spark.stop()
        return
    with tempfile.TemporaryDirectory(prefix="pipeline-", ignore_cleanup_errors=True) as work:
        log = Path(work) / "spark.log"
        with log.open("wb") as sink:
            with steps("spark"):
                gateway, spark = _start(work, log, sink)
            try:
                with _plain_errors(log):
                    yield spark
            finally:
                with contextlib.suppress(Exception):  # it may be what failed
                    spark.stop()
                _end(gateway)


def _start(work: str, log: Path, sink: IO[bytes]) -> tuple[Any, SparkSession]:
    os.environ["JAVA_HOME"] = str(spark_java_home())
    # Another Spark on this machine is not the one that this pyspark speaks to.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    # Workers are started by this name, whatever the setting says; another python3 has no pyarrow.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf(loadDefaults=False).setAll(_local_settings(work))
    with _plain_errors(log):
        try:
            gateway = launch_gateway(conf, popen_kwargs={"stdout": sink, "stderr": sink, "cwd": work})
        except OSError as error:
            raise MachineError(f"Spark cannot be started: {error}; is pyspark whole, and is there a bash?") from error
        try:
            return gateway, SparkSession(SparkContext(conf=conf, gateway=gateway))
        except BaseException as error:
            said = _cause(error)  # while there is a JVM to ask
            _end(gateway)
            raise MachineError(f"Spark did not start: {said}") from error


def _local_settings(work: str) -> list[tuple[str, str]]:
    return [
        ("spark.master", "local[*]"),
        ("spark.app.name", "kafka-assignors pipeline"),
        ("spark.jars", ",".join(map(str, spark_jars()))),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.driver.bindAddress", "127.0.0.1"),
        ("spark.ui.enabled", "false"),
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.local.dir", work),
        ("spark.sql.warehouse.dir", f"{work}/warehouse"),
        # The second compiler takes half of a short job's CPU; a job that is worth it is one for spark-submit.
        ("spark.driver.extraJavaOptions", f"-Djava.io.tmpdir={work} -XX:TieredStopAtLevel=1"),
        *SQL_SETTINGS.items(),
        ("spark.sql.shuffle.partitions", "4"),
        ("spark.sql.adaptive.enabled", "true"),
    ]


def _end(gateway: Any) -> None:
    """End the JVM and wait for it: a command that has ended leaves nothing behind."""
    process: subprocess.Popen[bytes] = gateway.proc
    with contextlib.suppress(Exception):
        gateway.shutdown()
    if process.stdin:
        process.stdin.close()  # the JVM ends when its input does
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # pyspark keeps the gateway for the next context of this process, which would talk to nobody.
    SparkContext._gateway = SparkContext._jvm = None


@contextlib.contextmanager
def _plain_errors(log: Path | None = None) -> Iterator[None]:
    """Turn an error of the JVM into its first cause, while there is a JVM to ask, and keep the log."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionRefusedError, ConnectionResetError) as error:  # the last two: no JVM
        where = ""
        if log is not None:
            kept = Path(tempfile.gettempdir()) / f"pipeline-spark-{os.getpid()}.log"
            shutil.copyfile(log, kept)
            last = kept.read_text(errors="replace").split("\n")[-2:-1]  # what a JVM that did not start died of
            where = f" (all of it: {kept})" if _origin(error) else f" {''.join(last)} (all of it: {kept})"
        raise MachineError(f"Spark failed: {_cause(error)}{where}") from error


def _cause(error: BaseException) -> str:
    cause = _origin(error)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    said = f"{cause.getClass().getSimpleName()}: {cause.getMessage()}" if cause is not None else str(error)
    return said.strip().splitlines()[0][:500] if said.strip() else type(error).__name__


def _origin(error: BaseException) -> Any:
    """The Java exception behind one of py4j or of pyspark; None if the JVM threw nothing."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


class Steps:
    """How long each step took; said while it goes, as a live line on a terminal and a line per step in a pipe.

    >>> steps = Steps()
    >>> with steps("nothing"):
    ...     pass
    >>> sorted(steps.seconds)
    ['nothing', 'total']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begin = time.monotonic()

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time what is done inside, under this name."""
        begin = time.monotonic()
        with self._live(name):
            yield
        now = time.monotonic()
        self.seconds.update({name: round(now - begin, 2), "total": round(now - self._begin, 2)})
        if not sys.stderr.isatty():
            print(f"pipeline: {name} {self.seconds[name]:.1f} s", file=sys.stderr, flush=True)

    def _live(self, name: str) -> contextlib.AbstractContextManager[object]:
        if not sys.stderr.isatty():
            return contextlib.nullcontext()
        from rich.console import Console

        return Console(stderr=True).status(f"pipeline: {name} …")


@contextlib.contextmanager
def _reported() -> Iterator[Steps]:
    """Errors of ours become one line and exit code 3; a signal ends Spark too."""

    def terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
        sys.exit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield Steps()
    except KafkaAssignorsError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(BAD_INPUT) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _print(said: dict[str, Any], json_: bool) -> None:
    if json_:
        print(json.dumps(said, ensure_ascii=False))
        return
    report.show(said)
    print("Written: " + "  ".join(said["out"].values()))


def _paths(out: str) -> dict[str, str]:
    return {table: f"{out}/{table}" for table in TABLES}
