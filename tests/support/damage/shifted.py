"""Histories that are shifted over a bound of the judge: each takes the time from, or to, something, in ms."""

from __future__ import annotations

import copy
from dataclasses import replace

from kafka_assignors.history.events import Event
from tests.support.histories import stories as told
from tests.support.histories.story import SESSION_MS, Story


def resumed(notice_ms: float) -> Story:
    """b goes on after its eviction, and hears of it so long after the end of its pause."""
    story = told.two().pause("b").round().resume("b", notice_ms=notice_ms)
    ended = next(e for e in story.events if e.kind == "fault_end")
    heard = next(e for e in story.events if e.kind == "lost_begin")
    assert (heard.mono_ns - ended.mono_ns) / 1e6 == notice_ms + 1
    return story


def fenced(after_ms: float) -> Story:
    """b's instance id is taken; the old process consumes on, so long after the coordinator wrote that down."""
    story = Story("range", {"t": 2}).start("a", "b", static=True).round().records(40).consume("b", commit=False)
    old = next(e for e in reversed(story.events) if e.kind == "consume")
    story.take_over("b")
    taken = next(e for e in reversed(story.events) if e.kind == "generation_committed")
    row = {**old.data["offsets"][0]}
    row |= {"first": row["last"] + 1, "last": row["last"] + 1, "count": 1}
    event = told.since(story.records(2), taken, after_ms).tell("consume", "member", "b", offsets=[row])
    story.events[-1] = replace(event, incarnation=0, member_id=old.member_id)
    # It hears of it now: what it owned ends here, and isn't what this is about.
    return story


def killed(missed_after_ms: float) -> Story:
    story = told.died(told.two(), "b")
    del story.held["b"]
    begun = next(e for e in story.events if e.kind == "fault_begin")
    return missed(begun.mono_ns, story, missed_after_ms)


def killed_as_it_left(missed_after_ms: float, told_before_ms: float) -> Story:
    """b is killed so long after the harness told it to end, and missed so long after the kill."""
    story = killed(missed_after_ms)
    begun = next(e for e in story.events if e.kind == "fault_begin")
    asked_ns = begun.mono_ns - round(told_before_ms * 1e6)
    return story.change("exit", lambda data: data.update(asked=True, asked_ns=asked_ns))


def killed_after_a_fault(killed_after_ms: float, hit: str = "b", missed_after_ms: float = 100) -> Story:
    """b is killed so long after a proxy dropped a heartbeat of `hit`; its session has begun long before the kill."""
    story = told.two()
    rest = next(e for e in reversed(story.events) if e.kind == "step")
    drop = {"fault": "drop", "target": hit, "params": {"api": "Heartbeat", "side": "request", "times": 1}}
    story.tell("fault_begin", "proxy", hit, **drop)
    end = story.tell("fault_end", "proxy", hit, **drop, hits=1)
    story.tell("step", **rest.data)
    told.died(told.since(story, end, killed_after_ms), "b")
    del story.held["b"]
    begun = next(e for e in reversed(story.events) if e.kind == "fault_begin")
    return missed(begun.mono_ns, story, missed_after_ms)


def stalled(missed_after_ms: float) -> Story:
    """b doesn't poll, and polls again once the group has gone on without it."""
    story = told.two().pause("b", "stall", 1)
    begun = next(e for e in story.events if e.kind == "fault_begin")
    return missed(begun.mono_ns, story, missed_after_ms).resume("b", fault="stall").round()


def restarted(back_after_ms: float) -> Story:
    """A static member is killed, and back, so much later, in a generation of its own making."""
    story = Story("range").start("a", "b", static=True).round()
    killed_ns = story.wait(10).tell("fault_begin", member="b", fault="kill", target="b").mono_ns
    story.tell("exit", member="b", code=-9, signal="SIGKILL")
    trial = copy.deepcopy(story).take_over("b")
    adopted = [e for e in trial.events if e.kind == "generation" and e.member == "b"][-1]
    story.wait(back_after_ms - (adopted.mono_ns - killed_ns) / 1e6).take_over("b")
    return story


def missed(since_ns: int, story: Story, after_ms: float) -> Story:
    """The generation of those that are left is committed so long after that."""
    trial = copy.deepcopy(story).wait(1000).round()
    commit = next(e for e in reversed(trial.events) if e.kind == "generation_committed")
    took_ms = (commit.mono_ns - since_ns) / 1e6
    return copy.deepcopy(story).wait(1000 + after_ms - took_ms).round()


def left(after_ms: float) -> Story:
    story = told.two().stop("b")
    begun = next(e for e in story.events if e.kind == "stop")
    return missed(begun.mono_ns, story, after_ms)


def consumed_late(after_ms: float) -> Story:
    """By a process that goes on (it rebalances), after it gave something up; nobody else has it yet."""
    story = revoked()
    row = {"topic": "t", "partition": 0, "first": 0, "last": 0, "count": 1, "bytes": 1}
    story.wait(after_ms - 1).tell("consume", "member", "a", offsets=[row])
    return story


