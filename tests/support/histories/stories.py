"""Histories that are damaged by hand, each in one way that a verdict must not miss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import AssignedPartitions, encode_assignment
from kafka_assignors.history.events import Event, partitions_json
from kafka_assignors.integration.checker.planned import LATE_MS
from tests.support.histories.story import HEARTBEAT_MS, MS, SESSION_MS, Story, churn

EAGER, COOPERATIVE = "range", "cooperative-sticky"
TEN_MINUTES_MS = 600_000


def later(story: Story, ms: float = TEN_MINUTES_MS) -> Story:
    """Time passes, and the harness is still there to see it."""
    story.wait(ms).tell("step", name="later", topics=story.topics)
    return story


def two(protocol: str = EAGER, topics: Mapping[str, int] | None = None) -> Story:
    return Story(protocol, topics).start("a", "b").round()


def died(story: Story, name: str) -> Story:
    """A member is killed; no time passes."""
    story.tell("fault_begin", member=name, fault="kill", target=name)
    story.tell("exit", member=name, code=-9, signal="SIGKILL")
    story.tell("fault_end", member=name, fault="kill", target=name)
    return story


def without(story: Story, keep: Callable[[Event], bool]) -> Story:
    """Take away every event that isn't to be kept; the clock goes on."""
    story.events = [event for event in story.events if keep(event)]
    return story


def unreported(story: Story) -> Story:
    """Members report no commits; the coordinator's log has them."""
    return without(story, lambda event: not (event.src == "member" and event.kind.startswith("commit_")))


# A. Progress


def killed_and_never_evicted() -> Story:
    return later(died(two(), "b"))


def assign_raised() -> Story:
    """Everybody gives up what it has to join; the leader's assign raises; nothing follows."""
    story = two().start("c")
    for name in ("a", "b"):
        story._callback(name, "revoke", story.held[name])
    story.tell("error", "member", "a", error="ValueError", fatal=False, message="assign raised")
    return later(story)


def callback_never_came() -> Story:
    story = Story(EAGER).start("a", "b").round(stable=False)
    story.drop("assigned_begin", member="b").drop("assigned_end", member="b")
    return later(story)


def never_drained() -> Story:
    """Records that nobody consumes; the harness waited for it in vain, and said so."""
    story = two().records(14)
    left = [{"topic": "t", "partition": 0, "offset": 0, "end": 2}]
    story.tell("not_drained", waited_s=30, left=left)
    return story


# B. Callbacks against adoption


def assigned_what_nobody_gave() -> Story:
    story = two()
    for edge in ("begin", "end"):
        story.change(f"assigned_{edge}", lambda d: d["partitions"].append({"topic": "t", "partition": 99}), member="b")
    return story


def adopted_without_callback() -> Story:
    return two().drop("assigned_begin", member="b").drop("assigned_end", member="b")


def last_generation_not_adopted() -> Story:
    story = two().start("c").round(stable=False)
    kinds = ("generation", "assigned_begin", "assigned_end")
    return later(without(story, lambda e: not (e.kind in kinds and e.data["generation"] == 2)))


def went_back_a_generation() -> Story:
    story = two(COOPERATIVE).round().round()
    second = next(e for e in story.events if e.kind == "generation" and e.member == "b" and e.data["generation"] == 2)
    story.tell("generation", "member", "b", **second.data)
    return story


def adopted_before_commit() -> Story:
    return Story(EAGER).start("a", "b").wait(20_000).round().shift("generation", -10_000, member="b")


# C. Excuses


def overlap_behind_a_paused_owner() -> Story:
    """a is paused for good, and has t-0 in its own eyes; b and aa have it at the same time."""
    story = Story(EAGER, {"t": 1}).start("a", "b", "c").round().pause("a").round().start("aa").round()
    return later(story.shift("revoke_end", 300, member="b"), 1000)


def short_pause() -> Story:
    """b is paused for a millisecond, and 4 s later than it must it gives up what a has got."""
    story = Story(EAGER, {"t": 1}).start("b").round()
    story.tell("fault_begin", member="b", fault="pause", target="b")
    story.tell("fault_end", member="b", fault="pause", target="b")
    story.start("a").round().shift("revoke_end", 4000, member="b")
    return later(story.drop("assigned_begin", member="b").drop("assigned_end", member="b"), 9000)


def delay_long_before() -> Story:
    """A delay of 100 ms; a second later a has what b has; 20 s after that b is evicted, as it was killed."""
    story = Story(EAGER, {"t": 1}).start("b").round()
    story.tell("fault_begin", "proxy", "b", fault="delay", target="b", params={"ms": 50})
    story.wait(100).tell("fault_end", "proxy", "b", fault="delay", target="b", params={"ms": 50}, hits=1)
    story.wait(900).start("a")
    story.generation += 1
    assigned = story._commit(["a", "b"])
    story._adopt("a", assigned["a"])
    story._assigned("a", assigned["a"])
    story.held["a"] = assigned["a"]
    died(story.wait(3000), "b")
    del story.held["b"]
    return story.wait(16_000).round()


