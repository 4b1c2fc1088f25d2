"""However the process that started a broker ends, the broker ends too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.places import ROOT
from tests.support.waiting import until

pytestmark = pytest.mark.broker

OWNER = """
import sys, time
from kafka_assignors.integration.broker import start_broker
with start_broker(sys.argv[1]) as broker:
    if "killed" in sys.argv:
        broker.kill()
    print(broker.bootstrap, *broker.pids(), flush=True)
    while True:  # signal.pause() would miss a signal that comes just before it waits
        time.sleep(0.05)
"""


def gone(pids: list[int]) -> bool:
    return not any(psutil.pid_exists(pid) for pid in pids)


@pytest.fixture
def owner():
    """Start a process that owns a broker; gives (process, pids of the broker)."""
    started: list[subprocess.Popen[str]] = []

    def start(backend: str, *more: str) -> tuple[subprocess.Popen[str], list[int]]:
        process = subprocess.Popen(
            [sys.executable, "-c", OWNER, backend, *more],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout
        _, *pids = process.stdout.readline().split()
        assert len(pids) == (1 if more else 2), "the broker did not start"
        return process, [int(pid) for pid in pids]

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


def temporary_folders(pids: list[int]) -> list[Path]:
    """Working folders of a broker's processes that the broker made for itself."""
    folders = {Path(psutil.Process(pid).cwd()) for pid in pids}
    return [folder for folder in folders if folder.name.startswith(("kafka-broker-", "kafka-java-"))]


# long: another JVM under the same watchdog, and a container; test_contract.py has Docker's broker
@pytest.mark.parametrize(
    "backend",
    [
        "jvm",
        pytest.param("shared", marks=pytest.mark.long),
        pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.long]),
    ],
)
def test_sigkill_of_the_owner_leaves_no_broker(owner, backend):
    """SIGKILL runs no handler and no finally; the broker and its folder are gone within 5 s all the same."""
    process, pids = owner(backend)
    folders = temporary_folders(pids)
    assert all(psutil.pid_exists(pid) for pid in pids)
    assert len(folders) == (0 if backend == "docker" else 1)

    process.kill()

    until(lambda: gone(pids), "the broker of a killed owner ends", 5)
    assert not any(folder.exists() for folder in folders)


@pytest.mark.long  # long: another broker whose owner gets SIGKILL, as above
def test_sigkill_of_the_owner_of_a_killed_broker_leaves_nothing_of_it(owner):
    """Between kill and restart its folder belongs to nobody but the watchdog."""
    process, pids = owner("jvm", "killed")
    (folder,) = temporary_folders(pids)

    process.kill()

    until(lambda: gone(pids) and not folder.exists(), "nothing is left of a killed broker", 5)


# long: where SIGKILL above is the harder end
@pytest.mark.parametrize(
    "backend",
    [
        "jvm",
        pytest.param("shared", marks=pytest.mark.long),
        pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.long]),
    ],
)
def test_ctrl_c_leaves_no_broker(owner, backend):
    """Ctrl-C signals the terminal's whole process group; the owner ends the broker and says KeyboardInterrupt."""
    process, pids = owner(backend)

    os.killpg(process.pid, signal.SIGINT)

    assert process.wait(timeout=20) in (-signal.SIGINT, 130, 1)
    until(lambda: gone(pids), "the broker ends", 5)


def test_ctrl_c_while_the_broker_starts_leaves_none(tmp_path):
    """An interrupt before it is ready goes through the same door."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, "jvm"],
        cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    children: list[psutil.Process] = []

    def jvm_runs() -> bool:
        children[:] = psutil.Process(process.pid).children(recursive=True)
        try:
            return any("kafka.Kafka" in c.cmdline() and c.name() == "java" for c in children)
        except psutil.NoSuchProcess:  # `java -version` came and went
            return False

    until(jvm_runs, "the JVM runs", 20)

    os.killpg(process.pid, signal.SIGINT)

    _, said = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in said
    until(lambda: not any(child.is_running() for child in children), "what it started ends", 5)
    assert list(tmp_path.iterdir()) == []
