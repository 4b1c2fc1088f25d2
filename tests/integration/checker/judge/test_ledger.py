"""Whose a member id is, and what a group's record says of its members."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafka_assignors.integration.checker.ledger import GroupRecord, Process, RunRecord
from tests.support.damage.laws import claiming
from tests.support.histories import stories as told
from tests.support.histories.story import Story


def record(story: Story) -> GroupRecord:
    return RunRecord.of(story.history).groups["g"]


def silent(story: Story, *names: str) -> Story:
    """These members start, and never tell that they adopted anything."""
    return told.without(story, lambda e: not (e.member in names and e.kind == "generation"))


def last_members(story: Story) -> dict[str, Process]:
    kept = record(story)
    return dict(kept.members_of(kept.generations[-1]))


def test_a_member_id_is_that_of_the_process_that_told_it() -> None:
    assert last_members(told.two()) == {"a-id": ("a", 0), "b-id": ("b", 0)}


def test_an_id_that_nobody_told_is_that_of_the_process_of_this_name() -> None:
    assert last_members(silent(told.two(), "a", "b")) == {"a-id": ("a", 0), "b-id": ("b", 0)}


def test_an_id_that_nobody_told_is_that_of_the_process_started_last_under_the_instance_id() -> None:
    """The coordinator keeps the client id of the process before, whatever the name of the new one."""
    story = Story().start("a", "b", static=True).round()
    story.take_over("b")
    instance = "b-instance"

    def renamed(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "client_id": "somebody"} if row.get("instance_id") == instance else row

    for at, event in enumerate(story.events):
        if event.kind == "generation_committed":
            story.events[at] = replace(event, data={**event.data, "members": [*map(renamed, event.data["members"])]})
    silent(story, "b")
    first, again = (dict(record(story).members_of(g)) for g in record(story).generations)

    assert (first["b-id"], again["b-id1"]) == (("b", 0), ("b", 1))


def test_an_id_of_nobody_that_was_started_is_of_the_name_that_the_coordinator_has() -> None:
    story = told.without(told.two(), lambda e: e.member != "b")

    assert last_members(story) == {"a-id": ("a", 0), "b-id": ("b", 0)}


def test_one_that_was_started_later_is_not_in_a_generation_before() -> None:
    story = silent(Story().start("a", "b", static=True).round(), "b")
    story.start("b", static=True)

    assert last_members(story)["b-id"] == ("b", 0)


def test_a_count_is_the_last_one_known_by_then_else_the_first_known_later() -> None:
    story = Story(topics={"t": 2})
    story.wait(10).tell("topics", topics={"t": 2})
    story.wait(10).tell("topics", topics={"t": 3, "u": 1})
    kept, (first, second) = record(story), (e.mono_ns for e in story.events)

    assert [kept.count_of("t", ns) for ns in (0, first, second - 1, second, second + 1)] == [2, 2, 2, 3, 3]
    assert [kept.count_of(topic, 0) for topic in ("u", "v")] == [1, None]


def test_a_process_told_first_and_last_what_it_told_first_and_last() -> None:
    story = told.two()
    mine = [e for e in story.events if e.member == "b"]
    kept = record(story)

    assert kept.first_told["b", 0] == mine[0]
    assert kept.last_told["b", 0] == mine[-1].mono_ns
    assert kept.last_ns == story.events[-1].mono_ns


def test_what_ended_between_two_times_is_told_with_both() -> None:
    story = Story("range", {"t": 1}).start("a").round().round().round()
    ends = [e.mono_ns for e in story.events if e.kind == "revoke_end"]
    kept = record(story)

    found = [[span.interval.end_ns for span in kept.ended(*between)] for between in (
        (ends[1], ends[2]), (ends[1] + 1, ends[2]), (ends[1], ends[2] - 1))]  # fmt: skip
    assert found == [[ends[1], ends[2]], [ends[2]], [ends[1]]]


def test_a_member_has_the_name_that_it_tells_else_its_client_id() -> None:
    """The coordinator keeps the client id of a static member whose instance id another has taken."""

    def under(name: str) -> Story:
        story = told.two()
        return story.change("generation_committed", lambda data: data["members"][1].update(client_id=name))

    (told_by_itself,) = record(under("older")).generations
    (unknown,) = record(silent(under("older"), "b")).generations

    assert told_by_itself.names == {"a-id": "a", "b-id": "b"}
    assert unknown.names == {"a-id": "a", "b-id": "older"}


def test_what_has_not_ended_is_not_among_what_ended() -> None:
    story = told.two()

    assert record(story).ended(0, story.events[-1].mono_ns) == []


def test_a_generation_without_members_is_none_of_a_group() -> None:
    """The coordinator writes one as the last member leaves."""
    story = told.two()
    story.tell("generation_committed", "coordlog", generation=2, members=[], protocol="", leader="", ts_ms=0)

    assert [generation.number for generation in record(story).generations] == [1]


def test_an_assignor_is_cooperative_if_somebody_owns_something_as_it_joins_whatever_was_elected_before() -> None:
    story = told.two()
    story.protocol = "sticky"
    story.round().change("generation_committed", claiming("a", ("t", 0)))
    story.change("generation_committed", lambda data: data.update(protocol="ours"))

    assert record(story).cooperative_protocols == {told.COOPERATIVE, "ours"}


def test_an_adoption_without_a_member_id_tells_whose_no_id_is() -> None:
    story = told.two()
    event = story.tell("generation", "member", "b", generation=1, protocol="range", partitions=[])
    story.events[-1] = replace(event, member_id=None)

    assert set(record(story).processes) == {"a-id", "b-id"}
