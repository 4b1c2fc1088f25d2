"""Many seeds on one broker: a folder each, played once, told together."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_assignors.errors import ConfigError, UnknownName
from kafka_assignors.frame import USAGE
from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.commands.cli import app
from kafka_assignors.integration.commands.seeds import (
    SeedResult,
    run_seeds,
    scenario_of_seed,
    seeds_of,
    summary,
    together,
)
from kafka_assignors.integration.history import History
from kafka_assignors.integration.history.manifest import NAME
from kafka_assignors.integration.scenario import Scenario, Step
from kafka_assignors.integration.scenario.actions import Join
from kafka_assignors.integration.topics.sandbox import new_prefix
from tests.support.cli import valid

ONE = Scenario("one", "One member joins.", (Step("m1 joins", (Join("m1"),)),), topics={"orders": 2}, rate_per_s=0)


def row(seed: int, value: bool | None) -> SeedResult:
    return SeedResult(
        seed, value, {"O1": 2} if value is False else {}, ["why"] if value is None else [], 3.2, "f", "m", "s"
    )


def test_seeds_are_two_numbers_of_which_the_second_counts_too() -> None:
    assert [*seeds_of("7..9")] == [7, 8, 9]
    assert [*seeds_of("3..3")] == [3]
    for text in ("3", "9..7", "a..b", "-1..4", "1...3"):
        with pytest.raises(ConfigError, match=r"expected A\.\.B"):
            seeds_of(text)


@pytest.mark.parametrize(
    ("values", "asked", "verdict", "said"),
    [
        ([True, True], 2, True, "2 seeds: 2 true"),
        ([True, False, None], 3, False, "3 seeds: 1 true, 1 false, 1 unknown"),
        ([True, None], 2, None, "2 seeds: 1 true, 1 unknown"),
        ([True], 3, None, "3 seeds: 1 true, 2 not played yet"),
        ([False], 3, False, "3 seeds: 1 false, 2 not played yet"),
    ],
)
def test_all_of_them_are_true_only_if_each_was_played_and_is(
    values: list[bool | None], asked: int, verdict: bool | None, said: str
) -> None:
    rows = [row(seed, value) for seed, value in enumerate(values)]

    assert (together(rows, asked), summary(rows, asked)) == (verdict, said)


def test_a_row_tells_the_laws_that_were_broken_or_why_it_is_unknown() -> None:
    assert row(4, False).words() == "seed 4: FALSE in 3 s: O1 ×2"
    assert row(4, None).words() == "seed 4: UNKNOWN in 3 s: why"


def test_a_seed_is_drawn_for_the_client_that_was_asked_for() -> None:
    what = scenario_of_seed("chaos", 3, "aiokafka", (), ("C3",))

    assert {a.client for step in what.steps for a in step.actions if isinstance(a, Join)} == {"aiokafka"}
    assert (what.assignors, what.require) == (("sticky",), ("C3",))
    assert scenario_of_seed("chaos", 3, "confluent", (), ()).consumer == {"socket_timeout_ms": 2500}
    assert scenario_of_seed("chaos", 3, "java", ("range",), ()).assignors == ("range",)
    with pytest.raises(UnknownName, match="client 'jav'"):
        scenario_of_seed("chaos", 3, "jav", (), ())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chaos", "--seeds", "0..3", "--seed", "2"], "--seed is for one run"),
        (["churn", "--seeds", "0..3"], "has no random part"),
        (["chaos", "--seeds", "3"], "expected A..B"),
    ],
)
def test_what_many_seeds_cannot_be_is_refused_before_a_broker_starts(words: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["run", *words])

    assert done.exit_code == USAGE
    assert said in done.output + done.stderr


@pytest.mark.broker
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("client", ["kafka-python", "confluent", "java", "aiokafka"])
def test_ten_schedules_of_network_faults_are_true_with_every_client(client: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["run", "chaos", "--seeds", "0..9", "--client", client, "--out", str(tmp_path), "--json"]
    )

    rows = valid("test-seeds", json.loads(done.stdout))["seeds"]
    assert [(each["seed"], each["value"]) for each in rows] == [(seed, True) for seed in range(10)], done.output


@pytest.mark.broker
def test_what_was_judged_is_not_played_again_unless_it_was_touched(kafka_broker: Broker, tmp_path: Path) -> None:
    told: list[tuple[int, bool]] = []

    def play(until: float | None = None) -> list[SeedResult]:
        told.clear()

        def on_row(played: SeedResult, kept: bool) -> None:
            told.append((played.seed, kept))

        return run_seeds({1: ONE, 2: ONE}, kafka_broker, tmp_path, on_row, prefix=new_prefix(), until=until)

    assert play(until=0) == []
    rows = play()
    assert [(each.seed, each.value) for each in rows] == [(1, True), (2, True)]
    assert told == [(1, False), (2, False)]
    valid("test-seeds", {"value": True, "seeds": [asdict(each) for each in rows], "folder": str(tmp_path)})
    assert History.load(tmp_path / "seed-1" / "history").problems == ()
    assert (tmp_path / "seed-2" / "report.html").exists()

    manifest = tmp_path / "seed-1" / "history" / NAME
    manifest.write_text(json.dumps({**json.loads(manifest.read_text("utf-8")), "runs": ["another"]}), "utf-8")
    assert [each.seed for each in play(until=0)] == [2]
    assert told == [(2, True)]
    again = play()
    assert told == [(1, False), (2, True)]
    assert again[1] == rows[1]

    other = replace(ONE, require=("C3",))
    with pytest.raises(
        ConfigError, match=r"seed-2 has seed 2 of one, played with other options .* choose another --out"
    ):
        run_seeds({2: other}, kafka_broker, tmp_path, lambda *_: None, prefix=new_prefix())
    assert [each.manifest for each in play()] == [each.manifest for each in again]
