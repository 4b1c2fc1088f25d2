"""A partition by chance."""

from __future__ import annotations

from .topic import Draw, TopicView


def choose(view: TopicView, draw: Draw) -> int:
    """Any partition with a leader (any at all, when none has one), each with the same probability.

    Cost: O(1), one draw.
    """
    return view.candidates[draw() % len(view.candidates)]
