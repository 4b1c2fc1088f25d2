"""What a verdict tells beside its laws: its words, what it measured, and of which groups it could not judge."""

from __future__ import annotations

import pytest

from kafka_assignors.errors import UnknownName
from kafka_assignors.integration.checker import LAWS, check
from kafka_assignors.integration.history import History
from tests.support.histories.story import Story


def paired(*, by_ms: float = 0) -> Story:
    """Two members share three partitions; b gives its own up so much too late, twice."""
    story = Story(topics={"t": 2}).start("a", "b").round()
    for _ in range(2 if by_ms else 0):
        story.held["b"], mine = set(), story.held["b"]
        story._callback("a", "assigned", mine)
        story.wait(by_ms)._callback("b", "revoke", mine)
        story._callback("a", "revoke", mine)
        story._callback("b", "assigned", mine)
        story.held["b"] = mine
    return story


def test_overlaps_of_a_partition_are_added() -> None:
    """From a's begin to b's end: the end of a's callback, so many milliseconds, and two of b's."""
    measures = check(paired(by_ms=7).history).measures

    assert measures["overlap_ms"] == {"g/t-1": 2 * (7 + 3)}


def test_what_nobody_did_is_measured_as_nothing() -> None:
    """A group of another client's members tells no assignment, and a history without one no interval."""
    measures = check(Story().start("a").history).measures

    assert (measures["assign_us"], measures["zombie_ms"], measures["longest_gap_ms"]) == (0, 0.0, 0.0)
    assert (measures["overlap_ms"], measures["downtime_ms"], measures["delays_ms"]) == ({}, {}, {})
    assert (measures["acked"], measures["nacked"]) == (0, 0)


def test_the_words_count_what_held_and_what_had_nothing_to_judge() -> None:
    verdict, broken = check(paired().history), check(paired(by_ms=7).history)
    judged = sum(1 for times in verdict.checked.values() if times)

    assert verdict.words == f"{judged} of {len(LAWS)} laws held, {len(LAWS) - judged} had nothing to judge"
    count = len({violation.law for violation in broken.violations})
    assert count > 1
    assert broken.words.startswith(f"{count} laws are broken, ")


def test_one_broken_law_is_told_in_the_singular() -> None:
    story = Story().start("a", "b").round()
    story.tell("exit", member="b", code=1, asked=False)

    assert check(story.history).words.startswith("1 law is broken, ")


def test_of_no_law_is_told_as_none() -> None:
    verdict = check(History([]))

    assert (verdict.value, verdict.laws) == (None, "none")
    assert verdict.unknown == ("nothing to judge: the history has no generation and no sent record",)


def test_a_group_that_was_never_created_leaves_the_others_judged() -> None:
    idle = Story(group="f").start("z")
    story = Story(group="g").start("a", "b").round()
    story.tell("exit", member="b", code=1, asked=False)

    verdict = check(History([*idle.events, *story.events]))

    assert [reason for reason in verdict.unknown if reason.startswith("group 'f' has no generation")]
    assert {violation.law for violation in verdict.violations} == {"E1"}


def test_a_required_law_that_does_not_exist_is_told_with_those_that_do() -> None:
    with pytest.raises(UnknownName, match=r"law.*'Z9'.*O1"):
        check(History([]), ["O1", "Z9"])
