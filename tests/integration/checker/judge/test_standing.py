"""O3: how long a committed generation stands, and what it must cover by then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafka_assignors.history.events import WIRE
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.checker.planned import WORKING
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


def works(story: Story, ms: float, kinds: tuple[str, str] = ("consume", "error")) -> Story:
    """While the first generation stands, b does something for so long; it is a process of a service."""
    committed = next(e for e in story.events if e.kind == "generation_committed")
    row = {"topic": "t", "partition": 1, "first": 0, "last": 0, "count": 1, "bytes": 1}
    data: dict[str, dict[str, Any]] = {
        "consume": {"offsets": [row]}, "error": {"error": "Slow", "message": "went on", "fatal": False},
    }  # fmt: skip
    for kind, at_ms in zip(kinds, (100, 100 + ms), strict=True):
        rows = {"partitions": [{"topic": "t", "partition": 1}], "generation": 1}
        at_ns(story, story.tell(kind, "member", "b", **data.get(kind, rows)), committed.mono_ns + round(at_ms * 1e6))
    return told.of_a_service(story)


@pytest.mark.parametrize(
    ("kinds", "times"), [(("consume", "error"), 2), (("revoke_begin", "revoke_end"), 1), (("error", "error"), 0)]
)
@pytest.mark.parametrize(("build", "called_ms"), [(shifted.half_covered, 2), (shifted.half_covered_twice, 7)])
def test_a_generation_may_stand_while_a_service_works(
    build: Callable[[float], Story], called_ms: int, kinds: tuple[str, str], times: int
) -> None:
    """A process gives up what is withheld once it polls again, and another one joins once it does, too.

    The callbacks of the story itself take `called_ms`.
    """
    grown_ms = 900 * times + called_ms

    assert messages(works(build(SETTLED_MS + grown_ms - 1), 900, kinds), "O3") == []
    assert len(messages(works(build(SETTLED_MS + grown_ms), 900, kinds), "O3")) == 1


def test_a_generation_that_stood_only_while_a_service_may_have_worked_is_not_judged() -> None:
    verdict = check(works(shifted.half_covered(SETTLED_MS), 300).history)

    assert WORKING in verdict.skipped["O3"]


def test_the_heartbeat_of_a_process_that_connections_show_is_at_most_a_third_of_its_session() -> None:
    def stands(ms: float) -> Story:
        story = shifted.half_covered(ms)
        story.events = [replace(e, client=WIRE) if e.src == "member" else e for e in story.events]
        for event in story.events:
            if event.kind == "start":
                event.data["config"] = {**event.data["config"], "session_timeout_ms": 3000}
                del event.data["config"]["heartbeat_interval_ms"]
        return story

    called_ms = 2
    assert messages(stands(SETTLED_MS + 1400 + called_ms - 1), "O3") == []
    assert len(messages(stands(SETTLED_MS + 1400 + called_ms), "O3")) == 1
