"""Histories of groups by work, whose members request rebalances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.support.histories.story import SESSION_MS, Story

REST_MS = 400
DEFAULT_REST_MS = 60_000


def resting(*members: str, protocol: str = "weighted") -> Story:
    """A group at rest, whose members rest `REST_MS` before a request."""
    story = Story(protocol)
    _start(story, *members)
    return story.round()


def _start(story: Story, *members: str) -> None:
    def rests(data: dict[str, Any]) -> None:
        if story.protocol == "weighted":  # an eager group's members have the default
            data["config"] = {**data["config"], "assignors": [f'{story.protocol}{{"rest_s":{REST_MS / 1000}}}']}

    for name in members:
        story.start(name).change("start", rests, member=name)


def request(story: Story, *members: str) -> Story:
    for name in members:
        story.tell("rebalance_request", "member", name, why="1.75 of the bound")
    return story


def answered(rounds: int, *members: str, rested_ms: float = 2 * REST_MS, protocol: str = "weighted") -> Story:
    """Members request a rebalance, and the group takes so many generations until it rests."""
    story = request(resting("a", "b", "c", protocol=protocol).wait(rested_ms), *members)
    for number in range(rounds):
        story.round(stable=number == rounds - 1)
    return story


def joined(extra: int, *members: str) -> Story:
    """d joins, which takes two generations, and members request a rebalance; so many generations follow."""
    story = resting("a", "b", "c").wait(2 * REST_MS)
    _start(story, "d")
    story.round(stable=False)
    request(story.wait(2 * REST_MS), *members)
    for _ in range(extra):
        story.round(stable=False)
    return rested(story)


def rested(story: Story) -> Story:
    """The harness sees the group at rest in its last generation."""
    story.tell("step", name="stable", generation=story.generation, topics=story.topics, adopted_ns=story.adopted_ns)
    return story


def unanswered() -> Story:
    """No generation follows."""
    return rested(request(resting("a", "b").wait(2 * REST_MS), "b"))


def late() -> Story:
    """The group is seen at rest between a request and its generations; d joins then."""
    story = rested(request(resting("a", "b", "c").wait(2 * REST_MS), "b"))
    _start(story, "d")
    return rested(story.round(stable=False).round(stable=False).round(stable=False))


def storm(protocol: str = "weighted", generations: int = 6) -> Story:
    """b requests a rebalance as soon as one has ended."""
    story = resting("a", "b", "c", protocol=protocol).wait(2 * REST_MS)
    for _ in range(generations):
        request(story, "b").round(stable=False)
    return rested(story)


def repeated() -> Story:
    """b requests at each check, and every request is followed by a generation that only a adopts."""
    story = resting("a", "b", "c").wait(2 * REST_MS)
    for _ in range(30):
        request(story.wait(100), "b")
        story.generation += 1
        story._adopt("a", story._commit(sorted(story.held))["a"])
        story._claims["a"] = story.held["a"], story.generation
    return story.round()


def killed(after_ms: float) -> Story:
    """b is killed, and missed after so long; a requests a rebalance meanwhile."""
    story = resting("a", "b", "c").wait(2 * REST_MS).kill("b")
    request(story.wait(after_ms - SESSION_MS), "a")
    return story.round()


def bounced() -> Story:
    """A partition that a keeps is revoked and assigned again in the rebalance that b requested."""
    story = request(resting("a", "b", "c").wait(2 * REST_MS), "b").round(stable=False)
    kept = [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(story.held["a"])[:1]]
    for kind in ("revoke_begin", "revoke_end", "assigned_begin", "assigned_end"):
        story.tell(kind, "member", "a", generation=story.generation, partitions=kept)
    return rested(story)


SOUND: Mapping[str, Callable[[], Story]] = {
    "a request, two generations": lambda: answered(2, "b"),
    "a request, eager": lambda: answered(1, "b", rested_ms=DEFAULT_REST_MS, protocol="sticky"),
    "two members' requests": lambda: answered(4, "a", "b"),
    "a request after a join": lambda: joined(2, "b"),
    "a request without a generation": unanswered,
    "a request whose generations come later": late,
}
BROKEN: Mapping[str, tuple[set[str], Callable[[], Story]]] = {
    "a request, three generations": ({"R5"}, lambda: answered(3, "b")),
    "a request, eager, two generations": (
        {"R5"},
        lambda: answered(2, "b", rested_ms=DEFAULT_REST_MS, protocol="sticky"),
    ),
    "two requests of one member": ({"R5"}, lambda: answered(3, "b", "b")),
    "two members' requests, five generations": ({"R5"}, lambda: answered(5, "a", "b")),
    "a request without a rest": ({"R5"}, lambda: answered(1, "b", rested_ms=0)),
    "a join without a request, four generations": ({"R5"}, lambda: joined(2)),
    "a join and a request, five generations": ({"R5"}, lambda: joined(3, "b")),
    "a storm of requests": ({"R5"}, storm),
    "a storm of requests that few adopt": ({"R5"}, repeated),
    "a request, and a dead member is missed late": ({"T1"}, lambda: killed(6 * SESSION_MS)),
    "a request, and a needless revoke": ({"R3"}, bounced),
}
