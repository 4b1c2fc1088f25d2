"""The soak's course: drawn from its seed alone, lawful, and of every kind. The long form plays it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from kafka_assignors.integration.scenario.actions import Join, Kill, Leave, Pause, Resume, Stall
from kafka_assignors.integration.scenario.soak import FEWEST, MEMBERS, PARTITIONS, soak
from tests.support.programs import ran


@pytest.mark.slow
def test_a_seed_draws_one_course_and_another_seed_another() -> None:
    assert soak(7) == soak(7)
    assert soak(7).steps != soak(8).steps


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_no_step_asks_for_what_cannot_be_and_every_fault_comes(seed: int) -> None:
    scenario = soak(seed)
    assert sum(scenario.topics.values()) == PARTITIONS

    running, still, seen = set[str](), set[str](), Counter[str]()
    for step in scenario.steps[:300]:
        for action in step.actions:
            seen[type(action).__name__] += 1
            member = action.member  # type: ignore[union-attr]
            if isinstance(action, Join):
                assert member not in running
                running.add(member)
            elif isinstance(action, Resume):
                assert member in still
                still.discard(member)
            else:
                assert isinstance(action, Kill | Leave | Pause | Stall)
                assert member in running - still
                if isinstance(action, Kill | Leave):
                    running.discard(member)
                else:
                    still.add(member)
        assert len(running - still) >= FEWEST - 1
    assert running <= set(MEMBERS)
    assert min(seen[kind.__name__] for kind in (Join, Kill, Leave, Pause, Stall, Resume)) >= 5


@pytest.mark.broker
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_soak_ends_true_and_its_harness_grows_little(tmp_path: Path) -> None:
    """Two minutes here; `make soak` takes ten."""
    command = [*(sys.executable, "-m", "kafka_assignors.integration", "run", "soak", "--minutes", "2", "--seed", "20")]
    done = ran(*command, "--out", str(tmp_path / "run"), "--json", within_s=600)

    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert said["value"] is True
    assert min(said["laws"][law] for law in ("O1", "O4", "C3", "R2", "R5", "T1", "A1")) > 0
    assert said["harness_growth_mb"] < 50
