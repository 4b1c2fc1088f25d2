"""O3: how long a committed generation stands, and what it must cover by then."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_assignors.integration.checker import check
from tests.support.damage import shifted
from tests.support.histories import stories as told
from tests.support.histories.edges import at_ns
from tests.support.histories.story import Story

SETTLED_MS = 5000


def unreadable(data: dict[str, Any]) -> None:
    """What b joined with is no subscription."""
    data["members"] = [{**m, "subscription": "ff"} if m["client_id"] == "b" else m for m in data["members"]]


def messages(story: Story, law: str) -> list[str]:
    return [violation.message for violation in check(story.history).violations if violation.law == law]


def test_a_generation_whose_subscriptions_cannot_be_read_hides_none_that_leaves_a_partition_out() -> None:
    """The first can't be judged; the second gives t-0 to nobody."""
    story = told.foreign(told.Dropping("range").start("a", "b").round().round())
    story.change("generation_committed", unreadable, nth=0)

    verdict = check(story.history)

    assert any(reason.startswith("O3: a subscription of generation 1 can't be read: ") for reason in verdict.unknown)
    assert any(message.startswith("generation 2") for message in messages(story, "O3"))


@pytest.mark.parametrize(("heartbeat_ms", "more_ms"), [(300, 0), (301, 2), (1000, 1400)])
def test_a_generation_may_stand_longer_with_a_heartbeat_above_the_harness_s_own(
    heartbeat_ms: int, more_ms: int
) -> None:
    def stands(ms: float) -> Story:
        story = shifted.half_covered(ms)
        for event in story.events:
            if event.kind == "start":
                event.data["config"]["heartbeat_interval_ms"] = heartbeat_ms
        return story

    assert messages(stands(SETTLED_MS + more_ms - 1), "O3") == []
    assert len(messages(stands(SETTLED_MS + more_ms), "O3")) == 1


def test_partitions_that_come_with_a_generation_are_none_that_it_must_cover() -> None:
    """t grows at the very moment of the commit, by the harness's clock."""
    story = told.two()
    committed = next(e for e in story.events if e.kind == "generation_committed")
    at_ns(story.drop("step"), story.tell("topics", topics=story.topics), 1)
    change = story.tell("admin_change", change="add_partitions", target="t", topics={"t": story.topics["t"] + 1})
    at_ns(story, change, committed.mono_ns)

    assert messages(told.later(story, 2 * SETTLED_MS), "O3") == []


def test_partitions_that_come_later_are_none_that_a_generation_that_stood_before_had_to_cover() -> None:
    """t grows twice, long after the generation, which nobody replaces."""
    story = Story("range").start("a", "b")
    story.tell("topics", topics=story.topics)
    story.round(stable=False)
    for more in (1, 2):
        story.wait(2 * SETTLED_MS)
        story.tell("admin_change", change="add_partitions", target="t", topics={"t": story.topics["t"] + more})

    assert messages(story, "O3") == []


@pytest.mark.parametrize(("before_ms", "broken"), [(100, False), (101, True)])
def test_partitions_that_came_before_a_generation_must_be_covered_by_it(before_ms: int, broken: bool) -> None:
    """Unless the clocks can't tell which of the two was first."""
    story = Story("range").start("a", "b").wait(1000).round(stable=False)
    committed = next(e for e in story.events if e.kind == "generation_committed")
    story.tell("topics", topics=story.topics)
    at_ns(story, story.events[-1], 1)
    change = story.tell("admin_change", change="add_partitions", target="t", topics={"t": story.topics["t"] + 1})
    at_ns(story, change, committed.mono_ns - before_ms * 1_000_000)
    story.wait(2 * SETTLED_MS).tell("step", name="later")

    assert bool(messages(story, "O3")) is broken
