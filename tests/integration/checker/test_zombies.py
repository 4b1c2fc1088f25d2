"""What a proxy's fault excuses, and no more: a fault alone excuses nothing, and never another member."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_assignors.integration.checker import check
from kafka_assignors.integration.checker.timeline import intervals
from kafka_assignors.integration.checker.zombies import ZOMBIE_MS
from tests.support.histories.story import SESSION_MS, Story
from tests.support.histories.zombies import COOPERATIVE, hit


def broken(story: Story) -> set[str]:
    return {violation.law for violation in check(story.history).violations}


@pytest.mark.parametrize("protocol", [COOPERATIVE, "range"])
@pytest.mark.parametrize("fault", ["cut", "delay", "drop", "reset"])
def test_who_was_cut_off_and_evicted_may_not_know_until_it_is_told(fault: str, protocol: str) -> None:
    story = hit(fault, protocol=protocol)

    verdict = check(story.history)
    assert (verdict.violations, verdict.value) == ((), True)
    assert verdict.checked["O1"] > 0
    assert {i.member for i in verdict.intervals if i.zombie_ms} == {"b"}
    assert verdict.measures["zombie_ms"] >= SESSION_MS
    # Only one that is cut off altogether is missed at a time that can be told.
    assert verdict.checked["T1"] == (1 if fault == "cut" else 0)


def without(story: Story, kind: str, number: int = 0) -> Story:
    event = [e for e in story.events if e.kind == kind][number]
    story.events.remove(event)
    return story


def never_evicted() -> Story:
    """The generation after the fault began gives b's partitions to a, and still has b: that is the leader's fault."""
    story = Story("range").start("a", "b").round()
    story.tell("fault_begin", "proxy", "b", fault="cut", target="b", params={})
    taken = story.held["b"]
    story.wait(SESSION_MS).tell("assigned_begin", "member", "a", generation=1, partitions=rows(taken))
    story.tell("fault_end", "proxy", "b", fault="cut", target="b", params={}, hits=0)
    return story.wait(100)


def evicted_before() -> Story:
    """b was evicted and its partitions handed out, then it was cut off: the fault came too late to explain that."""
    story = Story("range").start("a", "b").round()
    story._zombies["b"] = story.held.pop("b")
    story.wait(SESSION_MS).round()
    story.tell("fault_begin", "proxy", "b", fault="cut", target="b", params={})
    story.wait(50).tell("fault_end", "proxy", "b", fault="cut", target="b", params={}, hits=0)
    story._callback("b", "lost", story._zombies.pop("b"))
    return story


def told_during_the_fault() -> Story:
    """b learns amid a long fault what it lost, has it again, and then owns it beside a: that isn't excused."""
    story = Story("range").start("a", "b").round()
    story.tell("fault_begin", "proxy", "b", fault="reset", target="b", params={})
    story._zombies["b"] = story.held.pop("b")
    story.wait(SESSION_MS).round()
    story._callback("b", "lost", story._zombies.pop("b"))
    story.held["b"] = set()
    story._claims.pop("b", None)
    story.round()
    story.wait(10).tell("assigned_begin", "member", "a", generation=3, partitions=rows(story.held["b"]))
    story.wait(10).tell("fault_end", "proxy", "b", fault="reset", target="b", params={}, hits=9)
    return story.wait(10)


def believes_on() -> Story:
    """b is evicted, hears nothing of its loss but joins again amid the fault, and goes on with all it had."""
    story = Story("range").start("a", "b").round()
    had = story.held.pop("b")
    story.tell("fault_begin", "proxy", "b", fault="reset", target="b", params={})
    story.wait(SESSION_MS).round()
    story.tell("assigned_begin", "member", "b", generation=2, partitions=[])
    story.wait(100).tell("fault_end", "proxy", "b", fault="reset", target="b", params={}, hits=9)
    story.wait(100).tell("lost_begin", "member", "b", generation=2, partitions=rows(had))
    return story


def rows(tps: object) -> list[dict[str, object]]:
    return [{"topic": t, "partition": p} for t, p in sorted(tps)]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "story",
    [
        lambda: hit(target="a"),
        lambda: hit(notice_ms=ZOMBIE_MS + 1000),
        lambda: without(hit(), "fault_begin"),
        never_evicted,
        evicted_before,
        told_during_the_fault,
        believes_on,
    ],
    ids=[
        "another was hit", "noticed too late", "nobody was hit", "never evicted", "evicted before", "told in between",
        "believes on",
    ],
)  # fmt: skip
def test_what_a_fault_does_not_excuse(story: Callable[[], Story]) -> None:
    assert "O1" in broken(story())


def test_one_cut_off_must_be_missed_in_time() -> None:
    assert broken(hit(away_ms=5 * SESSION_MS)) == {"T1"}
    assert broken(hit(away_ms=SESSION_MS / 4)) == {"T1"}
    assert broken(hit("drop", away_ms=5 * SESSION_MS)) == set()


def test_a_member_that_is_away_for_good_stays_excused_only_for_what_it_had() -> None:
    story = without(without(hit(), "fault_end"), "lost_begin")

    verdict = check(story.history)
    assert {(i.member, i.end_kind) for i in intervals(story.history) if i.zombie_ms} == {("b", "open")}
    assert "O1" not in {violation.law for violation in verdict.violations}
