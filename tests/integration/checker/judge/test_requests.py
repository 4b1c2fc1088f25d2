"""Rebalances that members request: each takes the generations of one trigger, and excuses nothing else."""

from __future__ import annotations

import pytest

from kafka_assignors.integration.checker import check
from tests.support.histories import requests
from tests.support.histories.requests import BROKEN, REST_MS, SOUND
from tests.support.histories.story import MS, SESSION_MS, Story


@pytest.mark.parametrize("name", SOUND)
def test_a_requested_rebalance_is_sound(name: str) -> None:
    verdict = check(SOUND[name]().history)

    assert (verdict.value, verdict.violations, verdict.unknown) == (True, (), ())
    assert verdict.checked["R5"] == (0 if name == "a request without a generation" else 1)
    assert "R5" not in verdict.skipped


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_request_excuses_nothing_else(name: str) -> None:
    laws, build = BROKEN[name]

    verdict = check(build().history)

    assert {violation.law for violation in verdict.violations} == laws


@pytest.mark.parametrize("name", ["a request, two generations", "two members' requests", "a request after a join"])
def test_the_same_generations_without_the_request_are_not_called_sound(name: str) -> None:
    """Without a trigger no law on rounds is judged; with another one, R5 is broken."""
    story = SOUND[name]()
    story.events = [event for event in story.events if event.kind != "rebalance_request"]

    verdict = check(story.history)

    judged = "join" in name
    assert verdict.checked["R5"] == judged
    assert {violation.law for violation in verdict.violations} == ({"R5"} if judged else set())


def shifted(rested_ns: int) -> Story:
    """b requests a rebalance so long after it adopted its last generation."""
    story = requests.answered(1, "b")
    request = next(e for e in story.events if e.kind == "rebalance_request")
    adopted = next(e for e in story.events if e.kind == "generation" and e.member == "b")
    return story.shift("rebalance_request", (adopted.mono_ns + rested_ns - request.mono_ns) / MS)


def test_the_rest_is_that_of_the_members_assignor() -> None:
    assert check(shifted(REST_MS * MS).history).violations == ()
    (violation,) = check(shifted((REST_MS - 1) * MS).history).violations
    assert violation.message == ("one rebalance request (1 too early or repeated) took 1 generations, 0 are enough: 2")


def test_a_member_that_does_not_tell_its_rest_has_the_default() -> None:
    story = requests.answered(1, "b").change("start", lambda data: data["config"].pop("assignors"), member="b")

    assert {violation.law for violation in check(story.history).violations} == {"R5"}


def test_a_partition_may_come_back_after_two_causes() -> None:
    """R3 judges one trigger."""
    verdict = check(requests.answered(2, "a", "b").history)

    assert verdict.skipped["R3"] == {"several triggers overlap": 1}
    assert "R3" not in check(requests.answered(2, "b").history).skipped


def test_a_request_does_not_change_when_a_dead_member_is_missed() -> None:
    verdict = check(requests.killed(SESSION_MS).history)

    assert (verdict.value, verdict.violations, verdict.checked["T1"]) == (True, (), 1)


@pytest.mark.slow
def test_the_message_names_the_causes() -> None:
    said = [v.message for name in BROKEN for v in check(BROKEN[name][1]().history).violations if v.law == "R5"]

    assert "one rebalance request took 3 generations, 2 are enough: 2, 3, 4" in said
    assert any(message.startswith("one start and one rebalance request took 5 gen") for message in said), said
    assert any(message.startswith("2 rebalance requests took 5 generations, 4 are") for message in said), said
