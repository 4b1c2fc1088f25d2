"""The same job, unchanged, by spark-submit on a standalone master with two workers, and on Spark's `local-cluster`."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.broker.ports import free_ports
from kafka_assignors.integration.records import Record, send
from kafka_assignors.producers import partition_for_key
from tests.support.pages import example
from tests.support.pipeline.clusters import JVM, SETTINGS, SPARK, environment
from tests.support.places import ROOT
from tests.support.programs import ran

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


def page_lines(**replaced: str) -> str:
    """The commands of the docs' page, the first one done by `packaged`, with the reader's own names replaced."""
    lines = example("docs/pipeline.md", "spark-submit", "sh").splitlines(keepends=True)
    assert lines.pop(0).startswith("pip wheel ")
    script = "".join(lines)
    for word, value in replaced.items():
        old = PLACES[word]
        assert script.count(old) == 1
        script = script.replace(old, value)
    return script


PLACES = {
    "master": "spark://master:7077", "bootstrap": "broker:9092", "topics": "--topics orders", "out": "--out placement",
}  # fmt: skip


def packaged(folder: Path) -> None:
    """What `pip wheel` puts into ``dist``, without its metadata."""
    (folder / "dist").mkdir()
    with zipfile.ZipFile(folder / "dist" / "kafka_assignors-0-py3-none-any.whl", "w") as archive:
        for place, _, names in os.walk(ROOT / "kafka_assignors", followlinks=True):
            for file in (Path(place, name) for name in names if Path(place).name != "__pycache__"):
                archive.write(file, file.relative_to(ROOT))


def conf_folder(folder: Path) -> Path:
    """Settings of a cluster that shares one machine with everything else."""
    (conf := folder / "conf").mkdir()
    sizes = {"spark.driver.memory": "512m", "spark.executor.memory": "512m"}
    (conf / "spark-defaults.conf").write_text(
        "".join(f"{name} {value}\n" for name, value in {**SETTINGS, **sizes}.items())
    )
    return conf


def spark_home(folder: Path) -> Path:
    """Spark, in a folder of the test's: executors of `local-cluster` work in the one below it."""
    (home := folder / "spark").mkdir()
    for part in SPARK.iterdir():
        (home / part.name).symlink_to(part)
    return home


@contextlib.contextmanager
def standalone(folder: Path) -> Iterator[tuple[str, Callable[[], list[list[str]]]]]:
    """A master with two workers: its URL, and the ids of the executors of each worker's application."""
    with cluster(folder, 2) as master:
        yield master, lambda: [sorted(p.name for p in (folder / f"worker-{n}").glob("app-*/*")) for n in range(2)]


@contextlib.contextmanager
def local(folder: Path) -> Iterator[tuple[str, Callable[[], list[list[str]]]]]:
    """The same as processes of the driver."""
    yield ("'local-cluster[2,1,1024]'", lambda: [[p.name] for p in sorted((folder / "spark" / "work").glob("app-*/*"))])


@pytest.mark.long  # long: a second Spark, of a master and two workers; test_run.py proves the same job
@pytest.mark.timeout(600)
@pytest.mark.parametrize("started", [standalone, local])
def test_a_cluster_of_two_workers_finds_what_lies_on_the_broker(
    started: Callable[[Path], contextlib.AbstractContextManager[tuple[str, Callable[[], list[list[str]]]]]],
    kafka_broker: Broker,
    kafka_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    """Against what was sent, counted without Spark; one record lies where its key does not belong."""
    topic, history = kafka_topic(partitions=3), tmp_path / "history"
    names = [b"key-%d" % n for n in range(40)]
    sent = send(kafka_broker.bootstrap, history, "r", "default", [Record(topic, key) for key in names * 5])
    wrong = (partition_for_key(b"key-1", 3) + 1) % 3
    assert send(kafka_broker.bootstrap, history, "r", "explicit", [Record(topic, b"key-1", wrong)]).acked == 1
    packaged(tmp_path)
    settings = {**environment(), "SPARK_CONF_DIR": str(conf_folder(tmp_path)), "PYTHONPATH": str(ROOT)}
    settings["SPARK_HOME"] = str(spark_home(tmp_path))
    settings["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), str(SPARK / "bin"), settings["PATH"]])

    with started(tmp_path) as (master, executors_now):
        script = page_lines(
            master=master, bootstrap=kafka_broker.bootstrap, topics=f"--topics {topic} --history {history} --what-if 7",
            out="--out out",
        )  # fmt: skip
        done = ran("bash", "-euc", script, within_s=500, cwd=tmp_path, env=settings)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        executors = executors_now()

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
