"""The rule that one topic owns, shared by threads."""

from __future__ import annotations

import threading
from contextlib import nullcontext

from ...core.rule import Rule
from ...core.topic import TopicView


class TopicRule:
    """The rule of one topic, called by one thread at a time.

    Code that calls `rule` itself must hold `lock`, too; None: the rule is thread-safe.
    """

    __slots__ = ("lock", "rule")

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.lock = None if rule.thread_safe else threading.Lock()

    def choose(self, view: TopicView, size: int) -> int:
        """The partition of one record."""
        with self.lock or nullcontext():
            return self.rule.choose(view, size)

    def choose_again(self, view: TopicView, size: int, previous: int) -> int:
        """The partition of a record that was placed on `previous` and would open a new batch there."""
        with self.lock or nullcontext():
            return self.rule.choose_again(view, size, previous)

    def take_back(self, size: int, partition: int) -> None:
        """Undo one choice."""
        with self.lock or nullcontext():
            self.rule.take_back(size, partition)
