"""What README and docs tell a user to copy about the harness, copied and run.

The pages: README.md; planning.md, testing.md, harness.md, service.md, reading-the-report.md and promises.md of docs.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.members.group import MemberGroup
from tests.support import faults_page
from tests.support.cli import valid
from tests.support.further import further
from tests.support.integration.fixtures import MakeTopic
from tests.support.pages import PAGES, blocks, example
from tests.support.places import ROOT
from tests.support.programs import ran


def run(command: list[str], folder: Path, code: int = 0) -> str:
    done = ran(*command, within_s=200, cwd=folder)
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


# long: a broker of its own, a group and its verdict; the next test has the page's other lines, on the tests' broker
@pytest.mark.long
@pytest.mark.broker
def test_the_example_of_the_library(tmp_path: Path) -> None:
    """It starts a broker of its own, which is what it is there to show."""
    said = run([sys.executable, "-c", example("docs/harness.md", "start_broker")], tmp_path)

    owned, verdict = said.splitlines()[-2:]
    assert json.loads(owned) == [0, 1, 2, 3, 4, 5]
    assert verdict.startswith("True ")


@pytest.mark.broker
def test_the_snippets_of_the_library(kafka_broker: Broker, kafka_topic: MakeTopic, tmp_path: Path) -> None:
    """One after the other, about one topic: records, a group, its verdict; then a group of three clients."""
    topic = kafka_topic(partitions=6)
    names: dict[str, Any] = {"bootstrap": kafka_broker.bootstrap, "folder": tmp_path, "run": "r", "run_id": "r"}

    def play(page: str, word: str) -> None:
        exec(example(page, word).replace('"orders"', repr(topic)).replace("orders-app", f"app-{topic}"), names)

    play("docs/harness.md", "read_back(")
    play("docs/harness.md", "three members join")
    play("docs/reading-the-report.md", "History.load")

    assert names["sent"].acked == 2
    assert set(names["stable"].owned) == {"m1", "m2"}
    assert names["verdict"].value is True, names["verdict"]
    with MemberGroup(kafka_broker.bootstrap, f"mixed-{topic}", tmp_path / "mixed", "mixed") as names["group"]:
        play("docs/harness.md", '"j1"')
        assert set(names["group"].wait_stable(timeout_s=60).owned) == {"j1", "c1", "m1"}


@pytest.mark.broker
def test_a_live_group_is_planned(
    kafka_broker: Broker,
    kafka_group: Callable[..., MemberGroup],
    kafka_topic: MakeTopic,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The member is a process that polls all the time: a rebalance, whenever it comes, ends without this test."""
    group = kafka_group()
    group.start("m1", [kafka_topic(partitions=4)], ["range"])
    group.wait_stable()
    code = example("docs/planning.md", "LiveCluster")
    exec(code.replace("localhost:9092", kafka_broker.bootstrap).replace('"billing"', repr(group.group)), {})

    told = [line for line in capsys.readouterr().out.splitlines() if "4 partitions of 1 topic to 2 members" in line]
    assert [line.partition(":")[0] for line in told] == ["range", "sticky", "cooperative-sticky"]


@pytest.mark.broker
@pytest.mark.parametrize(
    "word", further(f"import {name}" for name in ("KafkaConsumer", "Consumer", "AIOKafkaConsumer"))
)
def test_a_worker_of_the_page_passes_as_a_service(word: str, kafka_broker: Broker, tmp_path: Path) -> None:
    """The line of the page, with a shorter scenario: without a kill, whose session would take 45 s."""
    page = "docs/service.md"
    (tmp_path / "worker.py").write_text(example(page, word), "utf-8")
    steps = [
        {"name": "two join", "actions": [{"join": "m1"}, {"join": "m2"}]},
        {"name": "m2 leaves", "actions": [{"leave": "m2"}]},
    ]
    mine = {"about": "Two processes start, one gets SIGTERM.", "topics": {"orders": 6}, "steps": steps}
    (tmp_path / "churn.json").write_text(json.dumps(mine), "utf-8")
    line = example(page, "--service", "sh").replace("churn", "churn.json").replace("python ", f"{sys.executable} ")
    more = ["--bootstrap", kafka_broker.bootstrap, "--confirm", "--out", "out", "--json", "--require", "C3"]

    said = run([sys.executable, "-m", "kafka_assignors", *shlex.split(line)[1:], *more], tmp_path)

    laws = json.loads(said)["laws"]
    assert {"O1", "O3", "O4", "C1", "C2", "C3", "E1"} <= {law for law, times in laws.items() if times}


def test_the_faults_of_the_page_are_those_that_are_planted() -> None:
    assert faults_page.FILE.read_text("utf-8") == faults_page.page(), "write it: python -m tests.support.faults_page"
    assert len(list(faults_page.rows())) == 12


def pytest_of(folder: Path, broker: Broker, code: str, test: str, exit_code: int = 0) -> str:
    """What pytest prints about a page's example, in a folder of its own."""
    conftest = re.findall(r"^pytest_plugins = .*$", code, re.MULTILINE)
    (folder / "conftest.py").write_text(
        conftest[0] if conftest else 'pytest_plugins = ["kafka_assignors.pytest_plugin"]'
    )
    (folder / f"test_{test}.py").write_text(code.replace(conftest[0], "") if conftest else code)
    options = ["--kafka-backend=external", f"--kafka-bootstrap={broker.bootstrap}", "-W", "ignore"]
    return run([sys.executable, "-m", "pytest", *options], folder, exit_code)


