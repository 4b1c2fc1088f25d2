"""Services with a planted fault, and the same without it, under drawn courses: found by name, and true."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_assignors.integration.broker import Broker
from kafka_assignors.integration.scenario.actions import Kill
from tests.support.live import many, seeds
from tests.support.live.seeds import NEEDS, Play, drawn
from tests.support.live.services import CHANCY, FAULTS, by_batch, with_state

SEEDS = range(20)


@pytest.mark.parametrize("name", FAULTS)
def test_a_course_has_what_its_fault_needs(name: str) -> None:
    """Whoever reads a seed gets the same course; a member always stays; none is killed who promises one output.

    Each member gets a partition, and the run lasts as long as the fault needs.
    """
    for seed in SEEDS:
        course = drawn(name, seed)
        assert course == drawn(name, seed)
        steps = course.scenario.steps
        events = " ".join(step.name.rpartition(": ")[2] for step in steps[1:])
        assert all(events.count(event) >= NEEDS[name].count(event) for event in NEEDS[name])
        running: frozenset[str] = frozenset()
        for step in steps:
            running = step.members_after(running)
            assert 0 < len(running) <= course.partitions
        kills = [action for step in steps for action in step.actions if isinstance(action, Kill)]
        assert not (FAULTS[name].exactly_once and kills)
        assert len(course.delays_s) == len(steps)
        if name == by_batch.SEEKS:
            assert course.delays_s[0] > 12
        elif name == with_state.SWALLOWS:
            assert course.delays_s[-1] * course.scenario.rate_per_s > 200 * course.partitions
    assert len({str(drawn(name, seed)) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.long
@pytest.mark.broker
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("is_planted", [True, False], ids=["planted", "sound"])
@pytest.mark.parametrize(("client", "name"), [(client, name) for name in NEEDS for client in FAULTS[name].programs])
def test_each_seed_is_judged_right(
    client: str, name: str, is_planted: bool, kafka_broker: Broker, tmp_path: Path
) -> None:  # fmt: skip
    if (client, name) == CHANCY and not is_planted:
        pytest.skip("librdkafka may hand out what it fetched for an assignment that is lost")
    asked = [Play(client, name, is_planted, seed) for seed in SEEDS]

    outcomes: list[seeds.Outcome] = list(many.outcomes(asked, seeds.played, seeds.failed, kafka_broker, tmp_path))

    assert len(outcomes) == len(SEEDS)
    assert [outcome for outcome in outcomes if not outcome.is_right] == []
