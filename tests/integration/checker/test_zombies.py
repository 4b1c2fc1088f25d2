"""What a proxy's fault excuses, and no more: a fault alone excuses nothing, and never another member."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_assignors.history.events import Event
from kafka_assignors.history.timeline import spans
from kafka_assignors.history.zombies import ZOMBIE_MS, zombies
from kafka_assignors.integration.checker import check, intervals
from kafka_assignors.integration.checker.laws.excuses import Excuse, excuses, zombie_of
from kafka_assignors.integration.checker.ledger import RunRecord
from kafka_assignors.integration.checker.slack import SLACK_NS
from tests.support.histories import stories as told
from tests.support.histories.edges import at_ns, last
from tests.support.histories.faults import fenced
from tests.support.histories.story import HEARTBEAT_MS, SESSION_MS, Story
from tests.support.histories.whole import whole
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


def paused_twice(second: str, for_ms: float) -> Story:
    """b stands still for a moment, goes on for longer than T1 allows a dead member, and then falls silent."""
    story = Story("range").start("a", "b").round()
    story.tell("fault_begin", member="b", fault="pause", target="b")
    story.wait(SESSION_MS / 10).tell("fault_end", member="b", fault="pause", target="b")
    story.wait(5 * SESSION_MS)
    if second:
        story.tell("fault_begin", member="b", fault=second, target="b")
    story._zombies["b"] = story.held.pop("b")
    return story.wait(for_ms).round()


def test_a_session_starts_anew_when_a_pause_ends() -> None:
    assert "T1" not in broken(paused_twice("pause", SESSION_MS))
    assert "T1" in broken(paused_twice("pause", 5 * SESSION_MS)), "the second pause is not noticed in time"
    assert "T1" in broken(paused_twice("", SESSION_MS)), "no second pause explains the removal"


def test_a_member_that_is_away_for_good_stays_excused_only_for_what_it_had() -> None:
    story = without(without(hit(), "fault_end"), "lost_begin")

    verdict = check(story.history)
    assert {(i.member, i.end_kind) for i in intervals(story.history) if i.zombie_ms} == {("b", "open")}
    assert "O1" not in {violation.law for violation in verdict.violations}


B = ("g", "b", 0)
EARLIEST = 10 - 2 * SLACK_NS
"""Begin of an excuse for what is owned from 10 on: the clocks may be apart by the slack either way."""


def excused(story: Story) -> list[tuple[int, int]]:
    """From when to when b is excused."""
    found = excuses(RunRecord.of(story.history).groups["g"])
    assert all(each.begin_ns == each.evidence.mono_ns - SLACK_NS for each in found.get(B[1:], ()))
    return [(each.evidence.mono_ns, each.end_ns) for each in found.get(B[1:], ())]


def committed(story: Story) -> list[int]:
    return [e.mono_ns for e in story.events if e.kind == "generation_committed"]


def test_one_that_is_told_that_it_lost_something_knows() -> None:
    story = told.two().pause("b").resume("b")

    assert zombies(story.history.events)[B] == [(last(story, "fault_begin").mono_ns, last(story, "lost_begin").mono_ns)]


def test_a_fenced_process_should_know_since_it_was_fenced_whatever_its_successor_adopts_later() -> None:
    story = fenced(None)
    (window,) = zombies(story.history.events)[B]
    adopted = last(story, "generation", "b")
    story.events.append(replace(adopted, seq=adopted.seq + 50, mono_ns=adopted.mono_ns + HEARTBEAT_MS * 1_000_000))

    assert zombies(story.history.events)[B] == [window]


@pytest.mark.parametrize("members", ["a", "ab"])
@pytest.mark.parametrize("group", ["g", "another"])
def test_only_a_generation_of_its_own_group_without_it_takes_something_from_one_that_is_cut_off(
    group: str, members: str
) -> None:
    story = told.two()
    story.tell("fault_begin", "proxy", "b", fault="cut", target="b", params={})
    story.generation += 1
    story._commit([*members])
    story.events[-1] = replace(story.events[-1], group=group)
    story.events.insert(0, replace(story.events[0], group="another", member="x"))

    assert set(zombies(story.history.events)) == ({B} if (group, members) == ("g", "a") else set())


def test_one_that_hears_of_its_eviction_amid_a_fault_is_excused_again_when_it_is_evicted_again() -> None:
    story = Story("range").start("a", "b").round()
    story.tell("fault_begin", "proxy", "b", fault="delay", target="b", params={})
    heard = []
    for _ in range(2):
        had = story.held.pop("b")
        story.wait(SESSION_MS).round()
        story._callback("b", "lost", had)
        heard.append(last(story, "lost_begin").mono_ns)
        story.held["b"] = set()
        story._claims.pop("b", None)
        story.round()
    story.tell("fault_end", "proxy", "b", fault="delay", target="b", params={}, hits=9)

    assert excused(story) == [(committed(story)[1], heard[0]), (committed(story)[3], heard[1])]


@pytest.mark.parametrize(("generation", "broken_laws"), [(1, set()), (2, {"O1"})])
def test_an_answer_of_before_its_eviction_tells_it_nothing(generation: int, broken_laws: set[str]) -> None:
    """What was sent to b before it was evicted reaches it when it is no longer cut off, and its loss comes after."""
    story = Story("range").start("a", "b").round()
    had = story.held.pop("b")
    story.tell("fault_begin", "proxy", "b", fault="cut", target="b", params={})
    story.wait(SESSION_MS).round()
    story.tell("fault_end", "proxy", "b", fault="cut", target="b", params={}, hits=0)
    story.tell("assigned_begin", "member", "b", generation=generation, partitions=[])
    story.wait(100).tell("lost_begin", "member", "b", generation=1, partitions=rows(had))

    assert broken(story) & {"O1"} == broken_laws
    end = last(story, "lost_begin" if generation == 1 else "assigned_begin", "b").mono_ns
    assert excused(story) == [(committed(story)[1], end)]


def test_what_another_hears_tells_a_fenced_process_nothing() -> None:
    story = fenced(None)
    (excuse,) = excused(story)
    story.events.append(replace(last(story, "assigned_begin", "a"), seq=77, mono_ns=excuse[0] + 1))

    assert excused(story) == [excuse]


@pytest.mark.parametrize(("after_ns", "times"), [(-SLACK_NS - 1, 0), (-SLACK_NS, 1)])
def test_one_that_dies_unseen_is_excused_from_a_generation_after_its_last_word(after_ns: int, times: int) -> None:
    story = told.two()
    del story.held["b"]
    story.wait(SESSION_MS).round().round().tell("exit", member="b", code=-11, signal="SIGSEGV")
    word = max((e for e in story.events if e.src == "member" and e.member == "b"), key=lambda e: e.mono_ns)
    without = committed(story)[1]
    at_ns(story, word, without - after_ns)

    assert excused(story) == [(without, last(story, "exit").mono_ns)] * times


def test_of_two_faults_at_once_the_last_one_to_end_counts() -> None:
    story = told.two()
    story.tell("fault_begin", "proxy", "b", fault="delay", target="b", params={})
    story.pause("b").round().tell("fault_end", member="b", fault="pause", target="b")
    story.wait(ZOMBIE_MS + 1000).tell("fault_end", "proxy", "b", fault="delay", target="b", params={}, hits=9)
    story._callback("b", "lost", story._zombies.pop("b"))

    assert excused(story) == [(committed(story)[1], last(story, "lost_begin").mono_ns)]


def test_a_process_that_never_started_takes_no_instance_id() -> None:
    story = told.without(fenced(None), lambda e: not (e.kind == "start" and e.incarnation))

    assert zombies(story.history.events) == {}


def evicted(event: Event, generation: int) -> Event:
    data = whole("generation_committed", {"generation": generation})
    return replace(event, kind="generation_committed", data=data)


@pytest.mark.parametrize(
    ("begin_ns", "end_ns", "evicted_in", "whole"),
    [
        *((20, 50, 1, True), (10, 50, 1, True), (30, 40, 1, True)),
        *((EARLIEST, 50, 1, True), (EARLIEST - 1, 50, 1, False), (31, 50, 1, False), (20, 39, 1, False)),
        (EARLIEST - 1, 50, 2, True),  # b was assigned it before it was evicted, and told so later
        (31, 50, 2, False),
    ],
)
def test_an_excuse_lies_in_an_interval_and_covers_all_that_two_share(
    begin_ns: int, end_ns: int, evicted_in: int, whole: bool
) -> None:
    """b owned from 10 to 40, a from 30 on; b's eviction is recorded the slack after the excuse begins."""
    story = Story("range", {"t": 1}).start("a", "b")
    partitions = [{"topic": "t", "partition": 0}]
    for member, kind, ns in (("b", "assigned_begin", 10), ("a", "assigned_begin", 30), ("b", "revoke_end", 40)):
        event = story.tell(kind, "member", member, generation=1, partitions=partitions)
        story.events[-1] = replace(event, mono_ns=ns)
    older, newer = spans(story.history.events)
    evidence = replace(evicted(story.events[0], evicted_in), mono_ns=begin_ns + SLACK_NS)
    excuse = Excuse(begin_ns, end_ns, evidence)

    assert zombie_of(older, newer, {older.owner[1:]: [excuse]}) == (older if whole else None)
