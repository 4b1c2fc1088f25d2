"""A history with a member that is hit by a fault."""

from __future__ import annotations

from tests.support.histories.story import SESSION_MS, Story

COOPERATIVE = "cooperative-sticky"


def hit(
    fault: str = "cut",
    *,
    protocol: str = COOPERATIVE,
    target: str = "b",
    notice_ms: float = 10,
    away_ms: float = SESSION_MS,
) -> Story:
    """b is cut off, the group goes on without it, b is told what it lost, and joins again; the proxy hit `target`."""
    story = Story(protocol).start("a", "b").round()
    story.tell("fault_begin", "proxy", target, fault=fault, target=target, params={})
    story._zombies["b"] = story.held.pop("b")
    story.wait(away_ms).round()
    story.tell("fault_end", "proxy", target, fault=fault, target=target, params={}, hits=1)
    story.wait(notice_ms)._callback("b", "lost", story._zombies.pop("b"))
    story.held["b"] = set()
    story._claims.pop("b", None)
    return story.round()
