"""A rule of `core` that threads share."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

from ..core.rule import Rule
from ..core.topic import TopicView

_Rule = TypeVar("_Rule", bound=Rule)


class Locked(Rule, Generic[_Rule]):
    """One rule, asked by one thread at a time.

    Attributes:
        lock: Held while the rule is asked; whoever reads or changes `rule` otherwise takes it too.
    """

    __slots__ = ("_choose", "lock", "rule")

    def __init__(self, rule: _Rule) -> None:
        self.rule = rule
        self._choose = rule.choose
        self.lock = threading.Lock()

    def choose(self, view: TopicView, size: int) -> int:
        """See `Rule.choose`."""
        with self.lock:
            return self._choose(view, size)

    def choose_again(self, view: TopicView, size: int, previous: int) -> int:
        """See `Rule.choose_again`."""
        with self.lock:
            return self.rule.choose_again(view, size, previous)

    def take_back(self, size: int, partition: int) -> None:
        """See `Rule.take_back`."""
        with self.lock:
            self.rule.take_back(size, partition)
