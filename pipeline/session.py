"""The Spark session; only this file starts one: on this machine, or with spark-submit's master, jars and resources."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
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

# Options whose values must not appear in the UI, plans and event logs; the first names are Spark's own default.
_HIDDEN = r"(?i)secret|password|token|access[.]?key|jaas|keystore[.]key"
SQL_SETTINGS = {
    "spark.redaction.regex": _HIDDEN,
    "spark.sql.redaction.options.regex": f"{_HIDDEN}|url",
    "spark.sql.session.timeZone": "UTC",
    # The default is an obsolete 96-bit type.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Spreads NumPy's cost per call over more keys than the default of 10,000; keys of 1 kB make batches of 32 MB.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    # Without a limit, Spark does not measure each batch again for each row, a third of the transfer cost.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    # PySpark tells the JVM the line of each expression for its messages, which ours leave out: half of all its calls.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
# The second compiler (C2) takes half of a short job's CPU; long jobs should use spark-submit. C1 alone has 48 MB for
# code by default; a session of many queries fills that, and tasks then fail with a VirtualMachineError.
_FIRST_COMPILER = " -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"

# The default compiles Java for the expressions of each query, which takes longer than to interpret them for few rows.
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextlib.contextmanager
def session(progress: Progress | None = None, *, long: bool = False) -> Iterator[SparkSession]:
    """Start or reuse a Spark session: that of spark-submit, else a local one, which ends with its JVM.

    Args:
        progress: Measures how long the start took, and gets the session's tasks as its `detail`.
        long: Enable both compilers in a local JVM, as under spark-submit.

    Raises:
        JavaNotFound: There is no usable Java.
        JarError: A jar cannot be fetched.
        MachineError: Spark does not start, or fails later; the message has the reason and the path of the log.
    """
    # It would print the JVM's stack trace beside our one line.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    progress = progress or Progress()
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # set by spark-submit
        spark = SparkSession.builder.config(map=SQL_SETTINGS).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        with _plain_errors(), _detailed(progress, spark):
            yield spark
        spark.stop()
        return
    with tempfile.TemporaryDirectory(prefix="pipeline-", ignore_cleanup_errors=True) as work:
        log = Path(work) / "spark.log"
        with log.open("wb") as sink:
            with progress("spark"):
                gateway, spark = _start(work, log, sink, long)
            try:
                with _plain_errors(log, gateway.proc), _detailed(progress, spark):
                    yield spark
            finally:
                with contextlib.suppress(Exception):  # it may have failed itself
                    spark.stop()
                _end(gateway)


@contextlib.contextmanager
def _detailed(progress: Progress, spark: SparkSession) -> Iterator[None]:
    progress.detail = lambda: tasks(spark)
    try:
        yield
    finally:
        progress.detail = str


def tasks(spark: SparkSession) -> str:
    """Spark's running stages in words, ``stage 7: 3 of 12 tasks``; "" if none runs or Spark doesn't answer."""
    stages = []
    with contextlib.suppress(Py4JError, OSError):  # the JVM may be ending
        tracker = spark.sparkContext.statusTracker()
        for stage in sorted(tracker.getActiveStageIds()):
            info = tracker.getStageInfo(stage)
            if info is not None:
                stages.append(f"stage {stage}: {info.numCompletedTasks} of {info.numTasks} tasks")
    return ", ".join(stages)


@contextlib.contextmanager
def interpreted(spark: SparkSession, yes: bool = True) -> Iterator[None]:
    """Context manager in which Spark interprets expressions instead of compiling them: for jobs over few rows.

    Settings are restored at the end. Without `yes` it has no effect.
    """
    before = {name: spark.conf.get(name, None) for name in _INTERPRETED} if yes else {}
    for name in before:
        spark.conf.set(name, _INTERPRETED[name])
    try:
        yield
    finally:
        # An ended JVM has no settings; its own error matters.
        with contextlib.suppress(Py4JError, OSError):
            for name, value in before.items():
                spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def _start(work: str, log: Path, sink: IO[bytes], long: bool) -> tuple[Any, SparkSession]:
    os.environ["JAVA_HOME"] = str(spark_java_home())
    # Another Spark on this machine does not match this pyspark.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    # Workers are started by this name regardless of the setting; another python3 has no pyarrow.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf(loadDefaults=False).setAll(_local_settings(work, long))
    with _plain_errors(log):
        try:
            gateway = launch_gateway(conf, popen_kwargs={"stdout": sink, "stderr": sink, "cwd": work})
        except OSError as error:
            raise MachineError(
                f"Spark cannot be started: {error}; is pyspark installed completely, and is bash available?"
            ) from error
        try:
            with _own_interrupt():
                return gateway, SparkSession(SparkContext(conf=conf, gateway=gateway))
        except Exception as error:
            reason = cause(error)  # while the JVM still runs
            _end(gateway)
            raise MachineError(f"Spark did not start: {reason}") from error
        except BaseException:
            _end(gateway)
            raise


@contextlib.contextmanager
def _own_interrupt() -> Iterator[None]:
    """Context manager after which Ctrl-C is what it was before: pyspark asks the JVM in its handler, amid a call."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _local_settings(work: str, long: bool) -> list[tuple[str, str]]:
    return [
        ("spark.master", "local[*]"),
        ("spark.app.name", "kafka-assignors pipeline"),
        ("spark.jars", ",".join(map(str, spark_jars()))),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.driver.bindAddress", "127.0.0.1"),
        ("spark.driver.memory", "2g"),  # shared with the workers
        ("spark.ui.enabled", "false"),
        # Only used by a page that nobody sees.
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
    """End the JVM and wait for it, so that no process is left behind."""
    process: subprocess.Popen[bytes] = gateway.proc
    with contextlib.suppress(Exception):
        gateway.shutdown()
    if process.stdin:
        process.stdin.close()  # the JVM ends at the end of its input
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # pyspark would keep the gateway to the ended JVM for this process's next context.
    SparkContext._gateway = SparkContext._jvm = None


@contextlib.contextmanager
def _plain_errors(log: Path | None = None, jvm: subprocess.Popen[bytes] | None = None) -> Iterator[None]:
    """Turn an error of the JVM into its root cause while the JVM still runs, and keep the log."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionRefusedError, ConnectionResetError) as error:  # the last two: no JVM
        reason, where = cause(error), ""
        if log is not None:
            kept = Path(tempfile.gettempdir()) / f"pipeline-spark-{os.getpid()}.log"
            shutil.copyfile(log, kept)
            where = f" (full log: {kept})"
            if origin(error) is None:
                ended = ""
                if jvm is not None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        ended = f"its JVM ended with exit code {jvm.wait(timeout=5)}: "
                reason = ended + (_last_error(kept, bool(ended)) or reason)
        raise MachineError(f"Spark failed: {reason}{where}") from error


def _last_error(log: Path, ran: bool) -> str:
    """The last line that names an error; if the JVM never ran, the last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    named = [line for line in lines if re.search(r"(Error|Exception)\b", line) and not line.startswith("at ")]
    return "".join(named[-1:] or ([] if ran else lines[-1:]))[:500]
