"""A user's own suite with ``kafka_faults`` and ``kafka_seed``: what a test drew is drawn again by the line it tells."""

from __future__ import annotations

import random
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kafka_assignors.errors import ConfigError, UnknownName
from kafka_assignors.frame import COULD_NOT_RUN, USAGE
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.commands.cli import app
from kafka_assignors.integration.history import History
from kafka_assignors.integration.proxy import Cut, Delay, Drop, Reset
from kafka_assignors.integration.scenario import Scenario
from kafka_assignors.integration.scenario.actions import Heal
from kafka_assignors.integration.scenario.chaos import DRAWN, named
from kafka_assignors.integration.scenario.file import problems
from kafka_assignors.pytest_plugin import pytest_configure
from tests.support.integration.suites import pytest_in, report_of
from tests.support.programs import python

SUITE = """
import random

from kafka_assignors.integration.proxy import Reset


def test_survives_resets(kafka_group, kafka_faults, kafka_topic, kafka_seed):
    draw = random.Random(kafka_seed)
    topic, group = kafka_topic(partitions=2), kafka_group(session_timeout_ms=6000)
    group.start("m1", [topic], ["cooperative-sticky"], via=kafka_faults)
    first = group.wait_stable()
    for _ in range(3):
        fault = Reset("m1", times=draw.randint(1, 4), every_ms=draw.randint(20, 60))
        kafka_faults.apply(fault).wait()
    assert group.wait_stable().generation == first.generation + 1, "planted: resets make no generation"
"""


def drawn(kept: Path) -> list[Any]:
    """What the faults were, by the one history that is kept beside the broker's log."""
    (folder,) = (path for path in kept.iterdir() if path.name != "logs")
    events = [e for e in History.load(folder).events if e.src == "proxy"]
    return [(e.kind, e.data["fault"], e.data["target"], e.data["params"], e.data.get("hits")) for e in events]


@pytest.mark.broker
@pytest.mark.release("all workers draw from one seed, without a broker")
def test_a_failed_test_tells_its_seed_and_the_rerun_draws_the_same(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "conftest.py").write_text('pytest_plugins = ["kafka_assignors.pytest_plugin"]')
    (suite / "test_theirs.py").write_text(SUITE)
    (suite / "pytest.ini").write_text("[pytest]\n")

    first = pytest_in(suite, f"--kafka-artifacts={tmp_path / 'first'}")

    shown = first.stdout + first.stderr
    assert first.returncode == 1, shown
    report = report_of("test_survives_resets", shown)
    assert "planted: resets make no generation" in report
    assert "verdict true" in report, "the artifact tells that no law was broken"
    (again,) = re.findall(r"^pytest (.* --kafka-seed=\d+)$", report, re.MULTILINE)
    (seed,) = re.findall(r"^kafka: .*, seed (\d+)$", shown, re.MULTILINE)
    assert again == f"test_theirs.py::test_survives_resets --kafka-seed={seed}"
    log = tmp_path / "first" / "logs" / "test_theirs.py-test_survives_resets.log"
    assert f"the whole log: {log}" in report
    assert "INFO" in log.read_text("utf-8")
    faults = drawn(tmp_path / "first")
    draw = random.Random(int(seed))
    assert [f[3] | {"hits": f[4]} for f in faults if f[0] == "fault_end"] == [
        {"side": "request", "times": times, "every_ms": every_ms, "hits": times}
        for times, every_ms in [(draw.randint(1, 4), draw.randint(20, 60)) for _ in range(3)]
    ]

    second = pytest_in(suite, *shlex.split(again), f"--kafka-artifacts={tmp_path / 'second'}")

    assert second.returncode == 1, second.stdout
    assert "planted: resets make no generation" in second.stdout
    assert f", seed {seed}" in second.stdout
    assert drawn(tmp_path / "second") == faults


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--kafka-seed=seven", "--kafka-seed=seven: not a whole number"),
        ("--kafka-nodes=x", "--kafka-nodes=x: not a whole number"),
        ("--kafka-nodes=0", "--kafka-nodes=0: a cluster has at least 1 broker"),
    ],
)
def test_options_that_are_no_numbers_are_refused_before_a_test_runs(
    option: str, said: str, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, value = option.partition("=")
    monkeypatch.setattr(pytestconfig.option, name[2:].replace("-", "_"), value)

    with pytest.raises(pytest.UsageError, match=said):
        pytest_configure(pytestconfig)


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_draws_one_scenario_and_another_seed_another(name: str) -> None:
    first, again, other = (named(name, seed).steps for seed in (7, 7, 8))

    assert first == again
    assert first != other


@pytest.mark.slow
def test_a_seed_draws_the_same_whatever_the_hash_seed() -> None:
    program = "from kafka_assignors.integration.scenario.chaos import named\n"
    program += "print([named(n, 7).steps for n in ('chaos', 'soak')])"
    told = {python("-c", program, env={"PYTHONHASHSEED": seed}, check=True).stdout for seed in ("1", "2")}

    assert len(told) == 1


def faults_in(scenario: Scenario) -> set[type]:
    return {type(action) for step in scenario.steps for action in step.actions}


def test_every_chaos_can_be_played_and_all_kinds_of_fault_come() -> None:
    scenarios = [named("chaos", seed) for seed in range(100)]

    assert [found for scenario in scenarios for found in problems(scenario)] == []
    assert set().union(*map(faults_in, scenarios)) >= {Cut, Delay, Drop, Reset, Heal}


def test_only_what_is_drawn_takes_a_seed() -> None:
    with pytest.raises(ConfigError, match="'churn' has no random part; remove the seed 3, or run chaos"):
        named("churn", 3)
    with pytest.raises(UnknownName, match=r"unknown scenario 'caos'.*chaos"):
        named("caos", 3)
    assert named("churn").name == "churn"


@pytest.mark.slow
def test_a_drawn_scenario_that_could_not_be_played_tells_how_to_draw_it_again(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("an older run")
    given = ["--assignor", "sticky", "--out", str(tmp_path)]

    done = CliRunner().invoke(app, ["run", "chaos", "--seed", "7", *given])
    other = CliRunner().invoke(app, ["run", "churn", *given])

    assert done.exit_code == other.exit_code == USAGE
    assert "run it again: kafka-assignors test chaos --seed 7 --assignor sticky\n" in done.output
    assert "run it again" not in other.output


@pytest.mark.broker
def test_network_faults_need_a_broker_of_ones_own(kafka_broker: Broker, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["run", "proxy-faults", "--bootstrap", kafka_broker.bootstrap, "--out", str(tmp_path / "out")]
    )

    assert done.exit_code == COULD_NOT_RUN
    assert "has no listener for a fault proxy" in done.output
    assert not list(tmp_path.rglob("*.jsonl")), "nothing was started"


@pytest.mark.slow
def test_all_workers_of_a_run_draw_from_one_seed(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["kafka_assignors.pytest_plugin"]')
    (tmp_path / "test_drawn.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.parametrize('n', range(4))\n"
        "def test_drawn(n, kafka_seed, worker_id):\n"
        "    print('drawn', worker_id, kafka_seed)\n"
    )

    done = pytest_in(tmp_path, "-n", "2", "--dist", "each", "-rP")

    assert done.returncode == 0, done.stdout + done.stderr
    drawn = set(re.findall(r"^drawn (gw\d) (\d+)$", done.stdout, re.MULTILINE))
    (seed,) = re.findall(r"^kafka: .*, seed (\d+)$", done.stdout, re.MULTILINE)
    assert drawn == {("gw0", seed), ("gw1", seed)}