@pytest.mark.broker
# long: the same plugin in a test that is a coroutine
@pytest.mark.parametrize("word", ["gap_ms=10_000", pytest.param("asyncio.to_thread", marks=pytest.mark.long)])
def test_examples_of_the_pytest_plugin_pass(kafka_broker: Broker, tmp_path: Path, word: str) -> None:
    said = pytest_of(tmp_path, kafka_broker, example("docs/testing.md", word), "orders")

    assert "1 passed" in said.splitlines()[-1]


@pytest.mark.broker
@pytest.mark.release("test_kafka_service.py has the fixture, and the page's worker is a service below")
def test_the_example_of_a_service_in_pytest_passes(kafka_broker: Broker, tmp_path: Path) -> None:
    """With the worker of the page, whose session would take 45 s after the kill."""
    page = "docs/service.md"
    worker = example(page, "import KafkaConsumer").replace(
        "group_id=group,", "group_id=group, session_timeout_ms=10_000,"
    )
    (tmp_path / "worker.py").write_text(worker, "utf-8")
    code = example(page, "service.roll()").replace('"python ', f'"{sys.executable} ')

    said = pytest_of(tmp_path, kafka_broker, code, "billing")

    assert "1 passed" in said.splitlines()[-1]


@pytest.mark.broker
def test_the_readmes_test_fails_as_it_shows(kafka_broker: Broker, tmp_path: Path) -> None:
    """The lines that the page shows are printed, in that order; numbers of the run may differ."""
    said = pytest_of(tmp_path, kafka_broker, example("README.md", "gap_ms"), "orders", 1)

    printed = iter([masked(line) for line in said.splitlines()])
    shown = example("README.md", "O4", "text")
    assert shown == example("docs/testing.md", "O4", "text")
    for line in shown.splitlines():
        assert line.strip() == "…" or masked(line) in printed, f"{line!r} is not in:\n{said}"


def masked(line: str) -> str:
    """A line without what differs from run to run."""
    line = re.sub(r"judge /\S+", "judge PATH", re.sub(r"topic-[0-9a-f]+", "TOPIC", line))
    return re.sub(r"\d[\d:.,]*", "N", line).rstrip()


def test_every_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`((?:\w+/)*\w+\.py)(?:::(\w+))?`", PAGES["docs/promises.md"])
    assert len(named) > 20
    for file, test in named:
        path = ROOT / "tests" / file
        assert path.is_file(), file
        assert not test or f"def {test}(" in path.read_text("utf-8"), f"{file}::{test}"


@pytest.mark.long  # long: test_readme.py types these lines as well; here is what they write
@pytest.mark.broker
def test_the_commands_that_see_and_prove(kafka_broker: Broker, kafka_topic: Callable[..., str], tmp_path: Path) -> None:
    """A scenario, its picture, the kept history judged again, a group watched: lines of README and quickstart."""
    shell = "".join(block.code for block in blocks("sh") if block.page in ("README.md", "docs/quickstart.md"))
    lines = re.findall(r"^\.venv/bin/kafka-assignors ((?:test|judge|watch) .*?)(?: {2,}#.*)?$", shell, re.MULTILINE)
    play, judge, watch = (
        next(line.split() for line in lines if line.startswith(f"{verb} ")) for verb in ("test", "judge", "watch")
    )
    out = tmp_path / "out"

    ours = [sys.executable, "-m", "kafka_assignors"]
    said = run([*ours, *play, "--bootstrap", kafka_broker.bootstrap, "--confirm", "--out", str(out), "--json"], ROOT)
    verdict = valid("test", json.loads(said))
    assert verdict["value"] is True
    assert {"O1", "O2", "O3", "G3", "A1"} <= {law for law, times in verdict["laws"].items() if times}
    page = (out / "report.html").read_text("utf-8")
    assert "</svg>" in page
    assert not re.search(r"(src|href)\s*=\s*[\"']http|<script", page), "it must open offline"
    again = run([*ours, *[str(out) if word == "runs/first" else word for word in judge], "--json"], ROOT)
    assert json.loads(again)["laws"] == verdict["laws"]
    (log,) = (out / "history").glob("*.coordlog.jsonl")
    group = f"billing-{out.parent.name}"
    with closing(KafkaConsumer(bootstrap_servers=kafka_broker.bootstrap, group_id=group)) as consumer:
        consumer.assign([place := TopicPartition(kafka_topic(), 0)])
        consumer.commit({place: OffsetAndMetadata(0, "", -1)})
    here = {"billing": group, "localhost:9092": kafka_broker.bootstrap}
    watched = [*ours, *(here.get(word, word) for word in watch), "--once", "--json"]
    assert json.loads(run(watched, ROOT))["state"] == "Empty"
    gone = log.name.removesuffix(".coordlog.jsonl")  # the run has removed its group
    nobody = [word if word != group else gone for word in watched]
    done = ran(*nobody)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert gone in done.stderr
