"""O4 in planned changes: how long a partition may be alone, for members that ask early and for others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from kafka_assignors.integration.checker import Verdict, check, planned
from tests.support.histories import handovers
from tests.support.histories.handovers import ALL, DEFAULT_BEAT_MS, beating, joined, last, rested
from tests.support.histories.migrated import migration
from tests.support.histories.reconciled import HEARTBEAT_MS, Reconciled
from tests.support.histories.story import Story

HANDOVER_MS, LATE_MS = 1500, 3000
BEAT_MS = 1000
"""A heartbeat with which the bounds of members that wait for it are below those of law O3."""
HOURS = 3_600_000
UNLIMITED = "no step limits the time without an owner (gap_ms), and "


def judged(story: Story | Reconciled) -> Verdict:
    verdict = check(story.history)
    assert verdict.checked["O4"], verdict.skipped
    assert {violation.law for violation in verdict.violations} <= {"O4"}
    return verdict


def whys(story: Story | Reconciled) -> set[str]:
    """Why no time of a history has a limit."""
    verdict = check(story.history)
    assert not verdict.checked["O4"]
    assert not [each for each in verdict.violations if each.law == "O4"]
    return {why.removeprefix(UNLIMITED) for why in verdict.skipped["O4"]}


def test_a_group_that_asks_early_hands_over_well_within_a_heartbeat() -> None:
    assert judged(joined(40)).value is True
    broken = judged(joined(DEFAULT_BEAT_MS - 100)).violations

    assert [each.law for each in broken] == ["O4"]
    assert broken[0].message.startswith("no member owned t-1 for 2900 ms, from the end of a's ownership to the end of")
    assert broken[0].message.endswith("all members ask early whether the group rebalances again")
    assert [witness.kind for witness in broken[0].witnesses] == ["revoke_end", "assigned_begin"]


@pytest.mark.parametrize("late", ALL)
def test_one_member_without_early_heartbeats_may_hear_of_it_at_its_next_one(late: str) -> None:
    others = [name for name in ALL if name != late]

    assert judged(joined(BEAT_MS + LATE_MS, others, BEAT_MS)).value is True
    assert judged(joined(BEAT_MS + LATE_MS + 1, others, BEAT_MS)).value is False


def test_an_eager_group_waits_for_its_slowest_heartbeat() -> None:
    """Early heartbeats follow an adoption, and here nobody has adopted anything for long."""
    assert judged(handovers.eager(BEAT_MS + LATE_MS, BEAT_MS)).value is True
    assert judged(handovers.eager(BEAT_MS + LATE_MS + 1, BEAT_MS)).value is False


def test_who_leaves_is_missed_as_soon_as_t1_says() -> None:
    bound_ms = 2 * BEAT_MS + LATE_MS

    assert judged(handovers.left(bound_ms, BEAT_MS)).value is True
    assert {each.law for each in check(handovers.left(bound_ms + 2, BEAT_MS).history).violations} == {"O4", "T1"}


def test_a_slow_callback_is_time_that_the_others_do_not_lose() -> None:
    """a's callback takes 2 s before it gives the partition up: the early heartbeats are over, the usual ones go on."""
    slow = handovers.joined_after_a_slow_callback

    assert judged(slow(BEAT_MS + HANDOVER_MS, 2000, BEAT_MS)).value is True
    assert judged(slow(BEAT_MS + HANDOVER_MS + 1, 2000, BEAT_MS)).value is False


@pytest.mark.parametrize(
    ("begins", "ends"),
    [("revoke", "revoke"), ("assigned", "assigned"), ("lost", "lost")],
)
def test_callbacks_of_others_do_not_count(begins: str, ends: str) -> None:
    """b runs a callback for two seconds while a's partition has no owner."""

    def told(callback_ms: float) -> Story:
        story = joined(callback_ms + 500)
        gone = last(story, "revoke_end")
        at = gone.mono_ns // 1_000_000 + 100
        for kind, ms in ((f"{begins}_begin", at), (f"{ends}_end", at + callback_ms)):
            event = story.tell(kind, "member", "b", generation=2, partitions=[])
            story.shift(kind, ms - event.mono_ns / 1_000_000)
        story.events.sort(key=lambda e: e.mono_ns)
        return story

    assert judged(told(2000)).value is True


def test_work_on_records_and_commits_do_not_count() -> None:
    def told(*kinds: str) -> Story:
        story = joined(3000)
        at = last(story, "revoke_end").mono_ns // 1_000_000 + 100
        for number, kind in enumerate(kinds):
            failed = {"error": "KafkaTimeoutError"} if kind == "commit_fail" else {}
            event = story.tell(kind, "member", "b", offsets=[], **failed)
            story.shift(kind, at + 1000 * number - event.mono_ns / 1_000_000)
        story.events.sort(key=lambda e: e.mono_ns)
        return story

    assert judged(told("consume", "commit_begin", "commit_ok")).value is True
    assert judged(told("consume", "commit_begin", "commit_fail")).value is True
    assert judged(told("commit_ok", "consume", "consume")).value is False


