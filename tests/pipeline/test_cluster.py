"""The same job, unchanged, by spark-submit on a standalone master with two workers."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.broker.ports import free_ports
from kafka_assignors.integration.records import Record, send
from kafka_assignors.jvm import spark_jars
from kafka_assignors.producers import partition_for_key
from tests.support.pipeline.clusters import JVM, SETTINGS, SPARK, environment
from tests.support.places import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.broker]


@contextlib.contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """A master and its workers of one core each; yields the master's URL."""
    port, web = free_ports(2)
    url = f"spark://127.0.0.1:{port}"
    daemon = [str(SPARK / "bin" / "spark-class")]
    where = ["--host", "127.0.0.1"]
    with contextlib.ExitStack() as running:

        def start(name: str, *arguments: str) -> None:
            log = running.enter_context((folder / f"{name}.log").open("wb"))
            env = {**environment(), "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": JVM}
            command = [*daemon, *arguments]
            process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=folder)
            running.callback(end, process)

        start("master", "org.apache.spark.deploy.master.Master", *where, "--port", str(port), "--webui-port", str(web))
        for n in range(workers):
            (folder / f"worker-{n}").mkdir()
            size = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker-{n}"), "--webui-port", "0"]
            start(f"worker-{n}", "org.apache.spark.deploy.worker.Worker", *where, *size, url)
        deadline = time.monotonic() + 300
        while alive(web) < workers:
            assert time.monotonic() < deadline, "the workers did not come"
            time.sleep(0.2)
        yield url


def alive(web: int) -> int:
    """Workers that the master knows, 0 while it starts."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except OSError:
        return 0


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.mark.long  # long: a second Spark, of a master and two workers; test_run.py proves the same job
@pytest.mark.timeout(600)
def test_a_cluster_of_two_workers_finds_what_lies_on_the_broker(
    kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Against what was sent, counted without Spark; one record lies where its key does not belong."""
    topic, history = kafka_topic(partitions=3), tmp_path / "history"
    names = [b"key-%d" % n for n in range(40)]
    sent = send(kafka_broker.bootstrap, history, "r", "default", [Record(topic, key) for key in names * 5])
    wrong = (partition_for_key(b"key-1", 3) + 1) % 3
    assert send(kafka_broker.bootstrap, history, "r", "explicit", [Record(topic, b"key-1", wrong)]).acked == 1
    packages = tmp_path / "packages.zip"
    with zipfile.ZipFile(packages, "w") as archive:
        for folder, _, names_of in os.walk(ROOT / "kafka_assignors", followlinks=True):
            for file in (Path(folder, name) for name in names_of if Path(folder).name != "__pycache__"):
                archive.write(file, file.relative_to(ROOT))

    with cluster(tmp_path, 2) as master:
        done = subprocess.run(
            [str(SPARK / "bin" / "spark-submit"), "--master", master, "--jars", ",".join(map(str, spark_jars())),
             "--py-files", str(packages), "--driver-memory", "512m", "--executor-memory", "512m",
             *itertools.chain(*(("--conf", f"{name}={value}") for name, value in SETTINGS.items())),
             str(ROOT / "pipeline" / "__main__.py"), "run", "--bootstrap", kafka_broker.bootstrap, "--topics", topic,
             "--history", str(history), "--out", str(tmp_path / "out"), "--what-if", "7", "--json"],
            capture_output=True, text=True, timeout=500, env=environment(), cwd=tmp_path, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        executors = [sorted(path.name for path in (tmp_path / f"worker-{n}").glob("app-*/*")) for n in range(2)]

    assert [len(names) for names in executors] == [1, 1]  # each worker ran one
    assert sorted(name for names in executors for name in names) == ["0", "1"]
    said = json.loads(done.stdout.splitlines()[-1])  # spark-submit puts what the job says on stderr there too
    expected = {**sent.counts[topic]}
    expected[wrong] = expected.get(wrong, 0) + 1
    assert said["rows"]["records"] == 201
    assert {load["partition"]: load["records"] for load in said["topics"][0]["loads"]} == expected
    assert {finding["kind"] for finding in said["findings"]} == {"misplaced", "split-key"}
    moved = {key for key in names if partition_for_key(key, 3) != partition_for_key(key, 7)} | {b"key-1"}
    tried = {(row["rule"], row["partitions"]): row for row in said["partitioners"]}
    assert tried["java", 7]["moved_keys"] == len(moved)
    assert tried["java", 3]["moved_records"] == 1
    assert said["rejected"] == {}
