"""Histories of members that consume, transform and produce."""

from __future__ import annotations

from typing import Any

from kafka_assignors.history.events import Event
from tests.support.histories.story import MS, Story

OUTPUT = "out"


class Transforming(Story):
    """Members that produce an output for each record, in transactions that they number."""

    def __init__(self, protocol: str = "range") -> None:
        super().__init__(protocol, {"t": 4})
        self.outputs: list[tuple[str, dict[str, Any]]] = []  # value id, author
        self._numbers: dict[str, int] = {}
        self._taken: dict[str, list[dict[str, Any]]] = {}

    def tell(self, kind: str, src: str = "harness", member: str | None = None, **data: Any) -> Event:
        name = member or ""
        if kind == "start":
            data["config"] = {**data["config"], "output": OUTPUT}
        elif kind == "consume":
            self._taken[name] = data["offsets"]
        elif kind == "commit_begin":
            self._numbers[name] = self._numbers.get(name, 0) + 1
        if kind in ("commit_begin", "commit_ok", "commit_fail"):
            data["transaction"] = self._numbers[name]
        if kind == "commit_ok":
            author = {"group": self.group, "member": name, "incarnation": 0, "transaction": self._numbers[name]}
            self.outputs += [(value_id, author) for value_id in self._values(self._taken.pop(name))]
        return super().tell(kind, src, member, **data)

    def read_committed(self) -> Transforming:
        for offset, (value_id, author) in enumerate(self.outputs):
            place = {"topic": OUTPUT, "partition": 0, "offset": offset}
            self.tell("read_back", **place, value_id=value_id, partitioner="", author=author)
        end = [{"topic": OUTPUT, "partition": 0, "offset": len(self.outputs)}]
        self.tell("step", name="read_back", offsets=end, isolation="read_committed")
        return self

    def _values(self, rows: list[dict[str, Any]]) -> list[str]:
        acks = {(e.data["topic"], e.data["partition"], e.data["offset"]): e for e in self.events if e.kind == "ack"}
        places = [(r["topic"], r["partition"], o) for r in rows for o in range(r["first"], r["last"] + 1)]
        return [acks[place].data["value_id"] for place in places]


def at_work(protocol: str = "range") -> Transforming:
    """Two members transform; one is killed with a transaction open, and the other reads its input again."""
    story = Transforming(protocol)
    story.start("a", "b").round().records(20).consume()
    story.records(12).consume("b", commit=False)
    story.kill("b").round().records(8)
    return story


def zombie(*, after_ms: float = 200, heard_of: bool = False) -> Transforming:
    """b is paused at work and evicted; a takes over; b goes on, and its transaction is accepted: nobody fenced it.

    Args:
        after_ms: How long after the generation without it it begins to commit.
        heard_of: b joins again, and is in a generation, before its commit is answered.
    """
    story = Transforming()
    story.start("a", "b").round().records(20).consume()
    story.records(12).consume("b", commit=False)
    story.pause("b").round().consume("a")
    # `round` ends with the step that tells the rest, a commit takes three events
    committed_ns = next(e.mono_ns for e in reversed(story.events) if e.kind == "generation_committed")
    story.wait((committed_ns - story._now) / MS + after_ms - 2)
    story.tell("fault_end", member="b", fault="pause", target="b")
    ends = [{"topic": t, "partition": p, "offset": story._offsets[t, p]} for t, p in sorted(story._zombies["b"])]
    story.tell("commit_begin", "member", "b", offsets=ends)
    for end in ends:
        story.tell("offset_committed", "coordlog", **end)
    story.tell("commit_ok", "member", "b", offsets=ends)
    story.wait(50)
    story._callback("b", "lost", story._zombies.pop("b"))
    story.held["b"] = set()
    story._claims.pop("b", None)
    story.round().drain()
    return story.read_committed()
