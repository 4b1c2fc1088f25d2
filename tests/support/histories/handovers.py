"""Histories of planned changes in which a topic-partition has no owner for a given time, in ms."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from kafka_assignors.history.events import Event
from tests.support.histories.reconciled import STABLE, UNREVOKED, Reconciled
from tests.support.histories.story import MS, Story

DEFAULT_BEAT_MS = 3000
ASSIGN_MS = 1
"""How long the leader of a story assigns, which is not counted."""
GIVEN_UP_MS = 2
"""From the first adoption in `joined` to the end of the callback that gives the partition up."""
ALL = ("a", "b", "c")

Told = TypeVar("Told", Story, Reconciled)


def stretched(story: Told, at: Event, by_ms: float) -> Told:
    """An event, and everything after it, comes so much later."""
    by_ns = round(by_ms * MS)
    story.events = [
        replace(e, mono_ns=e.mono_ns + by_ns, ts_ns=e.ts_ns + by_ns) if e.mono_ns >= at.mono_ns else e
        for e in story.events
    ]
    story._now += by_ns
    return story


def last(story: Story | Reconciled, *kinds: str, nth: int = -1) -> Event:
    """The last event of these kinds, or another one."""
    return [event for event in story.events if event.kind in kinds][nth]


def beating(story: Story, early: Collection[str], beat_ms: int | None = DEFAULT_BEAT_MS) -> Story:
    """The members have this heartbeat interval, and some have early heartbeats."""
    for event in story.events:
        if event.kind == "start":
            config = {**event.data["config"], "heartbeat_interval_ms": beat_ms}
            event.data["config"] = config | ({"early_heartbeats": True} if event.member in early else {})
            if beat_ms is None:
                del event.data["config"]["heartbeat_interval_ms"]
    return story


def rested(protocol: str = "cooperative-sticky", *members: str) -> Story:
    """A group that has been at rest for ten seconds."""
    return Story(protocol, {"t": 3}).start(*(members or ("a", "b"))).round().wait(10_000)


def joined(
    ms: float, early: Collection[str] = ALL, beat_ms: int = DEFAULT_BEAT_MS, story: Story | None = None
) -> Story:
    """c joins a (2 partitions) and b (1); a gives one up, and the join that gives it to c is complete so much later."""
    story = beating((story or rested()).start("c").round(), early, beat_ms)
    return owned_again(story, last(story, "revoke_end"), ms)


def owned_again(story: Story, gone: Event, ms: float) -> Story:
    """The last join of a story is complete so long after an event."""
    took_ms = (last(story, "generation_committed").mono_ns - gone.mono_ns) / MS - ASSIGN_MS
    return stretched(story, last(story, "assign_begin"), ms - took_ms)


def eager(ms: float, beat_ms: int) -> Story:
    """c joins an eager group, whose first member gives all up so long before the join is complete."""
    story = beating(rested("range").start("c").round(), ALL, beat_ms)
    others_ms = 2  # the callbacks of b and c, which are not counted
    return owned_again(story, last(story, "revoke_end", nth=-3), ms + others_ms)


def left(ms: float, beat_ms: int) -> Story:
    """b leaves; the join without it, with the leader's time for assigning, is complete so long after its ``stop``."""
    story = beating(rested().stop("b").round(), ALL, beat_ms)
    return owned_again(story, last(story, "stop"), ms - ASSIGN_MS)


def joined_after_a_slow_callback(ms: float, callback_ms: float, beat_ms: int) -> Story:
    """As `joined`; the callback in which a gives the partition up takes so long."""
    story = beating(rested().start("c").round(), ALL, beat_ms)
    story = stretched(story, last(story, "revoke_end"), callback_ms)
    return owned_again(story, last(story, "revoke_end"), ms)


def reconciled(ms: float) -> Reconciled:
    """A KIP-848 group: b and then a give up one partition each, and c has both so long after b's callback."""
    story = Reconciled(6).join("a", "b").reconcile().work().rest().join("c")
    for name, gives in (("a", {4}), ("b", {5})):
        story.current(name, 1, story.held[name] - gives, gives, UNREVOKED)
    story.callback("b", "revoke", {5}).current("b", 2, story.held["b"])
    given_up = last(story, "revoke_end")
    story.callback("a", "revoke", {4}).current("a", 2, story.held["a"])
    story.current("c", 2, {4, 5}, (), STABLE)
    story.adopt("c", {4, 5}).rest()
    took_ms = (last(story, "assigned_begin").mono_ns - given_up.mono_ns) / MS
    a_ms = 1  # a's callback, which is not counted
    return stretched(story, last(story, "broker_assigned"), ms + a_ms - took_ms)
