"""The same job, unchanged, by spark-submit on a standalone master with two workers: the same answer.

Four more JVMs on one machine: not collected by itself, run it by ``pytest tests/spark/cluster.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from integration.broker import Broker
from integration.broker.ports import free_ports
from integration.records import Record, send
from kafka_assignors.jvm import spark_jars, spark_java_home
from pipeline import brokers, weights
from pipeline.job import Sources, Wanted, work
from pipeline.steps import Steps

pytestmark = [pytest.mark.spark, pytest.mark.broker]
SPARK = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    settings = {"JAVA_HOME": str(spark_java_home()), "SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": sys.executable}
    ours = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")  # of the session that other tests share
    return {**{k: v for k, v in os.environ.items() if k not in ours}, **settings, "SPARK_LOCAL_IP": "127.0.0.1"}


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
            env = {**environment(), "SPARK_DAEMON_MEMORY": "256m"}
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


@pytest.mark.timeout(1500)
def test_a_cluster_of_two_workers_gives_the_same_answer(
    kafka_broker: Broker, kafka_topic, spark: SparkSession, tmp_path: Path
) -> None:
    topic, history = kafka_topic(partitions=5), tmp_path / "history"
    records = [Record(topic, b"key-%d" % (i % 40) if i % 3 else None) for i in range(600)]
    assert send(kafka_broker.bootstrap, history, "r", "random", records).acked == 600
    packages = tmp_path / "packages.zip"
    with zipfile.ZipFile(packages, "w") as archive:
        for package in ("kafka_assignors", "producers", "pipeline"):
            for file in (ROOT / package).rglob("*"):
                if file.is_file() and "__pycache__" not in file.parts:
                    archive.write(file, file.relative_to(ROOT))

    with cluster(tmp_path, 2) as master:
        done = subprocess.run(
            [str(SPARK / "bin" / "spark-submit"), "--master", master, "--jars", ",".join(map(str, spark_jars())),
             "--py-files", str(packages), "--conf", "spark.sql.shuffle.partitions=4", "--driver-memory", "512m",
             "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false", "--executor-memory", "512m",
             str(ROOT / "pipeline" / "__main__.py"), "run", "--bootstrap", kafka_broker.bootstrap, "--topics", topic,
             "--history", str(history), "--out", str(tmp_path / "cluster"), "--what-if", "7", "--json"],
            capture_output=True, text=True, timeout=800, env=environment(), cwd=tmp_path, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        executors = [sorted(path.name for path in (tmp_path / f"worker-{n}").glob("app-*/*")) for n in range(2)]

    assert [len(names) for names in executors] == [1, 1]  # each worker ran one
    assert sorted(name for names in executors for name in names) == ["0", "1"]
    said = json.loads(done.stdout)
    sources = Sources(brokers.topics(kafka_broker.bootstrap, [topic]))
    want = Wanted(str(tmp_path / "here"), weights.Target(), history=str(history), counts=[7])
    here = work(spark, kafka_broker.bootstrap, sources, want, Steps())
    for each in (said, here):
        for name in ("out", "weights"):
            del each[name]
    said.pop("seconds")
    assert said == json.loads(json.dumps(here))
    assert said["rows"]["records"] == 600
    assert {finding["kind"] for finding in said["findings"]} == {"misplaced", "split-key"}  # the random partitioner's