def adopted_early(by_ms: float) -> Story:
    story = Story("range").start("a", "b").wait(20_000).round()
    committed = next(e for e in story.events if e.kind == "generation_committed")
    adopted = next(e for e in story.events if e.kind == "generation" and e.member == "b")
    return story.shift("generation", -(adopted.mono_ns - committed.mono_ns) / 1e6 - by_ms, member="b")


def adopted_late(by_ms: float, *, static: bool = False) -> Story:
    """A member adopts its generation once more, so long after the next one was committed with it."""
    story = Story("cooperative-sticky").start("a", "b", static=static).wait(20_000).round().round(stable=False)
    story.change("generation", lambda data: data.update(generation=1), member="b")
    committed = [e for e in story.events if e.kind == "generation_committed"][-1]
    adopted = [e for e in story.events if e.kind == "generation" and e.member == "b"][-1]
    return story.shift("generation", by_ms - (adopted.mono_ns - committed.mono_ns) / 1e6, member="b")


def committed_early(by_ms: float) -> Story:
    """The coordinator's time of a commit lies before the consumption that it tells of."""
    story = Story("range", {"t": 1}).start("a").round().wait(1000).records(1).consume()
    consumed = next(e for e in story.events if e.kind == "consume")
    commit = next(e for e in story.events if e.kind == "offset_committed")
    return story.shift("offset_committed", -(commit.mono_ns - consumed.mono_ns) / 1e6 - by_ms)


def half_covered(stands_ms: float) -> Story:
    """A foreign leader gives t-0 to nobody, and the generation stands for so long."""
    story = told.Dropping("range").start("a", "b")
    story.tell("topics", topics=story.topics)
    story.round(stable=False)
    committed = next(e for e in story.events if e.kind == "generation_committed")
    told.since(story, committed, stands_ms).tell("step", name="later")
    return told.foreign(story)


def orphaned(ms: float) -> Story:
    """b is killed, and nobody has what it had, for so long; until then nothing else happens."""
    story = told.died(told.two(), "b")
    ended = next(e for e in reversed(story.events) if e.kind == "fault_end")
    told.since(story, ended, ms).tell("step", name="later")
    return story


def grown(ms: float) -> Story:
    """t gets a partition, and nothing else happens for so long; members look for new partitions once in ten seconds."""
    story = told.two()
    for event in story.events:
        if event.kind == "start":
            event.data["config"]["metadata_max_age_ms"] = 10_000
    count = story.topics["t"] + 1
    change = story.tell("admin_change", change="add_partitions", target="t", topics={"t": count})
    told.since(story, change, ms).tell("step", name="later")
    return story


def gap(allowed_ms: int) -> Story:
    """A step that allows so much; the longest gap of it lasts 5 ms."""
    story = Story("range", {"t": 1}).start("b").round()
    story.tell("step", name="a joins", gap_ms=allowed_ms)
    return story.start("a").round()


def finished_late(by_ms: float) -> Story:
    """A record is committed so long before its application has finished it, by the coordinator's clock."""
    story = Story("range", {"t": 1}).start("a")
    story.change("start", lambda data: data["config"].update(finishes=True)).round().records(1).consume(commit=False)
    row = dict(story.events[-1].data["offsets"][0])
    done = story.wait(1000).tell("finished", "member", "a", offsets=[row])
    told.since(story, done, -by_ms).tell("offset_committed", "coordlog", topic="t", partition=0, offset=1)
    return story


def half_covered_twice(together_ms: float) -> Story:
    """A foreign leader gives t-0 to nobody in two generations, of which the first stands for 2 s."""
    story = told.Dropping("range").start("a", "b")
    story.tell("topics", topics=story.topics)
    story.round(stable=False)
    committed = next(e for e in story.events if e.kind == "generation_committed")
    trial = copy.deepcopy(story).round(stable=False)
    again = next(e for e in reversed(trial.events) if e.kind == "generation_committed")
    story.wait(2000 - (again.mono_ns - committed.mono_ns) / 1e6).round(stable=False)
    told.since(story, committed, together_ms).tell("step", name="later")
    return told.foreign(story)


def untold(story: Story, name: str) -> Story:
    """Members don't tell this setting."""
    for event in story.events:
        if event.kind == "start":
            event.data["config"].pop(name, None)
    return story


def stuck_in_assign(ms: float) -> Story:
    """Everybody gives up what it has to join; the leader's assign stands still, for so long until nobody looks."""
    story = told.two().start("c")
    for name in ("a", "b"):
        story._callback(name, "revoke", story.held[name])
    begun = story.tell("fault_begin", member="a", fault="assign_stall", target="a")
    told.since(story, begun, ms).tell("step", name="later")
    return story


def told_before_start(by_ms: float) -> Story:
    story = Story("range")
    early = story.tell("error", "member", "a", error="ValueError", fatal=False, message="it begins")
    return told.since(story, early, by_ms).start("a", "b").round()


