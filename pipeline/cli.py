"""The command line, and the only file that starts Spark.

``python -m kafka_assignors.pipeline`` runs Spark on this machine. Started by ``spark-submit`` the job takes the
master, the jars and the resources it is given.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Annotated, Any, NoReturn

import pyspark
import typer
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kafka_assignors.errors import ConfigError, KafkaAssignorsError, MachineError
from kafka_assignors.jvm import spark_jars, spark_java_home
from kafka_assignors.producers import PRESETS

from . import options, stream
from .failures import cause, origin
from .job import TABLES, Sources, Wanted, work, written
from .report import charts, page, report
from .sources import brokers
from .steps import Steps
from .storage.tables import FORMATS, chosen, require

__all__ = ["TABLES", "Steps", "app", "session"]

BAD_INPUT = 3
# Names of options whose values UI, plans and event logs must not show; the first ones are Spark's own default.
_HIDDEN = r"(?i)secret|password|token|access[.]?key|jaas|keystore[.]key"
SQL_SETTINGS = {
    "spark.redaction.regex": _HIDDEN,
    "spark.sql.redaction.options.regex": f"{_HIDDEN}|url",
    "spark.sql.session.timeZone": "UTC",
    # What the tables say; the default is a 96-bit type that nobody else writes any more.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # NumPy's cost per call is spread over more keys than the default's 10,000; keys of 1 kB make batches of 32 MB.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    # Without any limit Spark does not measure each batch anew with each row, a third of the cost of handing it over.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
# The second compiler takes half of a short job's CPU; a job that is worth it is one for spark-submit. Alone the first
# has room for 48 MB of code; a session of many queries fills it, and tasks then fail with a VirtualMachineError.
_FIRST_COMPILER = " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
Bootstrap = Annotated[
    str | None, typer.Option(help="HOST:PORT[,HOST:PORT] of the brokers; or bootstrap.servers in --config.")
]
Config = Annotated[Path | None, typer.Option("--config", help="Kafka's client.properties: how to reach the brokers.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-X", metavar="KEY=VALUE", help="A setting beside --config; secrets as KEY='${env:NAME}'."),
]
Topics = Annotated[str, typer.Option(help="Comma-separated topics with the records.")]
Window = Annotated[str, typer.Option(help="Length of the windows of placement.")]
Reference = Annotated[
    str, typer.Option(help=f"Rule that keys should follow: {', '.join(PRESETS)}; none: do not judge.")
]
Out = Annotated[str, typer.Option(help="Folder or URI of the tables; a run of the same id is replaced, others stay.")]
Format = Annotated[
    str, typer.Option("--format", help=f"Format of the tables: {', '.join(FORMATS)} (with a Spark that has it).")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


@app.callback()
def _main() -> None:
    """What the records and rebalances say: load, skew and who owned what, by Spark."""


@app.command()
def run(
    topics: Topics,
    out: Out,
    bootstrap: Bootstrap = None,
    config: Config = None,
    settings: Settings = None,
    history: Annotated[
        str | None, typer.Option(help="Folder or URI of a run's history (*.jsonl, at any depth).")
    ] = None,
    events: Annotated[
        str | None,
        typer.Option("--events-topic", help="Topic that a run's events were published to, a line of JSON a record."),
    ] = None,
    groups: Annotated[
        str | None, typer.Option("--group", help="Comma-separated groups to read from __consumer_offsets.")
    ] = None,
    window: Window = "1 minute",
    run_id: Annotated[
        str | None, typer.Option("--run", help="Id for the tables; the history's if it has one, else the time.")
    ] = None,
    reference: Reference = "java",
    hot_key_share: Annotated[
        float, typer.Option(help="A key with more of its topic's records is a finding; 0 to 1.")
    ] = 0.2,
    what_if_counts: Annotated[
        str | None, typer.Option("--what-if", help="Comma-separated partition counts to try every rule with.")
    ] = None,
    weights_file: Annotated[
        str | None, typer.Option("--weights", help="File to keep the weights for the next assignment in.")
    ] = None,
    weights_unit: Annotated[str, typer.Option(help="records_per_s or bytes_per_s.")] = "records_per_s",
    weights_minutes: Annotated[int, typer.Option(help="How long the weights may be used.")] = 60,
    since: Annotated[
        str | None,
        typer.Option(help="Read from the first record so dated on: 2026-01-31T08:00 (UTC), or '2 hours' ago."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Read up to the first record so dated.")] = None,
    offsets: Annotated[
        str | None, typer.Option(help="Offsets to read: TOPIC:PARTITION=FIRST-LAST,…; other partitions are read whole.")
    ] = None,
    sample: Annotated[
        float, typer.Option(help="Share of the offsets to read, in evenly spread blocks. Counts are the sample's.")
    ] = 1.0,
    isolation: Annotated[str, typer.Option(help="read_committed or read_uncommitted.")] = brokers.ISOLATION[0],
    format_: Format = "parquet",
    min_partitions: Annotated[
        int | None, typer.Option(help="Tasks to read by, at least; one a topic-partition by default.")
    ] = None,
    json_: Json = False,
) -> None:
    """Read topics, and what is known of groups; write tables of load, findings and ownership as Parquet; print them."""
    with _reported() as steps:
        connection = options.connection(bootstrap, config, settings)
        names, names_of_groups = options.topic_names(topics), options.group_names(groups)
        options.length(window)
        part = options.part(since, until, offsets, sample, isolation)
        wanted = Wanted(
            history=None if history is None else options.history_folder(history),
            groups=names_of_groups,
            out=out if format_ == "iceberg" else options.out_folder(out),
            window=window,
            run_id=run_id,
            reference=options.reference(reference),
            hot_key_share=options.share(hot_key_share),
            counts=options.partition_counts(what_if_counts),
            target=options.weights_target(weights_file, weights_unit, weights_minutes),
            tasks=options.at_least("--min-partitions", 1, min_partitions),
            format=options.known_format(format_),
        )
        with steps("topics"):
            sources = Sources(
                brokers.topics(connection, names, part=part),
                brokers.coordinator_log(connection) if names_of_groups else None,
                brokers.topics(connection, [events], option="--events-topic") if events else None,
            )
        with session(steps) as spark:
            said = work(spark, connection, sources, wanted, steps)
    _print({**said, "seconds": steps.seconds}, json_)


@app.command(name="stream")
def stream_(
    topics: Topics,
    out: Out,
    bootstrap: Bootstrap = None,
    config: Config = None,
    settings: Settings = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Folder or URI of how far it read; checkpoint in the folder of the tables by default."),
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="Length of the windows; that of the batches before, else a minute.")
    ] = None,
    max_records: Annotated[
        int, typer.Option(help="Records of one batch, which is all that is held in memory.")
    ] = 1_000_000,
    run_id: Annotated[str, typer.Option("--run", help="Id for the tables.")] = "stream",
    allow_loss: Annotated[
        bool, typer.Option("--allow-loss", help="Go on behind records that are gone before they were read.")
    ] = False,
    json_: Json = False,
) -> None:
    """Add what came since the last time to the tables of load, in batches; a restart loses and doubles nothing."""
    with _reported() as steps:
        connection = options.connection(bootstrap, config, settings)
        names = options.topic_names(topics)
        if window is not None:
            options.length(window)
        out, most = options.out_folder(out), options.batch_size(max_records)
        kept = options.absolute(checkpoint or f"{out}/checkpoint")
        with steps("topics"):
            found = brokers.topics(connection, names, may_be_empty=True)
        with session(steps) as spark:
            with steps("batches"):
                to = stream.Streamed(out, kept, stream.remembered(spark, out, window), most, run_id, allow_loss)
                stream.follow(spark, connection, found, to)
            with steps("summary"):
                said = stream.summary(spark, out)
    _print({"run": run_id, **said, "out": stream.paths(out), "seconds": steps.seconds}, json_)


@app.command(name="report")
def report_(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder or URI of the tables: the --out of a run.")],
    html: Annotated[str | None, typer.Option(help="File of the page; report.html in FOLDER by default.")] = None,
    png: Annotated[str | None, typer.Option(help="Folder for the page's drawings as PNG files.")] = None,
    run_id: Annotated[str | None, typer.Option("--run", help="The run to tell about; the last one by default.")] = None,
    format_: Format = "parquet",
    json_: Json = False,
) -> None:
    """Turn what a run wrote into one HTML page that needs no network, and print it."""
    with _reported() as steps:
        out = folder if format_ == "iceberg" else options.absolute(folder)
        page_file = options.page_file(html, out)
        png_folder = None if png is None else options.png_folder(png)
        options.known_format(format_)
        if (there := options.local(f"{out}/runs")) and format_ != "iceberg" and not there.is_dir():
            raise ConfigError(
                f"FOLDER {out!r}: no whole run in it; write one by: python -m kafka_assignors.pipeline run --out {out}"
            )
        with session(steps) as spark, steps("summary"):
            require(spark, format_)
            run_id = chosen(spark, out, run_id, format_)
            tables = {table: written(spark, out, table, run_id, format_) for table in TABLES}
            said, more = report.summary(tables), page.details(tables)
        with steps("page"):
            page.write(page.render(said, more), page_file)
            drawings = charts.write(said, more, png_folder) if png_folder else []
    made = {"page": str(page_file), **{path.stem: str(path) for path in drawings}}
    _print({**said, "out": made, "seconds": steps.seconds}, json_)


@contextlib.contextmanager
def session(steps: Steps, *, long: bool = False) -> Iterator[SparkSession]:
    """A Spark session: that of spark-submit, else one of this process alone that is gone, JVM and all, afterwards.

    Args:
        steps: Told how long the start took.
        long: The JVM of this process alone compiles twice, as spark-submit's does.

    Raises:
        JavaNotFound, JarError: As `kafka_assignors.jvm` says.
        MachineError: Spark does not start, or fails at work; says why and where the log is.
    """
    # It would print the JVM's whole stack trace beside our one line.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
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
                gateway, spark = _start(work, log, sink, long)
            try:
                with _plain_errors(log, gateway.proc):
                    yield spark
            finally:
                with contextlib.suppress(Exception):  # it may be what failed
                    spark.stop()
                _end(gateway)


def _start(work: str, log: Path, sink: IO[bytes], long: bool) -> tuple[Any, SparkSession]:
    os.environ["JAVA_HOME"] = str(spark_java_home())
    # Another Spark on this machine is not the one that this pyspark speaks to.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    # Workers are started by this name, whatever the setting says; another python3 has no pyarrow.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf(loadDefaults=False).setAll(_local_settings(work, long))
    with _plain_errors(log):
        try:
            gateway = launch_gateway(conf, popen_kwargs={"stdout": sink, "stderr": sink, "cwd": work})
        except OSError as error:
            raise MachineError(f"Spark cannot be started: {error}; is pyspark whole, and is there a bash?") from error
        try:
            return gateway, SparkSession(SparkContext(conf=conf, gateway=gateway))
        except BaseException as error:
            said = cause(error)  # while there is a JVM to ask
            _end(gateway)
            raise MachineError(f"Spark did not start: {said}") from error


def _local_settings(work: str, long: bool) -> list[tuple[str, str]]:
    return [
        ("spark.master", "local[*]"),
        ("spark.app.name", "kafka-assignors pipeline"),
        ("spark.jars", ",".join(map(str, spark_jars()))),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.driver.bindAddress", "127.0.0.1"),
        ("spark.driver.memory", "2g"),  # it is the workers' too
        ("spark.ui.enabled", "false"),
        # Kept for a page that nobody sees.
        ("spark.ui.retainedJobs", "10"),
        ("spark.ui.retainedStages", "10"),
        ("spark.sql.ui.retainedExecutions", "10"),
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.local.dir", work),
        ("spark.sql.warehouse.dir", f"{work}/warehouse"),
        ("spark.driver.extraJavaOptions", f"-Djava.io.tmpdir={work}" + ("" if long else _FIRST_COMPILER)),
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
def _plain_errors(log: Path | None = None, jvm: subprocess.Popen[bytes] | None = None) -> Iterator[None]:
    """Turn an error of the JVM into its first cause, while there is a JVM to ask, and keep the log."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionRefusedError, ConnectionResetError) as error:  # the last two: no JVM
        said, where = cause(error), ""
        if log is not None:
            kept = Path(tempfile.gettempdir()) / f"pipeline-spark-{os.getpid()}.log"
            shutil.copyfile(log, kept)
            where = f" (all of it: {kept})"
            if origin(error) is None:
                ended = ""
                if jvm is not None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        ended = f"its JVM ended with exit code {jvm.wait(timeout=5)}: "
                said = ended + (_last_error(kept, bool(ended)) or said)
        raise MachineError(f"Spark failed: {said}{where}") from error


def _last_error(log: Path, ran: bool) -> str:
    """The last line that names an error; of a JVM that never ran the last line of all."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    named = [line for line in lines if re.search(r"(Error|Exception)\b", line) and not line.startswith("at ")]
    return "".join(named[-1:] or ([] if ran else lines[-1:]))[:500]


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
    (stream.show if "batches" in said else report.show)(said)
    print("Written: " + "  ".join(said["out"].values()))
