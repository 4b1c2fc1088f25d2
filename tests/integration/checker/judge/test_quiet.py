"""Times in which a group is left alone (P1, T1, G4): what ends one, and what makes it longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_assignors.integration.checker import check
from kafka_assignors.integration.checker.laws.progress import quiet_times
from kafka_assignors.integration.checker.ledger import RunRecord
from tests.support.histories import stories as told
from tests.support.histories.faults import with_another_topic
from tests.support.histories.reconciled import Reconciled
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


def test_a_fault_of_another_broker_that_ends_ends_none_of_this_one() -> None:
    story = told.two()
    story.tell("fault_begin", fault="broker_restart", target="node 1")
    story.tell("fault_end", fault="broker_restart", target="node 2")

    assert quiet_ms(told.later(story)) == []


def laws(story: Story | Reconciled) -> set[str]:
    return {violation.law for violation in check(story.history).violations}


def test_a_rebalance_under_way_hides_none_that_is_due_later() -> None:
    """A generation comes as a time ends in which the group was left alone; in the next such time b is dead."""
    story = told.later(told.two()).round()
    story.tell("admin_change", change="create_topic", target="w", topics={"w": 1})

    assert "T1" in laws(told.later(told.died(story, "b")))


def grown_at_last() -> Story:
    """A topic grows after ten minutes, and members assign its new partition at once."""
    story = told.later(told.two())
    story.topics = {**story.topics, "t": story.topics["t"] + 1}
    story.tell("admin_change", change="add_partitions", target="t", topics={"t": story.topics["t"]})
    return story.round()


def test_a_partition_that_comes_as_a_quiet_time_ends_was_nobodys_to_own() -> None:
    assert "P1" not in laws(grown_at_last())


def test_a_topic_that_grows_excuses_none_of_its_older_partitions() -> None:
    """b never got its partitions, t grows, and members look for new ones once in ten seconds."""
    story = Story("range").start("a", "b").round(stable=False)
    story.drop("assigned_begin", member="b").drop("assigned_end", member="b")
    for event in story.events:
        if event.kind == "start":
            event.data["config"]["metadata_max_age_ms"] = 10_000
    story.tell("admin_change", change="add_partitions", target="t", topics={"t": story.topics["t"] + 1})

    assert "P1" in laws(told.later(story, BOUND_MS + 5000))


@pytest.mark.parametrize(("ms", "broken"), [(BOUND_MS + 9000, False), (BOUND_MS + 11_000, True)])
def test_members_look_for_a_topic_that_was_created_as_for_partitions(ms: float, broken: bool) -> None:
    """They have subscribed to it before it was there."""
    story = told.two().change("generation_committed", with_another_topic)
    story.change("start", lambda data: data.update(topics=[*data["topics"], "w"]), member="a")
    for event in story.events:
        if event.kind == "start":
            event.data["config"]["metadata_max_age_ms"] = 10_000
    story.tell("admin_change", change="create_topic", target="w", topics={"w": 1})

    assert ("P1" in laws(told.later(story, ms))) is broken


def test_an_adoption_after_a_quiet_time_comes_too_late_for_it() -> None:
    """b, which keeps what it has, adopts a generation ten minutes after its commit, and after a topic was created."""
    story = Story("cooperative-sticky", {"t": 3}).start("a", "b").round().start("c").round(stable=False)
    late = next(e for e in reversed(story.events) if e.kind == "generation" and e.member == "b")
    told.without(story, lambda e: e is not late).wait(told.TEN_MINUTES_MS)
    story.tell("admin_change", change="create_topic", target="w", topics={"w": 1})
    story.tell("generation", "member", "b", **late.data)

    assert "G4" in laws(story)


@pytest.mark.parametrize(("reached", "broken"), [(("a", "b"), set()), (("b",), {"G4"})])
def test_each_member_of_a_kip_848_group_reaches_its_epoch_itself(reached: tuple[str, ...], broken: set[str]) -> None:
    story = Reconciled(6).join("a", "b").reconcile().rest().aim({"a": (), "b": ()})
    for name in reached:
        story.current(name, 2, story.held[name])
    story.wait(told.TEN_MINUTES_MS).tell("step", name="later")

    assert laws(story) == broken


@pytest.mark.parametrize(("after_s", "late"), [(None, ""), (15, " 15 s after it was told to end")])
def test_a_process_that_was_asked_to_end_and_had_to_be_killed_may_have_told_more(
    after_s: int | None, late: str
) -> None:
    story = told.two()
    exit_ = story.tell("exit", member="b", code=-9, signal="SIGKILL", asked=True)
    if after_s is not None:
        story.change("exit", lambda data: data.update(asked_ns=exit_.mono_ns - after_s * 1_000_000_000))

    words = f"E1: b did not end in time and was killed{late}, so its last events are missing"
    assert words in check(story.history).unknown


@pytest.mark.parametrize("end", ["revoke_end", "assigned_end"])
def test_a_callback_ends_as_it_began(end: str) -> None:
    """As another one, or with fewer partitions."""
    story = told.two()
    ended = next(e for e in story.events if e.kind == "assigned_end" and e.member == "b")
    fewer = {**ended.data, "partitions": ended.data["partitions"][: -1 if end == "assigned_end" else None]}
    story.events[story.events.index(ended)] = replace(ended, kind=end, data=fewer)

    assert any("assigned_begin of " in v.message and f" was ended by {end} of " in v.message
               for v in check(story.history).violations if v.law == "R8")  # fmt: skip


@pytest.mark.parametrize(("client", "broken"), [("kafka-python", {"G4"}), (None, {"G4"}), ("java", set())])
def test_who_never_adopts_breaks_g4_if_its_client_tells_adoptions(client: str | None, broken: set[str]) -> None:
    """c is in the last generation, and tells nothing but its start, for ten minutes."""
    story = told.two().start("c").round(stable=False)
    told.without(story, lambda e: not (e.member == "c" and e.src == "member" and e.kind != "start"))
    start = next(e for e in story.events if e.kind == "start" and e.member == "c")
    story.events[story.events.index(start)] = replace(start, client=client)

    assert {v.law for v in check(told.later(story).history).violations} == broken
