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
    """Whether several threads may call `choose` at once; otherwise the caller holds a lock per topic."""

    @abstractmethod
    def choose(self, view: TopicView, size: int) -> int:
        """The partition of one record, which takes approximately `size` bytes in its batch."""

    def choose_again(self, view: TopicView, size: int, previous: int) -> int:
        """The partition of a record that was placed on `previous` and would open a new batch there.

        By default the record stays: a rule that advances on every choice would skip every other partition (KAFKA-9965).
        """
        return previous if previous in view else self.choose(view, size)

    def take_back(self, size: int, partition: int) -> None:
        """Undo one choice, because the client rejected the record: its queue was full or the record too large.

        The record may be sent again or not. In both cases the next records are placed as if this choice had not
        happened. The default does nothing, which suits rules without state.
        """
        del size, partition
