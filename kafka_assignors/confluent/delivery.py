"""What a bridged member has taken, returned, finished and committed. Pure: no client, no clock, no thread.

A message passes these states; each step is one method of `Delivery`:

=========  ===========================================================================================================
taken      the data plane has handed it to the bridge; nobody else has seen it
returned   the caller has it, and may be busy with it
finished   the caller has asked for more, has committed, or has closed in order: it may be committed
asked      its offset is to be committed
sent       a commit of its offset is under way
committed  the coordinator has accepted that commit
=========  ===========================================================================================================

The promise, at least once: an offset is committed only if the caller has finished every message below it that this
member took. What is taken or returned when its partition goes is forgotten, so the next owner reads it again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..core.group import TopicPartition


class Delivery:
    """The messages and offsets of one member. A message has confluent-kafka's methods.

    Attributes:
        owned: The partitions that the member owns.
        messages: Taken and not finished, in the order in which they were taken; the data plane appends to it.
        returned: How many of `messages`, from the first, the caller has. Set in the very statement before they are
            returned, as an interrupt that comes earlier means that the caller never saw them.
        finished: Partition -> the offset after the last finished message.
    """

    def __init__(self) -> None:
        self.owned: set[TopicPartition] = set()
        self.messages: list[Any] = []
        self.returned = 0
        self.finished: dict[TopicPartition, int] = {}
        self._asked: dict[TopicPartition, int] = {}
        self._sent: dict[TopicPartition, int] | None = None
        self._committed: dict[TopicPartition, int] = {}

    def gain(self, partitions: Iterable[TopicPartition]) -> None:
        """The member owns these from now on."""
        self.owned.update(partitions)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """The member owns these no more; all about them is forgotten."""
        self.owned.difference_update(partitions)
        self.returned = sum(map(self._stays, self.messages[: self.returned]))
        self.messages[:] = filter(self._stays, self.messages)
        for offsets in (self.finished, self._asked, self._committed, self._sent or {}):
            for each in partitions:
                offsets.pop(each, None)

    def finish(self) -> None:
        """The caller is done with what it has."""
        done = self.messages[: self.returned]
        self.finished.update(_ends(done))
        # An interrupt between these two returns them again. The other order would skip messages.
        self.returned = 0
        del self.messages[: len(done)]

    def abandon(self) -> None:
        """The caller has failed amid what it has: the messages count as taken again."""
        self.returned = 0

    def dropped(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """What the data plane handed out and nobody got: it drops a message that it has when it is interrupted.

        Args:
            positions: Partition -> the offset after the last message that the data plane handed out, where it did.

        Returns:
            Partition -> the offset to read again. It is right for one message, and so for one call of `poll`.
        """
        reached = self.finished | _ends(self.messages)
        return {each: offset - 1 for each, offset in positions.items() if offset > 0 and reached.get(each) != offset}

    def ask(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These offsets of owned partitions are to be committed; what was asked before for others stays."""
        self._asked.update({each: offset for each, offset in offsets.items() if each in self.owned})

    def due(self, partitions: Collection[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Partition -> the offset to commit: asked for, and not committed yet.

        Args:
            partitions: Of these alone, whether or not a commit is under way; None: of all, unless one is.
        """
        if partitions is None and self._sent is not None:
            return {}
        return {
            each: offset
            for each, offset in self._asked.items()
            if (partitions is None or each in partitions) and self._committed.get(each) != offset
        }

    def send(self, offsets: Mapping[TopicPartition, int]) -> None:
        """A commit of these is under way."""
        self._sent = dict(offsets)

    def answered(self, accepted: bool) -> None:
        """The coordinator has answered the commit that was under way. Refused offsets are due again."""
        sent, self._sent = self._sent, None
        if accepted and sent is not None:
            self._committed.update(sent)

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These were committed at the caller's own request, so what it has below them is finished."""
        mine = {each: offset for each, offset in offsets.items() if each in self.owned}
        busy = [each for each in self.messages[: self.returned] if not _below(each, mine)]
        rest = busy + self.messages[self.returned :]
        self.returned = len(busy)
        self.messages[:] = rest
        for known in (self.finished, self._asked, self._committed):
            known.update(mine)
        for each in mine:
            (self._sent or {}).pop(each, None)  # the coordinator has had that one before

    def _stays(self, message: Any) -> bool:
        return message.error() is not None or partition_of(message) in self.owned


def partition_of(message: Any) -> TopicPartition:
    """The partition of a message."""
    return TopicPartition(message.topic(), message.partition())


def _below(message: Any, offsets: Mapping[TopicPartition, int]) -> bool:
    return message.error() is None and message.offset() < offsets.get(partition_of(message), 0)


def _ends(messages: Iterable[Any]) -> dict[TopicPartition, int]:
    """Partition -> the offset after the last of these messages; errors are none."""
    return {partition_of(each): each.offset() + 1 for each in messages if each.error() is None}
