"""Times of laws run on the coordinator's clock: what a busy leader or a slow answer adds isn't the group's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_assignors.integration.checker import check
from kafka_assignors.integration.checker.planned import LATE_MS
from tests.support.damage import shifted
from tests.support.histories.faults import NOTICED_MS, changed
from tests.support.histories.story import HEARTBEAT_MS, POLL_MS, SESSION_MS, Story

OVER_MS = 284  # as on a machine with 50 runnable processes per core
LATE: dict[str, tuple[str, Callable[[float], Story], float]] = {
    "T1": ("T1", shifted.killed, SESSION_MS + HEARTBEAT_MS + LATE_MS),
    "T1 of one that leaves": ("T1", shifted.left, 2 * HEARTBEAT_MS + LATE_MS),
    "T2": ("T2", shifted.stalled, POLL_MS + HEARTBEAT_MS + LATE_MS),
    "T3": ("T3", lambda ms: changed("add_partitions", "t", 7, after_ms=ms), NOTICED_MS),
    "T3 of a topic that goes": ("T3", lambda ms: changed("delete_topic", "u", 0, after_ms=ms), NOTICED_MS),
}
late = pytest.mark.parametrize(("law", "build", "bound_ms"), LATE.values(), ids=LATE)


def joined(story: Story, before_ms: float) -> Story:
    """Every join was over this long before its generation was recorded: so long its leader took."""
    for event in story.events:
        if event.kind == "generation_committed":
            event.data["ts_ms"] = max(1, (event.ts_ns // 1_000_000) - before_ms)
    return story


def broken(story: Story) -> set[str]:
    return {violation.law for violation in check(story.history).violations}


@late
@pytest.mark.parametrize("leader_ms", [0, OVER_MS, OVER_MS + 100])
def test_how_long_the_leader_assigns_does_not_count(
    law: str, build: Callable[[float], Story], bound_ms: float, leader_ms: int
) -> None:
    story = joined(build(bound_ms + OVER_MS), leader_ms)

    assert (law in broken(story)) is (leader_ms < OVER_MS)


@pytest.mark.parametrize("answered_ms", [0, OVER_MS, OVER_MS + 100])
def test_how_long_the_brokers_make_a_change_does_not_count(answered_ms: int) -> None:
    story = changed("add_partitions", "t", 7, after_ms=NOTICED_MS + OVER_MS)
    asked = next(event for event in story.events if event.kind == "admin_change")
    last = max(event.seq for event in story.events if event.src == "harness")
    at_ns = asked.mono_ns + answered_ms * 1_000_000
    story.events.append(replace(asked, kind="admin_changed", seq=last + 1, mono_ns=at_ns, ts_ns=at_ns))

    assert ("T3" in broken(story)) is (answered_ms < OVER_MS)


@pytest.mark.parametrize("ts_ms", [-1, 0, 10**15])
def test_a_record_without_its_joins_time_is_judged_by_its_own(ts_ms: int) -> None:
    story = changed("add_partitions", "t", 7, after_ms=NOTICED_MS + OVER_MS)
    for event in story.events:
        if event.kind == "generation_committed":
            event.data["ts_ms"] = ts_ms

    assert "T3" in broken(story)