def test_a_second_generation_takes_as_long_again() -> None:
    """What some member never adopted is repeated: each generation may take a heartbeat."""

    def told(ms: float, early: Collection[str], beat_ms: int = 500) -> Story:
        story = rested().start("c").round(stable=False)
        for name in ("a", "b", "c"):
            story._claims[name] = story.held[name], story.generation
        story = beating(story, early, beat_ms)
        given = [e for e in story.events if e.kind == "assigned_begin" and e.member == "c"][-1]
        # c misses the generation that gives it the partition, and the next one gives it again.
        story.events = [e for e in story.events if not (e.member == "c" and e.mono_ns >= given.mono_ns - 2_000_000
                                                        and e.kind != "start")]  # fmt: skip
        story.held["c"] = set()
        story._claims["c"] = set(), -1
        story.round()
        return handovers.owned_again(story, last(story, "revoke_end"), ms)

    assert judged(told(2 * 500 + LATE_MS, ())).value is True
    assert judged(told(2 * 500 + LATE_MS + 10, ())).value is False
    assert judged(told(HANDOVER_MS + 10, ALL)).value is False


def test_a_kip_848_group_may_wait_for_a_heartbeat_and_the_broker() -> None:
    bound_ms = HEARTBEAT_MS + planned.ASSIGNMENT_INTERVAL_MS + LATE_MS

    assert judged(handovers.reconciled(bound_ms)).value is True
    assert judged(handovers.reconciled(bound_ms + 1)).value is False


def hit(fault: str, *, before: bool) -> Story:
    """A fault of b is in force as c joins, or began and ended meanwhile."""
    story = rested().start("c")
    if before:
        story = Story("cooperative-sticky", {"t": 3}).start("a", "b")
        story.tell("fault_begin", member="b", fault=fault, target="b")
        story.round().start("c")
    else:
        story.tell("fault_begin", member="b", fault=fault, target="b")
        story.tell("fault_end", member="b", fault=fault, target="b")
    return joined(HOURS, story=story)


def unasked() -> Story:
    """As c joins, b is missing from one generation, and nobody asked for that."""
    story = rested().start("c")
    del story.held["b"]
    story.round(stable=False)
    story.held["b"] = set()
    story._claims.pop("b")
    return story.round()


def static() -> Story:
    story = Story("cooperative-sticky", {"t": 3}).start("a", "b", static=True).round().wait(10_000)
    return beating(story.stop("b").wait(HOURS).round(), ALL)


def lost() -> Story:
    """c joins, and a is told that it lost the partition that it should have given up."""
    story = joined(HOURS)
    for edge in ("begin", "end"):
        told = last(story, f"revoke_{edge}")
        story.events[story.events.index(told)] = replace(told, kind=f"lost_{edge}")
    return story


def alone() -> Story:
    """The only member leaves, and another comes an hour later."""
    story = Story("cooperative-sticky", {"t": 3}).start("a").round().wait(10_000).stop("a")
    return beating(story.wait(HOURS).start("b").round(), ALL)


def unsubscribed() -> Story:
    story = rested().start("c")
    story.tell("admin_change", change="subscribe", target="a", subscription={"topics": ["t"]}, topics=story.topics)
    return joined(HOURS, story=story)


UNLIMITED_ONES: dict[str, Callable[[], Story | Reconciled]] = {
    planned.FAULT: lambda: hit("pause", before=False),
    planned.UNPLANNED: unsubscribed,
    planned.UNASKED: unasked,
    planned.UNEXPLAINED: lambda: rested("range").round(),
    planned.STATIC: static,
    planned.LOST: lost,
    planned.ALONE: alone,
    planned.UNTOLD: lambda: beating(joined(HOURS), ALL, None),
    planned.UNSTABLE: lambda: joined(HOURS, story=Story("cooperative-sticky", {"t": 3}).start("a", "b").round(False)),
}


@pytest.mark.parametrize("why", UNLIMITED_ONES)
def test_what_has_no_limit_is_told_with_its_reason(why: str) -> None:
    assert whys(UNLIMITED_ONES[why]()) == {why}


def test_a_group_that_changes_its_protocol_has_no_limit() -> None:
    assert UNLIMITED + planned.PROTOCOL in check(migration().history).skipped["O4"]


def test_every_reason_has_a_history() -> None:
    assert {*UNLIMITED_ONES, planned.PROTOCOL} == set(planned.WHYS)


def test_a_fault_that_ended_before_the_group_was_at_rest_is_none_of_later_changes() -> None:
    story = Story("cooperative-sticky", {"t": 3}).start("a", "b")
    for _ in range(2):
        story.tell("fault_begin", member="b", fault="cut", target="b")
        story.tell("fault_end", member="b", fault="cut", target="b")
    story.round().wait(10_000)

    assert judged(joined(DEFAULT_BEAT_MS - 100, story=story)).value is False


def test_a_fault_that_has_not_ended_is_a_fault_of_later_changes() -> None:
    assert whys(hit("pause", before=True)) == {planned.FAULT}
