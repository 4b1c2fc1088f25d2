"""The folder `examples`, copied elsewhere as a user would and tested there by its own tests."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from tests.support.places import ROOT
from tests.support.programs import python


@pytest.mark.broker
@pytest.mark.release("test_readme.py and test_harness_page.py run the examples of the pages")
def test_the_examples_pass_their_own_tests(kafka_broker: Broker, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    options = ["--kafka-backend=external", f"--kafka-bootstrap={kafka_broker.bootstrap}", "-W", "ignore", "-x"]

    done = python("-m", "pytest", "examples", *options, within_s=240, cwd=tmp_path)

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert re.search(r"\b3 passed\b", done.stdout)
