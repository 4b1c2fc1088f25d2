"""One sequence of joins, leaves and kills, lived by a group of Java's members and by one of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_assignors.integration.checker import check
from kafka_assignors.integration.history import History
from kafka_assignors.integration.members.group import MemberGroup

pytestmark = [pytest.mark.broker, pytest.mark.long]

STEPS = ("+1", "+2", "+3", "-2", "+4", "+5", "x3", "-1")
"""Joins, leaves and kills, by the member's number."""
FEWEST = [0, 6, 4, 4, 4, 3, 3, 4]
"""Of 12 partitions: a newcomer's share; all of one that goes."""


@pytest.mark.timeout(600)
def test_ours_moves_no_more_than_java_in_the_same_life(
    unjudged_group: Callable[..., MemberGroup], kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    moved: dict[str, list[int]] = {}
    for client in ("java", "kafka-python"):
        topic, group = kafka_topic(partitions=12), unjudged_group()
        for step in STEPS:
            group.step(step)
            name = f"m{step[1]}"
            if step[0] == "+":
                group.start(name, [topic], ["cooperative-sticky"], client=client)
            elif step[0] == "-":
                group.stop(name)
            else:
                group.kill(name)
            moved.setdefault(client, []).append(len(group.wait_stable(timeout_s=60).moves))
        group.close()

    assert moved["kafka-python"] == FEWEST
    assert all(ours <= java for ours, java in zip(moved["kafka-python"], moved["java"], strict=True)), moved
    verdict = check(History.load(tmp_path))
    assert (verdict.violations, verdict.value) == ((), True)
