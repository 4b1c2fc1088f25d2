"""One `report run` over a small history and its topics: its calls from Python into the JVM, its time."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from kafka_assignors.integration.broker import start_broker
from kafka_assignors.integration.records import Record, send
from kafka_assignors.integration.topics import create_topics

from .result import RESULTS, Result, WrongAnswer

_TOPICS = {"orders": 12, "payments": 6, "audit": 3}
_RECORDS = 18_000
"""As in the demo, and more than a run that Spark interprets."""
_GROUPS = ("kafka-python.cooperative-sticky", "kafka-python.range", "java.sticky", "librdkafka.range")
_JOBS = ("collectToPython", "count", "save", "parquet")
"""Methods of the JVM that run a job; the first one called is `count` or `collectToPython`."""


def run(quick: bool) -> Iterator[Result]:
    """``report-run``: wall seconds; ``/cpu``: of all its processes; ``/calls``, ``/calls-before-first-job``: into the
    JVM, by py4j. 18,000 records in three topics, and the kept histories of four groups; each run in a new process.
    """
    with start_broker("jvm") as broker, TemporaryDirectory(prefix="report-run-") as name:
        folder = Path(name)
        create_topics(broker.bootstrap, _TOPICS)
        for kept in _GROUPS:
            with tarfile.open(RESULTS / "histories" / f"{kept}.0.tar.xz") as packed:
                packed.extractall(folder / "history" / kept, filter="data")
        topics = list(_TOPICS)
        sent = (Record(topics[n % len(topics)], b"key-%d" % (n % 500)) for n in range(_RECORDS))
        (folder / "history" / "sent").mkdir()
        send(broker.bootstrap, folder / "history" / "sent", "run", "default", sent)
        raw = [_once(broker.bootstrap, folder, n) for n in range(1 if quick else 3)]
    for row, key, unit in (
        ("", "wall_s", "s"), ("/cpu", "cpu_s", "s CPU"), ("/calls", "calls", "calls"),
        ("/calls-before-first-job", "before", "calls"),
    ):  # fmt: skip
        yield Result(
            f"report-run{row}", statistics.median(run_figures[key] for run_figures in raw), unit, raw={"runs": raw}
        )


def _once(bootstrap: str, folder: Path, number: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.report_run", bootstrap, str(folder / "history"), f"{folder}/{number}"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    cpu = _Cpu(process.pid)
    printed, _ = process.communicate()
    wall_s = time.perf_counter() - began
    if process.returncode != 0:
        raise WrongAnswer(f"report run ended with {process.returncode}")
    counts: dict[str, Any] = json.loads(printed)
    if counts["records"] != _RECORDS:
        raise WrongAnswer(f"report run counts {counts['records']} records of {_RECORDS}")
    return {**counts, "wall_s": wall_s, "cpu_s": cpu.end()}


class _Cpu:
    """CPU seconds of a process and all its descendants, of each as last seen; looks ten times a second."""

    def __init__(self, pid: int) -> None:
        self._root, self._last = psutil.Process(pid), dict[int, float]()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> float:
        """The sum."""
        self._ended.set()
        self._thread.join()
        return sum(self._last.values())

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            try:
                for process in (self._root, *self._root.children(recursive=True)):
                    self._last[process.pid] = sum(process.cpu_times()[:2])
            except psutil.Error:
                continue


def _count() -> dict[str, int]:
    """Count py4j's commands from now on. Releases of objects are left out: they follow Python's garbage collection."""
    from py4j.java_gateway import GatewayClient

    counts, command_of = {"calls": 0, "before": 0}, GatewayClient.send_command
    jobs = threading.Event()

    def counted(self: Any, command: str, *args: Any, **options: Any) -> Any:
        kind, *parts = command.split("\n")
        if (kind, parts[:1]) != ("m", ["d"]):
            counts["calls"] += 1
            if kind == "c" and parts[1] in _JOBS:
                jobs.set()
            counts["before"] += not jobs.is_set()
        return command_of(self, command, *args, **options)

    GatewayClient.send_command = counted
    return counts


def main(bootstrap: str, history: str, out: str) -> None:
    """The measured run; prints its counts."""
    counts = _count()
    from kafka_assignors.pipeline.progress import Progress
    from kafka_assignors.pipeline.run import RunOptions, write_run
    from kafka_assignors.pipeline.session import session
    from kafka_assignors.pipeline.sources.snapshot import Source

    progress = Progress()
    snapshot = Source(bootstrap, list(_TOPICS), history=history).snapshot()
    with session(progress) as spark:
        options = RunOptions(out=out, history=history, run_id="run")
        report = write_run(spark, bootstrap, snapshot, options, progress)
    print(json.dumps({"records": report["rows"]["records"], **counts, "seconds": progress.seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
