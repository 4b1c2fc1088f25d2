"""A random partition for each record."""

from __future__ import annotations

from .rule import Rule
from .topic import Draw, TopicView


class RandomChoice(Rule):
    """Any partition with a leader, uniformly; any partition at all if none has a leader. Cost: O(1), one draw."""

    thread_safe = True
    __slots__ = ("_draw",)

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def choose(self, view: TopicView, size: int) -> int:
        """The partition of one record; `size` is ignored."""
        del size
        return view.candidates[self._draw() % len(view.candidates)]
