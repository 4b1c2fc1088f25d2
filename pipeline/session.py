"""The Spark session: the only file that starts Spark.

A session started here runs Spark on this machine. Under ``spark-submit`` it takes the master, the jars and the
resources that it is given.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kafka_assignors.errors import MachineError
from kafka_assignors.jvm import spark_jars, spark_java_home

from .failures import cause, origin
from .progress import Progress

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


@contextlib.contextmanager
def session(progress: Progress | None = None, *, long: bool = False) -> Iterator[SparkSession]:
    """A Spark session: that of spark-submit, else one of this process alone, which ends with its JVM.

    Args:
        progress: Measures how long the start took.
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
            with (progress or Progress())("spark"):
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