def told_after_end(by_ms: float) -> Story:
    """A killed member's last word, so long after the harness has seen its end."""
    story = told.died(told.two(), "b")
    ended = next(e for e in story.events if e.kind == "exit")
    del story.held["b"]
    told.since(story, ended, by_ms).tell("error", "member", "b", error="ValueError", fatal=False, message="it ends")
    return told.since(story, ended, SESSION_MS).round()


def revoked(consumed: bool = False) -> Story:
    """Alone in its group, a has given up what it owned, with one record; nobody has it yet."""
    story = Story("range", {"t": 1}).start("a").round().records(1)
    if consumed:
        story.consume(commit=False)
    story._callback("a", "revoke", story.held["a"])
    story.held["a"] = set()
    return story


def committed_late(after_ms: float) -> Story:
    story = revoked(consumed=True)
    end = next(e for e in reversed(story.events) if e.kind == "revoke_end")
    return told.committed(told.since(story, end, after_ms), "a", [{"topic": "t", "partition": 0, "offset": 1}])


def delayed_commit(
    arrives_after_ms: float,
    *,
    side: str = "request",
    target: str = "b",
    begun: bool = True,
    under_way: bool = False,
    fault: str = "delay",
    again: bool = False,
) -> Story:
    """b sends a commit again that a proxy delays; the first copy reaches the log so long after the delay's end.

    `begun` is whether the proxy told the delay before the commit; `under_way` whether it did before its answer, and
    after that of another member.
    """
    story = told.two().records(8).consume()
    delay = {"fault": fault, "target": target, "params": {"ms": 50, "api": "Heartbeat", "side": side, "times": 1}}
    if begun:
        story.tell("fault_begin", "proxy", target, **delay)
    story.records(8).consume("b")
    copy_ = next(e for e in reversed(story.events) if e.kind == "offset_committed").data
    if under_way:
        answer = story.events.pop()
        story.consume("a").tell("fault_begin", "proxy", target, **delay)
        story.tell(answer.kind, answer.src, answer.member, **answer.data)
    elif not begun:
        story.tell("fault_begin", "proxy", target, **delay)
    story.records(8).consume("b")
    if again:  # the member itself goes back
        story.tell("commit_begin", "member", "b", offsets=[copy_])
    end = story.tell("fault_end", "proxy", target, **delay, hits=1)
    told.since(story, end, arrives_after_ms).tell("offset_committed", "coordlog", **copy_)
    return story.records(8).consume()


def rejoined(after_ms: float) -> Story:
    """A zombie's commit is accepted, and so long after that the coordinator writes that it is in the group again."""
    story = told.zombie_commit()
    accepted = next(e for e in reversed(story.events) if e.kind == "commit_ok")
    story.held["b"] = set()
    story._claims.pop("b", None)
    trial = copy.deepcopy(story).round()
    again = next(e for e in reversed(trial.events) if e.kind == "generation_committed")
    return story.wait(after_ms - (again.mono_ns - accepted.mono_ns) / 1e6).round()


def drained_late(after_ms: float) -> Story:
    """The last record is consumed so long after it was given up, and counted as consumed."""
    story = consumed_late(after_ms)
    story.tell("step", name="drained", offsets=[{"topic": "t", "partition": 0, "offset": 1}])
    return story


def taken_over(first: int) -> Story:
    """b has consumed two records, and committed each; a gets the topic-partition and begins at an offset.

    Its second commit is the coordinator's last.
    """
    story = Story("range", {"t": 1}).start("b").round().records(1).consume().wait(1000).records(1).consume().wait(1000)
    story.start("a").round().records(1)
    story.tell("consume", "member", "a", offsets=[
        {"topic": "t", "partition": 0, "first": first, "last": 2, "count": 3 - first, "bytes": 3 - first}])  # fmt: skip
    return story


def at(story: Story, event: Event, by_ms: float) -> Story:
    """The last commit is stamped so long after an event."""
    commit = next(e for e in reversed(story.events) if e.kind == "offset_committed")
    return story.shift("offset_committed", (event.mono_ns - commit.mono_ns) / 1e6 + by_ms)


def began_before_the_last_commit(by_ms: float) -> Story:
    """a begins where the commit before the last one was, which came so long before a had it."""
    story = taken_over(1)
    return at(story, next(e for e in story.events if e.kind == "assigned_begin" and e.member == "a"), -by_ms)


def began_after_a_later_commit(by_ms: float) -> Story:
    """a begins where the last commit was, which the coordinator stamps so long after that."""
    story = taken_over(2)
    return at(story, story.events[-1], by_ms)


def cut_off(notice_ms: float) -> Story:
    """As `resumed`, of one that a proxy cut off."""
    story = resumed(notice_ms)
    for number, event in enumerate(story.events):
        if event.kind in ("fault_begin", "fault_end"):
            story.events[number] = replace(event, src="proxy", data={**event.data, "fault": "cut", "params": {}})
    return story
