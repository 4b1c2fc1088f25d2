"""The harness's command line, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.forked import run
from tests.support.places import ROOT

LIMIT_S = 120


def integration(*args: str, cwd: Path = ROOT, timeout_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
    """Without a terminal, whoever runs the tests: the command would ask there."""
    return run("kafka_assignors.integration", *args, timeout_s=timeout_s, cwd=cwd)


def spawn(started: list[subprocess.Popen[str]], *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", "-m", "kafka_assignors.integration", *args]
    pipe = subprocess.PIPE
    started.append(subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, cwd=ROOT))
    return started[-1]
