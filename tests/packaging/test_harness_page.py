"""What the README and the harness's page tell a user to copy about the harness, copied and run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.scenario import SCENARIOS
from kafka_assignors.integration.scenario.chaos import DRAWN
from tests.support.places import ROOT

README = (ROOT / "README.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "harness.md").read_text("utf-8")


def below(page: str, heading: str) -> str:
    """The first Python example below a heading."""
    found = re.search(rf"^#+ {re.escape(heading)}\n.*?```python\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    assert found, f"no example below {heading!r}"
    return found[1]


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.broker
def test_the_example_of_the_library(tmp_path: Path) -> None:
    """It starts a broker of its own, which is what it is there to show."""
    said = run([sys.executable, "-c", below(PAGE, "In ten lines")], tmp_path)

    owned, verdict = said.splitlines()[-2:]
    assert json.loads(owned) == [0, 1, 2, 3, 4, 5]
    assert verdict.startswith("True ")


@pytest.mark.broker
def test_the_example_of_the_pytest_plugin(kafka_broker: Broker, tmp_path: Path) -> None:
    """Two files in one example: their names are in its comments."""
    conftest, test = re.split(r"^# test_orders\.py.*$", below(README, "As a pytest plugin"), flags=re.MULTILINE)
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "test_orders.py").write_text(test)
    options = ["--kafka-backend=external", f"--kafka-bootstrap={kafka_broker.bootstrap}", "-W", "ignore"]

    said = run([sys.executable, "-m", "pytest", *options], tmp_path)

    assert "1 passed" in said.splitlines()[-1]


def test_every_scenario_that_the_readme_names_is_there() -> None:
    """Each is played by a test of the harness; the file is the reader's own."""
    names = set(re.findall(r"(?:integration |`)run ([a-z][\w.-]+)", README))

    assert len(names) >= 8
    assert names - {*SCENARIOS, *DRAWN} == {"mine.json"}


def test_every_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`((?:\w+/)*\w+\.py)(?:::(\w+))?`", PAGE.partition("## What is promised")[2])
    assert len(named) > 20
    for file, test in named:
        path = ROOT / "tests" / file
        assert path.is_file(), file
        assert not test or f"def {test}(" in path.read_text("utf-8"), f"{file}::{test}"


@pytest.mark.broker
def test_the_commands_that_see_and_prove(kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path) -> None:
    """A scenario, its picture, the kept history judged again, and a group watched, by the README's own lines."""
    lines = re.findall(
        r"^\.venv/bin/python -m (kafka_assignors\.integration (?:run|judge|watch) .*?)(?: {2,}#.*)?$",
        README,
        re.MULTILINE,
    )
    play, judge, watch = (
        next(line.split() for line in lines if line.startswith(f"kafka_assignors.integration {verb} "))
        for verb in ("run", "judge", "watch")
    )
    out = tmp_path / "out"

    python = [sys.executable, "-m"]
    said = run([*python, *play, "--bootstrap", kafka_broker.bootstrap, "--yes", "--out", str(out), "--json"], ROOT)
    verdict = json.loads(said)
    assert verdict["value"] is True
    assert {"O1", "O2", "O3", "G3", "A1"} <= {law for law, times in verdict["laws"].items() if times}
    page = (out / "report.html").read_text("utf-8")
    assert "</svg>" in page
    assert not re.search(r"(src|href)\s*=\s*[\"']http|<script", page), "it must open offline"
    again = run([*python, *[str(out) if word == "runs/..." else word for word in judge], "--json"], ROOT)
    assert json.loads(again)["laws"] == verdict["laws"]
    (log,) = (out / "history").glob("*.coordlog.jsonl")
    group = f"billing-{out.parent.name}"
    with closing(KafkaConsumer(bootstrap_servers=kafka_broker.bootstrap, group_id=group)) as consumer:
        consumer.assign([place := TopicPartition(kafka_topic(), 0)])
        consumer.commit({place: OffsetAndMetadata(0, "", -1)})
    here = {"billing": group, "localhost:9092": kafka_broker.bootstrap}
    watched = [*python, *(here.get(word, word) for word in watch), "--once", "--json"]
    assert json.loads(run(watched, ROOT))["state"] == "Empty"
    gone = log.name.removesuffix(".coordlog.jsonl")  # the run has removed its group
    nobody = [word if word != group else gone for word in watched]
    done = subprocess.run(nobody, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert gone in done.stderr
