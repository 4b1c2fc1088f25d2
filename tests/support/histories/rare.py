"""Sound histories, told by hand, with the events that few real ones have: transactions, losses, refusals, changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_assignors.core.wire.protocol import Subscription, encode_subscription
from tests.support.histories.story import Story
from tests.support.histories.transactions import Transforming
from tests.support.histories.truncation import finishing


def ended(story: Story) -> Story:
    """The harness ends the members, in order; it tells when it asked for the ends of partitions."""
    for event in story.events:
        if event.kind == "step" and event.data["name"] in ("drained", "read_back"):
            event.data["asked_ns"] = event.mono_ns - 1
    story.tell("closing")
    for name in sorted(story.held):
        story.stop(name)
    story.tell("error", error="None", fatal=False, message="the run is over")  # the harness's last line tells nothing
    return story


def aborted() -> Story:
    """a's second transaction is aborted: it goes back, and reads the same records again."""
    story = Transforming()
    story.start("a", "b").round().records(16).consume()
    story.records(16).consume("b").consume("a", commit=False)
    mine = sorted(story.held["a"])
    rows = [{"topic": tp.topic, "partition": tp.partition, "offset": 8} for tp in mine]
    story.tell("commit_begin", "member", "a", offsets=rows)
    story.tell("commit_fail", "member", "a", offsets=rows, error="aborted")
    story.tell("rewound", "member", "a", offsets=[{**row, "offset": 4} for row in rows])
    for tp in mine:
        story._position["a", tp] = 4
    story.drain()
    return ended(story.read_committed())


def refused() -> Story:
    """The brokers refuse one record of many; the sender has counted it."""
    story = Story("range").start("a", "b").round().records(20).consume()
    story.tell("nack", "producer", partitioner="default", topic="t", value_id=f"p-{story._ids}", error="TimedOut",
               key_hash="key-of-0")  # fmt: skip
    story._ids += 1
    return ended(story.records(14).drain().read_back())


def lost() -> Story:
    """b is paused beyond its session, loses its partitions, and joins again."""
    story = Story("range").start("a", "b").round().records(14).consume()
    story.pause("b").round(stable=False).consume("a")
    return ended(story.resume("b").round().records(14).drain().read_back())


def expelled() -> Story:
    """No fault: the coordinator has lost b, and says so with a generation without it."""
    story = Story("range").start("a", "b").round().records(14).consume()
    mine = story.held.pop("b")
    story.wait(1500)._callback("b", "lost", mine)  # at once: its heartbeat tells it, the log is written later
    story.round(stable=False)
    story.held["b"] = set()
    story._claims.pop("b", None)
    story._joined_again["b"] = 1
    return ended(story.round().records(14).drain().read_back())


def grown() -> Story:
    """A topic grows, and its new partition gets records."""
    story = Story("cooperative-sticky").start("a", "b").round().records(14).consume()
    story.tell("topics", topics=story.topics)
    change = {"change": "add_partitions", "target": "t", "topics": {"t": 5}}
    story.tell("admin_change", **change)
    story.topics = {**story.topics, "t": 5}
    story.tell("admin_changed", **change)
    story.wait(200).round()
    return ended(story.records(16).drain().read_back())


def subscribed() -> Story:
    """a subscribes to one topic less."""
    story = Story("range").start("a", "b").round().records(14).consume()
    story.tell("admin_change", member="a", change="subscribe", target="a", subscription={"topics": ["t"]})
    alone = encode_subscription(Subscription(("t",)))
    subscription = story._subscription
    story._subscription = lambda name: alone if name == "a" else subscription(name)  # type: ignore[method-assign]
    return ended(story.wait(100).round().records(14).drain().read_back())


def finished() -> Story:
    """Members tell what they have finished."""
    return ended(finishing(lost=False).read_back())


RARE: Mapping[str, Callable[[], Story]] = {
    "told.aborted": aborted, "told.refused": refused, "told.lost": lost, "told.expelled": expelled,
    "told.grown": grown, "told.subscribed": subscribed, "told.finished": finished,
}  # fmt: skip
