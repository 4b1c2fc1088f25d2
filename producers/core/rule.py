"""What the rules have in common that place records without a key."""

from __future__ import annotations

from abc import ABC, abstractmethod

from .topic import TopicView


class Rule(ABC):
    """Where the records of one topic go that no key places.

    There is one per topic, so that topics never wait for each other. Threads may share it.
    """

    __slots__ = ()

    @abstractmethod
    def choose(self, view: TopicView, size: int) -> int:
        """The partition of one record.

        Args:
            view: The topic.
            size: Bytes the record takes in its batch, about.
        """

    def choose_again(self, view: TopicView, size: int, previous: int) -> int:
        """The partition of a record that was placed on `previous`, and would open a new batch there.

        By default the record stays: a rule that goes on with every choice would throw half of its choices away
        (KAFKA-9965).
        """
        return previous if previous in view else self.choose(view, size)
