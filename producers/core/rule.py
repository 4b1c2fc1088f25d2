"""The interface of the rules that place records without a key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from .topic import TopicView


class Rule(ABC):
    """Places the records of one topic that have no key, or whose key is ignored.

    Each topic owns a rule, so that topics never wait for each other. `choose` is called once per record, before the
    client gets it. If the client refuses the record, `take_back` (or `choose_again`) follows.
    """

    __slots__ = ()
    thread_safe: ClassVar[bool] = False
    """Whether `choose` may be called by several threads at once; otherwise the caller holds a lock per topic."""

    @abstractmethod
    def choose(self, view: TopicView, size: int) -> int:
        """The partition of one record.

        Args:
            view: The topic.
            size: Bytes the record takes in its batch, about.
        """

    def choose_again(self, view: TopicView, size: int, previous: int) -> int:
        """The partition of a record that was placed on `previous`, and would open a new batch there.

        By default the record stays: a rule that advances with every choice would lose every other one (KAFKA-9965).
        """
        return previous if previous in view else self.choose(view, size)

    def take_back(self, size: int, partition: int) -> None:
        """Undo one choice: the client refused the record, because its queue was full or the record too large.

        The record may come again or never. In both cases the following records go where they would have gone without
        this choice. By default nothing is undone, as a rule without state has nothing to undo.
        """
        del size, partition
