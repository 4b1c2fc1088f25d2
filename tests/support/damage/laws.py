"""Histories that break one law, and the law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafka_assignors.core.group import TopicPartition
from kafka_assignors.core.wire.protocol import Subscription, encode_subscription
from kafka_assignors.history.events import partitions_json
from tests.support.histories.story import POLL_MS, SESSION_MS, Story, churn

EAGER = "range"


COOPERATIVE = "cooperative-sticky"


def first_row(**shift: int) -> Callable[[dict[str, Any]], None]:
    """Shift fields of the first run of a consume event."""

    def alter(data: dict[str, Any]) -> None:
        row, *rest = data["offsets"]
        data["offsets"] = [{**row, **{name: row[name] + by for name, by in shift.items()}}, *rest]

    return alter


def set_(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.update(fields)


def elsewhere(data: dict[str, Any]) -> None:
    row, *rest = data["offsets"]
    data["offsets"] = [{**row, "topic": "other"}, *rest]


def with_a_hole(data: dict[str, Any]) -> None:
    row, *rest = data["offsets"]
    at = row["first"] + 1
    data["offsets"] = [{**row, "last": at - 1}, {**row, "first": at + 1}, *rest]


def swapped(data: dict[str, Any]) -> None:
    """Two members get each other's partitions: sound, yet not what the strategy computes."""
    one, other, *rest = data["members"]
    data["members"] = [{**one, "assigned": other["assigned"]}, {**other, "assigned": one["assigned"]}, *rest]


def quiet() -> Story:
    """Two members consume twice in one generation."""
    story = Story(EAGER).start("a", "b").round().records(21).consume().wait(300)
    return story.records(21).consume()


def after_leave(wait_ms: float) -> Story:
    return Story(EAGER).start("a", "b").round().stop("b").wait(wait_ms).round()


def twice(protocol: str) -> Story:
    """One member joins; the group rebalances once more than that takes."""
    return Story(protocol).start("a", "b").round().start("c").round(stable=False).round()


def bounced() -> Story:
    """A member gives up what it has, and gets it back, while another joins."""
    story = Story(COOPERATIVE).start("a", "b").round().start("c").round(stable=False)
    kept = sorted(story.held["a"])[:1]
    fields = {"generation": story.generation, "partitions": partitions_json(kept)}
    for kind in ("revoke_begin", "revoke_end", "assigned_begin", "assigned_end"):
        story.tell(kind, "member", "a", **fields)
    story.tell(
        "step", name="stable", generation=story.generation, topics=story.topics, adopted_ns=story.events[-1].mono_ns
    )
    return story


def static(protocol: str = EAGER) -> Story:
    """Two static members at rest, with records consumed."""
    return Story(protocol).start("a", "b", static=True).round().records(14).consume().wait(300)


def restarted_in_a_new_generation() -> Story:
    return static().restart("b").change("generation", set_(generation=2), member="b")


def restarted_loudly() -> Story:
    story = static()
    tps = partitions_json(story.held["a"])
    story.restart("b")
    story.tell("revoke_begin", "member", "a", generation=1, partitions=tps)
    return story.shift("revoke_begin", -20, member="a")


def paused(notice_ms: float = 10) -> Story:
    """b stands still, is evicted, goes on, and joins again."""
    return Story().start("a", "b").round().pause("b").round().resume("b", notice_ms=notice_ms).round()


def stalled(for_ms: float = POLL_MS) -> Story:
    """b polls no more, is evicted, polls again, and joins again."""
    story = Story(COOPERATIVE).start("a", "b").round().pause("b", "stall", for_ms).round()
    return story.resume("b", fault="stall").round()


def claiming(name: str, *owned: tuple[str, int]) -> Callable[[dict[str, Any]], None]:
    """A member's subscription says that it owns these."""
    subscription = encode_subscription(
        Subscription(("t", "u"), None, tuple(TopicPartition(*tp) for tp in owned), 1)
    ).hex()

    def alter(data: dict[str, Any]) -> None:
        data["members"] = [
            {**m, "subscription": subscription} if m["client_id"] == name else m for m in data["members"]
        ]

    return alter


def forgetful(assignor: str) -> Story:
    """b, with this assignor, joins again without a claim; c joins."""
    story = Story("sticky").start("a", "b").round()
    story.change("start", lambda data: data.update(config={**data["config"], "assignors": [assignor]}), member="b")
    return story.start("c").round().change("generation_committed", claiming("b"), 1)


def never_noticed() -> Story:
    story = Story().start("a", "b").round().pause("b").round()
    story.tell("fault_end", member="b", fault="pause", target="b")
    story.wait(9000).tell("step", name="long after")
    return story


def taken_over(wait_ms: float, kind: str) -> Story:
    """b's instance id is taken by another process, and the old one goes on for some time."""
    story = static()
    old = next(e for e in reversed(story.events) if e.member == "b" and e.kind == kind)
    story.take_over("b").wait(wait_ms)
    story.tell("step", name="some time later")
    now = story.events[-1].mono_ns
    story.events.append(replace(old, mono_ns=now))
    return story


