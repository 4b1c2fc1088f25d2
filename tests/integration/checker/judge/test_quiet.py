"""Times in which a group is left alone (P1, T1, G4): what ends one, and what makes it longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_assignors.integration.checker import check
from kafka_assignors.integration.checker.laws.progress import quiet_times
from kafka_assignors.integration.checker.ledger import RunRecord
from tests.support.histories import stories as told
from tests.support.histories.story import POLL_MS, SESSION_MS, Story

BOUND_MS = SESSION_MS + 30_000
HAPPENS: dict[str, Callable[[Story], object]] = {
    "start": lambda story: story.start("c"),
    "stop": lambda story: story.tell("stop", "member", "b"),
    "exit": lambda story: story.tell("exit", member="b", code=0),
    "fault_begin": lambda story: story.tell("fault_begin", member="b", fault="pause", target="b"),
    "fault_end": lambda story: story.tell("fault_end", member="b", fault="pause", target="b"),
    "admin_change": lambda story: story.tell("admin_change", change="create_topic", target="w", topics={"w": 1}),
    "closing": lambda story: story.tell("closing"),
}


def quiet_ms(story: Story) -> list[float]:
    """How long each time in which the group was left alone was, in ms."""
    record = RunRecord.of(story.history).groups["g"]
    return [(quiet.end_ns - quiet.begin_ns) / 1e6 for quiet in quiet_times(record)]


@pytest.mark.parametrize("kind", HAPPENS)
def test_whatever_may_make_a_group_rebalance_ends_a_time_in_which_it_is_left_alone(kind: str) -> None:
    """It happens half-way through a time that is longer than the bound."""
    story = told.two().wait(BOUND_MS * 0.6)
    HAPPENS[kind](story)
    story.wait(BOUND_MS * 0.6).tell("step", name="later")

    assert quiet_ms(story) == []
    assert len(quiet_ms(told.later(told.two(), BOUND_MS * 1.2))) == 1


def test_a_group_that_is_closed_is_left_alone_no_more() -> None:
    story = told.two()
    story.tell("closing")

    assert quiet_ms(told.later(story)) == []


@pytest.mark.parametrize(("fault", "more_ms"), [("stall", POLL_MS), ("assign_stall", POLL_MS), ("pause", 0)])
def test_a_member_that_does_not_poll_may_take_its_poll_interval(fault: str, more_ms: int) -> None:
    def left_alone(ms: float) -> Story:
        story = told.two()
        begun = story.tell("fault_begin", member="b", fault=fault, target="b")
        told.since(story, begun, ms).tell("step", name="later")
        return story

    assert quiet_ms(left_alone(BOUND_MS + more_ms)) == []
    assert quiet_ms(left_alone(BOUND_MS + more_ms + 1)) == [BOUND_MS + more_ms + 1]


@pytest.mark.parametrize("fault", ["cut", "delay", "drop", "broker_restart"])
def test_a_group_is_not_left_alone_while_the_network_or_a_broker_is_disturbed(fault: str) -> None:
    """Twice at once: it is when both are over."""
    story = told.two()
    for _ in range(2):
        story.tell("fault_begin", member="b", fault=fault, target="b")
    told.later(story).tell("fault_end", member="b", fault=fault, target="b")
    assert quiet_ms(told.later(story)) == []

    story.tell("fault_end", member="b", fault=fault, target="b")

    assert len(quiet_ms(told.later(story))) == 1


def test_a_fault_that_ends_unbegun_makes_none_less() -> None:
    story = told.two()
    for edge in ("end", "begin"):
        story.tell(f"fault_{edge}", member="b", fault="cut", target="b")

    assert quiet_ms(told.later(story)) == []


@pytest.mark.parametrize(("client", "broken"), [("kafka-python", {"G4"}), (None, {"G4"}), ("java", set())])
def test_who_never_adopts_breaks_g4_if_its_client_tells_adoptions(client: str | None, broken: set[str]) -> None:
    """c is in the last generation, and tells nothing but its start, for ten minutes."""
    story = told.two().start("c").round(stable=False)
    told.without(story, lambda e: not (e.member == "c" and e.src == "member" and e.kind != "start"))
    start = next(e for e in story.events if e.kind == "start" and e.member == "c")
    story.events[story.events.index(start)] = replace(start, client=client)

    assert {v.law for v in check(told.later(story).history).violations} == broken
