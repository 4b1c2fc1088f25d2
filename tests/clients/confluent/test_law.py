"""Law C6 on histories that were told, lawful and damaged."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_assignors.integration.checker import check
from tests.support.histories.schema import faults
from tests.support.histories.story import Story


def work(story: Story, name: str, *, finish: int | None = None) -> Story:
    """A member consumes what is new, finishes the first so many records of each partition, and commits behind all."""
    story.consume(name, commit=False)
    rows = [dict(row) for row in story.events[-1].data["offsets"]]
    done = [
        {**row, "last": row["first"] + count - 1, "count": count, "bytes": count}
        for row in rows
        if (count := row["count"] if finish is None else min(finish, row["count"]))
    ]
    story.tell("finished", "member", name, offsets=done)
    for row in rows:
        end = {"topic": row["topic"], "partition": row["partition"], "offset": row["last"] + 1}
        story.tell("offset_committed", "coordlog", **end)
    return story


def bridged(*names: str) -> Story:
    story = Story().start(*names)
    for name in names:
        story.change("start", lambda data: data["config"].update(finishes=True), member=name)
    return story.round().records(40)


def broken(story: Story) -> list[str]:
    return [each.message for each in check(story.history).violations if each.law == "C6"]


def test_what_was_finished_may_be_committed() -> None:
    story = work(bridged("a"), "a")
    story = work(story.records(40), "a")

    verdict = check(story.history, require=["C6"])

    assert verdict.value is True, verdict
    assert [found for event in story.events if (found := faults(event.to_json()))] == []
    assert verdict.checked["C6"] == 14  # seven partitions, twice


def test_a_commit_beyond_what_was_finished_is_false() -> None:
    found = broken(work(bridged("a"), "a", finish=2))

    assert len(found) >= 7
    assert all("was committed before any member had finished the record at offset" in each for each in found)


def test_a_record_left_out_is_found_though_later_ones_were_finished() -> None:
    story = bridged("a")
    story.consume("a", commit=False)
    row = next(row for row in story.events[-1].data["offsets"] if row["count"] > 2)
    place: dict[str, Any] = {"topic": row["topic"], "partition": row["partition"]}
    for offset in (0, 2):
        story.tell(
            "finished", "member", "a", offsets=[{**place, "first": offset, "last": offset, "count": 1, "bytes": 1}]
        )
    story.tell("offset_committed", "coordlog", **place, offset=3)

    assert broken(story) == [
        f"offset 3 of {row['topic']}-{row['partition']} was committed before any member had finished the record "
        "at offset 1"
    ]


def test_finishing_after_the_commit_is_too_late() -> None:
    story = work(bridged("a"), "a").shift("finished", 5000)

    assert broken(story)


def test_an_acknowledged_record_that_nobody_consumed_counts_too() -> None:
    story = bridged("a")
    ack = next(event for event in story.events if event.kind == "ack" and event.data["offset"] == 0)
    story.tell("offset_committed", "coordlog", topic=ack.data["topic"], partition=ack.data["partition"], offset=1)

    assert len(broken(story)) == 1


def test_another_member_may_have_finished_it_and_one_that_tells_nothing_by_consuming_it() -> None:
    story = bridged("a").start("b").round().records(40)
    story.consume("b")
    work(story, "a")

    assert broken(story) == []


@pytest.mark.parametrize("finishes", [False, None])
def test_where_no_member_tells_it_is_not_judged(finishes: bool | None) -> None:
    story = work(Story().start("a").round().records(40), "a", finish=1)
    story.change("start", lambda data: data["config"].update(finishes=finishes), member="a")

    assert check(story.history).checked["C6"] == 0
