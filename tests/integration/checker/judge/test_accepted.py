"""Histories that were once called true, or false though they are sound: each is judged by the right law."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_assignors.core.wire.protocol import AssignedPartitions, encode_assignment
from kafka_assignors.errors import UnknownName
from kafka_assignors.history.events import Event
from kafka_assignors.integration.checker import check
from kafka_assignors.integration.report.report import verdict_lines
from tests.support.damage.accepted import REJECTED
from tests.support.histories import stories as told
from tests.support.histories.story import Story


@pytest.mark.parametrize("name", REJECTED)
def test_a_history_that_was_called_true_is_false(name: str) -> None:
    laws, build = REJECTED[name]

    verdict = check(build().history)

    assert verdict.value is False
    assert {violation.law for violation in verdict.violations} == laws
    assert all(violation.witnesses for violation in verdict.violations)


def test_records_that_were_never_drained_are_unknown() -> None:
    """4: the harness waited for it in vain, and says so."""
    verdict = check(told.never_drained().history)

    assert (verdict.value, verdict.violations) == (None, ())
    assert any("records left" in said for said in verdict.unknown)


def test_a_segfault_that_was_awaited_breaks_nothing() -> None:
    """28: its partitions are taken over once it is evicted; the harness only looks later."""
    verdict = check(told.segfault(awaited=True).history)

    assert (verdict.value, verdict.violations) == (True, ())
    assert verdict.checked["O1"] > 0


def test_of_a_segfault_that_nobody_awaited_only_the_end_is_told() -> None:
    assert {v.law for v in check(told.segfault(awaited=False).history).violations} == {"E1"}


def test_who_is_paused_again_before_it_heard_of_the_first_is_excused() -> None:
    """30: it was evicted, and had no chance to notice."""
    verdict = check(told.paused_again().history)

    assert (verdict.value, verdict.violations) == (True, ())


def test_a_group_does_not_rest_with_a_member_that_has_died() -> None:
    """Which drawn damages found: its partitions were held, by all callbacks, and nobody held them."""
    story = told.two()
    rest = story.events[-1]
    told.died(story, "b").tell("step", **rest.data)

    assert {violation.law for violation in check(story.history).violations} == {"P1"}


def two_things_at_once() -> Story:
    return Story("sticky").start("a", "b").round().start("c").stop("b").round()


def test_what_was_not_judged_is_said_with_its_reason() -> None:
    """21: of two things that happen at once none can answer for rounds and moves."""
    verdict = check(two_things_at_once().history)

    assert verdict.value is True
    for law in ("R4", "R5", "T1"):
        assert verdict.checked[law] == 0
        assert verdict.skipped[law] == {"several triggers overlap": 1}
    assert any(line.startswith("  skipped R5: several triggers") for line in verdict_lines(verdict))


def test_a_law_that_is_required_and_never_judged_makes_the_verdict_unknown() -> None:
    verdict = check(two_things_at_once().history, require={"R5", "O1"})

    assert (verdict.value, verdict.violations) == (None, ())
    assert verdict.unknown == ("law R5 is required but was not judged: several triggers overlap",)


def test_a_required_law_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnknownName, match="R99"):
        check(two_things_at_once().history, require={"R99"})


def test_a_group_that_never_came_into_being_is_unknown_whatever_else_was_judged() -> None:
    """26: its records were placed rightly, which says nothing about the group."""
    verdict = check(Story().start("a", "b").records(7).read_back().history)

    assert verdict.checked["K1"] > 0
    assert verdict.value is None
    assert "was never created" in verdict.unknown[0]


def test_raw_assignments_that_contradict_their_rows_make_it_unknown() -> None:
    """27: one of the two was changed, and which isn't known."""

    def alter(event: Event) -> Event:
        if event.kind != "generation_committed":
            return event
        one, *rest = event.data["members"]
        row: dict[str, Any] = {**one, "assignment": encode_assignment(AssignedPartitions({"t": [0]})).hex()}
        return replace(event, data={**event.data, "members": [row, *rest]})

    story = told.two()
    story.events = [alter(event) for event in story.events]

    verdict = check(story.history)

    assert verdict.value is None
    assert any("contradict" in said for said in verdict.unknown)