BROKEN: dict[str, tuple[str, Callable[[], Story]]] = {
    "consumed after it had left": ("C1", lambda: churn().shift("consume", 900, member="b")),
    "consumed before it was assigned": ("C1", lambda: churn().shift("consume", -60, member="d", nth=0)),
    "consumed what another owns": ("C1", lambda: churn().change("consume", elsewhere, member="a", nth=0)),
    "consumed what it was never told of": ("C1", lambda: churn().drop("assigned_begin", member="d", nth=0)),
    "consumed after a cooperative revoke": (
        "C1", lambda: churn(COOPERATIVE).shift("consume", 900, member="a", nth=0)),
    "began beyond the committed offset": ("C2", lambda: churn().change("consume", first_row(first=1), 0, member="d")),
    "began before the committed offset": ("C2", lambda: churn().change("consume", first_row(first=-1), 0, member="d")),
    "went back while it owned": ("C2", lambda: quiet().change("consume", first_row(first=-1), member="a")),
    "left a record out between polls": ("C2", lambda: quiet().change("consume", first_row(first=1), member="a")),
    "left a record out of a poll": ("C2", lambda: quiet().change("consume", with_a_hole, member="b")),
    "a commit never came": ("C2", lambda: churn().drop("offset_committed", topic="t", partition=0, nth=0).change(
        "consume", first_row(first=3), 0, member="d")),
    "committed records were read again": ("C4", lambda: churn().change("consume", first_row(first=-1), 0, member="d")),
    "all was read again": ("C4", lambda: churn().change(
        "consume", lambda d: [r.update(first=0) for r in d["offsets"]] and None, 0, member="d")),
    "a committed offset fell": ("C5", lambda: churn().change("offset_committed", set_(offset=0))),
    "a committed offset fell by one": ("C5", lambda: quiet().change("offset_committed", set_(offset=2))),
    "committed ahead of what was consumed": ("C5", lambda: churn().change("offset_committed", set_(offset=999))),
    "committed before it was consumed": ("C5", lambda: churn().shift("offset_committed", -400, nth=0)),
    "a member that had left could commit": ("C5", lambda: churn().shift("commit_begin", 1500, member="b").shift(
        "commit_ok", 1500, member="b")),
    "a member committed what it never had": (
        "C5", lambda: churn().change("commit_ok", elsewhere, member="a", nth=0)),
    "nobody owned for longer than a leave takes": (
        "O4", lambda: churn().change("step", set_(gap_ms=1), name="b leaves")),
    "nobody owned for longer than allowed": (
        "O4", lambda: churn().change("step", set_(gap_ms=900), name="c is killed")),
    "what is owned was given away": ("R2", lambda: churn(COOPERATIVE).change("generation_committed", swapped)),
    "what is owned was given away when one joined": (
        "R2", lambda: churn(COOPERATIVE).change("generation_committed", swapped, 1)),
    "revoked and given back": ("R3", bounced),
    "sticky moved too much": ("R4", lambda: churn("sticky").change("generation_committed", swapped)),
    "sticky moved too much on a join": ("R4", lambda: churn("sticky").change("generation_committed", swapped, 1)),
    "cooperative-sticky moved too much": ("R4", lambda: churn(COOPERATIVE).change("generation_committed", swapped)),
    "a round too many": ("R5", lambda: twice(EAGER)),
    "a round too many, sticky": ("R5", lambda: twice("sticky")),
    "a cooperative round too many": ("R5", lambda: twice(COOPERATIVE)),
    "claimed what it had lost": ("R6", lambda: stalled().change("generation_committed", claiming("b", ("t", 2)), 2)),
    "claimed less than it owned": ("R6", lambda: churn(COOPERATIVE).change("generation_committed", claiming("a"), 1)),
    "claimed though it is eager": ("R6", lambda: churn().change("generation_committed", claiming("a", ("t", 0)), 1)),
    "a new member claimed": (
        "R6", lambda: churn(COOPERATIVE).change("generation_committed", claiming("d", ("t", 0)), 1)),
    "one that didn't poll was missed too early": ("T2", lambda: stalled(SESSION_MS)),
    "one that didn't poll was missed late": ("T2", lambda: stalled(POLL_MS + 4000)),
    "a dead member was missed too early": ("T1", lambda: churn().shift("fault_begin", 950).shift(
        "exit", 950, member="c").shift("fault_end", 950)),
    "a dead member was missed too late": ("T1", lambda: Story().start("a", "b").round().kill("b").wait(4000).round()),
    "a member that left was missed late": ("T1", lambda: after_leave(5000)),
    "a restart made a generation": ("S1", restarted_in_a_new_generation),
    "a restart was heard by others": ("S1", restarted_loudly),
    "a restart came back to less": ("S1", lambda: static().restart("b").change(
        "generation", set_(partitions=[]), member="b")),
    "a fenced member consumed": ("S2", lambda: taken_over(5000, "consume")),
    "a fenced member committed": ("S2", lambda: taken_over(5000, "commit_ok")),
    "a resumed member never noticed": ("O1", never_noticed),
    "a resumed member noticed late": ("O1", lambda: paused(notice_ms=6000)),
    "a paused member was missed too early": ("T1", lambda: paused().shift("fault_begin", 900)),
    "a key's records lie in the wrong order": ("K2", lambda: churn().change("ack", set_(value_id="p-0"))),
    "a key's records lie in the wrong order, two in a row": (
        "K2", lambda: churn().change("ack", set_(value_id="p-999"), nth=0)),
}  # fmt: skip
