"""librdkafka commits by itself, and tells of it as the application polls: what a kill cuts off is told by nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_assignors.integration.checker import check
from tests.support.histories.stories import cut_off
from tests.support.histories.story import MS, Story


def outcome(story: Story) -> tuple[set[str], dict[str, int]]:
    """The laws that are broken, and how often those of commits and records were not judged."""
    verdict = check(story.history)
    skipped = {law: sum(reasons.values()) for law, reasons in verdict.skipped.items() if law in ("C3", "C5", "C7")}
    return {violation.law for violation in verdict.violations}, skipped


@pytest.mark.parametrize("before_ms", [2, 5000])
def test_the_last_commit_of_a_process_that_was_cut_off_is_not_told(before_ms: float) -> None:
    """However long its application did not poll."""
    assert outcome(cut_off(before_ms)) == (set(), {})


@pytest.mark.parametrize(
    ("given", "laws"),
    [
        ({"auto_commit": False}, {"C7"}),
        ({"ends": "stop"}, {"C7"}),
        ({"auto_commit": False, "read": False}, {"C3", "C5", "C7"}),
        ({"ends": "stop", "read": False}, {"C3", "C5", "C7"}),
    ],
    ids=["not by itself", "closed", "not by itself, not read", "closed, not read"],
)
def test_any_other_commit_is_told(given: dict[str, Any], laws: set[str]) -> None:
    assert outcome(cut_off(**given))[0] == laws


@pytest.mark.parametrize(("before_ms", "laws"), [(120, set()), (121, {"C3", "C5"})])
def test_what_was_handed_out_just_before_may_not_be_on_record(before_ms: float, laws: set[str]) -> None:
    """20 ms, and 100 ms between the clocks."""
    broken, skipped = outcome(cut_off(before_ms, read=False))

    assert broken == laws
    assert skipped == ({} if laws else {"C3": 1, "C5": 1})


def test_a_kill_counts_from_its_begin() -> None:
    """The harness sees the end two seconds later."""
    story = cut_off(120, read=False)
    for kind in ("exit", "fault_end"):
        story.shift(kind, 2000, member="a")

    assert outcome(story) == (set(), {"C3": 1, "C5": 1})


def test_a_record_that_was_lost_before_is_lost() -> None:
    """a had not read record 0 either, which was committed long before."""
    story = cut_off(read=False)
    story.drop("consume", nth=0, member="a")

    assert "C3" in outcome(story)[0]


@pytest.mark.parametrize(("later_ms", "laws"), [(101, set()), (102, {"C7"})])
def test_whoever_told_a_later_commit_had_told_the_one_before(later_ms: float, laws: set[str]) -> None:
    """a tells, some time after its client's own commit, that the one of record 0 is accepted."""
    story = cut_off(5000)
    own = story.events[story._find("offset_committed", {"offset": 2})[0]]
    told = story.events[story._find("commit_ok", {"member": "a"})[0]]
    story.shift("commit_ok", (own.mono_ns - told.mono_ns) / MS + later_ms - 1, nth=0, member="a")

    assert outcome(story)[0] == laws


@pytest.mark.parametrize(("after_ms", "laws"), [(100, set()), (101, {"C7"})])
def test_a_process_that_has_ended_commits_nothing(after_ms: float, laws: set[str]) -> None:
    story = cut_off()
    ended = story.events[story._find("exit", {"member": "a"})[0]]
    at = story._find("offset_committed", {"offset": 2})[0]
    ns = ended.mono_ns + round(after_ms * MS)
    story.events[at] = replace(story.events[at], mono_ns=ns, ts_ns=ns)

    assert outcome(story)[0] == laws


def chosen(story: Story, by_client: bool) -> Story:
    """a's first commit is one that its client chose."""
    return story.change("commit_begin", lambda data: data.update(by_client=by_client), nth=0, member="a")


@pytest.mark.parametrize(("by_client", "laws"), [(True, set()), (False, {"C7"})])
def test_what_a_client_chose_to_commit_is_told_late(by_client: bool, laws: set[str]) -> None:
    """Begin and answer are told five seconds after the log has the commit: the application polled no sooner."""
    story = Story("range", {"t": 1}).start("a").round().records(1).consume().wait(10_000).records(1).consume()
    for kind in ("commit_begin", "commit_ok"):
        story.shift(kind, 5000, nth=0)

    assert outcome(chosen(story, by_client).drain())[0] == laws


@pytest.mark.parametrize(("by_client", "laws"), [(True, set()), (False, {"C5", "C7"})])
def test_what_a_client_chose_to_commit_may_be_told_after_it_was_removed(by_client: bool, laws: set[str]) -> None:
    """The generation that removed it has stood for 500 ms when it polls again, and hears of commit and loss."""
    story = Story("range", {"t": 1}).start("a", "b").round().records(1).consume()
    story.pause("a", "stall", for_ms=4500).round().wait(500).resume("a", fault="stall")
    resumed = story.events[story._find("fault_end", {"member": "a"})[0]]
    for after_ms, kind in enumerate(("commit_begin", "commit_ok"), 1):
        told = story.events[story._find(kind, {"member": "a"})[0]]
        story.shift(kind, (resumed.mono_ns - told.mono_ns) / MS + after_ms, nth=0, member="a")

    assert outcome(chosen(story, by_client).wait(500).round().drain())[0] == laws


def chose_more(*, by_client: bool = True, answered: bool = False, asked_ms: float = 0, told: int = 1) -> Story:
    """a asks its client to commit, which reads on and commits two records as it sends that.

    Args:
        answered: Whether the client tells that it committed `told` of them, instead of nothing.
        asked_ms: From the commit to the time at which a asked.
    """
    story = Story("range", {"t": 1}).start("a", "b").round().records(2).consume("a", commit=False).wait(1000)
    rows = [{"topic": "t", "partition": 0, "offset": told}]
    begin = story.tell("commit_begin", "member", "a", offsets=rows, by_client=by_client)
    story.tell("offset_committed", "coordlog", topic="t", partition=0, offset=2)
    story._committed["t", 0] = 2
    if answered:
        story.tell("commit_ok", "member", "a", offsets=rows)
    at = story.events.index(begin)
    ns = begin.mono_ns + round((asked_ms + 1) * MS)
    story.events[at] = replace(begin, mono_ns=ns, ts_ns=ns)
    return story.wait(1000).stop("a").round().drain()


@pytest.mark.parametrize(
    ("given", "laws"),
    [
        ({}, set()),
        ({"told": 2}, set()),
        ({"told": 3}, {"C5", "C7"}),
        ({"by_client": False}, {"C7"}),
        ({"answered": True}, {"C7"}),
        ({"asked_ms": 100}, set()),
        ({"asked_ms": 101}, {"C7"}),
    ],
    ids=["more", "all", "less", "named", "answered", "just before", "before"],
)
def test_a_client_may_commit_more_than_was_told_as_it_was_asked(given: dict[str, Any], laws: set[str]) -> None:
    assert outcome(chose_more(**given))[0] == laws