def consumed_after_revoke(after_ms: float = 400) -> Story:
    story = two().records(14).stop("b")
    return _consumed_late(story, "revoke_end", after_ms)


def consumed_after_death(after_ms: float = 500) -> Story:
    story = died(two().records(14), "b")
    del story.held["b"]
    return _consumed_late(story, "fault_begin", after_ms)


def _consumed_late(story: Story, ended: str, after_ms: float) -> Story:
    """b consumes what it had some time after it ended, before anybody else has it; all records are read by a then."""
    begun = next(e for e in story.events if e.kind == "assigned_begin" and e.member == "b")
    ended_ns = next(e.mono_ns for e in story.events if e.kind == ended and e.member == "b")
    tps = [TopicPartition(r["topic"], r["partition"]) for r in begun.data["partitions"]]
    rows = [{"topic": t, "partition": p, "first": 0, "last": 1, "count": 2, "bytes": 2} for t, p in tps]
    story.wait((ended_ns - story._now) / MS + after_ms - 1).tell("consume", "member", "b", offsets=rows)
    return story.wait(SESSION_MS - after_ms).round().drain()


def zombie_commit(fenced_for_ms: float = 500) -> Story:
    """b is paused and evicted; so long after that it goes on, and the coordinator accepts its commit before it hears
    that it is out."""
    story = two().records(14).consume("b", commit=False).pause("b").round()
    without = next(e for e in reversed(story.events) if e.kind == "generation_committed")
    story.tell("fault_end", member="b", fault="pause", target="b")
    since(story, without, fenced_for_ms)
    committed(story, "b", [{"topic": t, "partition": p, "offset": 2} for t, p in sorted(story._zombies["b"])])
    story._callback("b", "lost", story._zombies.pop("b"))
    return story


def committed(story: Story, name: str, ends: list[dict[str, Any]]) -> Story:
    """A member's commit, and the coordinator's word that it took it."""
    story.tell("commit_begin", "member", name, offsets=ends)
    for end in ends:
        story.tell("offset_committed", "coordlog", **end)
    story.tell("commit_ok", "member", name, offsets=ends)
    return story


def since(story: Story, event: Event, ms: float) -> Story:
    """What is told next comes so long after an event."""
    return story.wait((event.mono_ns - story._now) / MS + ms - 1)


def storm(superseded: int = 30) -> Story:
    """One member joins; so many generations that only the leader adopts come before the one that all adopt."""
    story = two().start("c")
    for _ in range(superseded):
        for name in ("a", "b"):
            if story.held[name]:
                story._callback(name, "revoke", story.held[name])
        story.held = {name: set() for name in story.held}
        story.generation += 1
        assigned = story._commit(sorted(story.held))
        story._adopt("a", assigned["a"])
        story._assigned("a", assigned["a"])
        story.held["a"] = assigned["a"]
        story._claims["a"] = assigned["a"], story.generation
    return story.round()


def reset_of_another_topic() -> Story:
    story = churn()
    reset = {"change": "reset_offsets", "target": "other", "topics": {}}
    early = replace(story.events[0], kind="admin_change", mono_ns=1, ts_ns=1, seq=999, data=reset)
    story.events.insert(0, early)
    return story.change("offset_committed", lambda d: d.update(offset=0))


def generation_written_twice() -> Story:
    """The second time, which members adopt, it gives each what the other had in the first."""
    story = two()
    index = next(i for i, e in enumerate(story.events) if e.kind == "generation_committed")
    first = story.events[index]
    one, other = first.data["members"]
    given = ("assigned", "assignment")
    rows = [{**one, **{k: other[k] for k in given}}, {**other, **{k: one[k] for k in given}}]
    parts = {"a": rows[0]["assigned"], "b": rows[1]["assigned"]}
    for i, event in enumerate(story.events):
        if event.kind in ("generation", "assigned_begin", "assigned_end") and event.member in parts:
            story.events[i] = replace(event, data={**event.data, "partitions": parts[event.member]})
    again = replace(first, seq=first.seq + 1, mono_ns=first.mono_ns + 1, data={**first.data, "members": rows})
    story.events.insert(index + 1, again)
    return story


class Dropping(Story):
    """A foreign leader that gives t-0 to nobody."""

    def _commit(self, members: Any) -> dict[str, set[TopicPartition]]:
        assigned = super()._commit(members)
        lost = TopicPartition("t", 0)
        for tps in assigned.values():
            tps.discard(lost)
        event = self.events[-1]
        rows = [regiven(row, assigned[row["client_id"]]) for row in event.data["members"]]
        self.events[-1] = replace(event, data={**event.data, "members": rows})
        return assigned


class Grabbing(Story):
    """A leader that gives t-0 to c at once as that joins, though a owns it and says so. All do as they are told."""

    def _commit(self, members: Any) -> dict[str, set[TopicPartition]]:
        assigned = super()._commit(members)
        if self.generation == 2:
            for name, tps in assigned.items():
                (tps.add if name == "c" else tps.discard)(TopicPartition("t", 0))
            event = self.events[-1]
            rows = [regiven(row, assigned[row["client_id"]]) for row in event.data["members"]]
            self.events[-1] = replace(event, data={**event.data, "members": rows})
        return assigned


