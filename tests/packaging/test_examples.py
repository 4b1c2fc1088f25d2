"""The folder `examples`, copied elsewhere as a user would and tested there by its own tests."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from tests.support.places import ROOT


@pytest.mark.broker
def test_the_examples_pass_their_own_tests(kafka_broker: Broker, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    options = ["--kafka-backend=external", f"--kafka-bootstrap={kafka_broker.bootstrap}", "-W", "ignore", "-x"]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "examples", *options],
        cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert re.search(r"\b3 passed\b", done.stdout)
