"""The laws of topics that change, of brokers that come back, and of members that are fenced or stand still."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_assignors.history.zombies import ZOMBIE_MS
from kafka_assignors.integration.checker import Verdict, check
from tests.support.damage import shifted
from tests.support.histories.faults import (
    BEAT_MS,
    BROKEN,
    COOPERATIVE,
    NOTICED_MS,
    aged,
    changed,
    fenced,
    outage,
    stood_still,
    subscribed,
    thrown_out,
)
from tests.support.histories.story import HEARTBEAT_MS, SESSION_MS, Story


def broken(verdict: Verdict) -> set[str]:
    return {violation.law for violation in verdict.violations}


def cut_off_and_paused() -> Story:
    """Two faults of b: the group goes on without it once the first has long ended, and the second has not."""
    story = Story().start("a", "b").round()
    story.tell("fault_begin", member="b", fault="cut", target="b")
    story.pause("b", for_ms=10).tell("fault_end", member="b", fault="pause", target="b")
    story.wait(ZOMBIE_MS + 100).round(stable=False)
    return story.resume("b", fault="cut").round()


LAWFUL: dict[str, tuple[dict[str, bool], Callable[[], Story]]] = {
    "new partitions": ({"T3": True, "R4": True, "R5": True}, lambda: changed("add_partitions", "t", 7)),
    "new partitions, cooperative": (
        {"T3": True, "R4": True, "R3": True}, lambda: changed("add_partitions", "t", 7, protocol=COOPERATIVE)),
    "new partitions, just in time": ({"T3": True}, lambda: changed("add_partitions", "t", 7, after_ms=NOTICED_MS)),
    "a topic went, just in time": ({"T3": True}, lambda: changed("delete_topic", "u", 0, after_ms=NOTICED_MS)),
    "a pattern's topic, just in time": (
        {"T3": True, "R4": False},
        lambda: changed("create_topic", "v", 2, after_ms=NOTICED_MS + HEARTBEAT_MS, blind=True, pattern="v|t|u")),
    "new partitions, just in time for a slow heartbeat": (
        {"T3": True},
        lambda: changed("add_partitions", "t", 7, after_ms=NOTICED_MS + 500, heartbeat_interval_ms=BEAT_MS + 500)),
    "a topic went": ({"T3": True, "R4": True}, lambda: changed("delete_topic", "u", 0)),
    "a new topic": ({"T3": True, "R4": True}, lambda: changed("create_topic", "v", 2)),
    "a change of something else": ({"T3": False}, lambda: changed("alter_config", "t", 7)),
    "a subscription that came a generation later": ({"R5": True}, lambda: subscribed(at_once=False)),
    "a short restart": ({"R5": True}, lambda: outage(SESSION_MS / 2)),
    "a long outage": ({"R5": True}, lambda: outage(SESSION_MS * 2)),
    "a fenced member was told in time": ({"O1": True, "S2": True}, lambda: fenced(HEARTBEAT_MS)),
    "what was lost is told as lost": ({"R7": True}, lambda: thrown_out("lost")),
    "a leader stalled in its assign": ({"O1": True}, lambda: stood_still(10)),
    "a member was cut off, and stood still for a part of that": ({"O1": True}, cut_off_and_paused),
}  # fmt: skip


@pytest.mark.parametrize(("law", "build"), BROKEN.values(), ids=BROKEN)
def test_what_breaks_a_law_is_found_with_its_witnesses(law: str, build: Callable[[], Story]) -> None:
    verdict = check(build().history)

    assert verdict.value is False
    assert law in broken(verdict), verdict.violations
    assert all(violation.witnesses and violation.message for violation in verdict.violations)


@pytest.mark.parametrize(("judged", "build"), LAWFUL.values(), ids=LAWFUL)
def test_what_is_lawful_is_judged_and_true(judged: dict[str, bool], build: Callable[[], Story]) -> None:
    verdict = check(build().history)

    assert verdict.violations == ()
    assert {law: verdict.checked[law] > 0 for law in judged} == judged


def test_a_generation_is_judged_by_the_topics_as_they_were_while_it_stood() -> None:
    """It stood for long before the topic grew: it had every partition there was."""
    story = aged().wait(9000)
    story.tell("admin_change", change="add_partitions", target="t", topics={"t": 7})

    verdict = check(story.history)

    assert verdict.checked["O3"] > 0
    assert verdict.violations == ()


@pytest.mark.parametrize(
    ("story", "broken"),
    [
        (shifted.delayed_commit(0), set()),
        (shifted.delayed_commit(0, side="answer"), {"C5"}),  # a delayed answer brings no commit
        (shifted.delayed_commit(0, target="a"), {"C5"}),  # another member's
        (shifted.delayed_commit(0, begun=False), {"C5"}),  # answered before the delay
        (shifted.delayed_commit(0, begun=False, under_way=True), set()),  # the proxy told the delay a little late
        (shifted.delayed_commit(0, fault="drop"), {"C5"}),
        (shifted.delayed_commit(0, again=True), {"C5", "C7"}),  # the member itself commits it again
    ],
)
def test_a_committed_offset_may_fall_to_a_commit_that_a_proxy_delayed(story: Story, broken: set[str]) -> None:
    """The client waited too long, sent it again on another connection, and went on; Kafka doesn't order commits."""
    assert {violation.law for violation in check(story.history).violations} == broken


@pytest.mark.parametrize(("told_before_ms", "broken"), [(1, set()), (0, set()), (-1, {"T1"})])
def test_a_killed_member_may_be_missed_at_once_if_it_had_been_told_to_leave(told_before_ms, broken):
    verdict = check(shifted.killed_as_it_left(100, told_before_ms).history)

    assert {violation.law for violation in verdict.violations} == broken


@pytest.mark.parametrize(("after_ms", "broken"), [(SESSION_MS, set()), (SESSION_MS + 1, {"T1"})])
def test_a_member_is_missed_too_early_unless_a_fault_cost_it_heartbeats(after_ms: int, broken: set[str]) -> None:
    verdict = check(shifted.killed_after_a_fault(after_ms).history)

    assert {violation.law for violation in verdict.violations} == broken