def regiven(row: Mapping[str, Any], tps: set[TopicPartition]) -> dict[str, Any]:
    """A member's row of a committed generation, given other partitions: decoded, and as bytes."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(tps):
        by_topic.setdefault(topic, []).append(partition)
    return {
        **row,
        "assigned": partitions_json(tps),
        "assignment": encode_assignment(AssignedPartitions(by_topic)).hex(),
    }


def foreign(story: Story, name: str = "kafka-python:range") -> Story:
    """All members ran somebody else's assignor."""
    for i, event in enumerate(story.events):
        if event.kind == "start":
            config = {**event.data["config"], "assignors": [name]}
            story.events[i] = replace(event, data={**event.data, "config": config})
    return story


def renamed(story: Story, protocol: str = "ours", name: str = "myteam:Ours") -> Story:
    """The assignor of a story has a protocol name that nobody knows."""
    for i, event in enumerate(story.events):
        data = dict(event.data)
        if event.kind == "start":
            data |= {"assignors": [protocol], "config": {**data["config"], "assignors": [name]}}
        elif "protocol" in data:
            data["protocol"] = protocol
        story.events[i] = replace(event, data=data)
    return story


def never_settled() -> Story:
    story = Dropping(EAGER).start("a", "b")
    for _ in range(10):
        story.round(stable=False).wait(4800)
    return foreign(later(story, 10))


def fenced_consumes_on() -> Story:
    """Another process takes b's instance id by the coordinator's word, adopts nothing, and the old one goes on."""
    story = Story(EAGER).start("a", "b", static=True).round().records(14).consume(commit=False)
    story.take_over("b")
    new = story._instances["b"][1]
    of_new = ("generation", "assigned_begin", "assigned_end")
    without(story, lambda e: not (e.kind in of_new and e.member == "b" and e.incarnation == new))
    story.records(140)
    for _ in range(60):
        story.wait(1000)
        rows = [r for e in story.events if e.kind == "consume" and e.member == "b" for r in e.data["offsets"]]
        place = rows[0]["topic"], rows[0]["partition"]
        first = max(r["last"] for r in rows if (r["topic"], r["partition"]) == place) + 1
        if first >= story._offsets[place]:
            break
        last = next(e for e in reversed(story.events) if e.kind == "consume" and e.member == "b")
        row = {"topic": place[0], "partition": place[1], "first": first, "last": first, "count": 1, "bytes": 1}
        story._now += MS
        seq = story._seqs["member", "b"] = story._seqs["member", "b"] + 1
        story.events.append(replace(last, mono_ns=story._now, ts_ns=story._now, seq=seq, data={"offsets": [row]}))
    return later(story, 40_000)


# F. Sound


def segfault(awaited: bool) -> Story:
    """b dies unseen; a takes over once b is evicted; only then the harness looks."""
    story = two()
    del story.held["b"]
    story.wait(SESSION_MS + 50).round().wait(200)
    fields = {"asked": True} if awaited else {}
    story.tell("exit", member="b", code=-11, signal="SIGSEGV", **fields)
    return story


def paused_again() -> Story:
    """b is paused and evicted, goes on, and is paused once more before it has heard of it."""
    story = two().pause("b").round()
    story.tell("fault_end", member="b", fault="pause", target="b")
    story.wait(5).tell("fault_begin", member="b", fault="pause", target="b")
    return story.wait(2 * SESSION_MS).resume("b").round()


def cut_off(
    before_ms: float = 2, *, read: bool = True, offset: int = 2, auto_commit: bool = True, ends: str = "kill"
) -> Story:
    """a reads record 0 and commits it; its client commits another one by itself, and its process is killed.

    Args:
        before_ms: From that commit to the kill, which is at least 1 ms.
        read: Whether the recorder had written that the record was handed out.
        offset: What the client commits.
        ends: ``stop``: it closes its consumer instead.
    """
    story = Story("range", {"t": 1}).start("a", "b").round().records(1).consume().wait(1000).records(1)
    story.change("start", lambda data: data["config"].update(auto_commit=auto_commit), member="a")
    if read:
        story.consume("a", commit=False)
    story.tell("offset_committed", "coordlog", topic="t", partition=0, offset=offset)
    story._committed["t", 0] = offset
    story.wait(before_ms - 1)
    if ends == "kill":
        story.kill("a")
    else:
        story.stop("a")
    return story.round().wait(1000).records(1).drain()


def of_a_service(story: Story, *names: str) -> Story:
    """The members, or some of them, are a service's processes."""
    story.events = [
        replace(e, data={**e.data, "log_bytes": 0}) if e.src == "member" and e.member in (names or (e.member,)) else e
        for e in story.events
    ]
    return story


def missed_while_working(service: bool = True) -> Story:
    """b dies, and a works on records from before its session ends until it joins, late."""
    story = Story("range", {"t": 2}).start("a", "b").round().records(4).wait(1000).kill("b")
    story.consume("a", commit=False).wait(HEARTBEAT_MS + LATE_MS + 100).round()
    return of_a_service(story) if service else story
