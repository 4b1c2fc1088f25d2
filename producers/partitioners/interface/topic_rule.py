"""The rule that one topic owns, shared by threads."""

from __future__ import annotations

import threading

from ...core.rule import Rule
from ...core.topic import TopicView


class TopicRule:
    """The rule of one topic, called by one thread at a time.

    Args:
        rule: Places the topic's records without a key.

    Attributes:
        lock: Held while the rule is called; code that reads or changes `rule` directly takes it too.
        choose: As `Rule.choose`. Without the lock when the rule is thread-safe itself: that saves a tenth of a choice.
    """

    __slots__ = ("_choose", "choose", "lock", "rule")

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.lock = threading.Lock()
        self._choose = rule.choose
        self.choose = rule.choose if rule.thread_safe else self._choose_locked

    def _choose_locked(self, view: TopicView, size: int) -> int:
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
