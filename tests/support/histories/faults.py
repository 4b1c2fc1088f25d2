"""Histories with faults, and with broken laws about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafka_assignors.core.wire.protocol import decode_subscription, encode_subscription
from kafka_assignors.history.zombies import FENCED_MS
from tests.support.histories.story import HEARTBEAT_MS, SESSION_MS, Story

COOPERATIVE = "cooperative-sticky"


AGE_MS, BEAT_MS = 1000, 300


NOTICED_MS = AGE_MS + 1000  # what law T3 grants, with heartbeats of BEAT_MS at most


def aged(protocol: str = "sticky", **config: Any) -> Story:
    """Two members at rest, which tell how old their metadata may be."""
    story = Story(protocol, {"t": 4, "u": 2}).start("a", "b").round()
    for event in story.events:
        if event.kind == "start":
            event.data["config"].update(metadata_max_age_ms=AGE_MS, **config)
    return story


def changed(
    change: str, topic: str, count: int, *, after_ms: float = 500, protocol: str = "sticky", blind: bool = False,
    **config: Any,
) -> Story:  # fmt: skip
    """A topic gets so many partitions, and the group assigns anew.

    Args:
        after_ms: Until the generation that has them is committed.
        blind: The leader first assigns without them, at once.
    """

    def told(wait_ms: float) -> Story:
        story = aged(protocol, **config)
        story.tell("admin_change", change=change, target=topic, topics={topic: count})
        if blind:
            story.round(stable=False)
        story.topics = {t: n for t, n in (story.topics | {topic: count}).items() if n}  # events keep the old one
        return story.wait(wait_ms).round()

    return told(after_ms - picked_up_ms(told(0), topic, count))


def picked_up_ms(story: Story, topic: str, count: int) -> float:
    """From the change to the first generation with so many partitions of its topic."""
    begun = next(e for e in story.events if e.kind == "admin_change")
    for event in story.events:
        if event.kind == "generation_committed" and event.mono_ns > begun.mono_ns:
            given = [tp for member in event.data["members"] for tp in member["assigned"] if tp["topic"] == topic]
            if len(given) == count:
                return (event.mono_ns - begun.mono_ns) / 1e6
    raise AssertionError(f"no generation has {count} partitions of {topic}")


def moved_for_nothing(data: dict[str, Any]) -> None:
    """Two members swap a partition each of a topic that nothing happened to."""
    mine, other = (member["assigned"] for member in data["members"])
    mine[0], other[0] = other[0], mine[0]


def subscribed(*, at_once: bool) -> Story:
    """a subscribes to one topic less, and two generations follow; in the first it has told so, or not yet."""
    story = aged()
    if not at_once:
        story.change("start", lambda data: data.update(topics=[*data["topics"], "w"]), member="a")
        story.change("generation_committed", with_another_topic)
    story.tell("admin_change", member="a", change="subscribe", target="a", subscription={"topics": [*story.topics]})
    story.round(stable=False).round()
    return story if at_once else story.change("generation_committed", with_another_topic, nth=-2)


def with_another_topic(data: dict[str, Any]) -> None:
    row = next(member for member in data["members"] if member["client_id"] == "a")
    joined = decode_subscription(bytes.fromhex(row["subscription"]))
    row["subscription"] = encode_subscription(joined._replace(topics=(*joined.topics, "w"))).hex()


def outage(ms: float, *, rounds: int = 0, fault: str = "broker_restart") -> Story:
    story = Story("sticky").start("a", "b").round().records(14).consume()
    story.tell("fault_begin", fault=fault, target="node 2")
    story.wait(ms)
    story.tell("fault_end", fault=fault, target="node 2")
    for _ in range(rounds):
        story.round(stable=False)
    if not rounds:
        rest = next(e for e in story.events if e.kind == "step" and e.data["name"] == "stable")
        story.tell("step", **dict(rest.data))
        return story
    return story.round()


def fenced(lost_after_ms: float | None) -> Story:
    """Another process takes b's instance id; the old one is told of it some time later, or never."""
    story = Story().start("a", static=True).start("b", static=True).round()
    adopted = next(e for e in story.events if e.kind == "assigned_end" and e.member == "b")
    story.take_over("b")
    taken = next(e for e in reversed(story.events) if e.kind == "generation" and e.member == "b")
    for kind in ("lost_begin", "lost_end") if lost_after_ms is not None else ():
        story.tell(kind, "member", "b", generation=1, partitions=adopted.data["partitions"])
        at_ns = taken.mono_ns + round((lost_after_ms or 0) * 1e6)
        story.events[-1] = replace(
            story.events[-1], incarnation=adopted.incarnation, mono_ns=at_ns, member_id=adopted.member_id
        )
    story.wait(9000).tell("step", name="long after")
    story.events.sort(key=lambda e: e.mono_ns)
    return story


BROKEN: dict[str, tuple[str, Callable[[], Story]]] = {
    "new partitions were assigned late": ("T3", lambda: changed("add_partitions", "t", 7, after_ms=NOTICED_MS + 1)),
    "a topic was gone late": ("T3", lambda: changed("delete_topic", "u", 0, after_ms=NOTICED_MS + 1)),
    "a topic came late, as its leader asked late": (
        "T3", lambda: changed("create_topic", "v", 2, after_ms=NOTICED_MS + 1, blind=True)),
    "a pattern's topic came late": (
        "T3", lambda: changed(
            "create_topic", "v", 2, after_ms=NOTICED_MS + HEARTBEAT_MS + 1, blind=True, pattern="v|t|u")),
    "new partitions came late, also for a slow heartbeat": (
        "T3", lambda: changed(
            "add_partitions", "t", 7, after_ms=NOTICED_MS + 501, heartbeat_interval_ms=BEAT_MS + 500)),
    "an old partition moved as new ones came": (
        "R4", lambda: changed("add_partitions", "t", 6).change("generation_committed", moved_for_nothing)),
    "an old partition moved as another topic went": (
        "R4", lambda: changed("delete_topic", "u", 0).change("generation_committed", moved_for_nothing)),
    "a short restart made a generation": ("R5", lambda: outage(SESSION_MS / 2, rounds=1)),
    "a subscription took a generation too many": ("R5", lambda: subscribed(at_once=True)),
    "a fenced member never noticed": ("O1", lambda: fenced(None)),
    "a fenced member noticed late": ("O1", lambda: fenced(2 * HEARTBEAT_MS + FENCED_MS + 100)),
    "what was lost is told as revoked": ("R7", lambda: thrown_out("revoke")),
    "a stall in assign is an excuse only until it is told": ("O1", lambda: stood_still(6000)),
}  # fmt: skip


def stood_still(notice_ms: float) -> Story:
    """A leader stalls in its assign beyond its session, and is told what it lost once it goes on."""
    story = Story(COOPERATIVE).start("a", "b").round()
    return story.pause("a", "assign_stall").round().resume("a", fault="assign_stall", notice_ms=notice_ms).round()


def thrown_out(kind: str) -> Story:
    """b is out while it joins, comes back under another member id, and is told `kind` of what it had."""
    story = stood_still(10)
    for edge in ("begin", "end"):
        at = next(i for i, e in enumerate(story.events) if e.member == "a" and e.kind == f"lost_{edge}")
        event = story.events[at]
        id_ = "a-another" if kind == "revoke" else event.member_id
        story.events[at] = replace(event, kind=f"{kind}_{edge}", member_id=id_)
    return story
