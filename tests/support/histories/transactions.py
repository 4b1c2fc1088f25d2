"""Histories of members that consume, transform and produce."""

from __future__ import annotations

from typing import Any

from typing_extensions import Self

from kafka_assignors.history.broker_group import UNREVOKED
from kafka_assignors.history.events import Event
from tests.support.histories.reconciled import SESSION_MS, Reconciled
from tests.support.histories.story import MS, Story

OUTPUT = "out"


class _Transactions:
    """What a history of transactions adds to a story: output topics, numbers of transactions, outputs."""

    group: str
    events: list[Event]

    def __init__(self, *args: Any) -> None:
        self.outputs: list[tuple[str, dict[str, Any]]] = []  # value id, author
        self._numbers: dict[str, int] = {}
        self._taken: dict[str, list[dict[str, Any]]] = {}
        super().__init__(*args)

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
        event: Event = super().tell(kind, src, member, **data)  # type: ignore[misc]
        return event

    def read_committed(self) -> Self:
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


class Transforming(_Transactions, Story):
    """Members that produce an output for each record, in transactions that they number."""

    def __init__(self, protocol: str = "range") -> None:
        super().__init__(protocol, {"t": 4})


class BrokerAssignedTransforming(_Transactions, Reconciled):
    """The same in a KIP-848 group."""


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


def late_of_broker(after_ms: float, how: str = "revoked") -> BrokerAssignedTransforming:
    """a of a KIP-848 group consumes from t-4, and begins to commit so long after t-4 was taken from it.

    Args:
        after_ms: From the record in the coordinator's log to the begin of the commit.
        how: ``revoked``: a acknowledges that it gave t-4 up, for c; ``removed``: a's session ends.
    """
    story = BrokerAssignedTransforming(6)
    story.join("a", "b").reconcile().work()
    place = _consume(story, "a")
    if how == "revoked":
        story.join("c")
        story.current("a", 1, {0, 2}, {4}, UNREVOKED)
        story.callback("a", "revoke", {4})
        taken = story.current("a", 2, {0, 2})
    else:
        story.tell("fault_begin", member="a", fault="pause", target="a")
        story.wait(SESSION_MS)
        had = story.held["a"]
        taken = story.remove("a").events[-1]
        story.held["a"] = had
        story.aim({"b": ()})
        story.tell("fault_end", member="a", fault="pause", target="a")
    story.wait((taken.mono_ns - story._now) / MS + after_ms - 1)
    _commit(story, "a", place)
    return story.read_committed()


def early_of_broker(before_ms: float) -> BrokerAssignedTransforming:
    """c begins to commit what it consumed from t-4 so long before the coordinator's log has it there."""
    story = BrokerAssignedTransforming(6)
    story.join("a", "b").reconcile().work()
    story.join("c")
    story.current("c", 2, ())
    story.wait(1000).adopt("c", {4})
    _commit(story, "c", _consume(story, "c"))
    begun = next(e for e in reversed(story.events) if e.kind == "commit_begin")
    story.wait((begun.mono_ns - story._now) / MS + before_ms - 1)
    story.current("c", 2, {4})
    return story.read_committed()


def _consume(story: BrokerAssignedTransforming, member: str) -> dict[str, Any]:
    """A second record of t-4."""
    place = {"topic": "t", "partition": 4}
    story.tell("ack", "producer", partitioner="default", **place, offset=1, value_id="4-1", predicted=4)
    story.tell("consume", "member", member, offsets=[{**place, "first": 1, "last": 1, "count": 1, "bytes": 1}])
    return place


def _commit(story: BrokerAssignedTransforming, member: str, place: dict[str, Any]) -> None:
    rows = [{**place, "offset": 2}]
    story.tell("commit_begin", "member", member, offsets=rows)
    story.tell("offset_committed", "coordlog", **rows[0])
    story.tell("commit_ok", "member", member, offsets=rows)
