"""Histories of an unclean election that loses acknowledged records."""

from __future__ import annotations

from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.history.events import Event
from tests.support.histories.story import Story

BEGIN, END = 10, 15
"""Of the five acknowledged records of t-0 that are lost."""


LOST = TopicPartition("t", 0)


def truncate(story: Story, begin: int = BEGIN, **fields: Any) -> Story:
    """The next leader of t-0 hasn't what lies from `begin` on; whoever reads it goes on from there."""
    end = story._offsets["t", 0]
    story.tell("truncated", offsets=[{"topic": "t", "partition": 0, "offset": begin, "end": end, **fields}])
    story._offsets["t", 0] = begin
    story._position = {(name, tp): min(begin, at) if tp == LOST else at for (name, tp), at in story._position.items()}
    return story


def before(story: Story | None = None, *, consumed: bool = True) -> Story:
    """Two members have consumed and committed the records that will be lost, offsets 10 to 14 of t-0."""
    story = story or Story("range", {"t": 2})
    story.start("a", "b").round().records(20).consume().records(10)
    return story.consume() if consumed else story


def read_back(story: Story) -> Story:
    """What lies there now: of each offset the last record."""
    there = {(e.data["topic"], e.data["partition"], e.data["offset"]): e for e in story.events if e.kind == "ack"}
    for (topic, partition, offset), ack in sorted(there.items()):
        if offset < story._offsets[topic, partition]:
            names = ("topic", "partition", "offset", "value_id", "partitioner")
            story.tell("read_back", **{name: ack.data[name] for name in names})
    story.tell("step", name="read_back", offsets=story._ends())
    return story


def unclean(records: int = 6) -> Story:
    """The end of t-0 falls from 15 to 10, its owner reads on from there, and commits less than it had."""
    return read_back(truncate(before()).records(records).drain())


def finishing(*, lost: bool) -> Story:
    """The same members tell what they have finished."""
    made = Story("range", {"t": 2})
    tell = made.tell

    def and_finish(kind: str, src: str = "harness", member: str | None = None, **data: Any) -> Event:
        if kind == "start":
            data["config"] = {**data["config"], "finishes": True}
        event = tell(kind, src, member, **data)
        if kind == "consume":
            tell("finished", src, member, offsets=data["offsets"])
        return event

    made.tell = and_finish  # type: ignore[method-assign]
    before(made)
    if lost:
        truncate(made)
    return made.records(6).drain()
